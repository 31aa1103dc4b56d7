//! Dry runs of deletions: what they say, deletions do.

use archipel_model::k2v::{Insert, ItemName};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{OK, TRUST, admin, ask, get, make_bucket, post};
use crate::admin::Admin;

const READ: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}"#;

/// Asks what a deletion would do, and then deletes. Both agree, and the dry run changes nothing.
async fn delete(admin: &Admin, path: &str) -> Value {
    let before = get(admin, path).await;
    let dry = format!("{path}?dry_run=true");
    let (status, plan) = ask(admin, Method::DELETE, &dry, Value::Null).await;
    assert_eq!(status, OK, "{path}: {plan}");
    assert_eq!(get(admin, path).await, before);
    let (status, refused) = ask(admin, Method::DELETE, path, Value::Null).await;
    let expected = match plan["possible"].as_bool().unwrap() {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::CONFLICT,
    };
    assert_eq!(status, expected, "{path}: {plan} {refused}");
    plan
}

#[tokio::test]
async fn buckets_say_what_is_in_them_and_what_goes() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let model = &admin.model;
    let bucket = model.bucket("photos").unwrap().unwrap();
    let mut writer = model.begin_object(&bucket, "one").unwrap();
    writer.write(vec![7; 5].into()).await.unwrap();
    let always = || archipel_model::Condition::Always;
    let meta = archipel_model::ObjectMeta::default();
    writer.finish(meta, always()).await.unwrap();
    let alias = json!({"name": "pictures"});
    ask(&admin, Method::POST, "/v1/buckets/photos/aliases", alias).await;
    let plan = delete(&admin, "/v1/buckets/photos").await;
    assert!(
        plan["obstacles"][0].as_str().unwrap().contains("1 objects"),
        "{plan}"
    );
    assert_eq!(plan["goes"], json!(["aliases: pictures"]));
    let deleted = model.delete_object(&bucket, "one", always()).await;
    deleted.unwrap();
    let plan = delete(&admin, "/v1/buckets/photos").await;
    assert_eq!(plan["obstacles"], json!([]));
    let gone = "/v1/buckets/photos?dry_run=true";
    let (status, _) = ask(&admin, Method::DELETE, gone, Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn bucket_with_items_alone_is_not_empty_and_says_so() {
    let admin = admin().await;
    make_bucket(&admin, "photos").await;
    let bucket = admin.model.bucket("photos").unwrap().unwrap();
    let item = Insert {
        name: ItemName::new("place", "sort").unwrap(),
        token: None,
        value: Some("value".into()),
    };
    admin.model.insert_item(&bucket, &item).await.unwrap();
    let path = "/v1/buckets/photos";
    let plan = delete(&admin, path).await;
    let (_, refused) = ask(&admin, Method::DELETE, path, Value::Null).await;
    for told in [&plan["obstacles"][0], &refused["detail"]] {
        assert!(told.as_str().unwrap().contains("K2V items"), "{told}");
    }
}

#[tokio::test]
async fn identities_name_what_stands_in_the_way() {
    let admin = admin().await;
    post(
        &admin,
        "/v1/policies",
        json!({"name": "p", "document": READ}),
    )
    .await;
    post(&admin, "/v1/groups", json!({"name": "g"})).await;
    post(&admin, "/v1/roles", json!({"name": "r", "trust": TRUST})).await;
    let user = json!({"name": "alice", "attach": ["p"]});
    post(&admin, "/v1/users", user).await;
    let key = post(&admin, "/v1/users/alice/keys", Value::Null).await;
    let key = key["id"].as_str().unwrap();
    let patch = async |path: &str, body: Value| {
        let (status, answer) = ask(&admin, Method::PATCH, path, body).await;
        assert_eq!(status, OK, "{answer}");
    };
    let join = json!({"add_users": ["alice"], "attach": ["p"]});
    patch("/v1/groups/g", join).await;
    patch("/v1/roles/r", json!({"attach": ["p"]})).await;

    let plan = delete(&admin, "/v1/users/alice").await;
    let arn = "arn:aws:iam::000000000000:policy/p";
    let in_the_way = json!([
        format!("access keys: {key}"),
        "groups: g",
        format!("attached policies: {arn}")
    ]);
    assert_eq!(plan["obstacles"], in_the_way);
    let plan = delete(&admin, "/v1/groups/g").await;
    assert_eq!(plan["obstacles"][0], "users: alice");
    let plan = delete(&admin, "/v1/roles/r").await;
    assert_eq!(
        plan["obstacles"],
        json!([format!("attached policies: {arn}")])
    );
    let plan = delete(&admin, "/v1/policies/p").await;
    let holders = json!(["users: alice", "groups: g", "roles: r"]);
    assert_eq!(plan["obstacles"], holders);
    assert_eq!(plan["goes"], json!(["versions: 1"]));

    patch("/v1/roles/r", json!({"detach": ["p"]})).await;
    let leave = json!({"remove_users": ["alice"], "detach": ["p"]});
    patch("/v1/groups/g", leave).await;
    patch("/v1/users/alice", json!({"detach": ["p"]})).await;
    make_bucket(&admin, "photos").await;
    let grant = format!("/v1/buckets/photos/grants/{key}");
    patch(&grant, json!({"read": true})).await;
    let plan = delete(&admin, &format!("/v1/keys/{key}")).await;
    assert_eq!(plan["goes"], json!(["permissions for buckets: photos"]));
    for path in [
        "/v1/users/alice",
        "/v1/groups/g",
        "/v1/roles/r",
        "/v1/policies/p",
    ] {
        let plan = delete(&admin, path).await;
        assert_eq!(plan["obstacles"], json!([]), "{path}");
    }
}

#[tokio::test]
async fn lists_of_identities_are_filtered() {
    let admin = admin().await;
    for name in ["ann", "bob", "anton"] {
        post(&admin, "/v1/users", json!({ "name": name })).await;
        post(&admin, "/v1/groups", json!({"name": format!("{name}-g")})).await;
        let role = json!({"name": format!("{name}-r"), "trust": TRUST});
        post(&admin, "/v1/roles", role).await;
    }
    let policy = json!({"name": "own", "document": READ});
    post(&admin, "/v1/policies", policy).await;
    let join = json!({"add_users": ["bob"]});
    ask(&admin, Method::PATCH, "/v1/groups/ann-g", join).await;
    let disable = json!({"disabled": true});
    ask(&admin, Method::PATCH, "/v1/users/ann", disable).await;
    let names = async |path: &str| -> Vec<String> {
        let (status, list) = get(&admin, path).await;
        assert_eq!(status, OK, "{path}: {list}");
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("/v1/users?prefix=an").await, ["ann", "anton"]);
    assert_eq!(names("/v1/users?group=ann-g").await, ["bob"]);
    assert_eq!(names("/v1/users?disabled=true").await, ["ann"]);
    assert_eq!(names("/v1/users?disabled=false&prefix=an").await, ["anton"]);
    assert_eq!(names("/v1/groups?prefix=bob").await, ["bob-g"]);
    assert_eq!(names("/v1/roles?prefix=ant").await, ["anton-r"]);
    assert_eq!(names("/v1/policies?built_in=false").await, ["own"]);
    let built_in = names("/v1/policies?built_in=true&prefix=Administrator").await;
    assert_eq!(built_in, ["AdministratorAccess"]);
    assert!(names("/v1/policies?prefix=none").await.is_empty());
}

#[tokio::test]
async fn the_dismissal_of_a_node_says_what_stands_in_the_way() {
    let admin = admin().await;
    let path = "/v1/nodes/self/admission?dry_run=true";
    let (status, plan) = ask(&admin, Method::DELETE, path, Value::Null).await;
    assert_eq!((status, &plan["possible"]), (OK, &json!(false)), "{plan}");
}
