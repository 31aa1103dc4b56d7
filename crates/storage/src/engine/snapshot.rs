//! Snapshots of metadata: listing and restoring them.
//!
//! A snapshot is a folder that [`Engine::snapshot_to`](super::Engine::snapshot_to) made. Its name
//! is `snapshot-` and the milliseconds since 1970. It refers to blocks, but does not keep them.
//!
//! # Invariants
//! - A copy that is not complete has a file that says so. A start removes no other folder of snapshots: an
//!   operator may be copying one back.
//! - A restore makes a complete copy beside the folder. Then it moves the folder away, and the copy into its place.
//!   If it is interrupted between the two, the next opening of the folder moves the copy.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use super::{EngineKind, EngineOptions, Result, home, incomplete, kind_of, open};
use crate::error::Error;

const PREFIX: &str = "snapshot-";
/// The name of the copy that a restore makes, after that of the folder.
const RESTORING: &str = "restoring";
/// The same, while the complete copy of an interrupted restore is all that there is in place of the folder.
const RESTORING_AGAIN: &str = "restoring-again";

/// The remedy if a restore cannot replace the folder because it is a mount point.
const BELOW: &str =
    "set metadata_dir to a folder below it, move the metadata there, and restore again";

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
    let mut snapshots = Vec::new();
    for (made_ms, entry) in named(folder)? {
        let Ok(Some(kind)) = complete_kind(&entry.path()) else {
            continue;
        };
        snapshots.push(Snapshot {
            bytes: home::size_bytes(&entry.path().join(kind.name()))?,
            name: entry.file_name().to_string_lossy().into_owned(),
            made_ms,
        });
    }
    snapshots.sort_by_key(|snapshot| snapshot.made_ms);
    Ok(snapshots)
}

/// Returns what has the name of a snapshot in `folder`, complete or not, with the time in its name.
fn named(folder: &Path) -> Result<Vec<(u64, DirEntry)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| fail(folder, &error))?,
    };
    let mut named = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| fail(folder, &error))?;
        let name = entry.file_name();
        let made = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if let Some(made_ms) = made.and_then(|ms| ms.parse().ok()) {
            named.push((made_ms, entry));
        }
    }
    Ok(named)
}

/// Returns the kind of engine that a complete copy holds; `None` if there is no complete copy.
fn complete_kind(copy: &Path) -> Result<Option<EngineKind>> {
    match incomplete::is_incomplete(copy)? {
        true => Ok(None),
        false => kind_of(copy),
    }
}

/// Removes what interrupted snapshots left in `snapshots`, and what interrupted restores left beside
/// `folder`. Finishes a restore of which only the last step is missing. No process may have `folder`
/// open, nor restore it.
pub fn remove_remains(snapshots: &Path, folder: &Path) -> Result<()> {
    finish_restore(folder)?;
    for (_, entry) in named(snapshots)? {
        let copy = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(_lock) = incomplete::lock_remains(&copy)?
        {
            remove(&copy)?;
        }
    }
    remove(&beside(folder, RESTORING))?;
    remove(&beside(folder, RESTORING_AGAIN))
}

/// Removes the remains of a copy, if there are any.
fn remove(copy: &Path) -> Result<()> {
    if incomplete::remove(copy)? {
        tracing::info!("removed {}, which an interrupted copy left", copy.display());
    }
    Ok(())
}

/// Replaces `folder` by a copy of `snapshot` and keeps the old folder as `kept`. No process may
/// have either open. After an error the folder is unchanged, or exists complete as `kept`; then the
/// same call may be repeated.
///
/// # Errors
/// [`Error::Refused`] if `folder` and `kept` both exist already.
pub fn restore(snapshot: &Path, folder: &Path, kept: &Path, options: &EngineOptions) -> Result<()> {
    let no_snapshot = || {
        Error::Refused(format!(
            "{} is not a whole snapshot; fix: choose another one",
            snapshot.display()
        ))
    };
    let kind = complete_kind(snapshot)?.ok_or_else(no_snapshot)?;
    let is_missing = home::is_empty(folder)?;
    // An interrupted restore has kept the old folder already.
    if kept.exists() && !is_missing {
        return Err(Error::Refused(format!(
            "{} exists already: the metadata was replaced by this snapshot before; fix: move that folder away",
            kept.display()
        )));
    }
    // Its copy may be of another snapshot. It stays until this one is in place.
    let name = match is_half_done(folder)? {
        true => RESTORING_AGAIN,
        false => RESTORING,
    };
    let new = beside(folder, name);
    remove(&new)?;
    open(kind, snapshot, options)?.snapshot_to(&new)?;
    if !is_missing && let Err(error) = fs::rename(folder, kept) {
        // For instance a mount point. Were it empty at the next start, the copy would take its place.
        remove(&new)?;
        return Err(cannot_replace(folder, &error, BELOW));
    }
    if let Err(error) = fs::rename(&new, folder) {
        if is_missing {
            // Each start would try it in vain.
            remove(&new)?;
        }
        return Err(cannot_replace(folder, &error, BELOW));
    }
    home::sync_parent(folder)?;
    // The next start tries it again.
    if let Err(error) = remove(&beside(folder, RESTORING)) {
        tracing::warn!("the copy of an interrupted restore is left: {error}");
    }
    Ok(())
}

/// Moves the copy of a restore into its place, if the restore was interrupted before that step.
pub(super) fn finish_restore(folder: &Path) -> Result<()> {
    if !is_half_done(folder)? {
        return Ok(());
    }
    let new = beside(folder, RESTORING);
    let unmount = "unmount it, so that the copy of an interrupted restore can take its place";
    fs::rename(&new, folder).map_err(|error| cannot_replace(folder, &error, unmount))?;
    tracing::warn!(
        "{}: the restore of a snapshot was interrupted before its last step, which is done now",
        folder.display()
    );
    home::sync_parent(folder)
}

/// Returns true if a restore has moved `folder` away, and its copy is not in place yet. An empty folder holds nothing
/// either: an operator may have made it since.
fn is_half_done(folder: &Path) -> Result<bool> {
    Ok(home::is_empty(folder)? && complete_kind(&beside(folder, RESTORING))?.is_some())
}

/// Returns the path of a sibling folder whose name has `what` appended.
pub fn beside(folder: &Path, what: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.{what}"))
}

/// Returns the error of a rename to or from `folder`, with the remedy `fix` if it is a mount point.
pub(super) fn cannot_replace(folder: &Path, error: &io::Error, fix: &str) -> Error {
    match error.kind() {
        io::ErrorKind::ResourceBusy => Error::Refused(format!(
            "{} is a mount point, which a restore cannot replace; fix: {fix}",
            folder.display()
        )),
        _ => fail(folder, error),
    }
}

fn fail(path: &Path, error: &io::Error) -> Error {
    Error::from_io(&format!("the folder {}", path.display()), error)
}
