//! Users, groups, roles and policies.

use std::task::Poll;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{OK, TRUST, admin, ask, get, make_bucket, post};
use crate::admin::Admin;

const READ: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}]}"#;

async fn patch(admin: &Admin, path: &str, body: Value) -> Value {
    let (status, made) = ask(admin, Method::PATCH, path, body).await;
    assert_eq!(status, OK, "{path}: {made}");
    made
}

async fn refused(admin: &Admin, method: Method, path: &str, body: Value) -> (u16, String) {
    let (status, problem) = ask(admin, method, path, body).await;
    (
        status.as_u16(),
        problem["code"].as_str().unwrap().to_owned(),
    )
}

fn refusal(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn a_group_has_users_and_policies_until_it_is_empty_and_deleted() {
    let admin = admin().await;
    post(&admin, "/v1/users", json!({"name": "alice"})).await;
    let group = post(&admin, "/v1/groups", json!({"name": "readers"})).await;
    assert_eq!(group["arn"], "arn:aws:iam::000000000000:group/readers");
    let change = json!({"add_users": ["alice"], "attach": ["AmazonS3ReadOnlyAccess"]});
    let group = patch(&admin, "/v1/groups/readers", change).await;
    assert_eq!(group["users"], json!(["alice"]));
    assert_eq!(
        group["policies"],
        json!(["arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"])
    );
    assert_eq!(
        get(&admin, "/v1/users/alice").await.1["groups"],
        json!(["readers"])
    );
    let delete = || refused(&admin, Method::DELETE, "/v1/groups/readers", Value::Null);
    assert_eq!(delete().await, refusal(409, "EntityInUse"));
    let change = json!({"remove_users": ["alice"], "detach": ["AmazonS3ReadOnlyAccess"]});
    patch(&admin, "/v1/groups/readers", change).await;
    let (status, _) = ask(&admin, Method::DELETE, "/v1/groups/readers", Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (_, groups) = get(&admin, "/v1/groups").await;
    assert_eq!(groups["items"], json!([]));
}

#[tokio::test]
async fn a_replaced_policy_keeps_five_versions_and_goes_with_them() {
    let admin = admin().await;
    let ask_for = json!({"name": "photos", "description": "d", "document": READ});
    let made = post(&admin, "/v1/policies", ask_for).await;
    assert_eq!(
        (&made["version"], &made["document"]),
        (&json!(1), &json!(READ))
    );
    for version in 2..=8 {
        let document = READ.replace("GetObject", &format!("GetObject{version}*"));
        let body = json!({"document": document});
        let (status, made) = ask(&admin, Method::PUT, "/v1/policies/photos", body).await;
        assert_eq!(status, OK, "{made}");
        assert_eq!(
            (&made["version"], &made["document"]),
            (&json!(version), &json!(document))
        );
    }
    post(&admin, "/v1/users", json!({"name": "alice"})).await;
    patch(&admin, "/v1/users/alice", json!({"attach": ["photos"]})).await;
    let (_, policy) = get(&admin, "/v1/policies/photos").await;
    assert_eq!(policy["users"], json!(["alice"]));
    let delete = || refused(&admin, Method::DELETE, "/v1/policies/photos", Value::Null);
    assert_eq!(delete().await, refusal(409, "EntityInUse"));
    assert_eq!(get(&admin, "/v1/policies/photos").await.1, policy);
    patch(&admin, "/v1/users/alice", json!({"detach": ["photos"]})).await;
    let (status, _) = ask(&admin, Method::DELETE, "/v1/policies/photos", Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn policies_that_every_cluster_has_are_shown_and_not_changed() {
    let admin = admin().await;
    let path = "/v1/policies/AdministratorAccess";
    let (_, policy) = get(&admin, path).await;
    assert_eq!(policy["built_in"], true);
    let replace = refused(&admin, Method::PUT, path, json!({"document": READ})).await;
    assert_eq!(replace, refusal(409, "BuiltIn"));
    let delete = refused(&admin, Method::DELETE, path, Value::Null).await;
    assert_eq!(delete, refusal(409, "BuiltIn"));
    let none = refused(&admin, Method::GET, "/v1/policies/none", Value::Null).await;
    assert_eq!(none, refusal(404, "NoSuchEntity"));
}

#[tokio::test]
async fn a_created_policy_does_not_take_the_name_of_one_that_every_cluster_has() {
    let admin = admin().await;
    post(&admin, "/v1/users", json!({"name": "alice"})).await;
    let trap = json!({"name": "administratorAccess", "document": READ});
    let trap = post(&admin, "/v1/policies", trap).await;
    let own = "/v1/policies/arn:aws:iam::000000000000:policy%2FadministratorAccess";
    for name in ["AdministratorAccess", "administratorAccess"] {
        let change = json!({"attach": [name]});
        let user = patch(&admin, "/v1/users/alice", change).await;
        let built_in = "arn:aws:iam::aws:policy/AdministratorAccess";
        assert_eq!(user["policies"], json!([built_in]), "{name}");
        let path = format!("/v1/policies/{name}");
        assert_eq!(get(&admin, &path).await.1["built_in"], true, "{name}");
        let delete = refused(&admin, Method::DELETE, &path, Value::Null).await;
        assert_eq!(delete, refusal(409, "BuiltIn"), "{name}");
    }
    let change = json!({"attach": [trap["arn"]], "detach": ["AdministratorAccess"]});
    let user = patch(&admin, "/v1/users/alice", change).await;
    assert_eq!(user["policies"], json!([trap["arn"]]));
    let (_, shown) = get(&admin, own).await;
    assert_eq!(
        (&shown["built_in"], &shown["users"]),
        (&json!(false), &json!(["alice"]))
    );
    let document = json!({"document": READ});
    let (status, set) = ask(&admin, Method::PUT, own, document).await;
    assert_eq!((status, &set["version"]), (OK, &json!(2)));
    patch(&admin, "/v1/users/alice", json!({"detach": [trap["arn"]]})).await;
    let (status, _) = ask(&admin, Method::DELETE, own, Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_text_that_is_no_policy_is_refused_and_changes_nothing() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    post(&admin, "/v1/users", json!({"name": "alice"})).await;
    let role = json!({"name": "backup", "trust": TRUST});
    post(&admin, "/v1/roles", role).await;
    let unread = json!({"document": r#"{"Version": "2012-10-17"}"#});
    for path in [
        "/v1/inline-policies/users/alice/p",
        "/v1/inline-policies/roles/backup/p",
        "/v1/buckets/photos/policy",
    ] {
        let put = refused(&admin, Method::PUT, path, unread.clone()).await;
        assert_eq!(put, refusal(400, "MalformedPolicy"), "{path}");
        let (status, _) = get(&admin, path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
    let trust = json!({"trust": READ});
    let change = refused(&admin, Method::PATCH, "/v1/roles/backup", trust).await;
    assert_eq!(change, refusal(400, "MalformedPolicy"));
    let (_, role) = get(&admin, "/v1/roles/backup").await;
    assert_eq!(
        (&role["trust"], &role["policies"]),
        (&json!(TRUST), &json!([]))
    );
    let elsewhere = json!({"document": READ.replace("photos", "other")});
    let path = "/v1/buckets/photos/policy";
    let put = refused(&admin, Method::PUT, path, elsewhere).await;
    assert_eq!(put, refusal(400, "MalformedPolicy"));
}

#[tokio::test]
async fn a_change_with_one_bad_entry_changes_nothing() {
    let admin = admin().await;
    for name in ["alice", "bob"] {
        post(&admin, "/v1/users", json!({"name": name})).await;
    }
    for name in ["old", "readers"] {
        post(&admin, "/v1/groups", json!({"name": name})).await;
    }
    let role = json!({"name": "backup", "trust": TRUST});
    post(&admin, "/v1/roles", role).await;
    let setup = json!({"add_users": ["alice"], "attach": ["IAMFullAccess"]});
    patch(&admin, "/v1/groups/old", setup).await;
    let full = "AmazonS3FullAccess";
    for (path, change) in [
        ("users/alice", json!({"attach": [full, "none"]})),
        ("users/alice", json!({"attach": [full], "detach": ["none"]})),
        (
            "users/alice",
            json!({"attach": [full], "detach": ["IAMFullAccess"]}),
        ),
        ("groups/readers", json!({"add_users": ["alice", "nobody"]})),
        (
            "groups/readers",
            json!({"add_users": ["alice"], "remove_users": ["bob"]}),
        ),
        (
            "groups/readers",
            json!({"add_users": ["alice"], "attach": [full, "none"]}),
        ),
        (
            "groups/readers",
            json!({"add_users": ["alice"], "detach": [full]}),
        ),
        ("groups/old", json!({"remove_users": ["alice", "bob"]})),
        ("groups/old", json!({"remove_users": ["ALICE", "alice"]})),
        ("groups/old", json!({"detach": ["IAMFullAccess", full]})),
        (
            "roles/backup",
            json!({"description": "d", "attach": ["none"]}),
        ),
        (
            "roles/backup",
            json!({"description": "d", "detach": [full]}),
        ),
        (
            "roles/backup",
            json!({"attach": [full], "detach": ["IAMFullAccess"]}),
        ),
    ] {
        let path = format!("/v1/{path}");
        let before = (get(&admin, &path).await, get(&admin, "/v1/users").await);
        let said = refused(&admin, Method::PATCH, &path, change.clone()).await;
        assert_eq!(said, refusal(404, "NoSuchEntity"), "{path} {change}");
        let after = (get(&admin, &path).await, get(&admin, "/v1/users").await);
        assert_eq!(after, before, "{path} {change}");
    }
}

#[tokio::test]
async fn a_user_is_created_with_all_its_policies_or_not_at_all() {
    let admin = admin().await;
    let bad = json!({"name": "alice", "attach": ["AmazonS3FullAccess", "none"]});
    let said = refused(&admin, Method::POST, "/v1/users", bad).await;
    assert_eq!(said, refusal(404, "NoSuchEntity"));
    assert_eq!(get(&admin, "/v1/users").await.1["items"], json!([]));
    let good = json!({"name": "alice", "attach": ["AmazonS3FullAccess"]});
    let user = post(&admin, "/v1/users", good).await;
    let arn = "arn:aws:iam::aws:policy/AmazonS3FullAccess";
    assert_eq!(user["policies"], json!([arn]));
}

#[tokio::test]
async fn a_user_that_is_in_too_many_groups_keeps_others_out_of_the_next() {
    let admin = admin().await;
    for name in ["alice", "bob"] {
        post(&admin, "/v1/users", json!({"name": name})).await;
    }
    for number in 0..=10 {
        let name = format!("g{number}");
        post(&admin, "/v1/groups", json!({"name": name})).await;
        let path = format!("/v1/groups/{name}");
        if number < 10 {
            patch(&admin, &path, json!({"add_users": ["bob"]})).await;
        } else {
            let change = json!({"add_users": ["alice", "bob"]});
            let said = refused(&admin, Method::PATCH, &path, change).await;
            assert_eq!(said, refusal(409, "LimitExceeded"));
        }
    }
    let (_, alice) = get(&admin, "/v1/users/alice").await;
    assert_eq!(alice["groups"], json!([]));
}

#[tokio::test]
async fn inline_policies_are_set_shown_and_deleted() {
    let admin = admin().await;
    post(&admin, "/v1/users", json!({"name": "alice"})).await;
    post(&admin, "/v1/groups", json!({"name": "readers"})).await;
    post(
        &admin,
        "/v1/roles",
        json!({"name": "backup", "trust": TRUST}),
    )
    .await;
    for (kind, name) in [
        ("users", "alice"),
        ("groups", "readers"),
        ("roles", "backup"),
    ] {
        let path = format!("/v1/inline-policies/{kind}/{name}/own");
        let document = json!({"document": READ});
        let (status, set) = ask(&admin, Method::PUT, &path, document.clone()).await;
        assert_eq!((status, set), (OK, document.clone()));
        assert_eq!(get(&admin, &path).await, (OK, document));
        let (_, holder) = get(&admin, &format!("/v1/{kind}/{name}")).await;
        assert_eq!(holder["inline_policies"], json!(["own"]));
        let (status, _) = ask(&admin, Method::DELETE, &path, Value::Null).await;
        assert_eq!(status, StatusCode::NO_CONTENT);
        assert_eq!(get(&admin, &path).await.0, StatusCode::NOT_FOUND);
    }
    let wrong = refused(
        &admin,
        Method::GET,
        "/v1/inline-policies/cats/a/b",
        Value::Null,
    )
    .await;
    assert_eq!(wrong, refusal(400, "InvalidRequest"));
}

#[tokio::test]
async fn a_role_is_changed_within_its_bounds() {
    let admin = admin().await;
    let ask_for = json!({"name": "backup", "trust": TRUST, "max_session_seconds": 60});
    let short = refused(&admin, Method::POST, "/v1/roles", ask_for).await;
    assert_eq!(short, refusal(400, "InvalidName"));
    let role = post(
        &admin,
        "/v1/roles",
        json!({"name": "backup", "trust": TRUST}),
    )
    .await;
    assert_eq!(role["max_session_seconds"], 3600);
    let change = json!({"max_session_seconds": 7200, "description": "nightly"});
    let role = patch(&admin, "/v1/roles/backup", change).await;
    assert_eq!(
        (
            &role["max_session_seconds"],
            &role["description"],
            &role["trust"]
        ),
        (&json!(7200), &json!("nightly"), &json!(TRUST))
    );
}

#[tokio::test]
async fn a_key_expires_at_a_time_to_come() {
    let admin = admin().await;
    let past = refused(
        &admin,
        Method::POST,
        "/v1/keys",
        json!({"name": "k", "expires_ms": 1}),
    )
    .await;
    assert_eq!(past, refusal(400, "InvalidRequest"));
    assert_eq!(get(&admin, "/v1/keys").await.1["items"], json!([]));
    let far = 4_000_000_000_000_u64;
    let key = post(&admin, "/v1/keys", json!({"name": "k", "expires_ms": far})).await;
    assert_eq!(key["expires_ms"], far);
    let path = format!("/v1/keys/{}", key["id"].as_str().unwrap());
    let key = patch(&admin, &path, json!({"expires_ms": 0})).await;
    assert_eq!(key["expires_ms"], Value::Null);
}

/// A client may go away between any two steps of a request. The steps of the disk fall between
/// others each time.
#[tokio::test]
async fn a_key_never_exists_without_its_expiry() {
    for _ in 0..10 {
        let mut steps = 0;
        while !create_key_in(steps).await {
            steps += 1;
        }
    }
}

/// Takes some steps of the creation of a key. Returns true if these are all.
async fn create_key_in(mut steps: usize) -> bool {
    let far = 4_000_000_000_000_u64;
    let admin = admin().await;
    let body = json!({"name": "k", "expires_ms": far});
    let mut creation = Box::pin(ask(&admin, Method::POST, "/v1/keys", body));
    let some_steps = std::future::poll_fn(|context| match steps {
        0 => Poll::Ready(None),
        _ => {
            steps -= 1;
            creation.as_mut().poll(context).map(Some)
        }
    });
    let answer = some_steps.await;
    drop(creation);
    for key in admin.model.access_keys().unwrap() {
        assert_eq!(key.expires_ms, Some(far));
    }
    answer.is_some_and(|(status, _)| status == StatusCode::CREATED)
}

#[tokio::test]
async fn a_key_that_is_made_with_an_expiry_of_0_lasts() {
    let admin = admin().await;
    let key = post(&admin, "/v1/keys", json!({"name": "k", "expires_ms": 0})).await;
    assert_eq!(key["expires_ms"], Value::Null);
}
