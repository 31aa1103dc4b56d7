//! Opening and closing: the boot number, the identity, the clean marker, the format.

use super::*;
use crate::blocks::BlockAppender;
use crate::disk::{DiskFault, DiskOp};
use crate::engine::{Durability, EngineKind, EngineOptions, Tree};
use crate::error::Error;
use crate::store::boot::{self, FORMAT, Purpose};

fn meta(parts: &Parts, key: &[u8]) -> Option<Vec<u8>> {
    let txn = parts.engine.read().unwrap();
    let value = txn.get(Tree::Meta, key).unwrap();
    value.map(|value| value.into_owned())
}

#[test]
fn each_opening_counts_a_boot_and_keeps_the_identity() {
    let parts = Parts::new();
    let first = parts.open();
    assert_eq!(first.boot(), 1);
    let (identity, writer) = (first.identity(), first.writer());
    assert_ne!(identity, Id::default());
    drop(first);
    // The count is durable before any other work, so a crash cannot repeat a number.
    parts.crash();
    let second = parts.open();
    assert_eq!(second.boot(), 2);
    assert_eq!(second.identity(), identity);
    assert_ne!(second.writer(), writer);
}

#[test]
fn only_a_closed_store_starts_clean() {
    let parts = Parts::new();
    let start = || boot::begin(&parts.options(), Purpose::Serve).unwrap().start;
    assert_eq!(start(), crate::blocks::Start::Unclean);
    assert_eq!(start(), crate::blocks::Start::Unclean);
    let store = parts.open();
    block_on(store.close()).unwrap();
    parts.crash();
    assert_eq!(meta(&parts, b"clean"), Some(3u64.to_be_bytes().to_vec()));
    assert_eq!(start(), crate::blocks::Start::Clean);
    assert_eq!(meta(&parts, b"clean"), None);
    parts.crash();
    assert_eq!(start(), crate::blocks::Start::Unclean);
}

#[test]
fn closing_keeps_buffered_commits_and_refuses_later_ones() {
    let parts = Parts::new();
    let store = parts.open();
    let set = |txn: &mut crate::rows::RowTxn<'_>| txn.set(&key("a"), &row(1, "metadata"));
    block_on(store.transact(Durability::Buffered, set)).unwrap();
    block_on(store.close()).unwrap();
    let refused = block_on(store.transact(Durability::Fsync, |_| Ok(())));
    assert!(matches!(refused, Err(Error::Failed(_))));
    parts.crash();
    assert!(metadata_of(&parts.open(), "a").unwrap().is_some());
}

#[test]
fn a_store_of_another_format_is_refused_and_unchanged() {
    for format in [FORMAT - 1, FORMAT + 1] {
        let parts = Parts::new();
        drop(parts.open());
        let mut txn = parts.engine.write().unwrap();
        txn.put(Tree::Meta, b"format", &format.to_be_bytes())
            .unwrap();
        txn.commit(Durability::Fsync).unwrap();
        let refused = Store::open(parts.options()).map(|_| ());
        assert!(
            matches!(&refused, Err(Error::Refused(why)) if why.contains(&format!("format {format}"))),
            "{refused:?}"
        );
        assert_eq!(meta(&parts, b"boot"), Some(1u64.to_be_bytes().to_vec()));
    }
}

#[test]
fn a_configured_identity_is_stored_once_and_checked_later() {
    let parts = Parts::new();
    let open = |identity| {
        Store::open(StoreOptions {
            identity: Some(Id([identity; 16])),
            ..parts.options()
        })
    };
    assert_eq!(open(7).unwrap().identity(), Id([7; 16]));
    assert!(matches!(open(8).map(|_| ()), Err(Error::Refused(_))));
    assert_eq!(open(7).unwrap().boot(), 2);
}

#[test]
fn a_store_works_on_every_engine() {
    for kind in EngineKind::ALL {
        let folder = tempfile::tempdir().unwrap();
        let parts = Parts::new();
        for boot in 1..4 {
            let options = EngineOptions::default();
            let engine = crate::engine::open(kind, folder.path(), &options).unwrap();
            let store = Store::open(StoreOptions {
                engine,
                ..parts.options()
            })
            .unwrap();
            assert_eq!(store.boot(), boot);
            let written = format!("boot {boot}");
            let name = written.clone();
            let set =
                move |txn: &mut crate::rows::RowTxn<'_>| txn.set(&key(&name), &row(boot, "h"));
            block_on(store.transact(Durability::Fsync, set)).unwrap();
            assert!(metadata_of(&store, "boot 1").unwrap().is_some());
            assert!(metadata_of(&store, &written).unwrap().is_some());
            assert_clean(&store);
            block_on(store.close()).unwrap();
        }
    }
}

/// Begins an upload that fills three segments.
fn long_upload(store: &Store) -> BlockAppender {
    let upload = store.appender();
    for first in 0..3u8 {
        let content = Bytes::from([vec![first], vec![0; 700_000]].concat());
        block_on(upload.append(content)).unwrap();
    }
    upload
}

/// The upload goes on in the background, as that of a client that went away does. Nobody frees its blocks.
#[test]
fn a_store_that_is_closed_during_an_upload_starts_unclean() {
    let parts = Parts::new();
    let store = parts.open();
    let upload = long_upload(&store);
    block_on(store.close()).unwrap();
    assert_eq!(meta(&parts, b"clean"), None);
    // The process ends.
    std::mem::forget((upload, store));
    drop(parts.open());
    assert_eq!(parts.disk.allocated_total(), 0);
}

/// A disk refuses to free what an upload left. The store is closed well otherwise.
#[test]
fn a_store_whose_dead_blocks_are_not_freed_starts_unclean() {
    let parts = Parts::new();
    let store = parts.open();
    let upload = long_upload(&store);
    // The process ends without giving anything back.
    std::mem::forget((upload, store));
    parts.disk.inject(DiskFault {
        op: Some(DiskOp::Unlink),
        after: 0,
        errno: libc::EIO,
    });
    for clean in [None, Some(3u64.to_be_bytes().to_vec())] {
        let store = parts.open();
        assert_eq!(store.blocks().startup_gc_is_done(), clean.is_some());
        block_on(store.close()).unwrap();
        assert_eq!(meta(&parts, b"clean"), clean);
    }
    assert_eq!(parts.disk.allocated_total(), 0);
}
