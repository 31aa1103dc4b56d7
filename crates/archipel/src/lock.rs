//! The lock on the data folder, which keeps two servers from using the same one.
//!
//! Storage locks the metadata and the disks, which may be elsewhere.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

/// The locked file. It stays when the server ends; the lock does not.
const LOCK_FILE: &str = "archipel.lock";

/// A lock on a folder. It ends when the value is dropped or the process ends in any way.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Creates `folder` if needed, and locks it.
    ///
    /// # Errors
    /// A text for the operator: the folder cannot be created or is in use.
    pub fn take(folder: &Path) -> Result<FolderLock, String> {
        lock(folder).map(|file| FolderLock { _file: file })
    }
}

fn lock(folder: &Path) -> Result<File, String> {
    let cannot = |error| {
        format!(
            "cannot use the folder {}: {error}; fix: create it and give it to the server's user",
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
            "the folder {} is in use by another archipel server; fix: stop that server, or use another folder for this one",
            folder.display()
        )),
        Err(TryLockError::Error(error)) => Err(cannot(error)),
    }
}
