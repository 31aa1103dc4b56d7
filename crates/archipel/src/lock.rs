//! The lock on the data folder: two servers never open one.
//!
//! Metadata and disks, which may be elsewhere, are locked by storage.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

/// The file that is locked. It stays when the server ends; the lock does not.
const LOCK_FILE: &str = "archipel.lock";

/// Holds a folder until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Creates `folder` if need be, and locks it.
    ///
    /// # Errors
    /// A text for the operator: the folder cannot be made or is in use.
    pub fn take(folder: &Path) -> Result<FolderLock, String> {
        lock(folder).map(|file| FolderLock { _file: file })
    }
}

fn lock(folder: &Path) -> Result<File, String> {
    let cannot = |error| {
        format!(
            "the folder {} cannot be used: {error}; fix: create it and give it to the server's user",
            folder.display()
        )
    };
    fs::create_dir_all(folder).map_err(cannot)?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK_FILE))
        .map_err(cannot)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "the folder {} is in use by another archipel server; fix: stop that one, or give this one a folder of its own",
            folder.display()
        )),
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}
