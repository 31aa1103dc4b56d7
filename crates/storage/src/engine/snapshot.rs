//! Snapshots of metadata: listing and restoring them.
//!
//! A snapshot is a folder that [`Engine::snapshot_to`](super::Engine::snapshot_to) made. Its name
//! is `snapshot-` and the milliseconds since 1970. It refers to blocks, but does not keep them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::home;
use super::{EngineOptions, Result, kind_of, open};
use crate::error::Error;

const PREFIX: &str = "snapshot-";

/// A snapshot in the folder of snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The time when it was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// Its size on disk in bytes.
    pub bytes: u64,
}

/// Returns the name of a snapshot that is made at `now_ms`.
pub fn name_at(now_ms: u64) -> String {
    format!("{PREFIX}{now_ms}")
}

/// Returns the complete snapshots in `folder`, oldest first; none if the folder does not exist.
pub fn list(folder: &Path) -> Result<Vec<Snapshot>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| fail(folder, &error))?,
    };
    let mut snapshots = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| fail(folder, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let made = name.strip_prefix(PREFIX).and_then(|ms| ms.parse().ok());
        let (Some(made_ms), Ok(Some(kind))) = (made, kind_of(&entry.path())) else {
            continue;
        };
        snapshots.push(Snapshot {
            bytes: home::size_bytes(&entry.path().join(kind.name()))?,
            name,
            made_ms,
        });
    }
    snapshots.sort_by_key(|snapshot| snapshot.made_ms);
    Ok(snapshots)
}

/// Replaces `folder` by a copy of `snapshot` and keeps the old folder as `kept`. No process may
/// have either open. After an error the folder is unchanged, or exists complete as `kept`.
///
/// # Errors
/// [`Error::Refused`] if `kept` exists already.
pub fn restore(snapshot: &Path, folder: &Path, kept: &Path, options: &EngineOptions) -> Result<()> {
    let no_snapshot = || Error::Refused(format!("{} is not a snapshot", snapshot.display()));
    let kind = kind_of(snapshot)?.ok_or_else(no_snapshot)?;
    if kept.exists() {
        return Err(Error::Refused(format!("{} exists already", kept.display())));
    }
    let new = beside(folder, "restoring");
    match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(&new, &error)),
        _ => {}
    }
    fs::create_dir(&new).map_err(|error| fail(&new, &error))?;
    open(kind, snapshot, options)?.snapshot_to(&new)?;
    if folder.exists() {
        fs::rename(folder, kept).map_err(|error| fail(folder, &error))?;
    }
    fs::rename(&new, folder).map_err(|error| fail(&new, &error))?;
    match folder.parent() {
        Some(parent) => home::sync_folder(parent),
        None => Ok(()),
    }
}

/// Returns the path of a sibling folder whose name has `what` appended.
pub fn beside(folder: &Path, what: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.{what}"))
}

fn fail(path: &Path, error: &io::Error) -> Error {
    Error::from_io(&format!("the folder {}", path.display()), error)
}
