//! Damaged rows affect only themselves.

use super::blocks::{appender, content, set, with_payload};
use super::*;
use crate::engine::{Durability, Tree};
use crate::error::Error;
use crate::row::Payload;

/// Flips a bit in a row itself, so that neither its stamp nor its share in a counter can be read.
fn damage_row(engine: &dyn Engine, name: &str) {
    let key = crate::rows::codec::row_key(&key(name)).unwrap();
    let mut txn = engine.write().unwrap();
    let mut row = txn.get(Tree::Rows, &key).unwrap().unwrap().to_vec();
    row[20] ^= 4;
    txn.put(Tree::Rows, &key, &row).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

fn counted(millis: u64, bytes: u64, payload: Payload) -> Row {
    let mut row = with_payload(millis, payload);
    if let Some(value) = &mut row.value {
        value.usage = Some(crate::row::UsageDelta {
            group: Id([1; 16]),
            objects: 1,
            bytes,
        });
    }
    row
}

/// The row may have any kind of payload and may be overwritten, deleted or wiped. Nothing of it stays
/// behind.
#[test]
fn a_damaged_row_can_be_replaced() {
    let payloads = |blocks: &[crate::row::BlockRef]| {
        let blocks = blocks.to_vec();
        [
            Payload::Empty,
            Payload::Inline(Bytes::from_static(b"short")),
            Payload::Inline(content(1)),
            Payload::Blocks(blocks),
        ]
    };
    for kind in 0..4 {
        for end in 0..3 {
            let parts = Parts::new();
            let store = parts.open();
            let (upload, blocks) = appender(&store, &[1]);
            for (name, bytes) in [("a", 10), ("b", 200), ("c", 3000)] {
                let row = counted(1, bytes, payloads(&blocks)[kind].clone());
                set(&store, name, row, Durability::Fsync);
            }
            drop(upload);
            damage_row(&*parts.engine, "b");
            let refused = block_on(store.read(|rows| rows.metadata(&key("b"))));
            assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
            let left = match end {
                0 => {
                    set(
                        &store,
                        "b",
                        counted(2, 400, Payload::Empty),
                        Durability::Fsync,
                    );
                    (3, 3410)
                }
                1 => {
                    let tombstone = Row {
                        value: None,
                        ..row(2, "")
                    };
                    set(&store, "b", tombstone, Durability::Fsync);
                    (2, 3010)
                }
                _ => {
                    let forget = store.transact(Durability::Fsync, |txn| txn.forget(&key("b")));
                    block_on(forget).unwrap();
                    (2, 3010)
                }
            };
            let partition = key("b").partition;
            let counter = store.read(move |rows| rows.counter(partition, Id([1; 16])));
            assert_eq!(block_on(counter).unwrap(), left);
            assert_clean(&store);
        }
    }
}

#[test]
fn listings_and_scans_continue_after_a_damaged_row() {
    let parts = Parts::new();
    let store = parts.open();
    for name in ["a", "b/1", "b/2", "c"] {
        set(&store, name, row(1, "metadata"), Durability::Fsync);
    }
    damage_row(&*parts.engine, "b/1");
    let partition = key("a").partition;
    for delimiter in [None, Some(Bytes::from_static(b"/"))] {
        let query = crate::rows::ListQuery {
            delimiter: delimiter.clone(),
            ..crate::rows::ListQuery::new(partition, Bytes::new())
        };
        let page = block_on(store.read(move |rows| rows.list(&query))).unwrap();
        assert_eq!(page.entries.len(), 3, "a, b/2 or its prefix, c");
        assert_eq!(page.damaged, [key("b/1").key]);
        assert_eq!(page.next, None);
    }
    let scan = move |rows: &crate::RowReader<'_>| {
        let (mut metadata, mut keys) = (0, 0);
        let all = std::ops::Bound::Unbounded;
        rows.scan_metadata(partition, &[], all, &mut |key, row| {
            assert_eq!(row.is_none(), key == b"b/1");
            metadata += usize::from(row.is_some());
            Ok(crate::engine::Flow::Continue)
        })?;
        rows.scan_keys(partition, &mut |_| {
            keys += 1;
            Ok(crate::engine::Flow::Continue)
        })?;
        Ok((metadata, keys))
    };
    assert_eq!(block_on(store.read(scan)).unwrap(), (3, 4));
}

/// The size of a page also bounds the keys of damaged rows. The next page continues after them.
#[test]
fn a_page_of_damaged_rows_is_bounded_and_continued() {
    let parts = Parts::new();
    let store = parts.open();
    let names: Vec<String> = (0..30).map(|n| format!("row {n:02}")).collect();
    for name in &names {
        set(&store, name, row(1, "metadata"), Durability::Fsync);
        damage_row(&*parts.engine, name);
    }
    let mut query = crate::rows::ListQuery {
        budget: 7,
        ..crate::rows::ListQuery::new(key("a").partition, Bytes::new())
    };
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let next = query.clone();
        let page = block_on(store.read(move |rows| rows.list(&next))).unwrap();
        assert!(page.entries.is_empty() && page.damaged.len() <= 8);
        found.extend(page.damaged);
        pages += 1;
        match page.next {
            Some(next) => query.start = next,
            None => break,
        }
    }
    let all: Vec<Bytes> = names.into_iter().map(Bytes::from).collect();
    assert_eq!((found, pages), (all, 4));
}
