//! The way from method and path to a handler.

use http::{Method, Request, StatusCode};
use http_body::Body;
use percent_encoding::percent_decode_str;

use super::answer::{Answer, Refusal, json, no_content, read_json};
use super::{Admin, Trust, access, buckets, keys, layout, node, nodes, repair, upkeep, verify};

/// Answers a request.
pub(super) async fn handle<B>(admin: &Admin, trust: Trust, request: Request<B>) -> Answer
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match route(admin, trust, request).await {
        Ok(answer) => answer,
        Err(refusal) => refusal.into(),
    }
}

async fn route<B>(admin: &Admin, trust: Trust, request: Request<B>) -> Result<Answer, Refusal>
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let segments = segments(request.uri().path())?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = request.method().clone();
    match (&method, segments.as_slice()) {
        (&Method::GET | &Method::HEAD, ["health"]) => return Ok(node::health(admin).await),
        (&Method::GET, ["metrics"]) => {
            let open = trust == Trust::Peer || admin.tokens.open_metrics(request.headers());
            return if open {
                node::metrics(admin).await
            } else {
                Err(unauthorized())
            };
        }
        _ => {}
    }
    if trust == Trust::Token && !admin.tokens.open_all(request.headers()) {
        return Err(unauthorized());
    }
    let ok = StatusCode::OK;
    let created = StatusCode::CREATED;
    match (&method, segments.as_slice()) {
        (&Method::GET, ["v1", "status"]) => Ok(json(ok, &node::status(admin).await)),
        (&Method::GET, ["v1", "buckets"]) => Ok(json(ok, &buckets::list(admin)?)),
        (&Method::POST, ["v1", "buckets"]) => {
            let info = buckets::create(admin, read_json(request).await?).await?;
            Ok(json(created, &info))
        }
        (&Method::GET, ["v1", "buckets", name]) => Ok(json(ok, &buckets::info(admin, name).await?)),
        (&Method::DELETE, ["v1", "buckets", name]) => {
            admin.model.delete_bucket(name).await?;
            Ok(no_content())
        }
        (&Method::PUT, ["v1", "buckets", name, "public"]) => {
            access::publish(admin, name).await?;
            Ok(no_content())
        }
        (&Method::DELETE, ["v1", "buckets", name, "public"]) => {
            access::unpublish(admin, name).await?;
            Ok(no_content())
        }
        (&Method::POST, ["v1", "access", "explain"]) => {
            let ask = read_json(request).await?;
            Ok(json(ok, &access::explain(admin, ask).await?))
        }
        (_, ["v1", "buckets", name, "website"]) => website(admin, &method, name, request).await,
        (&Method::POST, ["v1", "buckets", name, "aliases"]) => {
            let info = buckets::add_alias(admin, name, read_json(request).await?).await?;
            Ok(json(ok, &info))
        }
        (&Method::DELETE, ["v1", "buckets", name, "aliases", alias]) => {
            let query = request.uri().query();
            let key = match query.map(|query| query.strip_prefix("key=")) {
                None => None,
                Some(Some(key)) => Some(key),
                Some(None) => return Err(Refusal::invalid("the query must be key=KEY_ID")),
            };
            buckets::remove_alias(admin, name, alias, key).await?;
            Ok(no_content())
        }
        (&Method::PATCH, ["v1", "buckets", name, "grants", key]) => {
            let change = read_json(request).await?;
            Ok(json(
                ok,
                &buckets::change_grant(admin, name, key, change).await?,
            ))
        }
        (&Method::GET, ["v1", "keys"]) => Ok(json(ok, &keys::list(admin)?)),
        (&Method::POST, ["v1", "keys"]) => {
            let key = keys::create(admin, read_json(request).await?).await?;
            Ok(json(created, &key))
        }
        (&Method::GET, ["v1", "keys", id]) => match request.uri().query() {
            Some("secret=true") => Ok(json(ok, &keys::with_secret(admin, id).await?)),
            _ => Ok(json(ok, &keys::info(admin, id).await?)),
        },
        (&Method::PATCH, ["v1", "keys", id]) => {
            let change = read_json(request).await?;
            Ok(json(ok, &keys::change(admin, id, change).await?))
        }
        (&Method::DELETE, ["v1", "keys", id]) => {
            admin.model.delete_access_key(id).await?;
            Ok(no_content())
        }
        (_, ["v1", "nodes" | "layout", ..]) => cluster(admin, &method, &segments, request).await,
        (
            _,
            [
                "v1",
                "scrub" | "verify" | "repair" | "snapshots" | "lifecycle",
                ..,
            ],
        ) => care(admin, &method, &segments, request).await,
        (_, path) => Err(nothing_here(path)),
    }
}

/// A bucket's website.
async fn website<B>(
    admin: &Admin,
    method: &Method,
    name: &str,
    request: Request<B>,
) -> Result<Answer, Refusal>
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let ok = StatusCode::OK;
    match *method {
        Method::GET => Ok(json(ok, &buckets::website(admin, name).await?)),
        Method::PUT => {
            let set = read_json(request).await?;
            Ok(json(ok, &buckets::set_website(admin, name, set).await?))
        }
        Method::DELETE => {
            admin.model.set_website(name, |_| None).await?;
            Ok(no_content())
        }
        _ => Err(nothing_here(&["v1", "buckets", name, "website"])),
    }
}

