//! The document is complete, and the file in the repository is the document.

use std::path::Path;

use serde_json::Value;

#[test]
fn the_checked_in_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let made = super::document();
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "docs/openapi.json is not what the handlers say; fix: REWRITE=1 cargo test -p archipel-api openapi"
    );
}

#[test]
fn every_operation_is_described_and_tells_its_errors() {
    let document: Value = serde_json::from_str(&super::document()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut ids = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let at = format!("{method} {path}");
            assert!(operation["summary"].is_string(), "{at} has no summary");
            assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{at}");
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id), "{at}: its operationId is used twice");
            let problem = operation["responses"]["4XX"].is_object();
            assert!(problem || path.starts_with("/health"), "{at} has no errors");
        }
    }
    assert!(ids.len() > 30, "only {} operations", ids.len());
}

/// A client needs it for its next change.
#[test]
fn documents_that_a_condition_can_name_are_told_with_their_tag() {
    let document: Value = serde_json::from_str(&super::document()).unwrap();
    let is_condition = |one: &Value| one["name"] == "If-Match";
    let takes_condition = |operation: &Value| {
        let parameters = operation["parameters"].as_array();
        parameters.is_some_and(|all| all.iter().any(is_condition))
    };
    let mut told = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let item = item.as_object().unwrap();
        if !item.values().any(takes_condition) {
            continue;
        }
        for (method, operation) in item {
            let has_tag = operation["responses"]["200"]["headers"]["ETag"].is_object();
            let is_told = method == "get" || takes_condition(operation) && method != "delete";
            assert_eq!(has_tag, is_told, "{method} {path}");
            told += usize::from(is_told);
        }
    }
    assert_eq!(told, 16);
}
