//! Starts after a run that ended badly. A sync that failed may have left the kernel's cache clean: it holds what the
//! disk does not. So a start writes again what the engine reads from its log.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use archipel_storage::engine::{EngineKind, EngineOptions, Tree, open};

use crate::fixture::{Fixture, get, put};

/// Makes a file look as if it had not been written for long.
fn age(file: &Path) {
    let file = File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

fn is_aged(file: &Path) -> bool {
    let modified = fs::metadata(file).and_then(|about| about.modified());
    modified.is_ok_and(|modified| modified == SystemTime::UNIX_EPOCH)
}

#[test]
fn sqlite_writes_its_log_again() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = EngineOptions::default();
    let engine = open(EngineKind::Sqlite, folder.path(), &options).unwrap();
    put(&*engine, Tree::Rows, b"a", b"1");
    // A killed process leaves such files.
    let log = "sqlite/metadata.sqlite-wal";
    fs::create_dir(copy.path().join("sqlite")).unwrap();
    for name in ["engine.json", "sqlite/metadata.sqlite", log] {
        fs::copy(folder.path().join(name), copy.path().join(name)).unwrap();
    }
    let log = copy.path().join(log);
    age(&log);
    assert!(is_aged(&log));
    let copied = open(EngineKind::Sqlite, copy.path(), &options).unwrap();
    assert!(!is_aged(&log));
    assert_eq!(get(&*copied, Tree::Rows, b"a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn fjall_writes_its_journals_again() {
    let fixture = Fixture::new(EngineKind::Fjall);
    let (_, folder) = fixture.files().unwrap();
    put(&*fixture.open(), Tree::Rows, b"a", b"1");
    // This start cuts off the space that was allocated ahead.
    drop(fixture.open());
    let files = fs::read_dir(folder.join("fjall")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let journals: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "jnl"))
        .collect();
    assert!(!journals.is_empty());
    for journal in &journals {
        age(journal);
    }
    assert!(journals.iter().all(|journal| is_aged(journal)));
    let engine = fixture.open();
    assert!(!journals.iter().any(|journal| is_aged(journal)));
    assert_eq!(get(&*engine, Tree::Rows, b"a").as_deref(), Some(&b"1"[..]));
}
