//! Tests of LMDB alone: the map, resident pages.

use std::fs;

use archipel_storage::Error;
use archipel_storage::engine::lmdb::LmdbEngine;
use archipel_storage::engine::{
    Direction, Durability, Engine, EngineOptions, Flow, ReadTxn, Tree, WriteTxn,
};

use crate::fixture::{ALL, entries};

fn all(txn: &dyn ReadTxn, tree: Tree) -> Vec<(Vec<u8>, Vec<u8>)> {
    entries(txn, tree, ALL, Direction::Ascending)
}

fn fill(engine: &LmdbEngine, mebibytes: u32) {
    for i in 0..mebibytes {
        let mut txn = engine.write().unwrap();
        fill_with(txn.as_mut(), i);
        txn.commit(Durability::Buffered).unwrap();
    }
}

/// Writes a mebibyte.
fn fill_with(txn: &mut dyn WriteTxn, i: u32) {
    for j in 0..256_u32 {
        let key = [i.to_be_bytes(), j.to_be_bytes()].concat();
        txn.put(Tree::Payloads, &key, &vec![i as u8; 4000]).unwrap();
    }
}

fn data_file(folder: &tempfile::TempDir) -> String {
    let file = folder.path().join("lmdb/data.mdb");
    fs::canonicalize(file).unwrap().display().to_string()
}

/// Returns the resident bytes of this process's shared mappings of a file, as the kernel counts
/// them.
fn resident_of(file: &str) -> u64 {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = smaps.lines().skip_while(|line| !line.ends_with(file));
    let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024
}

fn without_limit() -> EngineOptions {
    EngineOptions {
        resident_bytes: u64::MAX / 2,
        ..EngineOptions::default()
    }
}

/// The test needs a process of its own, because the limit counts all mapped files, even those of
/// other tests.
#[test]
fn resident_pages_stay_within_the_limit() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "lmdb::resident_pages_stay_within_the_limit_in_a_process_of_its_own",
        ])
        .args(["--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

/// Commits, then scans, then gets.
#[test]
#[ignore = "run by `resident_pages_stay_within_the_limit`"]
fn resident_pages_stay_within_the_limit_in_a_process_of_its_own() {
    // The program itself counts too.
    const LIMIT: u64 = 32 << 20;
    // More pages are mapped between two checks.
    const SOME_MORE: u64 = 8 << 20;
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        resident_bytes: LIMIT,
        ..EngineOptions::default()
    };
    let engine = LmdbEngine::open(folder.path(), &options).unwrap();
    let file = data_file(&folder);
    for round in 0..96 {
        let mut txn = engine.write().unwrap();
        fill_with(txn.as_mut(), round);
        txn.commit(Durability::Buffered).unwrap();
        assert!(resident_of(&file) <= LIMIT + SOME_MORE);
    }
    let read = engine.read().unwrap();
    let mut seen = 0_u32;
    read.scan(
        Tree::Payloads,
        ALL,
        Direction::Ascending,
        &mut |_, value| {
            // Only bytes that are read are mapped.
            seen += u32::from(value[0] == value[3999]);
            Ok(Flow::Continue)
        },
    )
    .unwrap();
    drop(read);
    assert!(resident_of(&file) <= LIMIT + SOME_MORE);
    assert_eq!(seen, 96 * 256);
    for i in 0..96_u32 {
        for j in (0..256_u32).step_by(16) {
            let read = engine.read().unwrap();
            let key = [i.to_be_bytes(), j.to_be_bytes()].concat();
            let value = read.get(Tree::Payloads, &key).unwrap().unwrap();
            assert_eq!(value[2000], i as u8);
        }
    }
    assert!(resident_of(&file) <= LIMIT + SOME_MORE);
}

#[test]
fn trimming_unmaps_resident_pages_and_loses_nothing() {
    const LIMIT: u64 = 4 << 20;
    let folder = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(folder.path(), &without_limit()).unwrap();
    fill(&engine, 24);
    let file = data_file(&folder);
    let read = engine.read().unwrap();
    let before = all(read.as_ref(), Tree::Payloads);
    let held = read.get(Tree::Payloads, &[0; 8]).unwrap().unwrap();
    assert!(resident_of(&file) > 2 * LIMIT);
    // Below the limit nothing is done.
    assert!(engine.trim_resident(1 << 40).unwrap() > 2 * LIMIT);
    assert!(resident_of(&file) > 2 * LIMIT);
    assert!(engine.trim_resident(LIMIT).unwrap() > 2 * LIMIT);
    assert!(resident_of(&file) < LIMIT);
    // Pages that a reader holds, and later pages, are unmapped too.
    assert_eq!(held[..], [0; 4000]);
    assert!(all(read.as_ref(), Tree::Payloads) == before);
    fill(&engine, 25);
    engine.trim_resident(0).unwrap();
    let read = engine.read().unwrap();
    assert_eq!(all(read.as_ref(), Tree::Payloads).len(), 25 * 256);
}

#[test]
fn trimming_runs_beside_readers_and_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(folder.path(), &EngineOptions::default()).unwrap();
    fill(&engine, 4);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..100 {
                let read = engine.read().unwrap();
                assert!(all(read.as_ref(), Tree::Payloads).len() >= 4 * 256);
            }
        });
        scope.spawn(|| fill(&engine, 8));
        while !reader.is_finished() {
            engine.trim_resident(0).unwrap();
        }
    });
}

