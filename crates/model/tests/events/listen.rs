//! Clients that listen hear what happens at all nodes.

use std::time::Duration;

use archipel_access::Acl;
use archipel_model::{Condition, Error, EventListener, Governance, Interest, Model, Versioning};
use tokio::time::Instant;

use crate::nodes::{Nodes, nodes, nodes_with, pair, put, rule, target};

const ALL: [&str; 4] = [
    "s3:ObjectCreated:*",
    "s3:ObjectRemoved:*",
    "s3:ObjectTagging:*",
    "s3:LifecycleExpiration:*",
];

async fn listen(model: &Model, nodes: &Nodes, prefix: &str) -> EventListener {
    let interest = Interest {
        bucket: Some(nodes.bucket.id),
        events: ALL.map(str::to_owned).to_vec(),
        prefix: prefix.into(),
        suffix: String::new(),
    };
    model.listen_to_events("ann", interest).await.unwrap()
}

/// Returns the names and tags of the events that come until nothing came for some seconds.
async fn heard(listener: &mut EventListener) -> Vec<(String, String)> {
    let mut heard = Vec::new();
    let patience = Duration::from_secs(20);
    while let Ok(events) = tokio::time::timeout(patience, listener.next(10)).await {
        assert!(!events.is_empty(), "the listener was slow");
        heard.extend(events.iter().map(|event| {
            let etag = event.etag.clone().unwrap_or_default();
            (event.name.clone(), etag)
        }));
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn changes_at_all_nodes_are_heard_at_any() {
    for at in 0..3 {
        let nodes = nodes(Versioning::Never, target(1000, false)).await;
        let mut all = listen(&nodes.models[at], &nodes, "").await;
        let mut some = listen(&nodes.models[at], &nodes, "other").await;
        for node in 0..3 {
            nodes.put(node, "key", &node.to_string()).await.unwrap();
            // The next node may tell earlier what happens later.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        put(&nodes.models[1], &nodes.bucket, "other", "3")
            .await
            .unwrap();
        let deleted = nodes.models[2].delete_object(&nodes.bucket, "key", Condition::Always);
        deleted.await.unwrap();
        let created = "s3:ObjectCreated:Put";
        let mut wanted: Vec<_> = ["0", "1", "2", "3"].map(|n| pair(created, n)).to_vec();
        wanted.push(pair("s3:ObjectRemoved:Delete", ""));
        let mut got = heard(&mut all).await;
        assert_eq!(got[..3], wanted[..3]);
        got.sort();
        assert_eq!(got, wanted);
        assert_eq!(heard(&mut some).await, [pair(created, "3")]);
        assert_eq!(nodes.models[at].event_listeners(), 2);
        drop((all, some));
        assert_eq!(nodes.models[at].event_listeners(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn versions_are_named() {
    let nodes = nodes(Versioning::Enabled, target(1000, false)).await;
    let mut listener = listen(&nodes.models[2], &nodes, "").await;
    let (model, bucket) = (&nodes.models[0], &nodes.bucket);
    let first = nodes.put(0, "key", "1").await.unwrap().id;
    let tags = vec![("a".to_owned(), "1".to_owned())];
    model
        .set_object_tags(bucket, "key", Some(first), tags, &|_| Ok(()))
        .await
        .unwrap();
    let marker = model.delete_object(bucket, "key", Condition::Always).await;
    let marker = marker.unwrap().id.unwrap();
    let delete =
        || model.delete_version(bucket, "key", first, Governance::Respect, Condition::Always);
    delete().await.unwrap();
    // It is gone already.
    delete().await.unwrap();
    let mut got = Vec::new();
    while let Ok(events) = tokio::time::timeout(Duration::from_secs(9), listener.next(1)).await {
        got.extend(events);
    }
    let seen: Vec<_> = got
        .iter()
        .map(|event| (event.name.as_str(), event.version.clone().unwrap()))
        .collect();
    let (first, marker) = (first.to_string(), marker.to_string());
    let wanted = [
        ("s3:ObjectCreated:Put", first.clone()),
        ("s3:ObjectTagging:Put", first.clone()),
        ("s3:ObjectRemoved:DeleteMarkerCreated", marker),
        ("s3:ObjectRemoved:Delete", first),
    ];
    assert_eq!(seen, wanted);
    assert!(got.iter().all(|event| event.sequencer.len() == 32));
    assert!(got.iter().all(|event| event.bucket_id == bucket.id));
    assert_eq!(got[1].etag.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn changes_of_tags_and_access_control_lists_tell_the_entity_tag() {
    for versioning in [Versioning::Never, Versioning::Enabled] {
        let mut rule = rule("hook", None);
        rule.events = ["s3:ObjectTagging:*", "s3:ObjectAcl:Put"]
            .map(str::to_owned)
            .to_vec();
        let nodes = nodes_with(versioning, vec![target(1000, false)], vec![rule]).await;
        nodes.put(0, "key", "1").await.unwrap();
        let (model, bucket) = (&nodes.models[1], &nodes.bucket);
        let tags = vec![("a".to_owned(), "1".to_owned())];
        let tagged = model.set_object_tags(bucket, "key", None, tags, &|_| Ok(()));
        tagged.await.unwrap();
        let listed = model.set_object_acl(bucket, "key", None, Acl::default(), &|_| Ok(()));
        listed.await.unwrap();
        nodes.settle().await;
        let told = [
            pair("s3:ObjectTagging:Put", "1"),
            pair("s3:ObjectAcl:Put", "1"),
        ];
        assert_eq!(nodes.got(), told, "{versioning:?}");
    }
}

/// A listener is told after the change, so a bucket without such rules pays no read.
#[tokio::test(start_paused = true)]
async fn only_the_event_of_a_target_costs_a_read() {
    let mut times = Vec::new();
    for asked in ["s3:ObjectCreated:*", "s3:ObjectTagging:*"] {
        let mut rule = rule("hook", None);
        rule.events = vec![asked.to_owned()];
        let nodes = nodes_with(Versioning::Never, vec![target(1000, false)], vec![rule]).await;
        let mut listener = listen(&nodes.models[1], &nodes, "").await;
        nodes.put(0, "key", "1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let tags = vec![("a".to_owned(), "1".to_owned())];
        let begun = Instant::now();
        let tagged = nodes.models[1].set_object_tags(&nodes.bucket, "key", None, tags, &|_| Ok(()));
        tagged.await.unwrap();
        times.push(begun.elapsed());
        let told = heard(&mut listener).await;
        let tagged = pair("s3:ObjectTagging:Put", "1");
        assert!(told.contains(&tagged), "{told:?}");
    }
    assert!(times[0] < times[1], "{times:?}");
}

/// The event tells the tag of the object that is changed, not of one that another write replaced.
#[tokio::test(start_paused = true)]
async fn entity_tag_is_that_of_the_object_whose_tags_change() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    nodes.put(0, "key", "1").await.unwrap();
    let (model, bucket) = (&nodes.models[1], &nodes.bucket);
    let tags = vec![("a".to_owned(), "1".to_owned())];
    let tag = || model.set_object_tags(bucket, "key", None, tags.clone(), &|_| Ok(()));
    let (tagged, put) = tokio::join!(tag(), nodes.put(0, "key", "2"));
    put.unwrap();
    if !matches!(tagged, Err(Error::Unavailable(_))) {
        tagged.unwrap();
    } else {
        // It is not known which object got the tags.
        tag().await.unwrap();
    }
    nodes.settle().await;
    let head = model.head_object(bucket, "key").await.unwrap();
    let got = nodes.got();
    let tagged = if head.tags.is_empty() { "1" } else { "2" };
    assert!(
        got.contains(&pair("s3:ObjectTagging:Put", tagged)),
        "{got:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_write_is_not_heard() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    let mut listener = listen(&nodes.models[1], &nodes, "").await;
    nodes.put(0, "key", "1").await.unwrap();
    let writer = nodes.models[0].begin_object(&nodes.bucket, "key").unwrap();
    let refused = writer
        .finish(crate::nodes::meta("2"), crate::nodes::if_none())
        .await;
    assert_eq!(refused, Err(Error::PreconditionFailed));
    let created = "s3:ObjectCreated:Put";
    assert_eq!(heard(&mut listener).await, [pair(created, "1")]);
}

/// The other nodes keep events for a while.
#[tokio::test(start_paused = true)]
async fn events_of_a_short_cut_are_heard_afterwards() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    let mut listener = listen(&nodes.models[0], &nodes, "").await;
    nodes.world.isolate(0);
    nodes.put(1, "key", "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(12)).await;
    nodes.world.network.end_all_cuts();
    let created = "s3:ObjectCreated:Put";
    assert_eq!(heard(&mut listener).await, [pair(created, "1")]);
}

#[tokio::test(start_paused = true)]
async fn dead_node_keeps_no_one_from_listening() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    nodes.world.kill(1);
    let mut listener = listen(&nodes.models[0], &nodes, "").await;
    nodes.put(2, "key", "1").await.unwrap();
    let created = "s3:ObjectCreated:Put";
    assert_eq!(heard(&mut listener).await, [pair(created, "1")]);
}

/// The first listener left, and the other nodes keep nothing any more.
#[tokio::test(start_paused = true)]
async fn later_listener_hears_only_what_happens_later() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    drop(listen(&nodes.models[0], &nodes, "").await);
    nodes.put(1, "key", "1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    nodes.put(1, "key", "2").await.unwrap();
    let mut listener = listen(&nodes.models[0], &nodes, "").await;
    nodes.put(1, "key", "3").await.unwrap();
    let created = "s3:ObjectCreated:Put";
    assert_eq!(heard(&mut listener).await, [pair(created, "3")]);
}
