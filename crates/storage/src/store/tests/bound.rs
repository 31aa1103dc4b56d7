//! Values are bound to their place: to their tree and key, and a payload to its row's stamp. Values
//! of a later release are left alone.

use std::collections::BTreeSet;

use super::blocks::{appender, content, set, with_blocks, with_payload};
use super::*;
use crate::checksum::crc32c_of;
use crate::engine::{Durability, Result, Tree};
use crate::error::Error;
use crate::row::{Payload, UsageDelta};
use crate::rows::{Checked, Granularity, ListQuery, codec};

fn get(engine: &dyn Engine, tree: Tree, key: &[u8]) -> Vec<u8> {
    let txn = engine.read().unwrap();
    txn.get(tree, key).unwrap().unwrap().into_owned()
}

fn put(engine: &dyn Engine, tree: Tree, key: &[u8], value: &[u8]) {
    let mut txn = engine.write().unwrap();
    txn.put(tree, key, value).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

fn encoded(name: &str) -> Vec<u8> {
    codec::row_key(&key(name)).unwrap()
}

fn read(store: &Store, name: &str) -> Result<Option<Row>> {
    let key = key(name);
    block_on(store.read(move |rows| rows.row(&key)))
}

fn check(store: &Store) -> Result<Checked> {
    let (partition, blocks) = (key("a").partition, store.blocks().clone());
    block_on(store.read(move |rows| rows.check(partition, &blocks)))
}

fn damaged(store: &Store) -> Vec<RowKey> {
    check(store).unwrap().damaged
}

fn long(byte: u8) -> Payload {
    Payload::Inline(Bytes::from(vec![byte; 3000]))
}

/// As a page with a wrong key, or with a wrong pointer to a value, would show it.
#[test]
fn a_value_under_another_key_is_damaged() {
    for tree in [Tree::Rows, Tree::Payloads] {
        let parts = Parts::new();
        let store = parts.open();
        // Only their keys tell the two rows apart.
        for name in ["a", "b"] {
            set(&store, name, with_payload(1, long(1)), Durability::Fsync);
        }
        let value = get(&*parts.engine, tree, &encoded("a"));
        put(&*parts.engine, tree, &encoded("b"), &value);
        let found = read(&store, "b");
        assert!(
            matches!(found, Err(Error::Damaged(_))),
            "{tree:?}: {found:?}"
        );
        assert!(read(&store, "a").unwrap().is_some());
        assert_eq!(damaged(&store), [key("b")]);
        assert_eq!(block_on(store.verify()).unwrap().damaged, [key("b")]);
    }
    let parts = Parts::new();
    let store = parts.open();
    set(&store, "a", row(1, "metadata"), Durability::Fsync);
    let value = get(&*parts.engine, Tree::Rows, &encoded("a"));
    put(&*parts.engine, Tree::Rows, &encoded("phantom"), &value);
    let query = ListQuery::new(key("a").partition, Bytes::new());
    let page = block_on(store.read(move |rows| rows.list(&query))).unwrap();
    assert_eq!(page.entries.len(), 1);
    assert_eq!(page.damaged, [key("phantom").key]);
}

/// As a disk that lost one of the two writes would show it. The repair brings the right payload.
#[test]
fn a_payload_of_another_version_of_its_row_is_damaged() {
    let parts = Parts::new();
    let store = parts.open();
    set(&store, "a", with_payload(1, long(1)), Durability::Fsync);
    let old = get(&*parts.engine, Tree::Payloads, &encoded("a"));
    set(&store, "a", with_payload(2, long(2)), Durability::Fsync);
    let new = get(&*parts.engine, Tree::Payloads, &encoded("a"));
    put(&*parts.engine, Tree::Payloads, &encoded("a"), &old);
    let found = read(&store, "a");
    assert!(matches!(found, Err(Error::Damaged(_))), "{found:?}");
    assert_eq!(damaged(&store), [key("a")]);
    let restore = || {
        let restore = store.transact(Durability::Fsync, |txn| {
            txn.restore_payload(&key("a"), &long(2))
        });
        block_on(restore).unwrap()
    };
    assert_eq!((restore(), restore()), (true, false));
    assert_eq!(get(&*parts.engine, Tree::Payloads, &encoded("a")), new);
    assert_clean(&store);
}

/// The blocks that such a payload mentions are not the row's: the row does not release them.
#[test]
fn blocks_of_a_foreign_payload_are_not_released() {
    let parts = Parts::new();
    let store = parts.open();
    let (upload, blocks) = appender(&store, &[1]);
    set(
        &store,
        "a",
        with_blocks(1, blocks.clone()),
        Durability::Fsync,
    );
    set(&store, "b", with_payload(1, long(1)), Durability::Fsync);
    drop(upload);
    let value = get(&*parts.engine, Tree::Payloads, &encoded("a"));
    put(&*parts.engine, Tree::Payloads, &encoded("b"), &value);
    set(&store, "b", row(2, "metadata"), Durability::Fsync);
    assert_eq!(block_on(store.read_block(&blocks[0])).unwrap(), content(1));
    assert_clean(&store);
}

/// A promise raises no stamp, and a version written again under a higher stamp keeps its payload.
#[test]
fn promises_and_settled_versions_keep_their_payload_readable() {
    let parts = Parts::new();
    let store = parts.open();
    set(&store, "a", with_payload(1, long(1)), Durability::Fsync);
    let promise = store.transact(Durability::Fsync, |txn| txn.promise(&key("a"), stamp(5)));
    block_on(promise).unwrap();
    assert_eq!(read(&store, "a").unwrap().unwrap().promised, stamp(5));
    let settled = Row {
        promised: stamp(6),
        stamp: stamp(6),
        ..read(&store, "a").unwrap().unwrap()
    };
    set(&store, "a", settled.clone(), Durability::Fsync);
    assert_eq!(read(&store, "a").unwrap(), Some(settled));
    assert_clean(&store);
}

/// Makes the value one of version 2, whole.
fn make_newer(engine: &dyn Engine, tree: Tree, key: &[u8]) -> Vec<u8> {
    let mut value = get(engine, tree, key);
    value[0] = 2;
    let end = value.len() - 4;
    let length = (key.len() as u16).to_be_bytes();
    let sum = crc32c_of(&[&[tree as u8], &length, key, &value[..end]]);
    value[end..].copy_from_slice(&sum.to_be_bytes());
    put(engine, tree, key, &value);
    value
}

/// It is neither counted as damage nor replaced, and nothing is said that depends on it.
#[test]
fn a_value_of_a_later_release_is_reported_and_left_alone() {
    for tree in [Tree::Rows, Tree::Payloads] {
        let parts = Parts::new();
        let store = parts.open();
        let (_upload, blocks) = appender(&store, &[1]);
        for name in ["a", "b"] {
            set(
                &store,
                name,
                with_blocks(1, blocks.clone()),
                Durability::Fsync,
            );
        }
        let value = make_newer(&*parts.engine, tree, &encoded("a"));
        let newer = |error: Error| {
            let text = error.to_string();
            assert!(matches!(error, Error::Newer(_)), "{tree:?}: {text}");
            assert!(text.contains("a newer Archipel wrote this"), "{text}");
            assert!(
                text.contains("of version 2; this release reads version 1"),
                "{text}"
            );
        };
        let partition = key("a").partition;
        newer(read(&store, "a").unwrap_err());
        newer(check(&store).unwrap_err());
        newer(block_on(store.verify()).unwrap_err());
        let replace = |txn: &mut crate::RowTxn<'_>| txn.set(&key("a"), &row(9, "metadata"));
        newer(block_on(store.transact(Durability::Fsync, replace)).unwrap_err());
        let forget = store.transact(Durability::Fsync, |txn| txn.forget(&key("a")));
        newer(block_on(forget).unwrap_err());
        let restore = |txn: &mut crate::RowTxn<'_>| txn.restore_payload(&key("a"), &long(1));
        newer(block_on(store.transact(Durability::Fsync, restore)).unwrap_err());
        if tree == Tree::Rows {
            let query = ListQuery::new(partition, Bytes::new());
            newer(block_on(store.read(move |rows| rows.list(&query))).unwrap_err());
        } else {
            let wanted = BTreeSet::from([blocks[0].hash]);
            newer(block_on(store.read(move |rows| rows.mentions(None, &wanted))).unwrap_err());
            let surplus = vec![blocks[0].hash];
            let release = move |txn: &mut crate::RowTxn<'_>| txn.release_surplus(&surplus);
            newer(block_on(store.transact(Durability::Fsync, release)).unwrap_err());
        }
        assert_eq!(get(&*parts.engine, tree, &encoded("a")), value);
        assert!(read(&store, "b").unwrap().is_some());
    }
}

/// Windows and counters that are damaged, or wrong under a right checksum, are counted again.
#[test]
fn damaged_windows_and_counters_are_counted_again() {
    let group = Id([1; 16]);
    let counted = |millis: u64, bytes: u64| {
        let mut row = row(millis, "metadata");
        let usage = UsageDelta {
            group,
            objects: 1,
            bytes,
        };
        row.value.as_mut().unwrap().usage = Some(usage);
        row
    };
    let partition = key("a").partition;
    let windows: Vec<Vec<u8>> = Granularity::ALL
        .map(|granularity| codec::window_key(partition, granularity, 0))
        .into();
    let counter = codec::counter_key(partition, group);
    let keys = windows.iter().chain([&counter]);
    for broken in keys {
        let parts = Parts::new();
        let store = parts.open();
        for (name, bytes) in [("a", 10), ("b", 200)] {
            set(&store, name, counted(1, bytes), Durability::Fsync);
        }
        let good = get(&*parts.engine, Tree::Derived, broken);
        let mut value = good.clone();
        value[8] ^= 1;
        put(&*parts.engine, Tree::Derived, broken, &value);
        let look = move |rows: &crate::RowReader<'_>| {
            let windows = rows.windows(partition, Granularity::Hour, 0, 9)?;
            Ok((windows, rows.counter(partition, group)?))
        };
        let (found, sums) = block_on(store.read(look)).unwrap();
        assert_eq!((found[0].1.rows, sums), (2, (2, 210)));
        assert_eq!(block_on(store.verify()).unwrap().problems, 1);
        set(&store, "c", counted(2, 3000), Durability::Fsync);
        assert_eq!(block_on(store.read(look)).unwrap().1, (3, 3210));
        assert_clean(&store);
        // The next row does not add to a counter that is too low.
        if *broken == counter {
            let low = codec::encode_counter(&counter, &codec::Counter::default());
            put(&*parts.engine, Tree::Derived, broken, &low);
            let gone = Row {
                value: None,
                ..row(3, "")
            };
            set(&store, "a", gone, Durability::Fsync);
            assert_eq!(block_on(store.read(look)).unwrap().1, (2, 3200));
            assert_clean(&store);
        }
    }
}

#[test]
fn damaged_work_is_passed_over() {
    let parts = Parts::new();
    let store = parts.open();
    for work in [b"one", b"two"] {
        let push = store.transact(Durability::Fsync, move |txn| txn.queue_push(work));
        block_on(push).unwrap();
    }
    let first = 1u64.to_be_bytes();
    let mut value = get(&*parts.engine, Tree::Queue, &first);
    value[1] ^= 1;
    put(&*parts.engine, Tree::Queue, &first, &value);
    let queue = block_on(store.read(|rows| rows.queue(0, 1))).unwrap();
    assert_eq!(queue, [(2, Bytes::from_static(b"two"))]);
}
