//! The OpenAPI document: made from the handlers, so that it cannot say anything else than they do.

use http::Method;
use utoipa::OpenApi as _;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi};

use super::answer::{Answer, with_type};
use super::operations::{Operation, Operations, operations};
use super::route;
use super::types::{HolderKind, Problem};

/// The parts that are not derived from handlers.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Archipel admin API",
        description = "Shows and changes everything about a cluster of Archipel. Every error is a `Problem`. \
            Lists come in pages: `next` is the value of `after` for the next one.",
        contact(name = "Archipel", url = "https://github.com/archipel-store/archipel"),
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "http://127.0.0.1:3903", description = "admin.listen of a node")),
    security(("token" = [])),
    components(schemas(Problem, HolderKind)),
    tags(
        (name = "status", description = "A node's health and state, and this document"),
        (name = "metrics", description = "A node's metrics"),
        (name = "buckets", description = "Buckets, their names, grants and websites"),
        (name = "keys", description = "Access keys"),
        (name = "users", description = "Users, groups, roles, their policies, and identity providers"),
        (name = "access", description = "Decisions about requests"),
        (name = "nodes", description = "Nodes"),
        (name = "layout", description = "The shares of the nodes in the data"),
        (name = "certificates", description = "Certificates from an authority (ACME)"),
        (name = "tokens", description = "Tokens of this API"),
        (name = "events", description = "Targets of event notifications"),
        (name = "lifecycle", description = "Removal by lifecycle rules"),
        (name = "audit", description = "The audit log"),
        (name = "maintenance", description = "Scrubs, verifications, repairs, snapshots"),
    ),
)]
struct Base;

/// Returns the document without paths.
pub(super) fn base() -> OpenApi {
    let mut document = Base::openapi();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
    let scheme = scheme.description(Some(
        "A token: `archipel token create`, or admin.token_file",
    ));
    document
        .components
        .get_or_insert_with(Components::new)
        .add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    document
}

/// Returns the document as JSON text.
pub fn document() -> String {
    let (_, document) = route::routes();
    let operations = operations(&document);
    let mut document = serde_json::to_value(document).unwrap_or_default();
    add_problems(&mut document);
    name_items(&mut document);
    add_scopes(&mut document, &operations);
    add_tags(&mut document, &operations);
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// Adds to every operation that its errors are problems.
fn add_problems(document: &mut serde_json::Value) {
    let problem = |about: &str| {
        serde_json::json!({
            "description": about,
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        })
    };
    let client = problem("The request is refused");
    let server = problem("The request failed");
    let reference =
        |name: &str| serde_json::json!({"$ref": format!("#/components/responses/{name}")});
    let paths = document
        .get_mut("paths")
        .and_then(|paths| paths.as_object_mut());
    for (path, item) in paths.into_iter().flatten() {
        let operations = item.as_object_mut().into_iter().flatten();
        for (_, operation) in operations.filter(|_| !path.starts_with("/health")) {
            if let Some(answers) = operation["responses"].as_object_mut() {
                answers.insert("4XX".into(), reference("Refused"));
                answers.insert("5XX".into(), reference("Failed"));
            }
        }
    }
    document["components"]["responses"] = serde_json::json!({"Refused": client, "Failed": server});
}

/// Makes pages refer to their items by name: derived schemas of generic types repeat them.
fn name_items(document: &mut serde_json::Value) {
    let schemas = document["components"]["schemas"].as_object_mut();
    for (name, schema) in schemas.into_iter().flatten() {
        if let Some(item) = name.strip_prefix("Page_") {
            let item = format!("#/components/schemas/{item}");
            schema["properties"]["items"]["items"] = serde_json::json!({"$ref": item});
        }
    }
}

/// Adds to every operation's description which scope it needs.
fn add_scopes(document: &mut serde_json::Value, operations: &Operations) {
    for ((path, method), operation) in operations {
        let needs = match operation {
            Operation { is_open: true, .. } => "Needs no token.".to_owned(),
            Operation {
                any_token: true, ..
            } => "Needs any token.".to_owned(),
            operation => format!("Needs the scope `{}`.", operation.scope()),
        };
        let method = method.as_str().to_ascii_lowercase();
        let described = &mut document["paths"][path][method];
        let more = described["description"].as_str();
        let text = more.map_or(needs.clone(), |more| format!("{more}\n\n{needs}"));
        described["description"] = text.into();
    }
}

/// Adds the `ETag` to the answers with documents that a condition can name: those of changes that take
/// one, and those that show the same path.
fn add_tags(document: &mut serde_json::Value, operations: &Operations) {
    let header = serde_json::json!({
        "description": "The tag of the document, for `If-Match`; absent if there is none",
        "schema": {"type": "string"},
    });
    for ((path, method), _) in operations.iter().filter(|(_, one)| one.takes_condition) {
        for method in [method, &Method::GET] {
            let method = method.as_str().to_ascii_lowercase();
            let described = document["paths"][path].get_mut(&method);
            // A deletion answers with 204.
            if let Some(answer) = described.and_then(|one| one["responses"].get_mut("200")) {
                answer["headers"]["ETag"] = header.clone();
            }
        }
    }
}

/// Returns this document: OpenAPI 3.1.
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "status", operation_id = "get_openapi",
    responses((status = 200, description = "The OpenAPI document", body = Object)),
)]
pub(super) async fn show() -> Answer {
    let text = document().into_bytes();
    with_type(http::StatusCode::OK, "application/json", text)
}

#[cfg(test)]
mod tests;
