//! Batches: the number of commits, and the effects of a failure.

use std::sync::atomic::Ordering;

use super::held::HeldEngine;
use super::*;
use crate::engine::Durability;
use crate::engine::memory::Fault;
use crate::error::Error;

pub(super) fn set(
    name: String,
) -> impl FnOnce(&mut crate::rows::RowTxn<'_>) -> Result<()> + Send + 'static {
    move |txn| txn.set(&key(&name), &row(1, "metadata"))
}

/// Opens a store whose engine holds commits: one transaction is held in its commit, and `count` wait behind
/// it.
pub(super) async fn held(
    engine: &Arc<HeldEngine>,
    limits: Limits,
    durability: impl Fn(usize) -> Durability,
    count: usize,
) -> (Store, Vec<tokio::task::JoinHandle<Result<()>>>) {
    let parts = Parts::new();
    let options = parts.threaded(engine.clone());
    let open = move || Store::open(StoreOptions { limits, ..options });
    let store = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    engine.set_open(false);
    let before = engine.commits();
    let first = tokio::spawn({
        let store = store.clone();
        async move { store.transact(Durability::Fsync, set("first".into())).await }
    });
    while engine.commits() == before {
        tokio::task::yield_now().await;
    }
    let mut tasks = vec![first];
    for i in 0..count {
        let (store, durability) = (store.clone(), durability(i));
        tasks.push(tokio::spawn(async move {
            store.transact(durability, set(format!("key {i}"))).await
        }));
    }
    (store, tasks)
}

pub(super) async fn all_waiting(store: &Store, count: usize) {
    while store.0.committer.waiting() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn waiting_transactions_share_one_commit() {
    let engine = HeldEngine::new();
    let (store, tasks) = held(&engine, Limits::default(), |_| Durability::Fsync, 500).await;
    all_waiting(&store, 500).await;
    let before = engine.commits();
    engine.set_open(true);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(engine.commits() - before, 1, "500 transactions, one commit");
    assert_eq!(store.counters().transactions.load(Ordering::SeqCst), 501);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_batch_has_a_maximum_size() {
    let engine = HeldEngine::new();
    let limits = Limits {
        batch_transactions: 10,
        ..Limits::default()
    };
    let (store, tasks) = held(&engine, limits, |_| Durability::Fsync, 95).await;
    all_waiting(&store, 95).await;
    let before = engine.commits();
    engine.set_open(true);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(engine.commits() - before, 10);
}

#[tokio::test]
async fn one_durable_transaction_makes_its_batch_durable() {
    for durable in [Some(7), None] {
        let engine = HeldEngine::new();
        let one = move |i| {
            if durable == Some(i) {
                Durability::Fsync
            } else {
                Durability::Buffered
            }
        };
        let (store, tasks) = held(&engine, Limits::default(), one, 50).await;
        all_waiting(&store, 50).await;
        let before = engine.durable_commits.load(Ordering::SeqCst);
        engine.set_open(true);
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let commits = engine.durable_commits.load(Ordering::SeqCst) - before;
        assert_eq!(commits, u64::from(durable.is_some()));
        assert_eq!(store.counters().commits.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn a_transaction_runs_even_if_its_caller_goes_away() {
    let engine = HeldEngine::new();
    let (store, tasks) = held(&engine, Limits::default(), |_| Durability::Fsync, 3).await;
    all_waiting(&store, 3).await;
    tasks.iter().for_each(|task| task.abort());
    engine.set_open(true);
    store.close().await.unwrap();
    let found = store
        .read(|rows| rows.metadata(&key("key 2")))
        .await
        .unwrap();
    assert!(found.is_some());
}

type Closure = Box<dyn FnOnce(&mut crate::rows::RowTxn<'_>) -> Result<()> + Send>;

/// Runs the given transactions as one batch.
async fn together(store: &Store, engine: &HeldEngine, closures: Vec<Closure>) -> Vec<Result<()>> {
    let count = closures.len();
    engine.set_open(false);
    let before = engine.commits();
    let holder = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .transact(Durability::Fsync, set("holder".into()))
                .await
        }
    });
    while engine.commits() == before {
        tokio::task::yield_now().await;
    }
    let mut tasks = Vec::new();
    for (i, closure) in closures.into_iter().enumerate() {
        let mine = store.clone();
        tasks.push(tokio::spawn(async move {
            mine.transact(Durability::Fsync, closure).await
        }));
        all_waiting(store, i + 1).await;
    }
    assert_eq!(store.0.committer.waiting(), count);
    engine.set_open(true);
    holder.await.unwrap().unwrap();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

async fn held_store(engine: &Arc<HeldEngine>) -> Store {
    let options = Parts::new().threaded(engine.clone());
    let open = move || Store::open(options);
    tokio::task::spawn_blocking(open).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_failing_closure_does_not_affect_its_batch() {
    let engine = HeldEngine::new();
    let store = held_store(&engine).await;
    let results = together(
        &store,
        &engine,
        vec![
            Box::new(set("a".into())),
            Box::new(|txn| {
                set("b".into())(txn)?;
                txn.set(&key("a"), &row(9, "overwritten"))?;
                Err(Error::Refused("on purpose".into()))
            }),
            Box::new(|txn| {
                set("c".into())(txn)?;
                panic!("on purpose");
            }),
            Box::new(|txn| {
                // It sees the changes of earlier closures, but not those of failed ones.
                assert!(
                    txn.metadata(&key("a"))?
                        .is_some_and(|metadata| metadata.stamp == stamp(1))
                );
                assert!(txn.metadata(&key("b"))?.is_none() && txn.metadata(&key("c"))?.is_none());
                set("d".into())(txn)
            }),
        ],
    )
    .await;
    assert!(results[0].is_ok() && results[3].is_ok(), "{results:?}");
    assert!(matches!(&results[1], Err(Error::Refused(why)) if why == "on purpose"));
    assert!(matches!(&results[2], Err(Error::Refused(why)) if why.contains("panicked")));
    let found = store
        .read(|rows| {
            let there = |name| Ok(rows.metadata(&key(name))?.is_some());
            Ok([there("a")?, there("b")?, there("c")?, there("d")?])
        })
        .await
        .unwrap();
    assert_eq!(found, [true, false, false, true]);
    assert!(store.verify().await.unwrap().is_clean());
}

#[tokio::test]
async fn a_failed_commit_fails_only_its_own_batch() {
    let engine = HeldEngine::new();
    let store = held_store(&engine).await;
    engine.inner.inject(Fault {
        after_commits: 1,
        error: Error::Io("on purpose".into()),
    });
    let failing: Closure = Box::new(|_| {
        Err(Error::Refused(
            "a consequence of what was not committed".into(),
        ))
    });
    let closures = vec![Box::new(set("a".into())) as _, failing];
    let results = together(&store, &engine, closures).await;
    for result in &results {
        assert!(matches!(result, Err(Error::Io(_))), "{results:?}");
    }
    store
        .transact(Durability::Fsync, |txn| {
            assert_eq!(txn.era(), 1);
            assert!(txn.metadata(&key("a"))?.is_none());
            set("b".into())(txn)
        })
        .await
        .unwrap();
    assert!(store.verify().await.unwrap().is_clean());
}

#[test]
fn the_store_is_read_only_after_a_commit_of_unknown_outcome() {
    let parts = Parts::new();
    let store = parts.open();
    block_on(store.transact(Durability::Fsync, set("kept".into()))).unwrap();
    parts.engine.inject(Fault {
        after_commits: 0,
        error: Error::Failed("fsync: EIO".into()),
    });
    let failed = block_on(store.transact(Durability::Fsync, set("lost".into())));
    assert!(matches!(failed, Err(Error::Failed(_))));
    let refused = block_on(store.transact(Durability::Buffered, |_| Ok(())));
    assert!(matches!(refused, Err(Error::Failed(_))));
    assert!(metadata_of(&store, "kept").unwrap().is_some());
    let status = block_on(store.status()).unwrap();
    assert!(status.read_only.is_some_and(|why| why.contains("EIO")));
    assert!(block_on(store.close()).is_err());
}

#[test]
fn buffered_commits_are_synced_after_the_interval() {
    let parts = Parts::new();
    let store = parts.open();
    block_on(store.transact(Durability::Buffered, set("a".into()))).unwrap();
    parts.clock.advance(500);
    block_on(store.transact(Durability::Buffered, set("b".into()))).unwrap();
    assert_eq!(store.counters().syncs.load(Ordering::SeqCst), 0);
    parts.clock.advance(500);
    block_on(store.transact(Durability::Buffered, set("c".into()))).unwrap();
    assert_eq!(store.counters().syncs.load(Ordering::SeqCst), 1);
    block_on(store.transact(Durability::Buffered, set("d".into()))).unwrap();
    drop(store);
    parts.crash();
    let store = parts.open();
    let there = |name| metadata_of(&store, name).unwrap().is_some();
    assert_eq!(
        [there("a"), there("b"), there("c"), there("d")],
        [true, true, true, false]
    );
    assert_clean(&store);
}

/// An answer must not depend on a commit that a power cut can undo, even if the transaction changes
/// nothing.
#[test]
fn a_durable_transaction_without_changes_syncs_the_commits_it_read() {
    let parts = Parts::new();
    let store = parts.open();
    block_on(store.transact(Durability::Buffered, set("a".into()))).unwrap();
    let seen = block_on(store.transact(Durability::Fsync, |txn| txn.metadata(&key("a")))).unwrap();
    assert!(seen.is_some());
    drop(store);
    parts.crash();
    assert!(metadata_of(&parts.open(), "a").unwrap().is_some());
}

#[tokio::test]
async fn the_committer_syncs_without_a_call() {
    let parts = Parts::new();
    let mut options = parts.threaded(parts.engine.clone());
    options.limits.sync_interval = std::time::Duration::from_millis(1);
    let (clock, open) = (parts.clock.clone(), move || Store::open(options));
    let store = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    store
        .transact(Durability::Buffered, set("a".into()))
        .await
        .unwrap();
    clock.advance(10);
    while store.counters().syncs.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    store.close().await.unwrap();
}

/// A defect below the closures must not leave any caller waiting.
#[tokio::test]
async fn an_engine_panic_fails_its_batch_and_makes_the_store_read_only() {
    let engine = HeldEngine::new();
    let store = held_store(&engine).await;
    store
        .transact(Durability::Fsync, set("a".into()))
        .await
        .unwrap();
    engine.panics.store(true, Ordering::SeqCst);
    let failed = store.transact(Durability::Fsync, set("b".into())).await;
    assert!(matches!(failed, Err(Error::Failed(_))));
    let refused = store.transact(Durability::Fsync, set("c".into())).await;
    assert!(matches!(refused, Err(Error::Failed(_))));
    assert!(store.status().await.unwrap().read_only.is_some());
    assert!(
        store
            .read(|rows| rows.metadata(&key("a")))
            .await
            .unwrap()
            .is_some()
    );
}
