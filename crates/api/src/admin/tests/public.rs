//! Buckets that are published and closed, with a policy that this node has not heard of.

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_access::{Policy, PublicAccessBlock};
use archipel_cluster::Cluster;
use archipel_model::{Bucket, BucketPolicy, HOOKS, Model};
use http::{Method, StatusCode};
use serde_json::Value;

use super::{admin_of, ask};
use crate::admin::Admin;

const PUBLIC: &str = "/v1/buckets/photos/public";
const DENY: &str = r#"{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject",
    "Resource": "arn:aws:s3:::photos/*"}}"#;

/// Returns two models of one cluster with the bucket `photos`. The first does not hear what the
/// second changes.
async fn two_models() -> (Model, Model) {
    let cluster = Cluster::in_memory(1, HOOKS).await.unwrap();
    let here = Model::open(cluster.clone()).await.unwrap();
    here.create_bucket("photos", None).await.unwrap();
    let there = Model::open(cluster).await.unwrap();
    (here, there)
}

fn photos(model: &Model) -> Arc<Bucket> {
    model.bucket("photos").unwrap().unwrap()
}

/// Returns the text of the bucket's policy, as far as the model knows.
fn policy_of(model: &Model) -> Option<String> {
    let bucket = photos(model);
    bucket
        .policy
        .as_ref()
        .map(|policy| policy.text().to_owned())
}

async fn deny_deletions(model: &Model) {
    let policy = Policy::parse(DENY, "photos").unwrap();
    let policy = BucketPolicy::new(DENY.to_owned(), policy, BTreeMap::new());
    let set = model.set_policy(&photos(model), Some(policy)).await;
    set.unwrap();
}

async fn status_of(admin: &Admin, method: Method) -> StatusCode {
    ask(admin, method, PUBLIC, Value::Null).await.0
}

#[tokio::test]
async fn a_bucket_is_not_published_over_a_policy_that_was_set_meanwhile() {
    let (here, there) = two_models().await;
    deny_deletions(&there).await;
    assert_eq!(policy_of(&here), None, "it has heard of it");
    let admin = admin_of(here.clone(), &[]);
    assert_eq!(status_of(&admin, Method::PUT).await, StatusCode::CONFLICT);
    for model in [&here, &there] {
        model.refresh_all().await.unwrap();
        assert_eq!(policy_of(model).as_deref(), Some(DENY));
        assert_eq!(photos(model).blocked(), PublicAccessBlock::ALL);
    }
    // To publish a bucket twice is no conflict.
    there.set_policy(&photos(&there), None).await.unwrap();
    for model in [there, here] {
        model.refresh_all().await.unwrap();
        let admin = admin_of(model, &[]);
        assert_eq!(status_of(&admin, Method::PUT).await, StatusCode::NO_CONTENT);
    }
}

#[tokio::test]
async fn closing_a_bucket_removes_the_policy_that_made_it_public_and_no_other() {
    let (here, there) = two_models().await;
    let (near, far) = (admin_of(here.clone(), &[]), admin_of(there.clone(), &[]));
    assert_eq!(status_of(&near, Method::PUT).await, StatusCode::NO_CONTENT);
    there.refresh_all().await.unwrap();
    deny_deletions(&there).await;
    let stale = policy_of(&here);
    assert!(stale.is_some_and(|text| text != DENY), "it has heard of it");
    let closed = status_of(&near, Method::DELETE).await;
    assert_eq!(closed, StatusCode::NO_CONTENT);
    there.refresh_all().await.unwrap();
    assert_eq!(policy_of(&there).as_deref(), Some(DENY));
    assert_eq!(photos(&there).blocked(), PublicAccessBlock::ALL);

    // It was published elsewhere, and this node has not heard of that either.
    there.set_policy(&photos(&there), None).await.unwrap();
    here.refresh_all().await.unwrap();
    assert_eq!(status_of(&far, Method::PUT).await, StatusCode::NO_CONTENT);
    assert_eq!(policy_of(&here), None, "it has heard of it");
    let closed = status_of(&near, Method::DELETE).await;
    assert_eq!(closed, StatusCode::NO_CONTENT);
    there.refresh_all().await.unwrap();
    assert_eq!(policy_of(&there), None);
    assert_eq!(photos(&there).blocked(), PublicAccessBlock::ALL);
}
