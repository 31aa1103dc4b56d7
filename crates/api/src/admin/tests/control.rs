//! Buckets, keys and grants that this node does not know, or knows as they were.

use std::time::Duration;

use archipel_cluster::{Cluster, World};
use archipel_model::{HOOKS, Model, Permissions};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{admin, admin_of, ask, get, make_bucket};

#[tokio::test(start_paused = true)]
async fn what_was_never_read_is_not_shown_as_if_there_were_nothing() {
    let latency = Duration::from_millis(1);
    let world = World::new(3, 3, latency, 1, HOOKS).await.unwrap();
    let there = Model::open(world.nodes[1].clone()).await.unwrap();
    let key = there.create_owner_key("key").await.unwrap();
    there.create_bucket("photos", Some(&key.id)).await.unwrap();
    world.isolate(0);
    let model = Model::open(world.nodes[0].clone()).await.unwrap();
    let admin = admin_of(model.clone(), &[]);
    let paths = [
        "/v1/buckets",
        "/v1/buckets/photos",
        "/v1/buckets/none",
        "/v1/keys",
        &format!("/v1/keys/{}", key.id),
        &format!("/v1/keys/{}/secret", key.id),
        "/v1/keys/AKNONE",
    ];
    for path in paths {
        let (status, answer) = get(&admin, path).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {answer}");
        let message = answer["detail"].as_str().unwrap();
        let named = message.contains("buckets and access keys have not been read");
        assert!(named, "{path}: {message}");
    }
    let (_, status) = get(&admin, "/v1/status").await;
    assert_eq!(
        (&status["buckets"], &status["access_keys"]),
        (&Value::Null, &Value::Null)
    );
    let (code, health) = get(&admin, "/health").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    let reasons = health["reasons"].to_string();
    assert!(reasons.contains("have not been read"), "{reasons}");

    world.network.end_all_cuts();
    model.refresh_all().await.unwrap();
    for path in paths {
        let (status, answer) = get(&admin, path).await;
        let none = path.to_ascii_lowercase().contains("none");
        let expected = match none {
            true => StatusCode::NOT_FOUND,
            false => StatusCode::OK,
        };
        assert_eq!(status, expected, "{path}: {answer}");
    }
    let (_, status) = get(&admin, "/v1/status").await;
    assert_eq!(
        (&status["buckets"], &status["access_keys"]),
        (&json!(1), &json!(1))
    );
}

/// Two endpoints of one cluster, of which one has not heard what the other did.
#[tokio::test]
async fn a_permission_that_was_denied_elsewhere_does_not_come_back() {
    let cluster = Cluster::in_memory(1, HOOKS).await.unwrap();
    let here = Model::open(cluster.clone()).await.unwrap();
    let key = here.create_access_key("key").await.unwrap();
    here.create_bucket("photos", Some(&key.id)).await.unwrap();
    let there = Model::open(cluster).await.unwrap();
    let read = Permissions {
        read: true,
        ..Permissions::default()
    };
    there.set_grant("photos", &key.id, read).await.unwrap();
    let admin = admin_of(here, &[]);
    let path = format!("/v1/buckets/photos/grants/{}", key.id);
    let (status, grant) = ask(&admin, Method::PATCH, &path, json!({"read": true})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&grant["read"], &grant["write"], &grant["owner"]),
        (&json!(true), &json!(false), &json!(false))
    );
}

#[tokio::test]
async fn a_deleted_key_is_shown_nowhere() {
    let cluster = Cluster::in_memory(1, HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let key = model.create_access_key("key").await.unwrap();
    model.create_bucket("photos", Some(&key.id)).await.unwrap();
    let admin = admin_of(model, &[]);
    let path = format!("/v1/keys/{}", key.id);
    let (status, _) = ask(&admin, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get(&admin, &path).await.0, StatusCode::NOT_FOUND);
    let (_, bucket) = get(&admin, "/v1/buckets/photos").await;
    assert_eq!(bucket["grants"], json!([]));
    let (_, buckets) = get(&admin, "/v1/buckets").await;
    assert_eq!(buckets["items"][0]["grants"], json!(0));
}

#[tokio::test]
async fn grants_change_only_what_is_named() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let (_, key) = ask(&admin, Method::POST, "/v1/keys", json!({"name": "k"})).await;
    let path = format!("/v1/buckets/photos/grants/{}", key["id"].as_str().unwrap());
    let change = json!({"read": true, "write": true});
    let (status, grant) = ask(&admin, Method::PATCH, &path, change).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&grant["write"], &grant["owner"]),
        (&json!(true), &json!(false))
    );
    let (_, grant) = ask(&admin, Method::PATCH, &path, json!({"write": false})).await;
    assert_eq!(
        (&grant["read"], &grant["write"]),
        (&json!(true), &json!(false))
    );
    let (_, info) = get(&admin, "/v1/buckets/photos").await;
    assert_eq!(info["grants"].as_array().unwrap().len(), 1);
    ask(&admin, Method::PATCH, &path, json!({"read": false})).await;
    let (_, info) = get(&admin, "/v1/buckets/photos").await;
    assert_eq!(info["grants"], json!([]));
    let (status, _) = ask(
        &admin,
        Method::PATCH,
        "/v1/buckets/photos/grants/AKNONE",
        json!({"read": true}),
    )
    .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

/// A change that was made is answered also if its node can tell no more of the key or policy.
#[tokio::test]
async fn fields_that_are_unknown_after_a_change_are_absent() {
    let admin = admin().await;
    let key = admin.model.create_access_key("key").await.unwrap();
    let shown = |told| serde_json::to_value(told).unwrap();
    let unknown = shown(crate::admin::keys::describe(&key, None));
    assert_eq!(unknown.get("grants"), None);
    let none = shown(crate::admin::keys::describe(&key, Some(&[])));
    assert_eq!(none["grants"], json!([]));
    let policy = admin.model.named_policy("AmazonS3ReadOnlyAccess").await;
    let policy = policy.unwrap();
    let told = crate::admin::policies::describe(&policy, None).ok();
    let told = serde_json::to_value(told.unwrap()).unwrap();
    for holders in ["users", "groups", "roles"] {
        assert_eq!(told.get(holders), None);
    }
}
