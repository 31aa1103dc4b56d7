//! Copies that are being made, and their remains.
//!
//! # Invariants
//! - A copy has the file `incomplete` from before its first byte until its marker is durable. It is locked meanwhile.
//!   So a folder in which it is not locked is the remains of an interrupted copy, and no other folder is.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::Result;
use super::home::{self, MARKER};
use crate::error::Error;

const INCOMPLETE: &str = "incomplete";

/// Makes a folder for a copy; an existing folder must be empty. Keep the result until the copy is complete or
/// removed: it is the lock.
pub(super) fn begin(folder: &Path) -> Result<File> {
    home::require_empty(folder)?;
    home::create_folder(folder)
        .and_then(|()| home::lock(&folder.join(INCOMPLETE)))
        // It fails if another process makes a copy there, as it should.
        .inspect_err(|_| drop(fs::remove_dir(folder)))
}

/// Makes a copy complete whose marker is durable.
pub(super) fn end(folder: &Path) -> Result<()> {
    let path = folder.join(INCOMPLETE);
    fs::remove_file(&path).map_err(|e| fail(&path, &e))?;
    home::sync_folder(folder)
}

/// Returns true if `folder` is a copy that is being made, or the remains of one.
pub(super) fn is_incomplete(folder: &Path) -> Result<bool> {
    let path = folder.join(INCOMPLETE);
    path.try_exists().map_err(|e| fail(&path, &e))
}

/// Locks `folder` if it is the remains of a copy, and no process makes it now.
pub(super) fn lock_remains(folder: &Path) -> Result<Option<File>> {
    let path = folder.join(INCOMPLETE);
    // Never create it here: the folder may be complete by now.
    let file = match File::options().write(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| fail(&path, &e))?,
    };
    match file.try_lock() {
        // It may have become complete since the file was opened.
        Ok(()) => Ok(is_incomplete(folder)?.then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(fail(&path, &error)),
    }
}

/// Removes a copy. Returns false if there is none. Its marker is removed first and the file `incomplete` last: so what
/// an interruption leaves does not count as complete, and is still known as remains.
pub(super) fn remove(folder: &Path) -> Result<bool> {
    let failed = |e: io::Error| Error::from_io(&format!("removing {}", folder.display()), &e);
    match fs::remove_file(folder.join(MARKER)) {
        Ok(()) => home::sync_folder(folder)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_name() == INCOMPLETE {
            continue;
        }
        let removed = match entry.file_type().map_err(failed)?.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
        removed.map_err(failed)?;
    }
    fs::remove_dir_all(folder).map_err(failed)?;
    Ok(true)
}

fn fail(path: &Path, error: &io::Error) -> Error {
    Error::from_io(&format!("the file {}", path.display()), error)
}
