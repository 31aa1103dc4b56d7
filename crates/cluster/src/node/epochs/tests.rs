//! Requests that arrive while an epoch is being learnt, and epochs that cannot be learnt.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archipel_base::PartitionId;
use archipel_storage::engine::Engine;
use archipel_storage::engine::memory::{Fault, MemoryEngine};
use archipel_storage::store::{StoreOptions, Threads};
use archipel_storage::{Error, ListQuery};
use bytes::Bytes;

use crate::cluster::Cluster;
use crate::layout::Epoch;
use crate::memory::{World, seeded_options};
use crate::node::options::Hooks;

/// A node must refuse the older epoch before the newer one is durable. With a slow disk this takes
/// a while.
#[tokio::test(start_paused = true)]
async fn listing_waits_while_an_epoch_is_being_learnt() {
    let world = World::new(3, 3, Duration::from_millis(5), 1, Hooks::NONE)
        .await
        .unwrap();
    let node = world.nodes[0].clone();
    let epochs = &node.epochs;
    let mut next = (*epochs.current().unwrap()).clone();
    next.config.epoch += 1;

    let learning = epochs.learning.lock().await;
    epochs.fence.fetch_max(next.number(), Ordering::SeqCst);
    let lists = node.clone();
    let query = ListQuery::new(PartitionId(0), Bytes::new());
    let listing = tokio::spawn(async move { lists.list(query).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!listing.is_finished());
    *epochs.current.write() = Some(Arc::new(next));
    drop(learning);
    assert_eq!(listing.await.unwrap().unwrap().entries.len(), 0);
}

/// Returns a node alone, its engine, and an epoch that follows its own.
async fn node_and_next() -> (Cluster, Arc<MemoryEngine>, Epoch) {
    let engine = Arc::new(MemoryEngine::new());
    let options = StoreOptions {
        engine: engine.clone(),
        ..seeded_options(1, Threads::Own).unwrap()
    };
    let node = Cluster::alone(options, Hooks::NONE).await.unwrap();
    let mut next = (*node.epochs.current().unwrap()).clone();
    next.config.epoch += 1;
    (node, engine, next)
}

async fn listed(node: &Cluster) -> usize {
    let query = ListQuery::new(PartitionId(0), Bytes::new());
    node.list(query).await.unwrap().entries.len()
}

/// A node that refused the older epoch for good would answer nothing until its next start.
#[tokio::test]
async fn an_epoch_that_could_not_be_stored_is_learnt_later() {
    let (node, engine, next) = node_and_next().await;
    engine.inject(Fault {
        after_commits: 0,
        error: Error::Full("the disk is full".into()),
    });
    node.learn(next.clone()).await.unwrap_err();
    assert_eq!((node.epochs.number(), node.epochs.in_force()), (1, 1));
    assert_eq!(listed(&node).await, 0);
    node.learn(next).await.unwrap();
    assert_eq!((node.epochs.number(), node.epochs.in_force()), (2, 2));
    assert_eq!(listed(&node).await, 0);
}

/// The request that made a node learn an epoch may end before the epoch is durable.
#[tokio::test]
async fn an_epoch_is_learnt_although_its_caller_goes_away() {
    let (node, engine, next) = node_and_next().await;
    let busy = engine.write().unwrap();
    let mut learning = Box::pin(node.learn(next));
    assert!(futures_util::poll!(&mut learning).is_pending());
    drop(learning);
    drop(busy);
    let learnt = async {
        while node.epochs.in_force() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), learnt)
        .await
        .unwrap();
    assert_eq!(listed(&node).await, 0);
}

/// The write of an intent does not go out in an earlier epoch than the intent tells.
#[tokio::test]
async fn an_intent_tells_the_epoch_in_force() {
    let (node, _engine, next) = node_and_next().await;
    let learning = node.epochs.learning.lock().await;
    node.epochs.fence.fetch_max(next.number(), Ordering::SeqCst);
    assert_eq!(node.announce().await.unwrap().epoch, 1);
    drop(learning);
}
