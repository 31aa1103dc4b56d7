//! Listings against a naive model that sorts, filters and groups all keys.

use std::collections::BTreeMap;

use archipel_base::{PartitionId, Stamp, Writer};
use bytes::Bytes;
use proptest::prelude::*;

use crate::engine::memory::MemoryEngine;
use crate::engine::{Durability, Engine, Tree};
use crate::row::{RowKey, RowVersion, VersionKind};
use crate::rows::codec::{self, StoredRow};
use crate::rows::{ListEntry, ListQuery, ListStart, Listing, RowReader};

const HERE: PartitionId = PartitionId(5);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Live,
    Tombstone,
    Promise,
    Marker,
}

fn stored(kind: Kind) -> StoredRow {
    let stamp = Stamp::new(7, 0, Writer(1));
    StoredRow {
        promised: Stamp::new(8, 0, Writer(1)),
        stamp: if kind == Kind::Promise {
            Stamp::ZERO
        } else {
            stamp
        },
        metadata: matches!(kind, Kind::Live | Kind::Marker).then(|| Bytes::from_static(b"h")),
        version: (kind == Kind::Marker).then(|| {
            Box::new(RowVersion {
                kind: VersionKind::Marker,
                ..RowVersion::default()
            })
        }),
        ..StoredRow::default()
    }
}

fn engine_with(partition: PartitionId, rows: &BTreeMap<Bytes, Kind>) -> MemoryEngine {
    let engine = MemoryEngine::new();
    let mut txn = engine.write().unwrap();
    for partition in [partition, PartitionId(partition.0 ^ 1)] {
        for (key, kind) in rows {
            let key = RowKey {
                partition,
                key: key.clone(),
            };
            let key = codec::row_key(&key).unwrap();
            txn.put(Tree::Rows, &key, &codec::encode_row(&key, &stored(*kind)))
                .unwrap();
        }
    }
    txn.commit(Durability::Buffered).unwrap();
    engine
}

fn list(engine: &MemoryEngine, query: &ListQuery) -> Listing {
    let txn = engine.read().unwrap();
    RowReader::new(&*txn).list(query).unwrap()
}

/// An entry that the pages of a listing must show.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Row(Bytes, bool),
    Prefix(Bytes),
}

fn shown(entry: &ListEntry) -> Shown {
    match entry {
        ListEntry::Row { key, metadata } => Shown::Row(key.clone(), metadata.is_live()),
        ListEntry::Prefix(prefix) => Shown::Prefix(prefix.clone()),
    }
}

fn is_behind(start: &ListStart, key: &Bytes) -> bool {
    match start {
        ListStart::At(at) => key >= at,
        ListStart::After(at) => key > at,
        ListStart::AfterPrefix(prefix) => key > prefix && !key.starts_with(prefix),
    }
}

fn naive(rows: &BTreeMap<Bytes, Kind>, query: &ListQuery) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    // The common prefix that has been shown.
    let mut done = None;
    for (key, kind) in rows {
        if !key.starts_with(&query.prefix) || !is_behind(&query.start, key) {
            continue;
        }
        let rest = &key[query.prefix.len()..];
        let delimiter = query.delimiter.as_deref().filter(|d| !d.is_empty());
        let group = delimiter.and_then(|d| {
            let at = (0..rest.len()).find(|i| rest[*i..].starts_with(d))?;
            Some(key.slice(..query.prefix.len() + at + d.len()))
        });
        if group.is_some() && group == done {
            continue;
        }
        match (group, kind) {
            (_, Kind::Promise) => {}
            (_, Kind::Tombstone | Kind::Marker) if !query.tombstones => {}
            (_, Kind::Tombstone | Kind::Marker) => all.push(Shown::Row(key.clone(), false)),
            (Some(group), Kind::Live) => {
                all.push(if query.tombstones {
                    Shown::Row(key.clone(), true)
                } else {
                    Shown::Prefix(group.clone())
                });
                done = Some(group);
            }
            (None, Kind::Live) => all.push(Shown::Row(key.clone(), true)),
        }
    }
    all
}