/// Nodes and layouts.
async fn cluster<B>(
    admin: &Admin,
    method: &Method,
    segments: &[&str],
    request: Request<B>,
) -> Result<Answer, Refusal>
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let ok = StatusCode::OK;
    match (method, segments) {
        (&Method::GET, ["v1", "nodes"]) => Ok(json(ok, &nodes::list(admin))),
        (&Method::POST, ["v1", "nodes", "join"]) => {
            let ask = read_json(request).await?;
            Ok(json(ok, &nodes::join(admin, ask).await?))
        }
        (&Method::GET, ["v1", "layout"]) => Ok(json(ok, &layout::show(admin).await?)),
        (&Method::GET, ["v1", "layout", "history"]) => Ok(json(ok, &layout::history(admin).await?)),
        (&Method::POST, ["v1", "layout", "stage"]) => {
            let ask = read_json(request).await?;
            Ok(json(ok, &layout::stage(admin, ask).await?))
        }
        (&Method::POST, ["v1", "layout", "apply"]) => {
            let ask = read_json(request).await?;
            Ok(json(ok, &layout::apply(admin, ask).await?))
        }
        (&Method::POST, ["v1", "layout", "remove-dead"]) => {
            let ask = read_json(request).await?;
            Ok(json(ok, &layout::remove_dead(admin, ask).await?))
        }
        (&Method::DELETE, ["v1", "layout", "staged"]) => {
            layout::revert(admin).await?;
            Ok(no_content())
        }
        (_, path) => Err(nothing_here(path)),
    }
}

/// The routes of maintenance.
async fn care<B>(
    admin: &Admin,
    method: &Method,
    segments: &[&str],
    request: Request<B>,
) -> Result<Answer, Refusal>
where
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let ok = StatusCode::OK;
    match (method, segments) {
        (&Method::GET, ["v1", "scrub"]) => Ok(json(ok, &upkeep::show(admin).await)),
        (&Method::POST, ["v1", "scrub", "start"]) => {
            let ask = read_json(request).await?;
            Ok(json(ok, &upkeep::start(admin, ask).await?))
        }
        (&Method::POST, ["v1", "scrub", "stop"]) => Ok(json(ok, &upkeep::stop(admin).await?)),
        (&Method::GET, ["v1", "lifecycle"]) => Ok(json(ok, &upkeep::lifecycle(admin))),
        (&Method::GET, ["v1", "verify"]) => Ok(json(ok, &verify::show(admin))),
        (&Method::POST, ["v1", "verify"]) => {
            let ask = read_json(request).await?;
            Ok(json(ok, &verify::start(admin, ask)?))
        }
        (&Method::GET, ["v1", "snapshots"]) => {
            let snapshots = admin.node.snapshots().await;
            Ok(json(ok, &snapshots.map_err(snapshot_failed)?))
        }
        (&Method::POST, ["v1", "snapshots"]) => {
            let made = admin.node.snapshot().await;
            Ok(json(StatusCode::CREATED, &made.map_err(snapshot_failed)?))
        }
        (&Method::GET, ["v1", "repair"]) => Ok(json(ok, &repair::show(admin).await)),
        (&Method::POST, ["v1", "repair", "blocks"]) => {
            let ask = read_json(request).await?;
            Ok(json(ok, &repair::blocks(admin, ask).await?))
        }
        (_, path) => Err(nothing_here(path)),
    }
}

/// The path's parts, decoded.
fn segments(path: &str) -> Result<Vec<String>, Refusal> {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| {
            let decoded = percent_decode_str(segment).decode_utf8();
            decoded
                .map(String::from)
                .map_err(|_| Refusal::invalid("the path is not UTF-8"))
        })
        .collect()
}

fn snapshot_failed(why: String) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "SnapshotFailed", why)
}

fn unauthorized() -> Refusal {
    let message = "send the admin token: Authorization: Bearer TOKEN";
    Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
}

fn nothing_here(path: &[&str]) -> Refusal {
    let known = matches!(
        path,
        ["health" | "metrics"]
            | [
                "v1",
                "status"
                    | "buckets"
                    | "keys"
                    | "nodes"
                    | "layout"
                    | "scrub"
                    | "verify"
                    | "repair"
                    | "snapshots"
                    | "lifecycle"
            ]
            | ["v1", "nodes", "join"]
            | ["v1", "scrub", "start" | "stop"]
            | ["v1", "repair", "blocks"]
            | [
                "v1",
                "layout",
                "history" | "stage" | "staged" | "apply" | "remove-dead"
            ]
            | ["v1", "buckets" | "keys", _]
            | ["v1", "buckets", _, "website" | "aliases"]
            | ["v1", "buckets", _, "aliases", _]
            | ["v1", "buckets", _, "grants", _]
    );
    if known {
        Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "this path does not know this method",
        )
    } else {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "NoSuchPath",
            "there is nothing at this path",
        )
    }
}
