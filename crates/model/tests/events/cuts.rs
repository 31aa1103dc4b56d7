//! Writes whose coordinator is cut off half-way, so that a minority accepts them.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use archipel_model::{Cause, Condition, Error, VersionEntry, VersionQuery, Versioning};

use crate::nodes::{LATENCY, Nodes, nodes, put, target};

impl Nodes {
    /// Begins a write at a node that is cut off from the others after some time, and crashes.
    async fn put_cut_off(&self, node: usize, etag: &'static str, after: Duration) {
        let (model, bucket) = (self.models[node].clone(), self.bucket.clone());
        let write = tokio::spawn(async move { put(&model, &bucket, "key", etag).await });
        tokio::time::sleep(after).await;
        self.world.isolate(node);
        write.abort();
    }

    /// Returns the tags of the versions of the key that live.
    async fn living(&self, node: usize) -> BTreeSet<String> {
        let query = VersionQuery {
            prefix: "key".into(),
            limit: 100,
            ..VersionQuery::default()
        };
        let listing = self.models[node].list_versions(&self.bucket, &query).await;
        let mut living = BTreeSet::new();
        for entry in listing.unwrap().entries {
            let VersionEntry::Version { head, .. } = entry else {
                continue;
            };
            let found = self.models[node].head_version(&self.bucket, "key", head.id);
            if found.await.is_ok() {
                living.insert(head.etag);
            }
        }
        living
    }

    fn told(&self) -> BTreeSet<String> {
        self.got().into_iter().map(|(_, etag)| etag).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn versions_that_live_are_told_and_no_others() {
    let mut minorities_that_lived = 0;
    for cut in 0..3 {
        for moment in [1, 2] {
            for reads in [false, true] {
                let nodes = nodes(Versioning::Enabled, target(1000, false)).await;
                nodes.put(0, "key", "0").await.unwrap();
                nodes.put_cut_off(cut, "1", LATENCY / 2 * moment).await;
                let other = (cut + 1) % 3;
                nodes.put(other, "key", "2").await.unwrap();
                nodes.world.network.end_all_cuts();
                if reads {
                    // A reader makes the fate of the version final.
                    nodes.living(other).await;
                }
                nodes.settle().await;
                let (told, living) = (nodes.told(), nodes.living(other).await);
                assert_eq!(told, living, "{cut} at {moment}, reads: {reads}");
                minorities_that_lived += usize::from(living.contains("1"));
            }
        }
    }
    assert_ne!(minorities_that_lived, 0);
}

/// A replica that is silent could know that a write was never accepted. It is waited for.
#[tokio::test(start_paused = true)]
async fn fate_of_a_write_waits_for_a_silent_replica() {
    for cut in 0..3 {
        let nodes = nodes(Versioning::Never, target(1000, false)).await;
        nodes.put(0, "key", "0").await.unwrap();
        tokio::time::sleep(Duration::from_secs(15)).await;
        nodes.put_cut_off(cut, "1", LATENCY / 10).await;
        let (other, silent) = ((cut + 1) % 3, (cut + 2) % 3);
        // Virtual time leaves clocks alone: in the same millisecond, the lost write could be newer.
        nodes.pass(Duration::from_secs(1));
        nodes.put(other, "key", "2").await.unwrap();
        nodes.world.network.end_all_cuts();
        nodes.world.isolate(silent);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(!nodes.told().contains("1"), "{cut}: {:?}", nodes.told());
        nodes.world.network.end_all_cuts();
        nodes.settle().await;
        assert_eq!(nodes.told(), ["0", "2"].map(str::to_owned).into(), "{cut}");
    }
}

/// A node that has not heard of versions deletes the object, and a reader completes that. A listing gives the key the
/// delete marker that it lacks: no lifecycle rule ran, and the client that lists did not delete anything.
#[tokio::test(start_paused = true)]
async fn delete_marker_that_a_listing_adds_is_told_as_a_removal_by_nobody() {
    let nodes = nodes(Versioning::Never, target(1000, false)).await;
    let (first, late) = (&nodes.models[0], &nodes.models[2]);
    // Stamps tolerate it.
    let ahead = Duration::from_secs(50);
    nodes.world.set_clock_ahead(2, ahead);
    nodes.world.isolate(2);
    let enabled = first.set_versioning(&nodes.bucket, Versioning::Enabled);
    let bucket = enabled.await.unwrap();
    first.refresh_all().await.unwrap();
    put(first, &bucket, "key", "1").await.unwrap();
    let deleted = late.delete_object(&nodes.bucket, "key", Condition::Always);
    assert!(deleted.await.is_err());

    nodes.world.network.end_all_cuts();
    nodes.world.isolate(1);
    while late.refresh_all().await.is_err() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let read = late.head_object(&bucket, "key").await;
    assert_eq!(read, Err(Error::NoSuchKey));
    nodes.world.network.end_all_cuts();
    nodes.pass(ahead);

    let cause = Cause {
        principal: OnceLock::from("ann".to_owned()),
        ..Cause::default()
    };
    let query = VersionQuery {
        prefix: "key".into(),
        limit: 100,
        ..VersionQuery::default()
    };
    let lists = first.with_cause(cause);
    let list = async || lists.list_versions(&bucket, &query).await.unwrap().entries;
    for _ in 0..60 {
        if list().await.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(list().await.len(), 2, "{:?}", list().await);
    nodes.settle().await;
    let got = nodes.receiver.got.lock();
    let marked = "s3:ObjectRemoved:DeleteMarkerCreated";
    let marked: Vec<_> = got.iter().filter(|event| event.name == marked).collect();
    assert!(!marked.is_empty(), "{got:?}");
    assert!(marked.iter().all(|event| event.principal.is_none()));
}
