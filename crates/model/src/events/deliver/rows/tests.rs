use std::sync::Arc;

use archipel_cluster::{Cluster, CompanionNews};

use super::super::lane::Targets;
use super::*;
use crate::{Condition, Notification, NotificationKind, NotificationRule, ObjectMeta};

#[tokio::test]
async fn lane_holds_only_its_own_events_of_an_object() {
    let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let rule = |target: &str, events: &str| NotificationRule {
        id: target.into(),
        kind: NotificationKind::Queue,
        arn: String::new(),
        target: target.into(),
        events: vec![events.into()],
        prefix: None,
        suffix: None,
    };
    let rules = vec![
        rule("made", "s3:ObjectCreated:*"),
        rule("gone", "s3:ObjectRemoved:*"),
    ];
    let set = model.set_notification(&bucket, Some(Notification { rules }));
    let bucket = set.await.unwrap();
    let writer = model.begin_object(&bucket, "key").unwrap();
    let written = writer.finish(ObjectMeta::default(), Condition::Always);
    written.await.unwrap();
    let deleted = model.delete_object(&bucket, "key", Condition::Always);
    deleted.await.unwrap();
    let row = rowkeys::object(model.cluster(), &bucket.id, "key");
    for target in ["made", "gone"] {
        let lane = Lane {
            targets: Arc::new(Targets::One(target.into())),
            news: CompanionNews::default(),
        };
        let events = model.events_at_quorum(&lane, &row, None).await.unwrap();
        let targets: Vec<&str> = events.iter().map(|event| event.target.as_str()).collect();
        assert_eq!(targets, [target]);
    }
}
