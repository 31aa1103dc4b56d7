//! Completions in a bucket that keeps versions: each upload becomes one version, or none.

use std::collections::BTreeSet;
use std::ops::Bound;

use archipel_base::{PartitionId, Stamp};
use archipel_cluster::split_kept;
use archipel_model::{Governance, VersionId, Versioning};
use archipel_storage::RowReader;
use archipel_storage::engine::Flow;

use super::*;

/// Returns three nodes with an upload of one part, into a bucket that keeps versions.
async fn versioned() -> Nodes {
    let mut nodes = nodes().await;
    let model = &nodes.models[0];
    model
        .set_versioning(&nodes.bucket, Versioning::Enabled)
        .await
        .unwrap();
    nodes.bucket = model.find_bucket("bucket").await.unwrap().unwrap();
    nodes
}

impl Nodes {
    /// Returns the names of all versions of which a replica has a kept row.
    async fn kept(&self) -> BTreeSet<Stamp> {
        let mut names = BTreeSet::new();
        for node in &self.world.nodes {
            let scan = |rows: &RowReader<'_>| {
                let mut found = Vec::new();
                for partition in (0..1024).map(PartitionId) {
                    rows.scan_metadata(partition, b"v", Bound::Unbounded, &mut |key, _| {
                        found.extend(split_kept(key).and_then(|(_, name)| name));
                        Ok(Flow::Continue)
                    })?;
                }
                Ok(found)
            };
            names.extend(node.store().look_up(scan).await.unwrap());
        }
        names
    }

    /// Returns the number of living versions that are the upload, as one node shows them.
    async fn completed(&self, node: usize) -> usize {
        let model = &self.models[node];
        let mut names = self.kept().await;
        let current = model.head_object(&self.bucket, "key").await;
        names.extend(current.ok().and_then(|head| head.id.at()));
        let mut completed = 0;
        for name in names {
            let head = model.head_version(&self.bucket, "key", VersionId::At(name));
            match head.await {
                Ok(head) => completed += usize::from(head.etag == "multi"),
                Err(error) => assert_eq!(error, Error::NoSuchVersion),
            }
        }
        completed
    }

    async fn end_cuts(&self) {
        self.world.network.end_all_cuts();
        tokio::time::sleep(Duration::from_secs(60)).await;
        self.run_gc().await;
    }
}

/// The only replica that accepted the completion is away while another node completes the upload.
/// The first attempt used to come back with that replica as a second version.
#[tokio::test(start_paused = true)]
async fn a_completion_that_comes_back_with_its_replica_is_no_second_version() {
    let nodes = versioned().await;
    let completion = nodes.completed_by_a_minority(Condition::Always).await;
    completion.abort();
    nodes.put(1, "put").await.unwrap();
    nodes.complete(2, Condition::Always).await.unwrap();
    nodes.end_cuts().await;
    for node in 0..3 {
        assert_eq!(nodes.completed(node).await, 1, "node {node}");
        assert_eq!(nodes.etag(node).await.unwrap(), "multi");
        assert_eq!(nodes.listed(node).await, Err(Error::NoSuchUpload));
    }
}

