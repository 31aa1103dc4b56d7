//! Identity providers, certificates, and what disabled users may do.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{OK, admin, ask, get};

#[tokio::test]
async fn identity_providers_are_created_changed_listed_and_deleted() {
    let admin = admin().await;
    let all = "/v1/identity-providers";
    let post = async |body: Value| ask(&admin, Method::POST, all, body).await;
    let url = "https://Login.example.com/realms/x";
    let print = "ab".repeat(20);
    let (status, made) =
        post(json!({"url": url, "clients": ["app"], "thumbprints": [print]})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_eq!(made["name"], "login.example.com/realms/x");
    assert_eq!(
        made["arn"],
        "arn:aws:iam::000000000000:oidc-provider/login.example.com/realms/x"
    );
    let (status, refused) = post(json!({"url": url})).await;
    let code = (status, &refused["code"]);
    assert_eq!(code, (StatusCode::CONFLICT, &json!("EntityAlreadyExists")));
    for bad in [
        json!({"url": "http://example.com"}),
        json!({"url": "https://a.example.com", "clients": [""]}),
        json!({"url": "https://a.example.com", "thumbprints": ["zz"]}),
    ] {
        let (status, refused) = post(bad.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}: {refused}");
    }
    let many: Vec<String> = (0..101).map(|n| n.to_string()).collect();
    let (status, _) = post(json!({"url": "https://a.example.com", "clients": many})).await;
    assert_eq!(status, StatusCode::CONFLICT);

    let path = "/v1/identity-providers/login.example.com%2Frealms%2Fx";
    assert_eq!(get(&admin, path).await, (OK, made.clone()));
    let patch = async |body: Value| ask(&admin, Method::PATCH, path, body).await;
    let change = json!({"add_clients": ["web", "cli"], "remove_clients": ["app"]});
    let (status, changed) = patch(change).await;
    assert_eq!((status, &changed["clients"]), (OK, &json!(["cli", "web"])));
    assert_eq!(changed["thumbprints"], json!([print]));
    let (_, changed) = patch(json!({"thumbprints": []})).await;
    assert_eq!(changed["thumbprints"], json!([]));
    let (status, _) = patch(json!({"add_clients": [""], "remove_clients": ["web"]})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (_, list) = get(&admin, all).await;
    assert_eq!(list["items"], json!([changed]));
    let (status, _) = ask(&admin, Method::DELETE, path, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    assert_eq!(get(&admin, path).await.1["code"], "NoSuchEntity");
}

#[tokio::test]
async fn requests_of_a_disabled_user_are_refused_until_it_is_enabled() {
    let admin = admin().await;
    ask(&admin, Method::POST, "/v1/users", json!({"name": "alice"})).await;
    let (_, key) = ask(&admin, Method::POST, "/v1/users/alice/keys", Value::Null).await;
    let id = key["id"].as_str().unwrap();
    let counts = async || {
        let key = admin.model.access_key(id).unwrap().unwrap();
        admin.model.subject(&key).await.unwrap().is_some()
    };
    assert!(counts().await);
    for disabled in [true, false] {
        let change = json!({ "disabled": disabled });
        let (status, user) = ask(&admin, Method::PATCH, "/v1/users/alice", change).await;
        assert_eq!((status, &user["disabled"]), (OK, &json!(disabled)));
        assert_eq!(counts().await, !disabled);
    }
    // A change that is refused changes nothing.
    let change = json!({"disabled": true, "attach": ["none"]});
    let (status, _) = ask(&admin, Method::PATCH, "/v1/users/alice", change).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(counts().await);
}

#[tokio::test]
async fn keys_are_renamed() {
    let admin = admin().await;
    let (_, key) = ask(&admin, Method::POST, "/v1/keys", json!({"name": "old"})).await;
    let path = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    let change = json!({"name": "new"});
    let (status, changed) = ask(&admin, Method::PATCH, &path, change).await;
    assert_eq!((status, &changed["name"]), (OK, &json!("new")));
    let too_long = json!({"name": "n".repeat(1000)});
    let (status, _) = ask(&admin, Method::PATCH, &path, too_long).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(get(&admin, &path).await.1["name"], "new");
}

#[tokio::test]
async fn certificates_are_those_of_the_node_by_state() {
    let admin = admin().await;
    let list = async |query: &str| {
        let (status, list) = get(&admin, &format!("/v1/certificates{query}")).await;
        assert_eq!(status, OK, "{list}");
        list["items"].as_array().unwrap().clone()
    };
    let all = list("").await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(
        all[0],
        json!({"domain": "a.example.com", "state": "missing", "failed_orders": 3,
               "failure": "the authority refused", "next_order_ms": 5})
    );
    let valid = list("?state=valid").await;
    assert_eq!(valid, all[1..]);
}
