//! Rows and blocks together: pins, buffered blocks, verification.

use std::ops::Bound;

use super::*;
use crate::blocks::BlockAppender;
use crate::engine::{Direction, Durability, Flow, Tree};
use crate::error::Error;
use crate::row::{BlockRef, Payload};
use crate::rows::codec::Part;

pub(super) fn content(number: u8) -> Bytes {
    Bytes::from(vec![number; 10_000 + usize::from(number)])
}

pub(super) fn appender(store: &Store, numbers: &[u8]) -> (BlockAppender, Vec<BlockRef>) {
    let upload = store.appender();
    let append = |number: &u8| block_on(upload.append(content(*number))).unwrap();
    let blocks = numbers.iter().map(append).collect();
    (upload, blocks)
}

pub(super) fn with_payload(millis: u64, payload: Payload) -> Row {
    let mut row = row(millis, "metadata");
    if let Some(value) = &mut row.value {
        value.payload = payload;
    }
    row
}

pub(super) fn with_blocks(millis: u64, blocks: Vec<BlockRef>) -> Row {
    with_payload(millis, Payload::Blocks(blocks))
}

pub(super) fn set(store: &Store, name: &str, row: Row, durability: Durability) {
    let key = key(name);
    block_on(store.transact(durability, move |txn| txn.set(&key, &row))).unwrap();
}

pub(super) fn write(store: &Store, name: &str, millis: u64, numbers: &[u8]) -> Vec<BlockRef> {
    let (upload, blocks) = appender(store, numbers);
    block_on(upload.sync()).unwrap();
    set(
        store,
        name,
        with_blocks(millis, blocks.clone()),
        Durability::Fsync,
    );
    blocks
}

pub(super) fn is_readable(store: &Store, block: &BlockRef) -> bool {
    match block_on(store.read_block(block)) {
        Ok(content) => {
            assert_eq!(archipel_base::BlockHash::of(&content), block.hash);
            true
        }
        Err(Error::NoBlock(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_pin_keeps_blocks_readable_after_their_row_has_gone() {
    let store = Parts::new().open();
    let blocks = write(&store, "a", 1, &[1, 2, 1]);
    let (found, pin) = block_on(store.pin_payload(&key("a"))).unwrap().unwrap();
    assert_eq!(found, with_blocks(1, blocks.clone()));
    let tombstone = Row {
        value: None,
        ..row(2, "")
    };
    set(&store, "a", tombstone, Durability::Fsync);
    assert!(blocks.iter().all(|block| is_readable(&store, block)));
    drop(pin);
    assert!(!blocks.iter().any(|block| is_readable(&store, block)));
    let (found, _pin) = block_on(store.pin_payload(&key("a"))).unwrap().unwrap();
    assert_eq!(found.value, None);
    assert!(block_on(store.pin_payload(&key("b"))).unwrap().is_none());
    assert_clean(&store);
}

#[test]
fn a_block_is_freed_with_the_last_row_that_refers_to_it() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1]);
    assert_eq!(write(&store, "b", 1, &[1]), blocks);
    for (name, readable) in [("a", true), ("b", false)] {
        let key = key(name);
        block_on(store.transact(Durability::Fsync, move |txn| txn.forget(&key))).unwrap();
        assert_eq!(is_readable(&store, &blocks[0]), readable);
        assert_clean(&store);
    }
}

/// A power cut may bring back rows whose blocks a buffered commit released. So the blocks are not
/// freed before.
#[test]
fn buffered_commits_free_nothing_before_they_are_durable() {
    for dropped in [false, true] {
        let parts = Parts::new();
        let mut store = parts.open();
        let blocks = write(&store, "a", 1, &[1]);
        let key = key("a");
        block_on(store.transact(Durability::Buffered, move |txn| txn.forget(&key))).unwrap();
        if dropped {
            // The process ends without closing the store.
            drop(store);
            parts.crash();
            store = parts.open();
            assert!(is_readable(&store, &blocks[0]), "what was released is back");
        } else {
            assert!(is_readable(&store, &blocks[0]));
            block_on(store.sync()).unwrap();
            assert!(!is_readable(&store, &blocks[0]));
        }
        assert_clean(&store);
    }
}

#[test]
fn the_index_never_names_missing_blocks() {
    for later in ["sync", "durable commit", "durable, nothing changed"] {
        let parts = Parts::new();
        let store = parts.open();
        let (upload, blocks) = appender(&store, &[1, 2]);
        set(
            &store,
            "a",
            with_blocks(1, blocks.clone()),
            Durability::Buffered,
        );
        drop(upload);
        match later {
            "sync" => block_on(store.sync()).unwrap(),
            "durable commit" => set(&store, "b", row(1, "metadata"), Durability::Fsync),
            _ => block_on(store.transact(Durability::Fsync, |_| Ok(()))).unwrap(),
        }
        drop(store);
        parts.crash();
        let store = parts.open();
        assert!(metadata_of(&store, "a").unwrap().is_some(), "{later}");
        assert!(
            blocks.iter().all(|block| is_readable(&store, block)),
            "{later}"
        );
        assert_clean(&store);
    }
}

#[test]
fn a_failed_commit_of_unknown_outcome_frees_nothing() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1]);
    parts.engine.inject(crate::engine::memory::Fault {
        after_commits: 0,
        error: Error::Failed("fsync: EIO".into()),
    });
    let key = key("a");
    let failed = block_on(store.transact(Durability::Fsync, move |txn| txn.forget(&key)));
    assert!(matches!(failed, Err(Error::Failed(_))));
    assert!(is_readable(&store, &blocks[0]));
    drop(store);
    parts.crash();
    let store = parts.open();
    assert!(is_readable(&store, &blocks[0]));
    assert_clean(&store);
}

