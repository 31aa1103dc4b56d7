//! The overlay against a plain map: reads, scans in both directions, applying.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use proptest::prelude::*;

use crate::engine::memory::MemoryEngine;
use crate::engine::{Direction, Edit, Engine, Flow, KeyRange, ReadTxn, Tree};
use crate::rows::overlay::Overlay;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..3, 1..4)
}

fn edits() -> impl Strategy<Value = Vec<(Vec<u8>, Option<Vec<u8>>)>> {
    prop::collection::vec((key(), prop::option::of(key())), 0..30)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
    ]
}

fn edit(edit: &mut dyn Edit, map: &mut Map, changes: &[(Vec<u8>, Option<Vec<u8>>)]) {
    for (key, value) in changes {
        match value {
            Some(value) => {
                edit.put(Tree::Rows, key, value).unwrap();
                map.insert(key.clone(), value.clone());
            }
            None => {
                let there = edit.delete(Tree::Rows, key).unwrap();
                assert_eq!(there, map.remove(key).is_some());
            }
        }
    }
}

fn scanned(
    txn: &dyn ReadTxn,
    range: KeyRange<'_>,
    direction: Direction,
    most: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    txn.scan(Tree::Rows, range, direction, &mut |k, v| {
        found.push((k.to_vec(), v.to_vec()));
        Ok(if found.len() < most {
            Flow::Continue
        } else {
            Flow::Stop
        })
    })
    .unwrap();
    found
}

fn contains(range: &(Bound<Vec<u8>>, Bound<Vec<u8>>), key: &Vec<u8>) -> bool {
    RangeBounds::<Vec<u8>>::contains(range, key)
}

proptest! {
    #[test]
    fn overlay_equals_a_map_with_the_changes(
        below in edits(),
        above in edits(),
        bounds in (bound(), bound()),
        ascending: bool,
        most in 1usize..8,
    ) {
        let engine = MemoryEngine::new();
        let mut txn = engine.write().unwrap();
        let mut map = Map::new();
        edit(&mut *txn, &mut map, &below);
        let mut overlay = Overlay::new(&*txn);
        edit(&mut overlay, &mut map, &above);

        for key in map.keys().chain(below.iter().map(|(key, _)| key)) {
            let found = overlay.get(Tree::Rows, key).unwrap().map(|v| v.into_owned());
            prop_assert_eq!(found.as_ref(), map.get(key));
        }
        let range = (
            bounds.0.as_ref().map(Vec::as_slice),
            bounds.1.as_ref().map(Vec::as_slice),
        );
        let mut expected: Vec<_> = map.clone().into_iter().collect();
        expected.retain(|(key, _)| contains(&bounds, key));
        let direction = if ascending {
            Direction::Ascending
        } else {
            expected.reverse();
            Direction::Descending
        };
        expected.truncate(most);
        prop_assert_eq!(scanned(&overlay, range, direction, most), expected);

        let changes = overlay.into_changes();
        changes.apply(&mut *txn).unwrap();
        let all = scanned(&*txn, (Bound::Unbounded, Bound::Unbounded), Direction::Ascending, 1000);
        prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
    }
}
