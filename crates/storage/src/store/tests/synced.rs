//! Blocks are on stable storage before a commit names them, whichever upload wrote them and however durable
//! the commit is.

use std::sync::atomic::Ordering;

use super::blocks::{appender, content, is_readable, set, with_blocks, write};
use super::*;
use crate::disk::{Disk, DiskFault, DiskOp};
use crate::engine::Durability;
use crate::error::Error;

/// Returns the blocks of the stored version of the row `a`.
fn blocks_of_a(store: &Store) -> Option<Vec<crate::row::BlockRef>> {
    let row = block_on(store.read(|rows| rows.row(&key("a")))).unwrap();
    Some(row?.value?.payload.blocks().to_vec())
}

/// An upload breaks off before its sync, and the row arrives in another way.
#[test]
fn a_commit_syncs_blocks_that_their_uploader_did_not_sync() {
    for kept in [Some(Durability::Fsync), Some(Durability::Buffered), None] {
        let parts = Parts::new();
        let store = parts.open();
        let (upload, blocks) = appender(&store, &[1, 2]);
        let durability = kept.unwrap_or(Durability::Buffered);
        set(&store, "a", with_blocks(1, blocks.clone()), durability);
        drop((upload, store));
        parts.engine.crash_after(usize::from(kept.is_some()));
        parts.disk.crash(None);
        let store = parts.open();
        assert_eq!(blocks_of_a(&store), kept.map(|_| blocks.clone()));
        for block in &blocks {
            assert_eq!(is_readable(&store, block), kept.is_some(), "{kept:?}");
        }
        assert_clean(&store);
    }
}

/// A power cut keeps any prefix of the buffered commits. An overwritten row keeps its old or its
/// new version, whole.
#[test]
fn a_power_cut_leaves_the_old_or_the_new_version_of_a_row_whole() {
    for kept in 0..=2 {
        let parts = Parts::new();
        let store = parts.open();
        let old = write(&store, "a", 1, &[1]);
        let (upload, new) = appender(&store, &[2]);
        set(
            &store,
            "a",
            with_blocks(2, new.clone()),
            Durability::Buffered,
        );
        drop(upload);
        set(&store, "b", row(1, "metadata"), Durability::Buffered);
        assert_eq!(parts.engine.unsynced_commits(), 2);
        drop(store);
        parts.engine.crash_after(kept);
        parts.disk.crash(None);
        let store = parts.open();
        let (there, gone) = if kept == 0 { (old, new) } else { (new, old) };
        assert_eq!(blocks_of_a(&store), Some(there.clone()), "{kept} kept");
        assert!(is_readable(&store, &there[0]), "{kept} kept");
        assert!(!is_readable(&store, &gone[0]), "{kept} kept");
        assert_clean(&store);
    }
}

/// The cost: one flush of a segment for all blocks of a batch, and none for synced blocks.
#[test]
fn a_batch_syncs_the_blocks_of_all_its_transactions_once() {
    let parts = Parts::new();
    let store = parts.open();
    let before = parts.disk.fsyncs();
    let (first, blocks) = appender(&store, &[1, 2, 3]);
    block_on(first.sync()).unwrap();
    let synced = parts.disk.fsyncs();
    set(&store, "a", with_blocks(1, blocks), Durability::Buffered);
    assert_eq!(parts.disk.fsyncs(), synced, "they were synced already");
    let (_second, blocks) = appender(&store, &[4, 5, 6]);
    let both = store.transact(Durability::Buffered, move |txn| {
        txn.set(&key("b"), &with_blocks(1, blocks[..2].to_vec()))?;
        txn.set(&key("c"), &with_blocks(1, blocks[2..].to_vec()))
    });
    block_on(both).unwrap();
    // One sync made the segment, one the first upload, one the commit.
    assert_eq!(parts.disk.fsyncs() - before, 3);
    assert_eq!(store.counters().syncs.load(Ordering::SeqCst), 0);
}

#[test]
fn a_transaction_changes_nothing_if_its_blocks_cannot_be_synced() {
    for durability in [Durability::Fsync, Durability::Buffered] {
        let parts = Parts::new();
        let store = parts.open();
        let (_upload, blocks) = appender(&store, &[1]);
        parts.disk.inject(DiskFault {
            op: Some(DiskOp::Sync),
            after: 0,
            errno: libc::EIO,
        });
        let row_of_a = with_blocks(1, blocks);
        let failed = block_on(store.transact(durability, move |txn| txn.set(&key("a"), &row_of_a)));
        assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
        assert_eq!(blocks_of_a(&store), None);
        // The disk failed, the engine did not.
        set(&store, "b", row(1, "metadata"), Durability::Fsync);
        assert!(block_on(store.status()).unwrap().read_only.is_none());
    }
}

/// Such a block counts as missing until it lies on another disk.
#[test]
fn a_new_row_cannot_refer_to_a_block_on_a_failed_disk() {
    let parts = Parts::new();
    let second = Arc::new(MemoryDisk::new());
    let mut options = parts.options();
    options.disks.push(DiskConfig::new(2, second.clone()));
    second.set_capacity(Some(0));
    let store = Store::open(options).unwrap();
    let blocks = write(&store, "a", 1, &[1]);
    assert_eq!(block_on(store.missing_blocks(blocks.clone())).unwrap(), []);
    second.set_capacity(None);
    parts.disk.inject(DiskFault {
        op: Some(DiskOp::Sync),
        after: 0,
        errno: libc::EIO,
    });
    let (other, _) = appender(&store, &[2]);
    if block_on(other.sync()).is_ok() {
        // The block went to the second disk. The first disk has nothing to sync yet.
        second.set_capacity(Some(0));
        let (other, _) = appender(&store, &[3]);
        assert!(block_on(other.sync()).is_err());
        second.set_capacity(None);
    }
    let again = with_blocks(1, blocks.clone());
    let transact =
        |row: Row| block_on(store.transact(Durability::Fsync, move |txn| txn.set(&key("b"), &row)));
    let refused = transact(again.clone());
    assert!(matches!(refused, Err(Error::NoBlock(_))), "{refused:?}");
    let missing = block_on(store.missing_blocks(blocks.clone())).unwrap();
    assert_eq!(missing, blocks);
    let upload = store.appender();
    block_on(upload.append(content(1))).unwrap();
    assert_eq!(block_on(store.missing_blocks(blocks.clone())).unwrap(), []);
    transact(again).unwrap();
    assert!(is_readable(&store, &blocks[0]));
    assert_clean(&store);
}
