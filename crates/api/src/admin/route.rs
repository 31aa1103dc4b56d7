//! The router: every route with its handler, and the access check before it.
//!
//! [`openapi`](super::openapi) makes the document from the same definitions.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, RawPathParams};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use tower::ServiceExt;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Refusal, without_body};
use super::auth::{Caller, unauthorized};
use super::operations::{Operation, Operations, operations};
use super::{
    Admin, access, blocks, buckets, certificates, content, cors, events, families, groups, keyring,
    keys, layout, node, nodes, notifications, openapi, policies, protection, providers, recent,
    repair, rest, roles, rules, settings, snapshots, tokens, upkeep, users, verify, website, work,
};

/// The most bytes of a query. The longest one asks for the next page of uploads: it has the key of an object twice,
/// as the beginning of keys and as the place of the page. A key has up to 1024 bytes, each of which takes three
/// characters.
const MAX_QUERY_BYTES: usize = 8192;

/// Returns all routes, with their description.
pub(super) fn routes() -> (Router<Arc<Admin>>, OpenApi) {
    OpenApiRouter::with_openapi(openapi::base())
        .merge(about_this_node())
        .merge(about_buckets())
        .merge(about_identities())
        .merge(about_cluster())
        .merge(about_upkeep())
        .split_for_parts()
}

/// Returns the routes to the state of the node, and to the description of this API.
fn about_this_node() -> OpenApiRouter<Arc<Admin>> {
    OpenApiRouter::new()
        .routes(routes!(node::health))
        .routes(routes!(node::live))
        .routes(routes!(node::quorum))
        .routes(routes!(node::metrics))
        .routes(routes!(families::list))
        .routes(routes!(openapi::show))
        .routes(routes!(node::status))
}

/// Returns the routes to buckets, their settings and contents.
fn about_buckets() -> OpenApiRouter<Arc<Admin>> {
    OpenApiRouter::new()
        .routes(routes!(buckets::list, buckets::create))
        .routes(routes!(buckets::info, buckets::delete))
        .routes(routes!(buckets::change_grant))
        .routes(routes!(buckets::add_alias))
        .routes(routes!(buckets::remove_alias))
        .routes(routes!(website::show, website::set, website::end))
        .routes(routes!(cors::show, cors::set, cors::delete))
        .routes(routes!(
            notifications::show,
            notifications::set,
            notifications::delete
        ))
        .routes(routes!(protection::encryption, protection::set_encryption))
        .routes(routes!(
            protection::public_access,
            protection::set_public_access,
            protection::change_public_access
        ))
        .routes(routes!(protection::ownership, protection::set_ownership))
        .routes(routes!(settings::versioning, settings::set_versioning))
        .routes(routes!(settings::lock, settings::set_lock))
        .routes(routes!(settings::quota, settings::set_quota))
        .routes(routes!(settings::tags, settings::set_tags))
        .routes(routes!(rules::show, rules::set, rules::delete))
        .routes(routes!(content::uploads))
        .routes(routes!(content::abort))
        .routes(routes!(content::object))
        .routes(routes!(access::publish, access::unpublish))
}

/// Returns the routes to access keys, tokens, users, groups, roles and policies.
fn about_identities() -> OpenApiRouter<Arc<Admin>> {
    OpenApiRouter::new()
        .routes(routes!(access::explain))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::info, keys::change, keys::delete))
        .routes(routes!(keys::with_secret))
        .routes(routes!(users::list, users::create))
        .routes(routes!(users::info, users::change, users::delete))
        .routes(routes!(users::create_key))
        .routes(routes!(users::quota, users::set_quota))
        .routes(routes!(groups::list, groups::create))
        .routes(routes!(groups::info, groups::change, groups::delete))
        .routes(routes!(roles::list, roles::create))
        .routes(routes!(roles::info, roles::change, roles::delete))
        .routes(routes!(policies::list, policies::create))
        .routes(routes!(policies::info, policies::replace, policies::delete))
        .routes(routes!(
            policies::inline,
            policies::set_inline,
            policies::delete_inline
        ))
        .routes(routes!(
            policies::of_bucket,
            policies::set_of_bucket,
            policies::delete_of_bucket
        ))
        .routes(routes!(providers::list, providers::create))
        .routes(routes!(
            providers::info,
            providers::change,
            providers::delete
        ))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::current))
        .routes(routes!(tokens::info, tokens::change, tokens::revoke))
}

/// Returns the routes to the nodes and the layout.
fn about_cluster() -> OpenApiRouter<Arc<Admin>> {
    OpenApiRouter::new()
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::info))
        .routes(routes!(nodes::admit, nodes::dismiss))
        .routes(routes!(nodes::join))
        .routes(routes!(layout::show))
        .routes(routes!(layout::history))
        .routes(routes!(layout::stage))
        .routes(routes!(layout::revert))
        .routes(routes!(layout::apply))
        .routes(routes!(layout::remove_dead))
}

