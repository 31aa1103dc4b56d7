//! Checkpoints that fail, with files that are replaced below SQLite.

use super::checkpoint::CHECKPOINT_FRAMES;
use super::*;
use crate::engine::tests::replaced::{Replaced, descriptor};

fn open(folder: &Path) -> SqliteEngine {
    SqliteEngine::open(folder, &EngineOptions::default()).unwrap()
}

/// Commits a little, and begins a transaction that is not synced by its commit and brings about a checkpoint.
fn begin_large(engine: &SqliteEngine) -> Box<dyn WriteTxn + '_> {
    let mut small = engine.write().unwrap();
    small.put(Tree::Rows, b"small", b"1").unwrap();
    small.commit(Durability::Buffered).unwrap();
    let mut large = engine.write().unwrap();
    for i in 0..CHECKPOINT_FRAMES {
        large
            .put(Tree::Payloads, &i.to_be_bytes(), &[7; 4000])
            .unwrap();
    }
    large
}

fn assert_final(engine: &SqliteEngine, committed: Result<()>) {
    assert!(matches!(committed, Err(Error::Failed(_))), "{committed:?}");
    for later in [engine.write().map(drop), engine.sync()] {
        assert!(matches!(later, Err(Error::Failed(_))), "{later:?}");
    }
}

/// The commit's pages are lost, and later syncs of the log succeed.
#[test]
fn a_failed_sync_of_the_log_in_a_checkpoint_is_final() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path());
    let large = begin_large(&engine);
    let log = descriptor(&folder.path().join("sqlite").join(LOG_FILE));
    let replaced = Replaced::new(log, "/dev/null");
    let committed = large.commit(Durability::Buffered);
    drop(replaced);
    assert_final(&engine, committed);
}

/// The file is beyond a quota, for instance. The log is synced and has all pages.
#[test]
fn a_failed_write_in_a_checkpoint_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sqlite").join(DATA_FILE);
    let engine = open(folder.path());
    let large = begin_large(&engine);
    let before = std::fs::metadata(&file).unwrap().len();
    let replaced = Replaced::unwritable(descriptor(&file));
    large.commit(Durability::Buffered).unwrap();
    drop(replaced);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), before);
    let mut later = engine.write().unwrap();
    later.put(Tree::Rows, b"later", b"1").unwrap();
    later.commit(Durability::Fsync).unwrap();
    let copied = std::fs::metadata(&file).unwrap().len();
    assert!(copied > u64::try_from(CHECKPOINT_FRAMES).unwrap() * 4000);
}

/// A sync commits something by itself, and so brings about the checkpoint that an earlier commit could not finish.
#[test]
fn a_sync_tells_that_its_checkpoint_failed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sqlite").join(DATA_FILE);
    let engine = open(folder.path());
    let large = begin_large(&engine);
    let replaced = Replaced::unwritable(descriptor(&file));
    large.commit(Durability::Buffered).unwrap();
    drop(replaced);
    let replaced = Replaced::new(descriptor(&file), "/dev/null");
    let synced = engine.sync();
    drop(replaced);
    assert_final(&engine, synced);
}

/// The checkpoint's pages are lost, and only the log still has them.
#[test]
fn after_a_failed_checkpoint_the_log_is_left_to_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("sqlite");
    let engine = open(folder.path());
    let large = begin_large(&engine);
    let replaced = Replaced::new(descriptor(&data.join(DATA_FILE)), "/dev/null");
    let committed = large.commit(Durability::Buffered);
    drop(replaced);
    assert_final(&engine, committed);
    drop(engine);
    assert!(data.join(LOG_FILE).exists());
    let engine = open(folder.path());
    let txn = engine.read().unwrap();
    assert!(txn.get(Tree::Rows, b"small").unwrap().is_some());
    for i in 0..CHECKPOINT_FRAMES {
        let value = txn.get(Tree::Payloads, &i.to_be_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&[7; 4000][..]));
    }
    drop(txn);
    drop(engine);
    // A good end copies the log and removes it.
    assert!(!data.join(LOG_FILE).exists());
}
