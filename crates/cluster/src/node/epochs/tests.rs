//! Requests that arrive while an epoch is being learnt.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archipel_base::PartitionId;
use archipel_storage::ListQuery;
use bytes::Bytes;

use crate::memory::World;
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
