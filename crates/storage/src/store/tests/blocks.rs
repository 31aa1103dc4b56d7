//! Rows and blocks together: pins, buffered blocks, rebuild of the index.

use std::ops::Bound;
use std::sync::atomic::Ordering;

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

fn clear_index(parts: &Parts) {
    let mut txn = parts.engine.write().unwrap();
    for tree in [Tree::Blocks, Tree::Places] {
        let mut keys = Vec::new();
        let all = (Bound::Unbounded, Bound::Unbounded);
        txn.scan(tree, all, Direction::Ascending, &mut |key, _| {
            keys.push(key.to_vec());
            Ok(Flow::Continue)
        })
        .unwrap();
        keys.iter()
            .for_each(|key| assert!(txn.delete(tree, key).unwrap()));
    }
    txn.commit(Durability::Fsync).unwrap();
}

#[test]
fn a_rebuilt_index_has_exact_references() {
    let parts = Parts::new();
    let store = parts.open();
    let mut blocks = write(&store, "a", 1, &[1, 2, 1]);
    blocks.extend(write(&store, "b", 1, &[2, 3]));
    write(&store, "c", 1, &[4]);
    let gone = key("c");
    block_on(store.transact(Durability::Fsync, move |txn| txn.forget(&gone))).unwrap();
    block_on(store.close()).unwrap();
    drop(store);
    clear_index(&parts);
    let rebuilt = block_on(Store::rebuild_blocks(parts.options(), &Arc::default())).unwrap();
    assert_eq!((rebuilt.references, rebuilt.missing), (5, 0));
    assert_eq!(rebuilt.found.blocks - rebuilt.dropped, 3);
    let store = parts.open();
    assert!(blocks.iter().all(|block| is_readable(&store, block)));
    assert_clean(&store);
}

/// The disk has lost a block that two rows refer to. The index counts them, so that a copy that comes later
/// stays as long as one of them does.
#[test]
fn a_rebuilt_index_counts_references_to_lost_blocks() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1]);
    write(&store, "b", 1, &[1]);
    block_on(store.close()).unwrap();
    drop(store);
    clear_index(&parts);
    let empty = Parts {
        disk: Arc::new(MemoryDisk::new()),
        ..parts
    };
    let rebuilt = block_on(Store::rebuild_blocks(empty.options(), &Arc::default())).unwrap();
    assert_eq!((rebuilt.references, rebuilt.missing), (0, 2));
    let store = empty.open();
    assert!(!is_readable(&store, &blocks[0]));
    // A new row needs a block that is here.
    let row = with_blocks(1, blocks.clone());
    let refused = block_on(store.transact(Durability::Fsync, move |txn| txn.set(&key("c"), &row)));
    assert!(matches!(refused, Err(Error::NoBlock(_))), "{refused:?}");
    // The same content is put again.
    write(&store, "a", 2, &[1]);
    assert!(is_readable(&store, &blocks[0]));
    assert_clean(&store);
    for (name, readable) in [("b", true), ("a", false)] {
        let key = key(name);
        block_on(store.transact(Durability::Fsync, move |txn| txn.forget(&key))).unwrap();
        assert_eq!(is_readable(&store, &blocks[0]), readable, "{name}");
    }
    assert_clean(&store);
}

/// A row whose block is lost moves to another key, as an older version of an object does.
#[test]
fn a_row_without_its_block_can_be_taken_over() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1]);
    block_on(store.close()).unwrap();
    drop(store);
    clear_index(&parts);
    let empty = Parts {
        disk: Arc::new(MemoryDisk::new()),
        ..parts
    };
    block_on(Store::rebuild_blocks(empty.options(), &Arc::default())).unwrap();
    let store = empty.open();
    let moved = with_blocks(1, blocks.clone());
    let newer = row(2, "newer");
    let moves = move |txn: &mut crate::rows::RowTxn<'_>| {
        txn.take_over(&key("kept"), &moved)?;
        txn.set(&key("a"), &newer)
    };
    block_on(store.transact(Durability::Fsync, moves)).unwrap();
    let found = block_on(store.read(|rows| rows.row(&key("kept")))).unwrap();
    assert_eq!(found, Some(with_blocks(1, blocks.clone())));
    // Its content comes back, and stays.
    drop(appender(&store, &[1]));
    assert!(is_readable(&store, &blocks[0]));
    assert_clean(&store);
}

#[test]
fn a_store_opens_only_after_an_interrupted_rebuild_is_repeated() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1, 2]);
    drop(store);
    // Interrupt the rebuild at each of its commits in turn.
    for after_commits in 1.. {
        parts.engine.inject(crate::engine::memory::Fault {
            after_commits,
            error: Error::Io("on purpose".into()),
        });
        let ended = block_on(Store::rebuild_blocks(parts.options(), &Arc::default())).is_ok();
        if ended {
            assert!(after_commits > 2, "no commit failed");
            break;
        }
        parts.crash();
        let refused = Store::open(parts.options()).map(|_| ());
        assert!(
            matches!(&refused, Err(Error::Refused(why)) if why.contains("rebuild")),
            "{after_commits}: {refused:?}"
        );
    }
    parts.engine.inject(crate::engine::memory::Fault {
        after_commits: u64::MAX,
        error: Error::Io("never".into()),
    });
    let store = parts.open();
    assert!(blocks.iter().all(|block| is_readable(&store, block)));
    assert_clean(&store);
    assert_eq!(store.counters().commits.load(Ordering::SeqCst), 0);
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
