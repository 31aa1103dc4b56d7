//! Tests on a full disk. They need a small disk of their own, for instance:
//!
//! ```text
//! mount -t tmpfs -o size=24m none /mnt/small
//! ARCHIPEL_SMALL_DISK=/mnt/small cargo test -p archipel-storage --test engines full -- --ignored
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use archipel_storage::Error;
use archipel_storage::engine::{Durability, Engine, EngineKind, EngineOptions, Tree, open};

use crate::fixture::keys;

const BALLAST_BYTES: usize = 8 << 20;

#[test]
#[ignore = "needs a small disk"]
fn lmdb_continues_after_a_refused_write() {
    goes_on_after_refusing(EngineKind::Lmdb);
}

#[test]
#[ignore = "needs a small disk"]
fn sqlite_continues_after_a_refused_write() {
    goes_on_after_refusing(EngineKind::Sqlite);
}

#[test]
#[ignore = "needs a small disk"]
fn fjall_fails_and_continues_after_reopening() {
    let disk = SmallDisk::new(EngineKind::Fjall);
    let engine = disk.open();
    let (written, error) = fill(&*engine);
    assert!(matches!(error, Error::Failed(_)), "{error}");
    assert!(error.to_string().contains("restart"), "{error}");
    assert!(matches!(engine.write().map(|_| ()), Err(Error::Failed(_))));
    check(&*engine, written);
    drop(engine);
    disk.make_room();
    let engine = disk.open();
    // The outcome of the failed commit was unknown. Now it is there as a whole or not at all.
    let found = keys(&*engine, Tree::Rows).len() as u32;
    assert!(found == written || found == written + 1, "{found}");
    check(&*engine, found);
    put(&*engine, found).unwrap();
    check(&*engine, found + 1);
}

#[test]
#[ignore = "needs a small disk"]
fn a_transaction_that_fills_the_disk_is_undone_as_a_whole() {
    for kind in [EngineKind::Lmdb, EngineKind::Sqlite] {
        let disk = SmallDisk::new(kind);
        let engine = disk.open();
        let mut txn = engine.write().unwrap();
        let outgrown =
            (0..20_000_u32).find_map(|i| txn.put(Tree::Rows, &i.to_be_bytes(), &[1; 4096]).err());
        // SQLite, which keeps some pages in memory, notices at once; LMDB may notice only at the
        // end. If the caller continues after the error, no part of the transaction may be
        // committed.
        let small = txn.put(Tree::Rows, b"small", b"");
        assert_eq!(outgrown.is_some(), small.is_err());
        assert!(matches!(txn.commit(Durability::Fsync), Err(Error::Full(_))));
        check(&*engine, 0);
        put(&*engine, 0).unwrap();
        check(&*engine, 1);
    }
}

fn goes_on_after_refusing(kind: EngineKind) {
    let disk = SmallDisk::new(kind);
    let engine = disk.open();
    let (written, error) = fill(&*engine);
    assert!(matches!(error, Error::Full(_)), "{error}");
    check(&*engine, written);
    // It refuses as often as it is asked.
    for _ in 0..3 {
        assert!(matches!(put(&*engine, written), Err(Error::Full(_))));
    }
    disk.make_room();
    put(&*engine, written).unwrap();
    check(&*engine, written + 1);
    drop(engine);
    check(&*disk.open(), written + 1);
}

struct SmallDisk {
    kind: EngineKind,
    folder: PathBuf,
}

impl SmallDisk {
    fn new(kind: EngineKind) -> SmallDisk {
        let disk = std::env::var_os("ARCHIPEL_SMALL_DISK").expect("ARCHIPEL_SMALL_DISK is not set");
        let folder = Path::new(&disk).join(kind.name());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("ballast"), vec![1; BALLAST_BYTES]).unwrap();
        SmallDisk { kind, folder }
    }

    fn open(&self) -> std::sync::Arc<dyn Engine> {
        let folder = self.folder.join("metadata");
        open(self.kind, &folder, &EngineOptions::default()).unwrap()
    }

    fn make_room(&self) {
        fs::remove_file(self.folder.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Commits until one commit is refused. Returns the number of earlier commits, and the error.
fn fill(engine: &dyn Engine) -> (u32, Error) {
    for i in 0..10_000 {
        if let Err(error) = put(engine, i) {
            return (i, error);
        }
    }
    panic!("the disk is not small");
}

/// Writes several pages at once, so that a write comes out short.
fn put(engine: &dyn Engine, i: u32) -> Result<(), Error> {
    let mut txn = engine.write()?;
    txn.put(Tree::Rows, &i.to_be_bytes(), &[i as u8; 100])?;
    // The bytes do not compress.
    let large: Vec<u8> = (0..4 * 4096_u32)
        .map(|j| ((j ^ i << 14).wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    txn.put(Tree::Payloads, &i.to_be_bytes(), &large)?;
    txn.commit(Durability::Fsync)
}

fn check(engine: &dyn Engine, written: u32) {
    for tree in [Tree::Rows, Tree::Payloads] {
        let found = keys(engine, tree);
        let expected: Vec<_> = (0..written).map(|i| i.to_be_bytes().to_vec()).collect();
        assert!(found == expected, "{} of {written}", found.len());
    }
}
