//! The router: every route with its handler, and the gate before it.
//!
//! [`openapi`](super::openapi) makes the document from the same definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use tower::ServiceExt;
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::{OpenApi, RefOr};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::answer::{Answer, Refusal};
use super::{
    Admin, Trust, access, buckets, keys, layout, node, nodes, openapi, repair, snapshots, upkeep,
    verify,
};

/// The most bytes of a query: no parameter is longer than a name of a bucket and a few words.
const MAX_QUERY_BYTES: usize = 2048;

/// Returns all routes, with their description.
pub(super) fn routes() -> (Router<Arc<Admin>>, OpenApi) {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(node::health))
        .routes(routes!(node::metrics))
        .routes(routes!(openapi::show))
        .routes(routes!(node::status))
        .routes(routes!(buckets::list, buckets::create))
        .routes(routes!(buckets::info, buckets::delete))
        .routes(routes!(buckets::change_grant))
        .routes(routes!(buckets::add_alias))
        .routes(routes!(buckets::remove_alias))
        .routes(routes!(
            buckets::website,
            buckets::set_website,
            buckets::end_website
        ))
        .routes(routes!(access::publish, access::unpublish))
        .routes(routes!(access::explain))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::info, keys::change, keys::delete))
        .routes(routes!(keys::with_secret))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::info))
        .routes(routes!(nodes::join))
        .routes(routes!(layout::show))
        .routes(routes!(layout::history))
        .routes(routes!(layout::stage))
        .routes(routes!(layout::revert))
        .routes(routes!(layout::apply))
        .routes(routes!(layout::remove_dead))
        .routes(routes!(upkeep::show))
        .routes(routes!(upkeep::start))
        .routes(routes!(upkeep::stop))
        .routes(routes!(upkeep::lifecycle))
        .routes(routes!(verify::show, verify::start))
        .routes(routes!(repair::show))
        .routes(routes!(repair::blocks))
        .routes(routes!(snapshots::list, snapshots::create))
        .split_for_parts()
}

/// The admin API as one service. Cheap to clone.
#[derive(Clone)]
pub(super) struct Door {
    admin: Arc<Admin>,
    router: Router,
}

impl Door {
    pub(super) fn new(admin: Arc<Admin>) -> Door {
        let (router, document) = routes();
        let parameters = Arc::new(parameters(&document));
        let gate = move |request: Request<Body>, next: Next| {
            let parameters = parameters.clone();
            async move {
                match check_query(&parameters, &request) {
                    Ok(()) => next.run(request).await,
                    Err(refusal) => refusal.into_response(),
                }
            }
        };
        let router = router
            .route_layer(middleware::from_fn(gate))
            .fallback(nothing_here)
            .method_not_allowed_fallback(wrong_method)
            .with_state(admin.clone());
        Door { admin, router }
    }

    /// Returns the state that all requests share.
    pub(super) fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Answers a request of a client that the listener trusts as far as `trust`.
    pub(super) async fn handle<B>(&self, trust: Trust, request: Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        let request = request.map(Body::new);
        match self.admin.tokens.admit(trust, &request) {
            Ok(()) => {
                let answered = self.router.clone().oneshot(request).await;
                answered.unwrap_or_else(|never| match never {})
            }
            Err(refusal) => refusal.into_response(),
        }
    }
}

async fn nothing_here() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "NoSuchPath",
        "there is nothing at this path; GET /v1/openapi.json lists all paths",
    )
}

async fn wrong_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        "this path does not know this method",
    )
}

/// The names of the query parameters of each operation.
type Parameters = BTreeMap<(String, Method), BTreeSet<String>>;

fn parameters(document: &OpenApi) -> Parameters {
    let mut known = Parameters::new();
    for (path, item) in &document.paths.paths {
        let operations = [
            (Method::GET, &item.get),
            (Method::POST, &item.post),
            (Method::PUT, &item.put),
            (Method::PATCH, &item.patch),
            (Method::DELETE, &item.delete),
        ];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            let all = operation.parameters.iter().flatten();
            let names = all.filter_map(|one| match one {
                RefOr::T(one) => {
                    matches!(one.parameter_in, ParameterIn::Query).then(|| one.name.clone())
                }
                RefOr::Ref(_) => None,
            });
            let names = names.collect();
            known.insert((path.clone(), method), names);
        }
    }
    known
}

/// Refuses parameters that the operation does not know. What is ignored would mislead.
fn check_query(known: &Parameters, request: &Request<Body>) -> Result<(), Refusal> {
    let Some(query) = request.uri().query() else {
        return Ok(());
    };
    if query.len() > MAX_QUERY_BYTES {
        let why = format!("the query has more than {MAX_QUERY_BYTES} bytes");
        return Err(Refusal::invalid(why));
    }
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map(MatchedPath::as_str).unwrap_or_default();
    let names = known.get(&(path.to_owned(), request.method().clone()));
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let name = part.split('=').next().unwrap_or_default();
        if !names.is_some_and(|names| names.contains(name)) {
            return Err(Refusal::invalid(format!(
                "the query: {name:?} is no parameter of this request"
            )));
        }
    }
    Ok(())
}