/// Such a commit may turn out to have happened.
#[test]
fn a_commit_of_unknown_outcome_keeps_the_blocks_it_refers_to() {
    let parts = Parts::new();
    let store = parts.open();
    let (upload, blocks) = appender(&store, &[1]);
    block_on(upload.sync()).unwrap();
    parts.engine.inject(crate::engine::memory::Fault {
        after_commits: 0,
        error: Error::Failed("fsync: EIO".into()),
    });
    let (key, row) = (key("a"), with_blocks(1, blocks.clone()));
    let failed = block_on(store.transact(Durability::Fsync, move |txn| txn.set(&key, &row)));
    assert!(matches!(failed, Err(Error::Failed(_))));
    drop((upload, store));
    parts.engine.crash_after(usize::MAX);
    parts.disk.crash(None);
    let store = parts.open();
    assert!(metadata_of(&store, "a").unwrap().is_some());
    assert!(is_readable(&store, &blocks[0]));
    assert_clean(&store);
}

#[test]
fn verification_finds_derived_keys_of_no_part() {
    let parts = Parts::new();
    let store = parts.open();
    set(&store, "a", row(1, "metadata"), Durability::Fsync);
    assert_clean(&store);
    for stray in [&[0, 3, 3][..], &[0, 3], &[0, 4, 255, 1]] {
        let mut txn = parts.engine.write().unwrap();
        txn.put(Tree::Derived, stray, b"").unwrap();
        txn.commit(Durability::Fsync).unwrap();
        assert_eq!(block_on(store.verify()).unwrap().problems, 1, "{stray:?}");
        let mut txn = parts.engine.write().unwrap();
        txn.delete(Tree::Derived, stray).unwrap();
        txn.commit(Durability::Fsync).unwrap();
    }
}

/// Makes each kind of damage, to show that a verification can fail.
#[test]
fn verification_finds_each_kind_of_damage() {
    let kinds = [
        (Tree::Rows, None),
        (Tree::Payloads, None),
        (Tree::Derived, Some(Part::Log)),
        (Tree::Derived, Some(Part::Windows)),
        (Tree::Derived, Some(Part::Counters)),
        (Tree::Blocks, None),
    ];
    for (tree, part) in kinds {
        let parts = Parts::new();
        let store = parts.open();
        let (upload, blocks) = appender(&store, &[1, 2]);
        block_on(upload.sync()).unwrap();
        let mut row = with_blocks(1, blocks);
        if let Some(value) = &mut row.value {
            value.usage = Some(crate::row::UsageDelta {
                group: Id([1; 16]),
                objects: 1,
                bytes: 2,
            });
        }
        set(&store, "a", row, Durability::Fsync);
        assert_clean(&store);
        let mut txn = parts.engine.write().unwrap();
        let mut first = None;
        let all = (Bound::Unbounded, Bound::Unbounded);
        txn.scan(tree, all, Direction::Ascending, &mut |key, _| {
            if part.is_some() && Part::of(key) != part {
                return Ok(Flow::Continue);
            }
            first = Some(key.to_vec());
            Ok(Flow::Stop)
        })
        .unwrap();
        txn.delete(tree, &first.unwrap()).unwrap();
        txn.commit(Durability::Fsync).unwrap();
        let report = block_on(store.verify()).unwrap();
        assert!(
            !report.is_clean(),
            "{tree:?} {part:?} may lose an entry unseen"
        );
    }
}
