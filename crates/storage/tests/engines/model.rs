//! Random transactions and scans against a `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::Bound;

use archipel_storage::engine::{
    Direction, Durability, Engine, EngineKind, Flow, KeyRange, ReadTxn, Tree,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::fixture::Fixture;

type Map = BTreeMap<(Tree, Vec<u8>), Vec<u8>>;

#[derive(Clone, Debug)]
enum Op {
    Put(Tree, Vec<u8>, Vec<u8>),
    Delete(Tree, Vec<u8>),
    Get(Tree, Vec<u8>),
    Scan(Scan),
}

#[derive(Clone, Debug)]
struct Scan {
    tree: Tree,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    direction: Direction,
    most: usize,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Commit(Durability),
    Drop,
    Reopen,
}

fn tree() -> impl Strategy<Value = Tree> {
    prop_oneof![Just(Tree::Rows), Just(Tree::Derived)]
}

/// Keys that often meet, are prefixes of one another, or have the maximum length.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(0xff)];
    prop_oneof![
        9 => vec(byte, 1..4),
        1 => (any::<u8>(), 1190..=1200_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let lengths = prop_oneof![4 => 0..20_usize, 1 => 0..9000_usize];
    (any::<u8>(), lengths).prop_map(|(byte, len)| vec![byte; len])
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    let edge = prop_oneof![8 => key().boxed(), 1 => Just(Vec::new()).boxed()];
    prop_oneof![
        Just(Bound::Unbounded),
        edge.clone().prop_map(Bound::Included),
        edge.prop_map(Bound::Excluded),
    ]
}

fn scan() -> impl Strategy<Value = Scan> {
    let direction = prop_oneof![Just(Direction::Ascending), Just(Direction::Descending)];
    (tree(), bound(), bound(), direction, 1..30_usize).prop_map(
        |(tree, from, to, direction, most)| Scan {
            tree,
            from,
            to,
            direction,
            most,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (tree(), key(), value()).prop_map(|(t, k, v)| Op::Put(t, k, v)),
        2 => (tree(), key()).prop_map(|(t, k)| Op::Delete(t, k)),
        1 => (tree(), key()).prop_map(|(t, k)| Op::Get(t, k)),
        2 => scan().prop_map(Op::Scan),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        3 => Just(End::Commit(Durability::Fsync)),
        3 => Just(End::Commit(Durability::Buffered)),
        2 => Just(End::Drop),
        1 => Just(End::Reopen),
    ]
}

pub fn random_transactions_match_a_map(fixture: &Fixture) {
    let kind = fixture.files().map(|(kind, _)| kind);
    let transactions = vec((vec(op(), 0..25), end(), scan()), 1..12);
    let config = Config {
        // A new Fjall engine takes a tenth of a second.
        cases: match kind {
            None => 256,
            Some(EngineKind::Lmdb | EngineKind::Sqlite) => 48,
            Some(EngineKind::Fjall) => 12,
        },
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&transactions, |transactions| {
            let fixture = kind.map_or_else(Fixture::in_memory, Fixture::new);
            let mut engine = fixture.open();
            let mut model = Map::new();
            for (ops, end, last) in transactions {
                let changed = run(&*engine, &model, &ops, end);
                model = changed.unwrap_or(model);
                if matches!(end, End::Reopen) && kind.is_some() {
                    drop(engine);
                    engine = fixture.open();
                }
                check_scan(&*engine.read().unwrap(), &model, &last);
            }
            Ok(())
        })
        .unwrap();
}

/// Runs one transaction. Returns the new content if it was committed.
fn run(engine: &dyn Engine, model: &Map, ops: &[Op], end: End) -> Option<Map> {
    let before = engine.read().unwrap();
    let mut own = model.clone();
    let mut txn = engine.write().unwrap();
    for op in ops {
        match op {
            Op::Put(tree, key, value) => {
                txn.put(*tree, key, value).unwrap();
                own.insert((*tree, key.clone()), value.clone());
            }
            Op::Delete(tree, key) => {
                let found = own.remove(&(*tree, key.clone())).is_some();
                assert_eq!(txn.delete(*tree, key).unwrap(), found);
            }
            Op::Get(tree, key) => {
                let found = txn.get(*tree, key).unwrap();
                assert_eq!(
                    found.as_deref(),
                    own.get(&(*tree, key.clone())).map(|v| &v[..])
                );
            }
            Op::Scan(scan) => {
                check_scan(&*txn, &own, scan);
                check_scan(&*before, model, scan);
            }
        }
    }
    match end {
        End::Commit(durability) => {
            txn.commit(durability).unwrap();
            Some(own)
        }
        End::Drop | End::Reopen => None,
    }
}

fn check_scan<T: ReadTxn + ?Sized>(txn: &T, model: &Map, scan: &Scan) {
    let range: KeyRange<'_> = (as_slice(&scan.from), as_slice(&scan.to));
    let mut found = Vec::new();
    txn.scan(scan.tree, range, scan.direction, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(if found.len() < scan.most {
            Flow::Continue
        } else {
            Flow::Stop
        })
    })
    .unwrap();
    let inside = |key: &[u8]| {
        let above = match range.0 {
            Bound::Included(bound) => key >= bound,
            Bound::Excluded(bound) => key > bound,
            Bound::Unbounded => true,
        };
        let below = match range.1 {
            Bound::Included(bound) => key <= bound,
            Bound::Excluded(bound) => key < bound,
            Bound::Unbounded => true,
        };
        above && below
    };
    let mut expected: Vec<_> = model
        .iter()
        .filter(|((tree, key), _)| *tree == scan.tree && inside(key))
        .map(|((_, key), value)| (key.clone(), value.clone()))
        .collect();
    if scan.direction == Direction::Descending {
        expected.reverse();
    }
    expected.truncate(scan.most);
    assert_eq!(found, expected, "{scan:?}");
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}
