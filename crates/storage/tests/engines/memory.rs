//! The effects of a crash and of an injected fault on the in-memory engine.

use archipel_base::random::SeededRandom;
use archipel_storage::Error;
use archipel_storage::engine::memory::{Fault, MemoryEngine};
use archipel_storage::engine::{Durability, Engine, Tree};

use crate::fixture::keys as all_keys;

fn commit(engine: &MemoryEngine, key: u8, durability: Durability) -> Result<(), Error> {
    let mut txn = engine.write()?;
    txn.put(Tree::Rows, &[key], b"")?;
    txn.commit(durability)
}

fn keys(engine: &MemoryEngine) -> Vec<u8> {
    let all = all_keys(engine, Tree::Rows);
    all.into_iter().map(|key| key[0]).collect()
}

#[test]
fn a_crash_undoes_unsynced_commits() {
    let engine = MemoryEngine::new();
    commit(&engine, 1, Durability::Fsync).unwrap();
    commit(&engine, 2, Durability::Buffered).unwrap();
    assert_eq!(keys(&engine), [1, 2]);
    engine.crash();
    assert_eq!(keys(&engine), [1]);
    commit(&engine, 3, Durability::Buffered).unwrap();
    commit(&engine, 4, Durability::Fsync).unwrap();
    commit(&engine, 5, Durability::Buffered).unwrap();
    engine.sync().unwrap();
    commit(&engine, 6, Durability::Buffered).unwrap();
    engine.crash();
    assert_eq!(keys(&engine), [1, 3, 4, 5]);
}

/// Over many seeds a prefix always survives, and every prefix occurs.
#[test]
fn a_crash_may_keep_any_prefix() {
    let mut seen = [false; 4];
    for seed in 0..100 {
        let engine = MemoryEngine::new();
        commit(&engine, 0, Durability::Fsync).unwrap();
        for key in 1..4 {
            commit(&engine, key, Durability::Buffered).unwrap();
        }
        assert_eq!(engine.unsynced_commits(), 3);
        engine.crash_keeping(&SeededRandom::new(seed));
        let kept = keys(&engine);
        assert_eq!(kept, (0..kept.len() as u8).collect::<Vec<_>>());
        seen[kept.len() - 1] = true;
        // A commit that survived a crash is on stable storage.
        engine.crash();
        assert_eq!(keys(&engine), kept);
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn a_transaction_from_before_a_crash_does_not_commit() {
    let engine = MemoryEngine::new();
    let mut txn = engine.write().unwrap();
    txn.put(Tree::Rows, b"x", b"").unwrap();
    engine.crash();
    assert!(txn.commit(Durability::Fsync).is_err());
    assert!(keys(&engine).is_empty());
    commit(&engine, 1, Durability::Fsync).unwrap();
}

#[test]
fn an_injected_fault_hits_only_the_chosen_commit() {
    let engine = MemoryEngine::new();
    engine.inject(Fault {
        after_commits: 1,
        error: Error::Full("no room".into()),
    });
    commit(&engine, 1, Durability::Fsync).unwrap();
    let refused = commit(&engine, 2, Durability::Fsync);
    assert!(matches!(refused, Err(Error::Full(_))));
    commit(&engine, 3, Durability::Fsync).unwrap();
    assert_eq!(keys(&engine), [1, 3]);
}

#[test]
fn a_final_failure_stops_writes_until_a_crash() {
    let engine = MemoryEngine::new();
    commit(&engine, 1, Durability::Fsync).unwrap();
    engine.inject(Fault {
        after_commits: 0,
        error: Error::Failed("the disk is gone".into()),
    });
    for _ in 0..2 {
        let failed = commit(&engine, 2, Durability::Fsync);
        assert!(matches!(failed, Err(Error::Failed(_))));
    }
    assert!(matches!(engine.sync(), Err(Error::Failed(_))));
    assert_eq!(keys(&engine), [1]);
    engine.crash();
    commit(&engine, 3, Durability::Fsync).unwrap();
}

#[test]
fn an_injected_sync_fault_fails_the_sync() {
    let engine = MemoryEngine::new();
    commit(&engine, 1, Durability::Buffered).unwrap();
    engine.inject_sync(Error::Failed("EIO".into()));
    assert!(matches!(engine.sync(), Err(Error::Failed(_))));
    assert!(commit(&engine, 2, Durability::Fsync).is_err());
    engine.crash();
    assert!(keys(&engine).is_empty());
}