/// Growing writes are refused while there is still room for deletions.
#[test]
fn a_map_reports_that_it_is_nearly_full() {
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        map_bytes: Some(16 << 20),
        ..EngineOptions::default()
    };
    let engine = LmdbEngine::open(folder.path(), &options).unwrap();
    let mut written = 0;
    while !engine.is_nearly_full(0) {
        let mut txn = engine.write().unwrap();
        fill_with(txn.as_mut(), written);
        txn.commit(Durability::Buffered).unwrap();
        written += 1;
        assert!(written < 16);
    }
    // Each of these leaves its pages free for later ones.
    for i in 0..written {
        let mut txn = engine.write().unwrap();
        for j in 0..256_u32 {
            let key = [i.to_be_bytes(), j.to_be_bytes()].concat();
            assert!(txn.delete(Tree::Payloads, &key).unwrap());
        }
        txn.commit(Durability::Fsync).unwrap();
    }
    assert!(!engine.is_nearly_full(0));
}

/// The size need not be a multiple of a page.
#[test]
fn a_map_of_any_size_can_be_opened_and_be_smaller_than_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let open = |map_bytes| {
        let options = EngineOptions {
            map_bytes: Some(map_bytes),
            ..EngineOptions::default()
        };
        LmdbEngine::open(folder.path(), &options)
    };
    let engine = open(64_000_001).unwrap();
    fill(&engine, 8);
    assert!(!engine.is_nearly_full(0));
    drop(engine);
    // The data stays readable and can be deleted.
    let engine = open(1).unwrap();
    assert!(engine.is_nearly_full(0));
    assert_eq!(
        all(engine.read().unwrap().as_ref(), Tree::Payloads).len(),
        8 * 256
    );
    drop(engine);
    let refused = open(1 << 62).map(|_| ()).unwrap_err();
    assert!(
        matches!(&refused, Error::Refused(why) if why.contains("metadata_map_size")),
        "{refused:?}"
    );
    assert!(!open(64_000_001).unwrap().is_nearly_full(0));
}

#[test]
fn a_full_map_refuses_the_write_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        map_bytes: Some(2 << 20),
        ..EngineOptions::default()
    };
    let engine = LmdbEngine::open(folder.path(), &options).unwrap();
    fill(&engine, 1);
    let large = vec![1; 3 << 20];
    for _ in 0..2 {
        let mut txn = engine.write().unwrap();
        let put = txn.put(Tree::Rows, b"large", &large);
        assert!(
            matches!(&put, Err(Error::Full(why)) if why.contains("metadata_map_size")),
            "{put:?}"
        );
        // A commit after the error gets the same error and changes nothing.
        let commit = txn.commit(Durability::Fsync);
        assert!(matches!(commit, Err(Error::Full(_))), "{commit:?}");
    }
    let mut txn = engine.write().unwrap();
    assert!(txn.delete(Tree::Payloads, &[0; 8]).unwrap());
    txn.put(Tree::Rows, b"small", b"1").unwrap();
    txn.commit(Durability::Fsync).unwrap();
    let read = engine.read().unwrap();
    assert_eq!(all(read.as_ref(), Tree::Rows).len(), 1);
    assert_eq!(all(read.as_ref(), Tree::Payloads).len(), 255);
    drop(read);
    drop(engine);
    // A larger map has room.
    let engine = LmdbEngine::open(folder.path(), &EngineOptions::default()).unwrap();
    let mut txn = engine.write().unwrap();
    txn.put(Tree::Rows, b"large", &large).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}
