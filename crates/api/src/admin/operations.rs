//! The scope and resource that the access check needs of each operation. They come from the OpenAPI
//! document, so that the document and the check cannot disagree.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use utoipa::openapi::path::{Operation as Described, Parameter, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};

use super::auth::ALL;

/// Operations that change nothing though they are no `GET`.
const READS: [&str; 1] = ["explain_access"];

/// Operations that take the right to write though they change nothing: they show secrets.
const SECRETS: [&str; 1] = ["get_key_secret"];

/// Operations that every token may ask for.
const ANY_TOKEN: [&str; 2] = ["get_openapi", "get_current_token"];

/// Operations that the token for metrics of the settings may ask for.
const METRICS_TOKEN: [&str; 1] = ["get_metrics"];

/// One operation: what it takes, and what it accepts.
#[derive(Debug)]
pub(super) struct Operation {
    /// The resource, which is the tag in the document.
    pub resource: String,
    /// True if the scope must allow writing.
    pub write: bool,
    /// True if no token is needed.
    pub is_open: bool,
    /// True if every token is enough.
    pub any_token: bool,
    /// True if the token for metrics of the settings is enough.
    pub metrics_token: bool,
    /// True if its requests have a body.
    pub takes_body: bool,
    /// The names of its query parameters.
    pub parameters: BTreeSet<String>,
    /// True if it takes a [`Precondition`](super::precondition::Precondition).
    pub takes_condition: bool,
}

/// The operations by the template of the path and the method.
pub(super) type Operations = BTreeMap<(String, Method), Operation>;

impl Operation {
    /// Returns the scope that a token needs, as text.
    pub(super) fn scope(&self) -> String {
        let level = if self.write { "write" } else { "read" };
        format!("{}:{level}", self.resource)
    }

    fn of(method: &Method, described: &Described) -> Operation {
        let id = described.operation_id.as_deref().unwrap_or_default();
        let tag = described.tags.iter().flatten().next();
        let reads = *method == Method::GET || READS.contains(&id);
        let write = !reads || SECRETS.contains(&id);
        let parameters = described.parameters.iter().flatten();
        let mut parameters = parameters.filter_map(|one| match one {
            RefOr::T(one) => Some(one),
            RefOr::Ref(_) => None,
        });
        let is_in_query = |one: &&Parameter| matches!(one.parameter_in, ParameterIn::Query);
        let in_query = parameters.clone().filter(is_in_query);
        let takes_condition = parameters.any(|one| one.name == "If-Match");
        Operation {
            // A caller that makes tokens can do everything.
            resource: match tag.map(String::as_str) {
                Some("tokens") if write => ALL.to_owned(),
                tag => tag.unwrap_or(ALL).to_owned(),
            },
            write,
            is_open: described.security.as_ref().is_some_and(|all| {
                all.iter()
                    .any(|one| *one == utoipa::openapi::SecurityRequirement::default())
            }),
            any_token: ANY_TOKEN.contains(&id),
            metrics_token: METRICS_TOKEN.contains(&id),
            takes_body: described.request_body.is_some(),
            parameters: in_query.map(|one| one.name.clone()).collect(),
            takes_condition,
        }
    }
}

/// Returns the operations that a document describes.
pub(super) fn operations(document: &OpenApi) -> Operations {
    let mut known = Operations::new();
    for (path, item) in &document.paths.paths {
        let all = [
            (Method::GET, &item.get),
            (Method::POST, &item.post),
            (Method::PUT, &item.put),
            (Method::PATCH, &item.patch),
            (Method::DELETE, &item.delete),
        ];
        for (method, described) in all {
            if let Some(described) = described {
                let operation = Operation::of(&method, described);
                known.insert((path.clone(), method), operation);
            }
        }
    }
    known
}

/// Returns the resources that tokens can be scoped to.
pub(super) fn resources(document: &OpenApi) -> Vec<String> {
    let tags = document.tags.iter().flatten();
    tags.map(|tag| tag.name.clone()).collect()
}
