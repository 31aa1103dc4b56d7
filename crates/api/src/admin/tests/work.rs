//! Long operations in one shape.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{Service, Trust, admin, ask, audited, get};
use crate::admin::types::{BehindInfo, OperationState, RepairNode};
use crate::admin::work::of_node;

#[tokio::test]
async fn operations_tell_their_progress_and_are_found_by_id() {
    let admin = admin().await;
    let list = async |query: &str| -> Vec<Value> {
        let (status, page) = get(&admin, &format!("/v1/operations{query}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        page["items"].as_array().unwrap().clone()
    };
    let all = list("").await;
    let ids: Vec<&str> = all.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted() && ids.contains(&"verification"), "{ids:?}");
    let scrubs = list("?kind=scrub").await;
    assert_eq!(scrubs.len(), 1, "{scrubs:?}");
    let (_, verification) = get(&admin, "/v1/operations/verification").await;
    assert_eq!(verification["state"], "idle");
    assert_eq!(verification["began_ms"], Value::Null);
    // A change that has ended is no operation that never was.
    let (_, change) = get(&admin, "/v1/operations/layout-change").await;
    assert_eq!(change["state"], "idle", "{change}");

    let (status, _) = ask(&admin, Method::POST, "/v1/verify", json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    // It ends by itself: the loop does, too, or the test's time is over.
    loop {
        let (_, one) = get(&admin, "/v1/operations/verification").await;
        match one["state"].as_str().unwrap() {
            "running" => tokio::task::yield_now().await,
            state => {
                assert_eq!((state, &one["problems"]), ("done", &json!(0)));
                assert!(one["began_ms"].as_u64().is_some());
                break;
            }
        }
    }
    let (status, error) = get(&admin, "/v1/operations/none").await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::NOT_FOUND, &json!("NoSuchOperation"))
    );
    let (status, _) = get(&admin, "/v1/operations?kind=dance").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn operations_answer_where_they_can_be_followed() {
    let admin = admin().await;
    let service = Service::new(Arc::new(admin.clone()));
    for (path, operation) in [
        ("/v1/verify", "verification"),
        ("/v1/scrub/start", "scrub:00000000"),
        ("/v1/repair/blocks", "scrub:00000000"),
        ("/v1/lifecycle/start", "lifecycle"),
        ("/v1/anti-entropy/start", "anti-entropy:00000000"),
    ] {
        let request = Request::post(path).body(Full::new(Bytes::from_static(b"{}")));
        let answer = audited::handle(&service, Trust::Peer, None, request.unwrap()).await;
        assert_eq!(answer.status(), StatusCode::ACCEPTED, "{path}");
        let location = answer.headers()["location"].to_str().unwrap();
        assert_eq!(location, format!("/v1/operations/{operation}"));
        let (status, one) = get(&admin, location).await;
        assert_eq!(status, StatusCode::OK, "{one}");
    }
}

#[tokio::test]
async fn only_what_runs_and_can_end_is_cancelled() {
    let admin = admin().await;
    let cancel = async |id: &str| {
        let path = format!("/v1/operations/{id}/cancel");
        let (status, answer) = ask(&admin, Method::POST, &path, Value::Null).await;
        let code = answer["code"].as_str().unwrap_or_default();
        (status.as_u16(), code.to_owned())
    };
    let refused = (409, "CannotCancel".to_owned());
    for id in [
        "verification",
        "lifecycle",
        "scrub:00000000",
        "garbage-collection",
        "anti-entropy:00000000",
        "block-repair:00000000",
        "snapshot",
    ] {
        assert_eq!(cancel(id).await, refused, "{id}");
    }
    assert_eq!(cancel("none").await, (404, "NoSuchOperation".to_owned()));
    // Nothing drives the scrub in this test, so it runs until it is cancelled.
    let slow = json!({"rate": 1});
    ask(&admin, Method::POST, "/v1/scrub/start", slow).await;
    let scrub = "/v1/operations/scrub:00000000";
    assert_eq!(get(&admin, scrub).await.1["state"], "running");
    assert_eq!(cancel("scrub:00000000").await, (202, String::new()));
    let stopped = get(&admin, scrub).await.1;
    assert_eq!(stopped["state"], "idle");
    assert!(
        stopped["trouble"].is_string(),
        "it was not through: {stopped}"
    );
    // A walk that is cancelled before it begins.
    ask(&admin, Method::POST, "/v1/lifecycle/start", Value::Null).await;
    assert_eq!(cancel("lifecycle").await, (202, String::new()));
    let stopped = get(&admin, "/v1/operations/lifecycle").await.1;
    assert_eq!(stopped["state"], "idle");
    assert!(stopped["trouble"].is_string(), "{stopped}");
}

#[tokio::test]
async fn a_snapshot_is_an_operation() {
    let admin = admin().await;
    let one = async || get(&admin, "/v1/operations/snapshot").await.1;
    assert_eq!(one().await["state"], "idle");
    let (status, _) = ask(&admin, Method::POST, "/v1/snapshots", Value::Null).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    let failed = one().await;
    assert_eq!(
        (&failed["state"], &failed["trouble"]),
        (&json!("stuck"), &json!("this node keeps no snapshots"))
    );
}

#[tokio::test]
async fn a_second_verification_is_refused_while_one_runs() {
    let admin = admin().await;
    // The first one asks its nodes again and again, and their time does not pass here.
    tokio::time::pause();
    let verify = async || ask(&admin, Method::POST, "/v1/verify", json!({})).await;
    assert_eq!(verify().await.0, StatusCode::ACCEPTED);
    let (status, error) = verify().await;
    assert_eq!(
        (status, &error["code"]),
        (StatusCode::CONFLICT, &json!("VerificationRuns"))
    );
}

/// A pass broke off, because its node went away or always fails. A client that waits for its end would
/// wait for ever.
#[test]
fn anti_entropy_is_stuck_while_something_is_left_and_no_pass_is_under_way() {
    let from = |away, rows| BehindInfo {
        away,
        rows,
        trouble: Some("it does not answer".into()),
        ..BehindInfo::default()
    };
    let of = |comparing, behind: &[BehindInfo]| {
        let node = RepairNode {
            comparing,
            behind: behind.to_vec(),
            ..RepairNode::default()
        };
        let [_, _, one] = of_node(&node);
        (one.state, one.left, one.trouble.is_some())
    };
    let stuck = |rows| (OperationState::Stuck, Some(rows), true);
    let running = |rows| (OperationState::Running, Some(rows), true);
    for away in [true, false] {
        assert_eq!(of(false, &[from(away, 7)]), stuck(7));
        assert_eq!(of(true, &[from(away, 7)]), running(7));
    }
    // The comparison failed, or rows were left that cannot be read.
    assert_eq!(of(false, &[from(false, 0)]), stuck(0));
    let away = BehindInfo {
        trouble: None,
        ..from(true, 0)
    };
    let whole = (OperationState::Idle, Some(0), false);
    assert_eq!(of(false, &[away]), whole);
    assert_eq!(of(false, &[]), whole);
}
