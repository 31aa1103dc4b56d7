//! Writes whose coordinator is cut off half-way, so that a minority accepts them.

use std::collections::BTreeSet;
use std::time::Duration;

use archipel_model::{VersionEntry, VersionQuery, Versioning};

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