/// Returns the routes to background work, the audit log, event targets, the keyring and certificates.
fn about_upkeep() -> OpenApiRouter<Arc<Admin>> {
    OpenApiRouter::new()
        .routes(routes!(upkeep::show))
        .routes(routes!(upkeep::start))
        .routes(routes!(upkeep::stop))
        .routes(routes!(upkeep::lifecycle))
        .routes(routes!(upkeep::start_lifecycle))
        .routes(routes!(upkeep::stop_lifecycle))
        .routes(routes!(upkeep::start_anti_entropy))
        .routes(routes!(certificates::list))
        .routes(routes!(recent::list))
        .routes(routes!(events::list))
        .routes(routes!(keyring::show))
        .routes(routes!(keyring::rotate))
        .routes(routes!(verify::show, verify::start))
        .routes(routes!(work::list))
        .routes(routes!(work::info))
        .routes(routes!(work::cancel))
        .routes(routes!(repair::show))
        .routes(routes!(repair::blocks))
        .routes(routes!(blocks::info))
        .routes(routes!(snapshots::list, snapshots::create))
}

/// The admin API as one service. Cheap to clone.
#[derive(Clone)]
pub(super) struct Service {
    admin: Arc<Admin>,
    router: Router,
}

impl Service {
    pub(super) fn new(admin: Arc<Admin>) -> Service {
        let (router, document) = routes();
        let known = Arc::new(operations(&document));
        type Path = Result<RawPathParams, RawPathParamsRejection>;
        let access = move |path: Path, request: Request<Body>, next: Next| {
            let known = known.clone();
            async move {
                let path = path.map_err(|_| Refusal::invalid("the path is not UTF-8"));
                let request = match path.and_then(|path| check(&known, &path, &request)) {
                    Ok(operation) if operation.takes_body => Ok(request),
                    Ok(_) => without_body(request).await,
                    Err(refusal) => Err(refusal),
                };
                match request {
                    Ok(request) => next.run(request).await,
                    Err(refusal) => refusal.into_response(),
                }
            }
        };
        let router = router
            .route_layer(middleware::from_fn(access))
            .fallback(nothing_here)
            .method_not_allowed_fallback(async || wrong_method())
            .with_state(admin.clone());
        Service { admin, router }
    }

    /// Returns the state that all requests share.
    pub(super) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Answers a request of `caller`, or says why it cannot be known who asks.
    pub(super) async fn handle<B>(
        &self,
        caller: Result<Caller, Refusal>,
        request: Request<B>,
    ) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let (parts, body) = request.into_parts();
        let (body, rest) = rest::shared(Body::new(body));
        let mut request = Request::from_parts(parts, body);
        let answer = match caller {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                let answered = self.router.clone().oneshot(request).await;
                answered.unwrap_or_else(|never| match never {})
            }
            Err(refusal) => refusal.into_response(),
        };
        rest.drain();
        answer
    }
}

async fn nothing_here() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "NoSuchPath",
        "there is nothing at this path; GET /v1/openapi.json lists all paths",
    )
}

fn wrong_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        "this path does not know this method",
    )
}

/// Refuses what the caller may not do, and parameters and conditions that the operation does not know:
/// what is ignored would mislead.
fn check<'k>(
    known: &'k Operations,
    path: &RawPathParams,
    request: &Request<Body>,
) -> Result<&'k Operation, Refusal> {
    let (extensions, method) = (request.extensions(), request.method());
    let template = extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    // A HEAD is answered as a GET without a body.
    let method = match *method {
        Method::HEAD => Method::GET,
        ref other => other.clone(),
    };
    let operation = known.get(&(template.unwrap_or_default().to_owned(), method));
    let operation = operation.ok_or_else(wrong_method)?;
    let bucket = path.iter().find(|(name, _)| *name == "name");
    let bucket = bucket.filter(|_| operation.resource == "buckets");
    let caller = extensions.get::<Caller>().ok_or_else(unauthorized)?;
    caller.check(operation, bucket.map(|(_, bucket)| bucket))?;
    let conditions = [header::IF_MATCH, header::IF_NONE_MATCH];
    let mut conditions = conditions.iter();
    if operation.write
        && !operation.takes_condition
        && let Some(name) = conditions.find(|name| request.headers().contains_key(*name))
    {
        return Err(Refusal::invalid(format!(
            "{name}: this request takes no condition"
        )));
    }
    // A probe may add a parameter, so that no proxy answers for the node.
    let is_probe = template.is_some_and(|template| template.starts_with("/health"));
    let Some(query) = request.uri().query().filter(|_| !is_probe) else {
        return Ok(operation);
    };
    if query.len() > MAX_QUERY_BYTES {
        let why = format!("the query has more than {MAX_QUERY_BYTES} bytes");
        return Err(Refusal::invalid(why));
    }
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let name = part.split('=').next().unwrap_or_default();
        if !operation.parameters.contains(name) {
            return Err(Refusal::invalid(format!(
                "the query: {name:?} is no parameter of this request"
            )));
        }
    }
    Ok(operation)
}
