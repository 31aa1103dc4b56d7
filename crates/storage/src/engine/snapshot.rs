//! Snapshots of metadata: listed, and put in the place of what is there.
//!
//! A snapshot is a folder that [`Engine::snapshot_to`](super::Engine::snapshot_to) made, named `snapshot-` and the
//! milliseconds since 1970. It refers to blocks, and keeps none of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::home;
use super::{EngineOptions, Result, kind_of, open};
use crate::error::Error;

const PREFIX: &str = "snapshot-";

/// A snapshot in a folder of snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// What a snapshot that is made now is called.
pub fn name_at(now_ms: u64) -> String {
    format!("{PREFIX}{now_ms}")
}

/// The complete snapshots in `folder`, oldest first; none if there is no such folder.
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

/// Puts a copy of `snapshot` in the place of `folder`, which is kept under `kept`. Nobody may have either open. After an error
/// the folder is as before, or stands whole under `kept`.
///
/// # Errors
/// [`Error::Refused`] if `kept` is there already.
pub fn restore(snapshot: &Path, folder: &Path, kept: &Path) -> Result<()> {
    let no_snapshot = || Error::Refused(format!("{} is no snapshot", snapshot.display()));
    let kind = kind_of(snapshot)?.ok_or_else(no_snapshot)?;
    if kept.exists() {
        return Err(Error::Refused(format!(
            "{} is there already",
            kept.display()
        )));
    }
    let new = beside(folder, "restoring");
    match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(&new, &error)),
        _ => {}
    }
    fs::create_dir(&new).map_err(|error| fail(&new, &error))?;
    open(kind, snapshot, &EngineOptions::default())?.snapshot_to(&new)?;
    if folder.exists() {
        fs::rename(folder, kept).map_err(|error| fail(folder, &error))?;
    }
    fs::rename(&new, folder).map_err(|error| fail(&new, &error))?;
    match folder.parent() {
        Some(parent) => home::sync_folder(parent),
        None => Ok(()),
    }
}

/// A folder beside another one, with something behind its name.
pub fn beside(folder: &Path, what: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.{what}"))
}

fn fail(path: &Path, error: &io::Error) -> Error {
    Error::from_io(&format!("the folder {}", path.display()), error)
}
