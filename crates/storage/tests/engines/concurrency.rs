//! Readers beside a writer, writers one after another, and the effects of a panic.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use archipel_storage::engine::{Durability, Tree};

use crate::fixture::{Fixture, get, put};

const T: Tree = Tree::Rows;

/// Increments a counter by reading and writing. No increment may be lost.
pub fn concurrent_writers_lose_no_changes(fixture: &Fixture) {
    const WRITERS: u64 = 4;
    const EACH: u64 = 50;
    let engine = fixture.open();
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for i in 0..EACH {
                    let mut txn = engine.write().unwrap();
                    let before = txn.get(T, b"n").unwrap().map_or(0, |n| number(&n));
                    txn.put(T, b"n", &(before + 1).to_be_bytes()).unwrap();
                    // Some transactions are dropped.
                    if i % 5 != 0 {
                        let durability = [Durability::Buffered, Durability::Fsync];
                        txn.commit(durability[i as usize % 2]).unwrap();
                    }
                }
            });
        }
    });
    let total = get(&*engine, T, b"n").map(|n| number(&n));
    assert_eq!(total, Some(WRITERS * EACH * 4 / 5));
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Afterwards an engine works or reports why not. It never hangs, and nobody ever sees half a
/// transaction.
pub fn a_panic_undoes_its_transaction(fixture: &Fixture) {
    let engine = fixture.open();
    put(&*engine, T, b"a", b"1");
    let panicked = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut txn = engine.write().unwrap();
            txn.put(T, b"a", b"2").unwrap();
            panic!("on purpose");
        });
        writer.join().is_err()
    });
    assert!(panicked);
    match engine.write() {
        Ok(txn) => txn.commit(Durability::Fsync).unwrap(),
        Err(error) => assert!(error.to_string().contains("panic"), "{error}"),
    }
    assert_eq!(get(&*engine, T, b"a").unwrap(), b"1");
}

/// If one reader has seen a commit, all later readers see it. With LMDB a reader that was delayed
/// at its beginning could see a commit that was still being written.
pub fn no_reader_sees_less_than_an_earlier_one(fixture: &Fixture) {
    const READERS: u64 = 16;
    const COMMITS: u64 = 400;
    let engine = fixture.open();
    let (seen, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let read = || {
        while !done.load(Ordering::SeqCst) {
            let before = seen.load(Ordering::SeqCst);
            let now = get(&*engine, T, b"n").map_or(0, |n| number(&n));
            if now < before {
                return Err(format!("{now} after {before}"));
            }
            seen.fetch_max(now, Ordering::SeqCst);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        for i in 1..=COMMITS {
            let mut txn = engine.write().unwrap();
            txn.put(T, b"n", &i.to_be_bytes()).unwrap();
            let durability = [Durability::Buffered, Durability::Fsync][i as usize % 2];
            txn.commit(durability).unwrap();
        }
        done.store(true, Ordering::SeqCst);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Ok(()));
        }
    });
}

pub fn readers_are_consistent_while_a_writer_commits(fixture: &Fixture) {
    let engine = fixture.open();
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let read = || {
        let mut last = None;
        while !done.load(Ordering::SeqCst) || reads.load(Ordering::SeqCst) < 10 {
            let txn = engine.read().unwrap();
            let a = txn.get(T, b"n").unwrap().map(|v| v.into_owned());
            let b = txn
                .get(Tree::Payloads, b"n")
                .unwrap()
                .map(|v| v.into_owned());
            assert_eq!(a, b, "half a commit is visible");
            assert!(a >= last, "a later reader sees an earlier commit");
            last = a;
            reads.fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(read)));
        for i in 0_u32..100 {
            let mut txn = engine.write().unwrap();
            txn.put(T, b"n", &i.to_be_bytes()).unwrap();
            txn.put(Tree::Payloads, b"n", &i.to_be_bytes()).unwrap();
            let durability = [Durability::Buffered, Durability::Fsync][i as usize % 2];
            txn.commit(durability).unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(reads.load(Ordering::SeqCst) >= 10);
}

pub fn many_readers_are_open_at_once(fixture: &Fixture) {
    let engine = fixture.open();
    put(&*engine, T, b"a", b"1");
    // All have a view at the same moment, some on threads of their own and several on one.
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let first = engine.read().unwrap();
                let second = engine.read().unwrap();
                barrier.wait();
                assert_eq!(first.get(T, b"a").unwrap().unwrap(), &b"1"[..]);
                assert_eq!(second.get(T, b"a").unwrap().unwrap(), &b"1"[..]);
            });
        }
    });
}
