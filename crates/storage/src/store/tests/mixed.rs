//! Reads beside a batch with durable and buffered transactions.

use std::sync::atomic::Ordering;

use super::batches::{all_waiting, held, set};
use super::held::HeldEngine;
use super::*;
use crate::engine::{Durability, Tree};
use crate::rows::codec;

/// A read may count on what it sees of a transaction that asked for `Fsync`, whichever transactions
/// share its batch, and whichever earlier commits wait for a sync. The cost stays one commit.
#[tokio::test]
async fn nobody_sees_an_fsync_transaction_before_it_is_durable() {
    let has = |engine: &MemoryEngine, name: &str| {
        let key = codec::row_key(&key(name)).unwrap();
        let txn = engine.read().unwrap();
        txn.get(Tree::Rows, &key).unwrap().is_some()
    };
    let engine = HeldEngine::new();
    let mixed = |i| match i {
        1 => Durability::Fsync,
        _ => Durability::Buffered,
    };
    let (store, tasks) = held(&engine, Limits::default(), mixed, 3).await;
    all_waiting(&store, 3).await;
    let lost = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let found = lost.clone();
    *engine.watch.lock() = Some(Box::new(move |engine| {
        // The copy is what a power cut would leave now.
        let left = engine.copy();
        for name in ["first", "key 1"] {
            if has(engine, name) && !has(&left, name) {
                found.lock().push(name);
            }
        }
    }));
    let (before, durable) = (
        engine.commits(),
        engine.durable_commits.load(Ordering::SeqCst),
    );
    engine.set_open(true);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    // A buffered commit waits for its sync, and an fsync transaction follows it.
    store
        .transact(Durability::Buffered, set("key 9".into()))
        .await
        .unwrap();
    assert_eq!(engine.inner.unsynced_commits(), 1);
    store
        .transact(Durability::Fsync, set("key 1".into()))
        .await
        .unwrap();
    assert_eq!(engine.inner.unsynced_commits(), 0);
    assert_eq!(*lost.lock(), Vec::<&str>::new());
    let durable = engine.durable_commits.load(Ordering::SeqCst) - durable;
    assert_eq!((engine.commits() - before, durable), (3, 2));
    assert_eq!(store.counters().syncs.load(Ordering::SeqCst), 0);
    store.close().await.unwrap();
}
