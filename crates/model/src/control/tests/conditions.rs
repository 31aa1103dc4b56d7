//! Changes that depend on what is there: rows decide, and not the cache of a node that has not heard
//! of the newest change.

use archipel_base::codec;
use archipel_cluster::WriteOptions;
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;

use super::super::row;
use super::model;
use crate::bucket::{Bucket, CorsRule};
use crate::identity::{Entity, ManagedPolicy, NewPolicy, NewRole, Role, RoleChange};
use crate::notification::Notification;
use crate::{Error, Model, Tags, rowkeys};

const READ: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}"#;
const WRITE: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "*"}]}"#;
const TRUST: &str =
    r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}}"#;

/// Writes a row as another node does of which this one has not heard yet.
async fn write(model: &Model, key: &RowKey, metadata: Vec<u8>) {
    let how = WriteOptions::durable(Durability::Fsync);
    let written = model.cluster().write(key, Some(row(metadata)), how).await;
    written.unwrap();
}

#[tokio::test]
async fn bucket_that_another_node_has_changed_is_not_changed_by_what_the_cache_says() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let tags = |team: &str| -> Tags { vec![("team".into(), team.into())] };
    let cors = |origin: &str| {
        vec![CorsRule {
            allowed_origins: vec![origin.into()],
            allowed_methods: vec!["GET".into()],
            ..CorsRule::default()
        }]
    };
    let others = Bucket {
        tags: tags("other"),
        cors: cors("other"),
        notification: Some(Notification::default()),
        ..(*bucket).clone()
    };
    let key = rowkeys::bucket("bucket");
    let refused = Err(Error::PreconditionFailed);
    let cached = || model.bucket("bucket").unwrap().unwrap();
    for what in ["tags", "cors", "notification"] {
        write(&model, &key, codec::encode(&*bucket)).await;
        model.refresh_bucket("bucket").await.unwrap();
        write(&model, &key, codec::encode(&others)).await;
        assert!(cached().tags.is_empty(), "the cache knows of it");
        let set = match what {
            "tags" => {
                let set = model.set_bucket_tags_if(&bucket, tags("own"), |now| now.is_empty());
                set.await
            }
            "cors" => {
                let set = model.set_cors_if(&bucket, cors("own"), |now| now.is_empty());
                set.await.map(drop)
            }
            _ => {
                let set = model.set_notification_if(&bucket, None, |now| now.is_none());
                set.await.map(drop)
            }
        };
        assert_eq!(set, refused, "{what}");
        // The next look at it sees the change.
        assert_eq!(cached().tags, tags("other"), "{what}");
        assert_eq!(cached().cors, cors("other"), "{what}");
        assert!(cached().notification.is_some(), "{what}");
    }
}

#[tokio::test]
async fn policy_that_another_node_has_changed_is_not_replaced_by_what_the_cache_says() {
    let model = model().await;
    let new = NewPolicy {
        name: "own".into(),
        path: "/".into(),
        description: String::new(),
        document: READ.into(),
        tags: Tags::new(),
    };
    let policy = model.create_policy(new).await.unwrap();
    let mut others = ManagedPolicy::clone(&policy);
    let version = others.versions[&1].clone();
    others.versions.insert(2, version);
    (others.default, others.newest) = (2, 2);
    let key = rowkeys::identity(ManagedPolicy::KIND, "own");
    write(&model, &key, codec::encode(&others)).await;
    let set = model.replace_policy_if("own", WRITE, |now| now.default == policy.default);
    assert_eq!(set.await.map(drop), Err(Error::PreconditionFailed));
    let cached = model.entity::<ManagedPolicy>("own").unwrap().unwrap();
    assert_eq!(*cached, others);
}

#[tokio::test]
async fn role_that_another_node_has_changed_is_not_changed_by_what_the_cache_says() {
    let model = model().await;
    let new = NewRole {
        name: "backup".into(),
        path: "/".into(),
        description: String::new(),
        max_session_s: None,
        trust: TRUST.into(),
        tags: Tags::new(),
    };
    let role = model.create_role(new).await.unwrap();
    let others = Role {
        description: "of another".into(),
        ..Role::clone(&role)
    };
    let key = rowkeys::identity(Role::KIND, "backup");
    write(&model, &key, codec::encode(&others)).await;
    let change = RoleChange {
        description: Some("own".into()),
        ..RoleChange::default()
    };
    let test = |now: &Role| now.description.is_empty();
    let set = model.change_role_if("backup", change, test).await;
    assert_eq!(set.map(drop), Err(Error::PreconditionFailed));
    let cached = model.entity::<Role>("backup").unwrap().unwrap();
    assert_eq!(*cached, others);
}

/// Each change is told what it wrote, also if others have changed the row before the answer: the tag of
/// their document would let the client undo their change.
#[tokio::test]
async fn change_answers_what_it_wrote() {
    let model = model().await;
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let set = |n: usize| {
        let (model, bucket) = (model.clone(), bucket.clone());
        async move {
            let rule = CorsRule {
                allowed_origins: vec![n.to_string()],
                ..CorsRule::default()
            };
            let rules = vec![rule];
            let set = model.set_cors(&bucket, rules.clone()).await.unwrap();
            assert_eq!(set.cors, rules);
        }
    };
    futures_util::future::join_all((0..8).map(set)).await;
}
