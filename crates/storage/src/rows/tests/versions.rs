//! Pages of versions against listings of the rows that they stand for.

use std::collections::BTreeMap;

use archipel_base::{PartitionId, Stamp, Writer};
use bytes::Bytes;
use proptest::prelude::*;

use super::Counting;
use crate::engine::memory::MemoryEngine;
use crate::engine::{Durability, Engine, Tree};
use crate::row::{RowKey, RowVersion, VersionKind, name_bytes};
use crate::rows::codec::{self, StoredRow};
use crate::rows::{KeptKeys, ListEntry, ListQuery, ListStart, RowReader};

const HERE: PartitionId = PartitionId(5);
const KEYS: [&str; 5] = ["a", "a/b", "a/c", "b", "c/d"];

/// A row: the time of its stamp, the name of the version, and its kind; no kind for a tombstone.
type Version = (u64, Option<u64>, Option<VersionKind>);

fn stamp(time: u64) -> Stamp {
    Stamp::new(time, 0, Writer(1))
}

fn stored((time, name, kind): Version) -> StoredRow {
    StoredRow {
        stamp: stamp(time),
        metadata: kind.map(|_| Bytes::from(time.to_be_bytes().to_vec())),
        version: kind.map(|kind| {
            Box::new(RowVersion {
                at: name.map(stamp),
                kind,
                ..RowVersion::default()
            })
        }),
        ..StoredRow::default()
    }
}

fn engine(rows: &BTreeMap<Bytes, StoredRow>) -> MemoryEngine {
    let engine = MemoryEngine::new();
    let mut txn = engine.write().unwrap();
    for (key, row) in rows {
        let key = RowKey {
            partition: HERE,
            key: key.clone(),
        };
        let key = codec::row_key(&key).unwrap();
        txn.put(Tree::Rows, &key, &codec::encode_row(&key, row))
            .unwrap();
    }
    txn.commit(Durability::Buffered).unwrap();
    engine
}

fn key(of: &[&[u8]]) -> Bytes {
    of.concat().into()
}

fn shown_key(object: &str, name: Option<u64>) -> Bytes {
    let name = name_bytes(name.map(stamp));
    key(&[b"o!", object.as_bytes(), &[0], &name])
}

/// Returns the rows as they are stored, and as a page shows them.
fn rows(
    objects: &BTreeMap<usize, Version>,
    kept: &BTreeMap<(usize, Option<u64>), Version>,
) -> [BTreeMap<Bytes, StoredRow>; 2] {
    let (mut real, mut shown) = (BTreeMap::new(), BTreeMap::new());
    for ((object, name), version) in kept {
        let (_, _, kind) = version;
        let row = stored((version.0, *name, *kind));
        let object = KEYS[*object];
        let suffix = name_bytes(name.map(stamp));
        real.insert(key(&[b"v!", object.as_bytes(), &[0], &suffix]), row.clone());
        shown.insert(shown_key(object, *name), row);
    }
    for (object, (time, name, kind)) in objects {
        let object = KEYS[*object];
        let is_version = !matches!(kind, None | Some(VersionKind::Void));
        let name = name.filter(|_| is_version);
        real.insert(
            key(&[b"o!", object.as_bytes()]),
            stored((*time, name, *kind)),
        );
        let row = stored((*time, name, kind.filter(|_| is_version)));
        let pointer = StoredRow {
            metadata: row.metadata.clone().map(|_| Bytes::new()),
            ..row.clone()
        };
        shown.insert(key(&[b"o!", object.as_bytes()]), pointer);
        let version = shown.entry(shown_key(object, name)).or_insert(row.clone());
        if version.stamp < row.stamp {
            *version = row;
        }
    }
    [real, shown]
}

fn version() -> impl Strategy<Value = Version> {
    let kind = prop_oneof![
        3 => Just(Some(VersionKind::Object)),
        1 => Just(Some(VersionKind::Marker)),
        1 => Just(Some(VersionKind::Void)),
        1 => Just(None),
    ];
    (1..9_u64, prop::option::of(1..5_u64), kind)
}