/// The same, but the upload is only looked at. It is in progress, so it must be no version.
#[tokio::test(start_paused = true)]
async fn an_upload_that_is_in_progress_again_is_no_version() {
    let nodes = versioned().await;
    let completion = nodes.completed_by_a_minority(Condition::Always).await;
    completion.abort();
    nodes.put(1, "put").await.unwrap();
    assert_eq!(nodes.listed(1).await, Ok(1));
    nodes.end_cuts().await;
    for node in 0..3 {
        assert_eq!(nodes.completed(node).await, 0, "node {node}");
        assert_eq!(nodes.listed(node).await, Ok(1));
    }
    nodes.complete(0, Condition::Always).await.unwrap();
    assert_eq!(nodes.completed(1).await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_aborted_upload_is_no_version() {
    let nodes = versioned().await;
    let completion = nodes.completed_by_a_minority(Condition::Always).await;
    completion.abort();
    nodes.put(1, "put").await.unwrap();
    nodes.abort(1).await.unwrap();
    nodes.end_cuts().await;
    for node in 0..3 {
        assert_eq!(nodes.completed(node).await, 0, "node {node}");
        assert_eq!(nodes.listed(node).await, Err(Error::NoSuchUpload));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_completion_into_versions_leaves_the_upload_as_it_was() {
    let nodes = versioned().await;
    nodes.put(1, "put").await.unwrap();
    for node in 0..3 {
        let refused = nodes.complete(node, if_none()).await;
        assert_eq!(refused, Err(Error::PreconditionFailed));
        assert_eq!(nodes.listed(node).await, Ok(1));
    }
    nodes.complete(2, Condition::Always).await.unwrap();
    assert_eq!(nodes.completed(0).await, 1);
}

/// A coordinator crashes at every moment of a completion, with or without its replica, while others
/// put, complete, abort or look.
#[tokio::test(start_paused = true)]
async fn an_upload_becomes_one_version_at_most_wherever_its_coordinator_crashes() {
    for moment in 1..=9 {
        for others in 0..5 {
            let nodes = versioned().await;
            let completion = nodes.completing(0, Condition::Always);
            tokio::time::sleep(LATENCY / 3 * moment).await;
            nodes.world.isolate(0);
            completion.abort();
            if others != 1 {
                nodes.put(1, "put").await.unwrap();
            }
            let again = match others {
                0 | 1 => nodes.complete(2, Condition::Always).await.is_ok(),
                2 => nodes.abort(2).await.is_err(),
                3 => nodes.listed(1).await.is_err(),
                _ => false,
            };
            nodes.end_cuts().await;
            let completed = nodes.completed(1).await;
            let case = format!("moment {moment}, others {others}");
            assert!(completed <= 1, "{case}");
            match nodes.listed(2).await {
                Ok(_) => assert_eq!(completed, 0, "{case}"),
                Err(error) => assert_eq!(error, Error::NoSuchUpload, "{case}"),
            }
            if again && others < 2 {
                assert_eq!(completed, 1, "{case}");
            }
            for node in 0..3 {
                assert_eq!(
                    nodes.completed(node).await,
                    completed,
                    "{case}, node {node}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_completions_at_once_one_makes_a_version() {
    for round in 0..8 {
        let nodes = versioned().await;
        let completions = [0, 1, 2].map(|node| {
            let completing = nodes.completing(node, Condition::Always);
            (node, completing)
        });
        tokio::time::sleep(LATENCY / 4 * round).await;
        let mut done = 0;
        for (node, completion) in completions {
            match completion.await.unwrap() {
                Ok(_) => done += 1,
                Err(Error::NoSuchUpload | Error::Unavailable(_)) => {}
                Err(error) => panic!("node {node}: {error}"),
            }
        }
        nodes.end_cuts().await;
        let completed = nodes.completed(0).await;
        assert!(done <= completed && completed <= 1, "round {round}");
        if nodes.listed(1).await.is_ok() {
            assert_eq!(completed, 0);
            nodes.complete(1, Condition::Always).await.unwrap();
            assert_eq!(nodes.completed(2).await, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_into_versions_takes_two_rounds() {
    let nodes = versioned().await;
    let begun = tokio::time::Instant::now();
    nodes.complete(0, Condition::Always).await.unwrap();
    assert_eq!(begun.elapsed().as_millis() / LATENCY.as_millis(), 4);
}

/// One replica accepted the deletion of a noncurrent version, and a PUT was chosen instead. GC of that replica dropped
/// the version's content, because the listing that it went by showed the tombstone, and no other replica had one.
#[tokio::test(start_paused = true)]
async fn a_version_keeps_its_content_if_its_deletion_takes_no_effect() {
    let nodes = versioned().await;
    nodes.complete(0, Condition::Always).await.unwrap();
    let id = nodes.models[0]
        .head_object(&nodes.bucket, "key")
        .await
        .unwrap()
        .id;
    nodes.put(1, "2").await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    nodes.run_gc().await;

    let (model, bucket) = (nodes.models[0].clone(), nodes.bucket.clone());
    let deletion = tokio::spawn(async move {
        let deleted =
            model.delete_version(&bucket, "key", id, Governance::Respect, Condition::Always);
        deleted.await
    });
    tokio::time::sleep(2 * LATENCY + LATENCY / 2).await;
    nodes.world.isolate(0);
    deletion.abort();
    assert_ne!(
        nodes.models[0].gc_tasks().await.unwrap(),
        0,
        "the replica has not accepted it"
    );
    nodes.put(1, "3").await.unwrap();
    nodes.world.network.end_all_cuts();
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..2 {
        nodes.models[0].run_all_gc_tasks().await.unwrap();
    }
    nodes.world.kill(0);
    tokio::time::sleep(Duration::from_secs(60)).await;
    match nodes.models[1].open_version(&nodes.bucket, "key", id).await {
        // The deletion has taken effect after all.
        Err(Error::NoSuchVersion) => {}
        Err(error) => panic!("{error}"),
        Ok(reader) => {
            let (mut stream, mut length) = (reader.stream(0..u64::MAX), 0);
            while let Some(piece) = stream.next().await {
                length += piece.unwrap().len();
            }
            assert_eq!(length, 5 << 20);
        }
    }
}
