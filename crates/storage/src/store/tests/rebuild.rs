//! A rebuild of the index of blocks: from which disks, and for which rows.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use super::blocks::{appender, is_readable, with_blocks, write};
use super::*;
use crate::disk::Disk;
use crate::engine::{Direction, Durability, Flow, Tree};
use crate::error::Error;
use crate::store::Rebuilt;

fn rebuild(options: StoreOptions) -> Result<Rebuilt> {
    block_on(Store::rebuild_blocks(options, &Arc::default()))
}

fn close(store: Store) {
    block_on(store.close()).unwrap();
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

/// Closes a store, replaces its disk by an empty one, and rebuilds the index.
fn lose_disk(parts: Parts, store: Store) -> (Parts, Rebuilt) {
    close(store);
    let empty = Parts {
        disk: Arc::new(MemoryDisk::new()),
        ..parts
    };
    let rebuilt = rebuild(empty.options()).unwrap();
    (empty, rebuilt)
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
    close(store);
    clear_index(&parts);
    let rebuilt = rebuild(parts.options()).unwrap();
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
    let (empty, rebuilt) = lose_disk(parts, store);
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

/// A lost block has no place. So nothing is to be freed there, and nothing is left to the next start.
#[test]
fn a_lost_block_that_no_row_refers_to_any_more_leaves_nothing_over() {
    let parts = Parts::new();
    let store = parts.open();
    write(&store, "a", 1, &[1]);
    let (empty, rebuilt) = lose_disk(parts, store);
    assert_eq!(rebuilt.missing, 1);
    let store = empty.open();
    let gone = key("a");
    block_on(store.transact(Durability::Fsync, move |txn| txn.forget(&gone))).unwrap();
    block_on(store.close()).unwrap();
    assert!(store.blocks().startup_gc_is_done());
}

/// A row whose block is lost moves to another key, as an older version of an object does.
#[test]
fn a_row_without_its_block_can_be_taken_over() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1]);
    let (empty, _) = lose_disk(parts, store);
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
        if rebuild(parts.options()).is_ok() {
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

/// An operator took the disk for lost, and it comes back. The index names nothing on it, so that a start would
/// cut its last segment and free the others.
#[test]
fn a_disk_that_was_away_during_a_rebuild_comes_back_whole() {
    let parts = Parts::new();
    let second = Arc::new(MemoryDisk::new());
    let on_both = || {
        let mut options = parts.options();
        options.disks.push(DiskConfig::new(2, second.clone()));
        options
    };
    // The second disk is new when it is added.
    drop(parts.open());
    let store = Store::open(on_both()).unwrap();
    parts.disk.set_capacity(Some(0));
    let mut blocks = write(&store, "a", 1, &[1, 2]);
    parts.disk.set_capacity(None);
    second.set_capacity(Some(0));
    blocks.extend(write(&store, "b", 1, &[3]));
    second.set_capacity(None);
    drop(store);
    close(Store::open(on_both()).unwrap());

    let rebuilt = rebuild(parts.options()).unwrap();
    assert_eq!((rebuilt.references, rebuilt.missing), (1, 2));
    let before = second.allocated_total();
    assert!(before > 0);
    for start in 0..2 {
        let refused = Store::open(on_both()).map(|_| ());
        assert!(
            matches!(&refused, Err(Error::Refused(why)) if why.contains("disk 2")),
            "{start}: {refused:?}"
        );
        // Without it the store opens, with what was found.
        let store = parts.open();
        assert!(is_readable(&store, &blocks[2]) && !is_readable(&store, &blocks[0]));
    }
    assert_eq!(second.allocated_total(), before);

    let rebuilt = rebuild(on_both()).unwrap();
    assert_eq!((rebuilt.references, rebuilt.missing), (3, 0));
    let store = Store::open(on_both()).unwrap();
    assert!(blocks.iter().all(|block| is_readable(&store, block)));
    assert_clean(&store);
}

/// The metadata was not mounted, so that an empty store stands in its place. A rebuild would free each block as one
/// that nothing refers to.
#[test]
fn a_rebuild_for_other_metadata_frees_nothing() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1, 2]);
    close(store);
    let before = parts.disk.allocated_total();
    let engine = Arc::new(MemoryEngine::new());
    for round in 0..2 {
        let refused = rebuild(StoreOptions {
            engine: engine.clone(),
            identity: Some(Id([9; 16])),
            ..parts.options()
        });
        assert!(
            matches!(&refused, Err(Error::Refused(why)) if why.contains("metadata_dir")),
            "{round}: {refused:?}"
        );
    }
    assert_eq!(parts.disk.allocated_total(), before);
    let store = parts.open();
    assert!(blocks.iter().all(|block| is_readable(&store, block)));
    close(store);

    // A store takes the disk over if rows refer to its blocks.
    let mut txn = parts.engine.write().unwrap();
    txn.put(Tree::Meta, b"identity", &[8; 16]).unwrap();
    txn.commit(Durability::Fsync).unwrap();
    let refused = Store::open(parts.options()).map(|_| ());
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(rebuild(parts.options()).unwrap().references, 2);
    let store = parts.open();
    assert!(blocks.iter().all(|block| is_readable(&store, block)));
    let identity = parts.disk.read_state("disk").unwrap().unwrap();
    let identity = String::from_utf8(identity).unwrap();
    assert!(identity.contains(&Id([8; 16]).to_string()), "{identity}");
}
