//! Commits that fail, with files that are replaced below LMDB.

use std::os::fd::{AsRawFd, RawFd};

use super::*;
use crate::engine::tests::replaced::{Replaced, descriptors};

fn commit(engine: &LmdbEngine) -> Result<()> {
    let mut txn = engine.write()?;
    txn.put(Tree::Rows, b"key", b"value")?;
    txn.commit(Durability::Fsync)
}

/// Lets each write find no space.
fn no_space(descriptors: &[RawFd]) -> Vec<Replaced> {
    let replaced = descriptors
        .iter()
        .map(|number| Replaced::new(*number, "/dev/full"));
    replaced.collect()
}

/// LMDB does not say which of its calls failed. After a failed sync, the content of the disk is unknown.
#[test]
fn a_failed_sync_does_not_count_as_lack_of_space() {
    let folder = tempfile::tempdir().unwrap();
    let engine = LmdbEngine::open(folder.path(), &EngineOptions::default()).unwrap();
    let own = engine.file.as_raw_fd();
    let mut of_lmdb = descriptors(&folder.path().join("lmdb").join(DATA_FILE));
    of_lmdb.retain(|number| *number != own);
    assert!(!of_lmdb.is_empty());
    let full = no_space(&of_lmdb);
    for _ in 0..2 {
        let refused = commit(&engine);
        assert!(matches!(refused, Err(Error::Full(_))), "{refused:?}");
    }
    drop(full);
    commit(&engine).unwrap();
    let full = no_space(&of_lmdb);
    let unsynced = Replaced::new(own, "/dev/null");
    let failed = commit(&engine);
    assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    drop((full, unsynced));
    let later = commit(&engine);
    assert!(matches!(later, Err(Error::Failed(_))), "{later:?}");
}
