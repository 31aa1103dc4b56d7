//! Transactions on rows, one case at a time. The reference model tries all orders.

use archipel_base::{Id, PartitionId, Stamp, Writer};
use bytes::Bytes;

use crate::engine::Durability;
use crate::error::Error;
use crate::row::{BlockRef, Payload, Row, RowKey, UsageDelta, Value};
use crate::rows::{Granularity, RowTxn};
use crate::store::Store;
use crate::store::tests::{Parts, assert_clean, block_on, key, row, stamp};

fn transact<T: Send + 'static>(
    store: &Store,
    closure: impl FnOnce(&mut RowTxn<'_>) -> crate::engine::Result<T> + Send + 'static,
) -> crate::engine::Result<T> {
    block_on(store.transact(Durability::Fsync, closure))
}

#[test]
fn a_promise_keeps_the_value_and_its_payload() {
    let store = Parts::new().open();
    let mut written = row(5, "metadata");
    if let Some(value) = &mut written.value {
        value.payload = Payload::Inline(Bytes::from_static(b"payload"));
    }
    let expected = Row {
        promised: stamp(9),
        ..written.clone()
    };
    let found = transact(&store, move |txn| {
        txn.set(&key("a"), &written)?;
        txn.promise(&key("a"), stamp(9))?;
        txn.promise(&key("b"), stamp(7))?;
        Ok((txn.row(&key("a"))?, txn.row(&key("b"))?))
    })
    .unwrap();
    assert_eq!(found.0, Some(expected));
    assert_eq!(
        found.1.map(|row| (row.promised, row.stamp)),
        Some((stamp(7), Stamp::ZERO))
    );
    assert_clean(&store);
}

#[test]
fn log_and_windows_contain_tombstones_but_not_promises() {
    let store = Parts::new().open();
    transact(&store, |txn| {
        txn.promise(&key("promised"), stamp(7))?;
        txn.set(&key("live"), &row(5, "metadata"))?;
        let tombstone = Row {
            value: None,
            ..row(6, "")
        };
        txn.set(&key("deleted"), &tombstone)
    })
    .unwrap();
    let (log, windows) = block_on(store.read(|rows| {
        let log = rows.log(PartitionId(3), (Stamp::ZERO, b""), u64::MAX, 10)?;
        let windows = rows.windows(PartitionId(3), Granularity::Day, 0, 10)?;
        Ok((log, windows))
    }))
    .unwrap();
    let names: Vec<_> = log
        .iter()
        .map(|(stamp, key)| (stamp.millis(), &key[..]))
        .collect();
    assert_eq!(names, [(5, &b"live"[..]), (6, &b"deleted"[..])]);
    assert_eq!(windows.len(), 1);
    assert_eq!((windows[0].0, windows[0].1.rows), (0, 2));
}

#[test]
fn wiping_rows_starts_a_new_era() {
    let store = Parts::new().open();
    let era = || transact(&store, |txn| Ok(txn.era())).unwrap();
    transact(&store, |txn| txn.set(&key("any"), &row(5, "metadata"))).unwrap();
    let before = era();
    assert_eq!(era(), before);
    transact(&store, |txn| txn.forget(&key("any"))).unwrap();
    assert_eq!(era(), before + 1);
}

#[test]
fn next_partition_skips_partitions_without_rows() {
    let store = Parts::new().open();
    let in_partition = |number| RowKey {
        partition: PartitionId(number),
        ..key("any")
    };
    transact(&store, move |txn| {
        txn.set(&in_partition(3), &row(5, "metadata"))?;
        txn.set(&in_partition(9), &row(5, "metadata"))?;
        txn.forget(&in_partition(9))?;
        txn.set(&in_partition(700), &row(5, "metadata"))
    })
    .unwrap();
    let next = block_on(store.read(|rows| {
        let next = |from| rows.next_partition(PartitionId(from)).unwrap();
        Ok([0, 3, 4, 700, 701].map(|from| next(from).map(|found| found.0)))
    }))
    .unwrap();
    assert_eq!(next, [Some(3), Some(3), Some(700), Some(700), None]);
}

