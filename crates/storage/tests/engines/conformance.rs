//! The conformance suite of all engines.

use std::ops::Bound::{Excluded, Included, Unbounded};

use archipel_storage::Error;
use archipel_storage::engine::{
    Direction, Durability, EngineOptions, Flow, KeyRange, MAX_KEY_BYTES, Tree, open,
};

use crate::fixture::{ALL, Fixture, entries, error_of, get, keys, put};

const T: Tree = Tree::Rows;

pub fn put_values_are_read_back(fixture: &Fixture) {
    let engine = fixture.open();
    assert_eq!(get(&*engine, T, b"a"), None);
    put(&*engine, T, b"a", b"one");
    assert_eq!(get(&*engine, T, b"a").unwrap(), b"one");
    put(&*engine, T, b"a", b"two, and longer");
    assert_eq!(get(&*engine, T, b"a").unwrap(), b"two, and longer");
    put(&*engine, T, b"empty", b"");
    assert_eq!(get(&*engine, T, b"empty").unwrap(), b"");
    let mut txn = engine.write().unwrap();
    assert!(txn.delete(T, b"a").unwrap());
    assert!(!txn.delete(T, b"a").unwrap());
    assert!(!txn.delete(T, b"never").unwrap());
    txn.commit(Durability::Fsync).unwrap();
    assert_eq!(keys(&*engine, T), [b"empty"]);
    assert!(engine.size_bytes().unwrap() > 0);
}

pub fn transactions_see_their_own_changes(fixture: &Fixture) {
    let engine = fixture.open();
    put(&*engine, T, b"b", b"old");
    put(&*engine, T, b"c", b"old");
    let mut txn = engine.write().unwrap();
    txn.put(T, b"a", b"new").unwrap();
    txn.put(T, b"b", b"new").unwrap();
    assert!(txn.delete(T, b"c").unwrap());
    txn.put(T, b"d", b"new").unwrap();
    assert!(txn.delete(T, b"d").unwrap());
    assert_eq!(txn.get(T, b"b").unwrap().unwrap(), &b"new"[..]);
    assert_eq!(txn.get(T, b"c").unwrap(), None);
    let new = |key: &[u8]| (key.to_vec(), b"new".to_vec());
    let expected = [new(b"a"), new(b"b")];
    assert_eq!(entries(&*txn, T, ALL, Direction::Ascending), expected);
    let mut backwards = entries(&*txn, T, ALL, Direction::Descending);
    backwards.reverse();
    assert_eq!(backwards, expected);
    // Nobody else sees them yet.
    assert_eq!(keys(&*engine, T), [b"b", b"c"]);
    txn.commit(Durability::Fsync).unwrap();
    assert_eq!(keys(&*engine, T), [b"a", b"b"]);
}

pub fn dropped_transactions_leave_nothing(fixture: &Fixture) {
    let engine = fixture.open();
    put(&*engine, T, b"a", b"1");
    let mut txn = engine.write().unwrap();
    txn.put(T, b"a", b"2").unwrap();
    txn.put(T, b"b", b"2").unwrap();
    drop(txn);
    assert_eq!(get(&*engine, T, b"a").unwrap(), b"1");
    assert_eq!(get(&*engine, T, b"b"), None);
    put(&*engine, T, b"c", b"3");
    assert_eq!(keys(&*engine, T), [b"a", b"c"]);
}

pub fn readers_keep_their_view_while_others_write(fixture: &Fixture) {
    let engine = fixture.open();
    put(&*engine, T, b"a", b"1");
    let before = engine.read().unwrap();
    let mut txn = engine.write().unwrap();
    txn.put(T, b"a", b"2").unwrap();
    txn.put(T, b"b", b"2").unwrap();
    let during = engine.read().unwrap();
    txn.commit(Durability::Buffered).unwrap();
    let after = engine.read().unwrap();
    put(&*engine, T, b"c", b"3");
    for view in [&before, &during] {
        assert_eq!(view.get(T, b"a").unwrap().unwrap(), &b"1"[..]);
        assert_eq!(entries(&**view, T, ALL, Direction::Ascending).len(), 1);
    }
    assert_eq!(after.get(T, b"a").unwrap().unwrap(), &b"2"[..]);
    assert_eq!(entries(&*after, T, ALL, Direction::Descending).len(), 2);
}