fn kept_version() -> impl Strategy<Value = Version> {
    let kind = prop_oneof![
        2 => Just(Some(VersionKind::Object)),
        1 => Just(Some(VersionKind::Marker)),
        1 => Just(None),
    ];
    (1..9_u64, Just(None), kind)
}

fn start() -> impl Strategy<Value = ListStart> {
    let (object, name) = (0..KEYS.len(), prop::option::of(1..5_u64));
    prop_oneof![
        Just(ListStart::At(Bytes::new())),
        object
            .clone()
            .prop_map(|at| ListStart::At(key(&[b"o!", KEYS[at].as_bytes()]))),
        object
            .clone()
            .prop_map(|at| ListStart::After(key(&[b"o!", KEYS[at].as_bytes()]))),
        (object.clone(), name.clone())
            .prop_map(|(at, name)| ListStart::At(shown_key(KEYS[at], name))),
        (object.clone(), name).prop_map(|(at, name)| ListStart::After(shown_key(KEYS[at], name))),
        object.prop_map(|at| ListStart::AfterPrefix(key(&[b"o!", KEYS[at].as_bytes(), &[0]]))),
        Just(ListStart::AfterPrefix(Bytes::from_static(b"o!a/"))),
    ]
}

proptest! {
    #[test]
    fn a_page_of_versions_lists_what_the_rows_stand_for(
        objects in prop::collection::btree_map(0..KEYS.len(), version(), 0..5),
        kept in prop::collection::btree_map(
            (0..KEYS.len(), prop::option::of(1..5_u64)),
            kept_version(),
            0..12,
        ),
        start in start(),
        prefix in prop_oneof![Just("o!"), Just("o!a"), Just("o!a/"), Just("o!zz")],
        delimiter in prop::option::of(Just("/")),
        limit in 1..8_usize,
        budget in 0..4_usize,
        tombstones: bool,
    ) {
        let [real, shown] = rows(&objects, &kept);
        let query = ListQuery {
            start,
            delimiter: delimiter.map(Bytes::from),
            limit,
            budget,
            tombstones,
            hidden: true,
            ..ListQuery::new(HERE, Bytes::from(prefix))
        };
        let versions = ListQuery {
            versions: Some(KeptKeys { objects: "o!".into(), kept: "v!".into() }),
            ..query.clone()
        };
        let (real, shown) = (engine(&real), engine(&shown));
        let (real, shown) = (real.read().unwrap(), shown.read().unwrap());
        let found = RowReader::new(&*real).list(&versions).unwrap();
        let expected = RowReader::new(&*shown).list(&query).unwrap();
        prop_assert_eq!(found, expected);
    }
}

/// A page reads as many rows as it shows, and a few more.
#[test]
fn a_page_of_a_key_with_many_versions_reads_few_rows() {
    let kept = (1..5_000_u64).map(|n| ((0, Some(n)), (n, None, Some(VersionKind::Object))));
    let objects = [(0, (5_000, Some(5_000), Some(VersionKind::Object)))];
    let [real, _] = rows(&objects.into(), &kept.collect());
    let engine = engine(&real);
    let txn = engine.read().unwrap();
    let counting = Counting::new(&*txn);
    let mut query = ListQuery {
        limit: 20,
        hidden: true,
        versions: Some(KeptKeys {
            objects: "o!".into(),
            kept: "v!".into(),
        }),
        ..ListQuery::new(HERE, Bytes::from_static(b"o!"))
    };
    for start in [
        ListStart::At(Bytes::new()),
        ListStart::After(shown_key("a", Some(2_500))),
    ] {
        let before = counting.shown();
        query.start = start;
        let page = RowReader::new(&counting).list(&query).unwrap();
        assert_eq!(page.entries.len(), 20);
        assert!(page.next.is_some());
        let read = counting.shown() - before;
        assert!(read <= 64, "{read}");
    }
    // The current version of a key is found in the object's row, also behind the start.
    let ListEntry::Row { key, .. } = &RowReader::new(&*txn)
        .list(&ListQuery {
            start: ListStart::At(shown_key("a", Some(5_000))),
            ..query
        })
        .unwrap()
        .entries[0]
    else {
        panic!("a common prefix");
    };
    assert_eq!(*key, shown_key("a", Some(5_000)));
}