#[test]
fn digests_do_not_depend_on_write_order() {
    let hour = Granularity::Hour.millis();
    let write = |order: [u64; 3], detour: bool| {
        let store = Parts::new().open();
        transact(&store, move |txn| {
            for millis in order {
                let name = format!("row {millis}");
                if detour {
                    txn.set(&key(&name), &row(1, "older"))?;
                    txn.forget(&key(&name))?;
                    txn.set(&key(&name), &row(2, "older"))?;
                }
                txn.set(&key(&name), &row(millis, "metadata"))?;
            }
            Ok(())
        })
        .unwrap();
        block_on(store.read(|rows| {
            let windows = |granularity| rows.windows(PartitionId(3), granularity, 0, 10);
            Ok(Granularity::ALL.map(|granularity| windows(granularity).unwrap()))
        }))
        .unwrap()
    };
    let windows = write([10, hour, 50 * hour], false);
    assert_eq!(windows, write([50 * hour, 10, hour], true));
    assert_eq!(
        windows[0].iter().map(|(n, _)| *n).collect::<Vec<_>>(),
        [0, 1, 50]
    );
    assert_eq!(
        windows[1]
            .iter()
            .map(|(n, w)| (*n, w.rows))
            .collect::<Vec<_>>(),
        [(0, 2), (2, 1)]
    );
    assert_eq!(windows[2].len(), 1);
}

#[test]
fn log_is_read_in_pages_and_by_window() {
    let store = Parts::new().open();
    let hour = Granularity::Hour.millis();
    transact(&store, move |txn| {
        for millis in [1, 2, hour - 1, hour, hour + 1] {
            // Two keys have one stamp. A page may end between them.
            for name in ["a", "b"] {
                txn.set(&key(&format!("{name} {millis}")), &row(millis, "metadata"))?;
            }
        }
        Ok(())
    })
    .unwrap();
    block_on(store.read(move |rows| {
        let mut after = (Stamp::ZERO, Bytes::new());
        let mut all = Vec::new();
        loop {
            let page = rows.log(PartitionId(3), (after.0, &after.1), u64::MAX, 3)?;
            let Some(last) = page.last() else { break };
            after = last.clone();
            all.extend(page.iter().map(|(stamp, _)| stamp.millis()));
        }
        assert_eq!(
            all,
            [
                1,
                1,
                2,
                2,
                hour - 1,
                hour - 1,
                hour,
                hour,
                hour + 1,
                hour + 1
            ]
        );
        let of = |window| {
            let start = (Stamp::ZERO, &b""[..]);
            rows.log_of_window(PartitionId(3), Granularity::Hour, window, start, 100)
        };
        assert_eq!(of(0)?.len(), 6);
        assert_eq!(of(1)?.len(), 4);
        assert!(of(2)?.is_empty());
        let control = (Stamp::ZERO, &b""[..]);
        assert!(
            rows.log(PartitionId::CONTROL, control, u64::MAX, 9)?
                .is_empty()
        );
        Ok(())
    }))
    .unwrap();
}

#[test]
fn counters_follow_rows_that_change_their_group() {
    let store = Parts::new().open();
    let counted = |millis, group, objects, bytes| {
        let usage = UsageDelta {
            group: Id([group; 16]),
            objects,
            bytes,
        };
        Row {
            value: Some(Value {
                usage: Some(usage),
                ..Value::default()
            }),
            ..row(millis, "")
        }
    };
    let totals = transact(&store, move |txn| {
        let mut totals = Vec::new();
        let steps = [
            ("a", counted(1, 1, 1, 100)),
            ("b", counted(2, 1, 1, u64::from(u32::MAX) + 7)),
            ("a", counted(3, 1, 1, 50)),
            ("a", counted(4, 2, 1, 50)),
            ("b", row(5, "no usage")),
            (
                "a",
                Row {
                    value: None,
                    ..row(6, "")
                },
            ),
        ];
        for (name, row) in steps {
            txn.set(&key(name), &row)?;
            let of = |group| txn.counter(PartitionId(3), Id([group; 16]));
            totals.push((of(1)?, of(2)?));
        }
        Ok(totals)
    })
    .unwrap();
    let big = u64::from(u32::MAX) + 7;
    let expected = [
        ((1, 100), (0, 0)),
        ((2, big + 100), (0, 0)),
        ((2, big + 50), (0, 0)),
        ((1, big), (1, 50)),
        ((0, 0), (1, 50)),
        ((0, 0), (0, 0)),
    ];
    assert_eq!(totals, expected);
    assert_clean(&store);
}