pub fn scans_respect_all_kinds_of_bounds(fixture: &Fixture) {
    let engine = fixture.open();
    let mut txn = engine.write().unwrap();
    for key in [&b"a"[..], b"b", b"b\0", b"bb", b"c", b"\xff", b"\xff\xff"] {
        txn.put(T, key, b"").unwrap();
    }
    txn.commit(Durability::Fsync).unwrap();
    let txn = engine.read().unwrap();
    let edges: [&[u8]; 8] = [
        b"",
        b"a",
        b"b",
        b"b\0",
        b"ba",
        b"\xff",
        b"\xff\xff",
        b"\xff\xff\xff",
    ];
    let all = keys(&*engine, T);
    let mut bounds = vec![Unbounded];
    bounds.extend(edges.iter().flat_map(|e| [Included(*e), Excluded(*e)]));
    for range in bounds.iter().flat_map(|a| bounds.iter().map(|b| (*a, *b))) {
        let range: KeyRange<'_> = range;
        let mut expected: Vec<_> = all.iter().filter(|k| contains(range, k)).cloned().collect();
        let found = |direction| -> Vec<Vec<u8>> {
            let found = entries(&*txn, T, range, direction);
            found.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(found(Direction::Ascending), expected, "{range:?}");
        expected.reverse();
        assert_eq!(found(Direction::Descending), expected, "{range:?}");
    }
}

fn contains(range: KeyRange<'_>, key: &[u8]) -> bool {
    let above = match range.0 {
        Included(bound) => key >= bound,
        Excluded(bound) => key > bound,
        Unbounded => true,
    };
    let below = match range.1 {
        Included(bound) => key <= bound,
        Excluded(bound) => key < bound,
        Unbounded => true,
    };
    above && below
}

pub fn visitors_can_stop_and_fail_a_scan(fixture: &Fixture) {
    let engine = fixture.open();
    for key in [b"a", b"b", b"c"] {
        put(&*engine, T, key, b"");
    }
    let txn = engine.read().unwrap();
    for (direction, first) in [(Direction::Ascending, b"a"), (Direction::Descending, b"c")] {
        let mut seen = Vec::new();
        let mut stop = |key: &[u8], _: &[u8]| {
            seen.push(key.to_vec());
            Ok(Flow::Stop)
        };
        txn.scan(T, ALL, direction, &mut stop).unwrap();
        assert_eq!(seen, [first]);
        let mut fail = |_: &[u8], _: &[u8]| Err(Error::NoBlock("mine".into()));
        let error = error_of(txn.scan(T, ALL, direction, &mut fail));
        assert!(matches!(error, Error::NoBlock(text) if text == "mine"));
    }
}

pub fn visitors_may_read_the_same_transaction(fixture: &Fixture) {
    let engine = fixture.open();
    put(&*engine, T, b"a", b"x");
    put(&*engine, T, b"b", b"y");
    put(&*engine, Tree::Payloads, b"x", b"1");
    put(&*engine, Tree::Payloads, b"y", b"2");
    let check = |txn: &dyn archipel_storage::engine::ReadTxn| {
        let mut seen = Vec::new();
        txn.scan(T, ALL, Direction::Ascending, &mut |_, value| {
            seen.push(txn.get(Tree::Payloads, value)?.unwrap().into_owned());
            assert_eq!(entries(txn, T, ALL, Direction::Descending).len(), 2);
            Ok(Flow::Continue)
        })
        .unwrap();
        assert_eq!(seen, [b"1", b"2"]);
    };
    check(&*engine.read().unwrap());
    check(&*engine.write().unwrap());
}

pub fn impossible_keys_are_refused(fixture: &Fixture) {
    let engine = fixture.open();
    let too_long = vec![7; MAX_KEY_BYTES + 1];
    let mut txn = engine.write().unwrap();
    for key in [&b""[..], &too_long] {
        let error = error_of(txn.put(T, key, b"value"));
        assert!(matches!(error, Error::Refused(_)), "{error}");
        assert_eq!(txn.get(T, key).unwrap(), None);
        assert!(!txn.delete(T, key).unwrap());
    }
    // The transaction can continue.
    txn.put(T, b"a", b"").unwrap();
    txn.commit(Durability::Fsync).unwrap();
    let txn = engine.read().unwrap();
    assert_eq!(txn.get(T, &too_long).unwrap(), None);
    let found = entries(
        &*txn,
        T,
        (Included(b""), Excluded(&too_long)),
        Direction::Descending,
    );
    assert_eq!(found.len(), 0);
    let found = entries(
        &*txn,
        T,
        (Excluded(&too_long), Unbounded),
        Direction::Ascending,
    );
    assert_eq!(found.len(), 1);
}

pub fn keys_of_the_maximum_length_work(fixture: &Fixture) {
    let engine = fixture.open();
    // They differ only in the last byte.
    let long = |last: u8| {
        let mut key = vec![0xab; MAX_KEY_BYTES];
        key[MAX_KEY_BYTES - 1] = last;
        key
    };
    let mut txn = engine.write().unwrap();
    for last in 0..100 {
        txn.put(T, &long(last), &[last; 40]).unwrap();
    }
    txn.commit(Durability::Fsync).unwrap();
    let txn = engine.read().unwrap();
    for last in 0..100 {
        assert_eq!(txn.get(T, &long(last)).unwrap().unwrap(), &[last; 40][..]);
    }
    let (from, to) = (long(10), long(20));
    let some = entries(
        &*txn,
        T,
        (Included(&from), Excluded(&to)),
        Direction::Ascending,
    );
    assert_eq!(some.len(), 10);
    assert_eq!(some[0].0, from);
}

pub fn large_values_are_read_back(fixture: &Fixture) {
    let engine = fixture.open();
    let large = |seed: u8, len: usize| -> Vec<u8> {
        (0..len)
            .map(|i| (i as u8).wrapping_mul(31) ^ seed)
            .collect()
    };
    let lengths = [4096, 65_536, 1 << 20, (1 << 20) - 1];
    let mut txn = engine.write().unwrap();
    for (i, len) in lengths.into_iter().enumerate() {
        txn.put(Tree::Payloads, &[i as u8], &large(i as u8, len))
            .unwrap();
    }
    txn.commit(Durability::Fsync).unwrap();
    for (i, len) in lengths.into_iter().enumerate() {
        let found = get(&*engine, Tree::Payloads, &[i as u8]).unwrap();
        assert!(found == large(i as u8, len), "{len}");
    }
    put(&*engine, Tree::Payloads, &[2], b"small again");
    assert_eq!(get(&*engine, Tree::Payloads, &[2]).unwrap(), b"small again");
}

pub fn trees_are_independent(fixture: &Fixture) {
    let engine = fixture.open();
    let mut txn = engine.write().unwrap();
    for tree in Tree::ALL {
        txn.put(tree, b"same", tree.name().as_bytes()).unwrap();
    }
    assert!(txn.delete(Tree::Queue, b"same").unwrap());
    txn.commit(Durability::Fsync).unwrap();
    for tree in Tree::ALL {
        let expected = (tree != Tree::Queue).then(|| tree.name().as_bytes().to_vec());
        assert_eq!(get(&*engine, tree, b"same"), expected);
    }
}

pub fn scans_return_many_entries_in_order(fixture: &Fixture) {
    let engine = fixture.open();
    let count = 20_000_u32;
    // Their order is unlike that of the keys.
    let key = |i: u32| i.wrapping_mul(2_654_435_761).to_be_bytes();
    for batch in 0..10 {
        let mut txn = engine.write().unwrap();
        for i in (0..count).filter(|i| i % 10 == batch) {
            txn.put(T, &key(i), &i.to_be_bytes()).unwrap();
        }
        txn.commit(Durability::Buffered).unwrap();
    }
    let mut expected: Vec<_> = (0..count).map(|i| key(i).to_vec()).collect();
    expected.sort();
    assert!(keys(&*engine, T) == expected);
    let mut txn = engine.write().unwrap();
    for i in (0..count).filter(|i| i % 3 != 0) {
        assert!(txn.delete(T, &key(i)).unwrap());
    }
    txn.commit(Durability::Fsync).unwrap();
    assert_eq!(keys(&*engine, T).len(), count.div_ceil(3) as usize);
}

pub fn every_durability_makes_commits_visible(fixture: &Fixture) {
    use Durability::{Buffered, Fsync};
    let engine = fixture.open();
    let order = [Buffered, Buffered, Fsync, Fsync, Buffered, Fsync];
    for (i, durability) in order.into_iter().enumerate() {
        let mut txn = engine.write().unwrap();
        txn.put(T, &[i as u8 + 1], b"").unwrap();
        txn.commit(durability).unwrap();
        assert_eq!(keys(&*engine, T).len(), i + 1);
        // A commit without changes.
        engine.write().unwrap().commit(durability).unwrap();
    }
    engine.sync().unwrap();
    engine.sync().unwrap();
    assert_eq!(keys(&*engine, T).len(), order.len());
}

pub fn entries_survive_reopening(fixture: &Fixture) {
    let Some(_) = fixture.files() else { return };
    for round in 0_u8..4 {
        let engine = fixture.open();
        assert_eq!(keys(&*engine, T).len(), round as usize);
        let mut txn = engine.write().unwrap();
        txn.put(T, &[round + 1], &[round; 1000]).unwrap();
        let durability = [Durability::Buffered, Durability::Fsync][round as usize % 2];
        txn.commit(durability).unwrap();
        let mut undone = engine.write().unwrap();
        undone.put(T, &[100], b"").unwrap();
    }
}

pub fn a_snapshot_is_an_engine_of_its_own(fixture: &Fixture) {
    let target = tempfile::tempdir().unwrap();
    let engine = fixture.open();
    for i in 0_u8..50 {
        put(&*engine, T, &[i + 1], &[i; 2000]);
    }
    let Some((kind, _)) = fixture.files() else {
        assert!(engine.snapshot_to(target.path()).is_err());
        return;
    };
    // A transaction that is open meanwhile is not part of it.
    let mut later = engine.write().unwrap();
    later.put(T, &[200], b"later").unwrap();
    engine.snapshot_to(target.path()).unwrap();
    later.commit(Durability::Fsync).unwrap();
    let copy = open(kind, target.path(), &EngineOptions::default()).unwrap();
    let expected: Vec<_> = (1_u8..=50).map(|i| vec![i]).collect();
    assert_eq!(keys(&*copy, T), expected);
    assert_eq!(get(&*copy, T, &[50]).unwrap(), [49; 2000]);
    // The copy is an engine of its own.
    put(&*copy, T, &[99], b"");
    assert_eq!(get(&*engine, T, &[99]), None);
    assert_eq!(get(&*engine, T, &[200]).unwrap(), b"later");
    let error = error_of(engine.snapshot_to(target.path()));
    assert!(matches!(error, Error::Refused(_)), "{error}");
}