fn text() -> impl Strategy<Value = Bytes> {
    let letters = prop::sample::select(vec!["a", "b", "/", "//", "é", "\u{10ffff}", "漢", "-"]);
    prop::collection::vec(letters, 0..6).prop_map(|parts| Bytes::from(parts.concat()))
}

/// Bytes that need a carry when a successor is made.
fn raw() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(prop::sample::select(vec![0u8, b'/', 0xfe, 0xff]), 0..5)
        .prop_map(Bytes::from)
}

fn rows() -> impl Strategy<Value = BTreeMap<Bytes, Kind>> {
    let kind = prop::sample::select(vec![
        Kind::Live,
        Kind::Live,
        Kind::Tombstone,
        Kind::Promise,
        Kind::Marker,
    ]);
    let key = prop_oneof![text(), raw()].prop_filter("keys have a length", |k| !k.is_empty());
    prop::collection::btree_map(key, kind, 0..40)
}

fn start() -> impl Strategy<Value = ListStart> {
    prop_oneof![
        Just(ListStart::At(Bytes::new())),
        text().prop_map(ListStart::At),
        text().prop_map(ListStart::After),
        raw().prop_map(ListStart::After),
        text().prop_map(ListStart::AfterPrefix),
        raw().prop_map(ListStart::AfterPrefix),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// All pages together equal the naive listing, whatever their size and the budget.
    #[test]
    fn pages_together_equal_the_whole_listing(
        rows in rows(),
        control: bool,
        prefix in prop_oneof![Just(Bytes::new()), text(), raw()],
        start in start(),
        delimiter in prop::sample::select(vec![None, Some(""), Some("/"), Some("//"), Some("é")]),
        limit in 1usize..6,
        budget in 0usize..6,
        tombstones: bool,
    ) {
        let partition = if control { PartitionId::CONTROL } else { HERE };
        let engine = engine_with(partition, &rows);
        let mut query = ListQuery {
            start,
            delimiter: delimiter.map(|d| Bytes::from_static(d.as_bytes())),
            limit,
            tombstones,
            budget,
            ..ListQuery::new(partition, prefix)
        };
        let expected = naive(&rows, &query);
        let mut found = Vec::new();
        for _ in 0..200 {
            let page = list(&engine, &query);
            let live = |entry: &&ListEntry| !matches!(entry, ListEntry::Row { metadata, .. } if !metadata.is_live());
            let live = page.entries.iter().filter(live).count();
            prop_assert!(live <= limit);
            let full = live == limit;
            found.extend(page.entries.iter().map(shown));
            let Some(next) = page.next else {
                prop_assert_eq!(&found, &expected);
                return Ok(());
            };
            // A full page says correctly if something follows, unless the budget is used up.
            if full && budget >= rows.len() {
                prop_assert!(found.len() < expected.len());
            }
            query.start = next;
        }
        prop_assert!(false, "the listing does not end");
    }
}

fn live(keys: &[&str]) -> BTreeMap<Bytes, Kind> {
    let rows = keys
        .iter()
        .map(|key| (Bytes::from(key.to_string()), Kind::Live));
    rows.collect()
}

#[test]
fn a_limit_of_zero_returns_an_empty_page() {
    let engine = engine_with(HERE, &live(&["a"]));
    let query = ListQuery {
        limit: 0,
        ..ListQuery::new(HERE, Bytes::new())
    };
    assert_eq!(list(&engine, &query), Listing::default());
}

/// A page is sent as one message, so its size is bounded.
#[test]
fn a_page_is_bounded_in_bytes() {
    let keys: Vec<String> = (0..1000).map(|i| format!("{i:01100}")).collect();
    let engine = engine_with(
        HERE,
        &live(&keys.iter().map(String::as_str).collect::<Vec<_>>()),
    );
    let mut query = ListQuery::new(HERE, Bytes::new());
    let mut found = 0;
    loop {
        let page = list(&engine, &query);
        assert!((1..700).contains(&page.entries.len()));
        found += page.entries.len();
        let Some(next) = page.next else { break };
        query.start = next;
    }
    assert_eq!(found, 1000);
}

/// For a common prefix, a replica returns the first live row and the tombstones before it.
#[test]
fn a_listing_for_merging_returns_the_first_live_row_of_a_prefix() {
    let mut rows = live(&["a/2", "a/3", "b"]);
    rows.insert(Bytes::from_static(b"a/1"), Kind::Tombstone);
    rows.insert(Bytes::from_static(b"a/4"), Kind::Tombstone);
    let query = ListQuery {
        delimiter: Some(Bytes::from_static(b"/")),
        tombstones: true,
        ..ListQuery::new(HERE, Bytes::new())
    };
    let page = list(&engine_with(HERE, &rows), &query);
    let told = page.entries.iter().map(|entry| match entry {
        ListEntry::Row { key, metadata } => (&key[..], metadata.metadata.as_deref()),
        ListEntry::Prefix(_) => panic!("a group instead of its first row"),
    });
    let metadata: Vec<_> = told.collect();
    assert_eq!(
        metadata,
        [
            (&b"a/1"[..], None),
            (b"a/2", Some(&b""[..])),
            (b"b", Some(b"h"))
        ]
    );
}

/// A delete marker is a tombstone to a listing of objects, and a row to a listing of versions.
#[test]
fn a_value_that_is_no_object_is_listed_as_a_tombstone_unless_hidden_rows_are_wanted() {
    let mut rows = live(&["a", "c"]);
    rows.insert(Bytes::from_static(b"b"), Kind::Marker);
    let engine = engine_with(HERE, &rows);
    let asked = |tombstones, hidden| ListQuery {
        tombstones,
        hidden,
        ..ListQuery::new(HERE, Bytes::new())
    };
    let told = |query| -> Vec<_> {
        let page = list(&engine, &query);
        page.entries.iter().map(shown).collect()
    };
    let row = |key: &'static str, live| Shown::Row(Bytes::from_static(key.as_bytes()), live);
    assert_eq!(told(asked(false, false)), [row("a", true), row("c", true)]);
    assert_eq!(
        told(asked(true, false)),
        [row("a", true), row("b", false), row("c", true)]
    );
    assert_eq!(
        told(asked(false, true)),
        [row("a", true), row("b", true), row("c", true)]
    );
}

#[test]
fn a_start_longer_than_any_key_is_no_error() {
    let engine = engine_with(HERE, &live(&["a", "k", "z"]));
    let long = Bytes::from(vec![b'k'; 5000]);
    for start in [ListStart::At(long.clone()), ListStart::After(long.clone())] {
        let query = ListQuery {
            start,
            ..ListQuery::new(HERE, Bytes::new())
        };
        let keys: Vec<_> = list(&engine, &query).entries.iter().map(shown).collect();
        assert_eq!(keys, [Shown::Row(Bytes::from_static(b"z"), true)]);
    }
    assert_eq!(
        list(&engine, &ListQuery::new(HERE, long)),
        Listing::default()
    );
}

/// A common prefix costs one seek, however many rows share it.
#[test]
fn a_common_prefix_costs_one_seek() {
    let mut keys: Vec<String> = (0..5000).map(|i| format!("big/{i:05}")).collect();
    keys.push("big0".into());
    let engine = engine_with(
        HERE,
        &live(&keys.iter().map(String::as_str).collect::<Vec<_>>()),
    );
    let txn = engine.read().unwrap();
    let counting = super::Counting::new(&*txn);
    let query = ListQuery {
        delimiter: Some(Bytes::from_static(b"/")),
        ..ListQuery::new(HERE, Bytes::new())
    };
    let page = RowReader::new(&counting).list(&query).unwrap();
    assert_eq!(page.entries.len(), 2);
    assert_eq!(page.next, None);
    assert_eq!(counting.shown(), 2);
}