#[test]
fn queue_keeps_order_and_never_reuses_a_number() {
    let parts = Parts::new();
    let store = parts.open();
    let numbers = transact(&store, |txn| {
        let first = txn.queue_push(b"one")?;
        let second = txn.queue_push(b"two")?;
        txn.queue_remove(second)?;
        Ok((first, second, txn.queue_push(b"three")?))
    })
    .unwrap();
    assert_eq!(numbers, (1, 2, 3));
    transact(&store, |txn| txn.queue_remove(3)).unwrap();
    drop(store);
    let store = parts.open();
    assert_eq!(transact(&store, |txn| txn.queue_push(b"four")).unwrap(), 4);
    let entries = |after, limit| {
        let read = store.read(move |rows| rows.queue(after, limit));
        block_on(read)
            .unwrap()
            .into_iter()
            .map(|(n, work)| (n, work.to_vec()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        entries(0, 10),
        [(1, b"one".to_vec()), (4, b"four".to_vec())]
    );
    assert_eq!(entries(0, 1).len(), 1);
    assert_eq!(entries(1, 10).len(), 1);
}

#[test]
fn meta_returns_the_values_that_were_set() {
    let store = Parts::new().open();
    transact(&store, |txn| {
        txn.set_meta("format", Some(b"mine"))?;
        txn.set_meta("gone", Some(b""))?;
        txn.set_meta("gone", None)
    })
    .unwrap();
    let found =
        block_on(store.read(|rows| Ok((rows.meta("format")?, rows.meta("gone")?)))).unwrap();
    assert_eq!(found, (Some(Bytes::from_static(b"mine")), None));
    // The store's own "format" is another key.
    assert_eq!(store.boot(), 1);
}

#[test]
fn impossible_rows_are_refused_and_change_nothing() {
    let store = Parts::new().open();
    transact(&store, |txn| {
        let unstamped = Row {
            stamp: Stamp::ZERO,
            ..row(1, "metadata")
        };
        assert!(matches!(
            txn.set(&key("a"), &unstamped),
            Err(Error::Refused(_))
        ));
        assert!(matches!(
            txn.set(&key(""), &row(1, "")),
            Err(Error::Refused(_))
        ));
        let missing = BlockRef {
            hash: archipel_base::BlockHash::of(b"never written"),
            len: 13,
        };
        let mut many = row(1, "metadata");
        if let Some(value) = &mut many.value {
            value.payload = Payload::Blocks(vec![missing; 65]);
        }
        assert!(matches!(txn.set(&key("a"), &many), Err(Error::Refused(_))));
        if let Some(value) = &mut many.value {
            value.payload = Payload::Blocks(vec![missing]);
        }
        assert!(matches!(txn.set(&key("a"), &many), Err(Error::NoBlock(_))));
        // The closure may continue, because nothing is half done.
        txn.set(&key("b"), &row(1, "metadata"))
    })
    .unwrap();
    let found = transact(&store, |txn| {
        Ok((txn.metadata(&key("a"))?, txn.metadata(&key("b"))?))
    })
    .unwrap();
    assert!(found.0.is_none() && found.1.is_some());
    assert_clean(&store);
}

#[test]
fn scan_metadata_visits_tombstones_and_promises() {
    let store = Parts::new().open();
    transact(&store, |txn| {
        txn.set(&key("p/a"), &row(1, "metadata"))?;
        txn.set(
            &key("p/b"),
            &Row {
                value: None,
                ..row(2, "")
            },
        )?;
        txn.promise(&key("p/c"), Stamp::new(3, 0, Writer(1)))?;
        txn.set(&key("q"), &row(4, "metadata"))
    })
    .unwrap();
    let found = block_on(store.read(|rows| {
        let mut found = Vec::new();
        let start = std::ops::Bound::Unbounded;
        rows.scan_metadata(PartitionId(3), b"p/", start, &mut |key, metadata| {
            let metadata = metadata.expect("a whole row");
            found.push((key.to_vec(), metadata.is_live(), metadata.is_written()));
            Ok(crate::engine::Flow::Continue)
        })?;
        Ok(found)
    }))
    .unwrap();
    let expected = [
        ("p/a", true, true),
        ("p/b", false, true),
        ("p/c", false, false),
    ];
    assert_eq!(
        found,
        expected.map(|(key, live, written)| (key.as_bytes().to_vec(), live, written))
    );
    let back = block_on(store.read(|rows| {
        let mut found = Vec::new();
        rows.scan_metadata_back(PartitionId(3), b"p/", b"p/c", &mut |key, _| {
            found.push(key.to_vec());
            Ok(crate::engine::Flow::Continue)
        })?;
        Ok(found)
    }));
    assert_eq!(back.unwrap(), [b"p/b", b"p/a"]);
}
