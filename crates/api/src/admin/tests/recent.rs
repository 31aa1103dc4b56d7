//! The newest lines of the audit log, the reference of metrics, and scopes of tokens.

use std::sync::Arc;

use archipel_base::clock::ManualClock;
use http::{Method, StatusCode};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::{OK, admin, ask, get, make_bucket, status_with};
use crate::admin::Admin;
use crate::audit::Audit;

async fn audited() -> Admin {
    let clock = Arc::new(ManualClock::at(1_369_353_600_000));
    let (audit, _) = Audit::new(0, clock, &mut Registry::default());
    admin().await.with_audit(audit)
}

async fn lines(admin: &Admin, query: &str) -> (Vec<Value>, Value) {
    let (status, page) = get(admin, &format!("/v1/audit{query}")).await;
    assert_eq!(status, OK, "{page}");
    let items = page["items"].as_array().unwrap().clone();
    (items, page["next"].clone())
}

#[tokio::test]
async fn filters_that_no_line_matches_are_refused() {
    let admin = audited().await;
    for query in ["decision=no", "endpoint=S3"] {
        let (status, refused) = get(&admin, &format!("/v1/audit?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
    }
    assert_eq!(
        lines(&admin, "?decision=denied&endpoint=k2v").await.0.len(),
        0
    );
}

#[tokio::test]
async fn the_newest_lines_are_listed_and_filtered() {
    let admin = audited().await;
    for name in ["one", "two", "No"] {
        make_bucket(&admin, name).await;
    }
    let (all, next) = lines(&admin, "").await;
    let told: Vec<_> = all
        .iter()
        .map(|line| {
            (
                line["number"].as_u64().unwrap(),
                line["status"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(told, [(1, 201), (2, 201), (3, 400)]);
    assert_eq!(next, Value::Null);
    let first = &all[0];
    assert_eq!(first["time"], "2013-05-24T00:00:00.000Z");
    assert_eq!(
        (&first["endpoint"], &first["who"], &first["path"]),
        (&json!("admin"), &json!("socket"), &json!("/v1/buckets"))
    );
    let (refused, _) = lines(&admin, "?decision=refused").await;
    assert_eq!(refused, all[2..]);
    // The newest, or those after a number.
    let (newest, next) = lines(&admin, "?limit=1&action=aDMIN&decision=refused").await;
    assert_eq!((newest.len(), next), (1, Value::Null));
    let (page, next) = lines(&admin, "?limit=2&after=1").await;
    assert_eq!((page, next), (all[1..].to_vec(), json!("3")));
    for none in ["?who=nobody", "?endpoint=s3", "?bucket=one"] {
        assert!(lines(&admin, none).await.0.is_empty(), "{none}");
    }
    let (status, _) = get(&admin, "/v1/audit?limit=0").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

/// Only one path shows the secret of an access key. Other things may have that name.
#[tokio::test]
async fn requests_for_the_secret_of_a_key_are_told_apart() {
    let admin = audited().await;
    let paths = [
        ("/v1/keys/AK1/secret", "ReadSecret"),
        ("/v1/buckets/secret", "Admin"),
        ("/v1/users/secret", "Admin"),
        ("/v1/policies/secret", "Admin"),
        ("/v1/keys/secret", "Admin"),
        ("/v1/keys//secret", "Admin"),
        ("/v1/keys/AK1/x/secret", "Admin"),
    ];
    for (path, _) in paths {
        get(&admin, path).await;
    }
    let (told, _) = lines(&admin, "").await;
    let text = |line: &Value, member: &str| line[member].as_str().unwrap().to_owned();
    let told = told
        .iter()
        .map(|line| (text(line, "path"), text(line, "action")));
    let wanted = paths.map(|(path, action)| (path.to_owned(), action.to_owned()));
    assert_eq!(told.collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn audit_events_and_lifecycle_have_scopes_of_their_own() {
    let admin = audited().await;
    let paths = [
        "/v1/audit",
        "/v1/event-targets",
        "/v1/lifecycle",
        "/v1/scrub",
    ];
    let scopes = [
        "audit:read",
        "events:read",
        "lifecycle:read",
        "maintenance:read",
    ];
    for (own, scope) in scopes.iter().enumerate() {
        let ask_for = json!({"name": "t", "scopes": [scope]});
        let (status, token) = ask(&admin, Method::POST, "/v1/tokens", ask_for).await;
        assert_eq!(status, StatusCode::CREATED, "{token}");
        let bearer = format!("Bearer {}", token["secret"].as_str().unwrap());
        for (number, path) in paths.iter().enumerate() {
            let expected = match number == own {
                true => OK,
                false => StatusCode::FORBIDDEN,
            };
            let status = status_with(&admin, path, Some(&bearer)).await;
            assert_eq!(status, expected, "{scope} {path}");
        }
    }
}

#[tokio::test]
async fn metrics_are_listed_with_their_meaning() {
    let admin = admin().await;
    let (status, list) = get(&admin, "/v1/metrics").await;
    let things = json!([{"name": "things", "kind": "counter", "labels": [], "about": "Things"}]);
    assert_eq!((status, &list["items"]), (OK, &things));
    let (_, none) = get(&admin, "/v1/metrics?prefix=archipel_").await;
    assert_eq!(none["items"], json!([]));
}
