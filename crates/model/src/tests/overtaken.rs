//! GC drops content while the node that wrote it is cut off.

use std::time::Duration;

use archipel_base::{Id, PartitionId};
use archipel_cluster::World;

use super::*;
use crate::rowkeys;

const LATENCY: Duration = Duration::from_millis(2);

/// One replica held the row of a part, the upload was aborted, and GC dropped the part. When the
/// link was back, the part's writer wrote the row again.
#[tokio::test(start_paused = true)]
async fn a_part_that_was_dropped_is_not_written_again() {
    let world = World::new(5, 3, LATENCY, 1, crate::HOOKS).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        models.push(Model::open(node.clone()).await.unwrap());
    }
    let bucket = models[0].create_bucket("bucket", None).await.unwrap();
    let upload = models[0].create_upload(&bucket, "key", None, UploadMeta::default());
    let upload = upload.await.unwrap();
    let parts = upload.name_in(&bucket.id).parts();
    let holds = |node: usize, partition: PartitionId| {
        let local = world.nodes[node].local_partitions(None);
        local.contains(&partition)
    };
    let partition =
        |number| rowkeys::part(&world.nodes[0], &parts, number, &Id::default()).partition;
    let object = rowkeys::object(&world.nodes[0], &bucket.id, "key").partition;
    // The node that runs GC for the upload holds the part.
    let places = (1..100).flat_map(|number| (1..5).map(move |node| (number, node)));
    let (number, holder) = places
        .into_iter()
        .find(|(number, node)| {
            let part = partition(*number);
            !holds(0, part) && holds(*node, part) && holds(*node, object)
        })
        .expect("a part that the first node does not hold");

    let mut writer = models[0].begin_part(&bucket, &upload, number).unwrap();
    writer.write(noise(1, 100)).await.unwrap();
    for late in (1..5).filter(|node| *node != holder) {
        world.network.cut(world.ids[0], world.ids[late]);
    }
    let finish = tokio::spawn(writer.finish(PartMeta::default()));
    tokio::time::sleep(4 * LATENCY).await;
    world.isolate(0);
    let abort = models[1].abort_upload(&bucket, "key", &upload.id);
    abort.await.unwrap();
    let mut dropped = 0;
    for _ in 0..10 {
        for model in &models[1..] {
            dropped += model.run_all_gc_tasks().await.unwrap().dropped;
        }
        if dropped > 0 {
            break;
        }
    }
    assert_eq!(dropped, 1, "the part that one replica holds");
    world.network.end_all_cuts();
    let written = finish.await.unwrap();
    assert!(written.is_err(), "{written:?}");
    let left = models[1]
        .sent_parts(&bucket, "key", &upload.id, &|_| true)
        .await;
    assert_eq!(left, Ok(Vec::new()));
}

/// One replica held an object, another PUT of its key was faster, and GC dropped the tail. When the
/// link was back, the first PUT wrote the row again: it was acknowledged, and its tail was gone.
#[tokio::test(start_paused = true)]
async fn an_object_whose_tail_was_dropped_is_not_written_again() {
    let world = World::new(5, 3, LATENCY, 1, crate::HOOKS).await.unwrap();
    let mut models = Vec::new();
    for node in &world.nodes {
        let options = ModelOptions {
            extent_blocks: 1,
            ..ModelOptions::default()
        };
        let opened = Model::open_with(node.clone(), options);
        models.push(opened.await.unwrap());
    }
    let bucket = models[0].create_bucket("bucket", None).await.unwrap();
    let holders = |key: &str| -> Vec<usize> {
        let object = rowkeys::object(&world.nodes[0], &bucket.id, key).partition;
        let holds = |node: &usize| {
            let local = world.nodes[*node].local_partitions(None);
            local.contains(&object)
        };
        (0..5).filter(holds).collect()
    };
    let keys = (1..100).map(|number| format!("key {number}"));
    let key = keys.into_iter().find(|key| !holders(key).contains(&0));
    let key = key.expect("an object that the first node does not hold");

    let mut writer = models[0].begin_object(&bucket, &key).unwrap();
    // The last block is an extent of its own. It is committed before the object's row.
    writer.write(noise(1, 2 * BLOCK_BYTES)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for late in &holders(&key)[1..] {
        world.network.cut(world.ids[0], world.ids[*late]);
    }
    let finish = tokio::spawn(writer.finish(meta("first"), Condition::Always));
    tokio::time::sleep(4 * LATENCY).await;
    world.isolate(0);
    // Both may write within one millisecond. Then the names of the nodes would decide which is
    // later.
    world.set_clock_ahead(1, Duration::from_millis(10));
    put(&models[1], &bucket, &key, noise(2, 10)).await;
    let mut dropped = 0;
    for _ in 0..10 {
        for model in &models[1..] {
            dropped += model.run_all_gc_tasks().await.unwrap().dropped;
        }
        if dropped > 0 {
            break;
        }
    }
    assert_eq!(dropped, 1, "the tail of the object that one replica held");
    world.network.end_all_cuts();
    let written = finish.await.unwrap();
    assert!(written.is_err(), "{written:?}");
    assert_eq!(get(&models[1], &bucket, &key).await, Ok(noise(2, 10)));
}
