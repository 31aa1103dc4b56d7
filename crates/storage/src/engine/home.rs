//! The folder of an engine: its files, its format, and the lock of the process that has it open.
//!
//! ```text
//! <folder>/engine.json     {"engine":"lmdb","format":3}: which engine's files are current;
//!                          with "complete":false while they are made for the first time
//! <folder>/<kind>/         the engine's own files; with LMDB also those of its journal
//! <folder>/<kind>.lock     locked while the engine is open
//! <folder>/incomplete      only in a copy that is being made, see `incomplete`
//! ```
//!
//! # Invariants
//! - `engine.json` is written before the first file of a new engine. A rename replaces it only when
//!   a conversion is complete and on stable storage.
//! - Nothing is committed to an engine before `engine.json` marks it as complete. Files of an
//!   incomplete engine are remains of an interrupted first start, and are made again.
//! - A folder with an engine's files but without `engine.json` is damaged, not new. It is not
//!   opened.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{EngineKind, Result, snapshot};
use crate::error::Error;

/// The version of the files above and of the trees in them. LMDB has a journal since 2, and segments
/// of values since 3; without them it gets them when it is opened.
const FORMAT: u32 = 3;
pub(super) const MARKER: &str = "engine.json";
/// The bytes that are written again at once.
pub(super) const CHUNK_BYTES: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Marker {
    engine: String,
    format: u32,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    complete: bool,
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

/// An engine's folder, held open and locked: nobody else can open it meanwhile.
pub(super) struct Home {
    /// The folder of the engine's own files.
    pub(super) data: PathBuf,
    /// The folder and kind to mark as complete once the engine has been made.
    unfinished: Option<(PathBuf, EngineKind)>,
    _lock: File,
}

impl Home {
    /// Opens the folder of an engine of `kind`, or makes a new one.
    pub(super) fn open(folder: &Path, kind: EngineKind) -> Result<Home> {
        snapshot::finish_restore(folder)?;
        let marker = read_marker(folder)?;
        if let Some(found) = &marker
            && found.kind != kind
        {
            return Err(wrong_kind(folder, found.kind, kind));
        }
        if marker.is_none() {
            refuse_remains(folder)?;
        }
        let must_exist = marker.is_some_and(|found| found.complete);
        let mut home = Home::unmarked(folder, kind, must_exist)?;
        // Check again under the lock, because another process may have made or converted the
        // engine.
        match read_marker(folder)? {
            Some(found) if found.kind != kind => return Err(wrong_kind(folder, found.kind, kind)),
            Some(found) if found.complete => {
                if found.format < FORMAT {
                    mark(folder, kind)?;
                }
                return Ok(home);
            }
            Some(_) => home.remove_remains()?,
            None => write_marker(folder, kind, false)?,
        }
        home.unfinished = Some((folder.to_path_buf(), kind));
        Ok(home)
    }

    /// Marks the engine as complete. Call it when the engine's files are on stable storage, before
    /// the engine is used.
    pub(super) fn complete(&mut self) -> Result<()> {
        match self.unfinished.take() {
            Some((folder, kind)) => mark(&folder, kind),
            None => Ok(()),
        }
    }

    /// Removes the remains of an interrupted first start.
    fn remove_remains(&self) -> Result<()> {
        tracing::warn!(
            "{}: its first start was interrupted, so it is made again",
            self.data.display()
        );
        fs::remove_dir_all(&self.data)
            .map_err(|e| Error::from_io(&format!("emptying {}", self.data.display()), &e))?;
        create_folder(&self.data)
    }

    /// Makes an empty folder for a copy of `kind`: in a folder of its own, or beside the current engine, which is
    /// converted. The caller marks the copy once it is complete.
    pub(super) fn for_copy(folder: &Path, kind: EngineKind) -> Result<Home> {
        Home::unmarked(folder, kind, false)
    }

    fn unmarked(folder: &Path, kind: EngineKind, must_exist: bool) -> Result<Home> {
        let data = folder.join(kind.name());
        if must_exist && !data.is_dir() {
            return Err(Error::Failed(format!(
                "{} says that the metadata is in {}, which is missing: restore it, or start with a new folder",
                folder.join(MARKER).display(),
                data.display()
            )));
        }
        create_folder(folder)?;
        let lock = lock(&folder.join(format!("{}.lock", kind.name())))?;
        create_folder(&data)?;
        sync_folder(folder)?;
        Ok(Home {
            data,
            unfinished: None,
            _lock: lock,
        })
    }
}

/// Returns the kind of the current engine in `folder`; `None` if there is none yet.
pub(super) fn marked_kind(folder: &Path) -> Result<Option<EngineKind>> {
    Ok(read_marker(folder)?.map(|found| found.kind))
}

/// The content of a marker.
struct Found {
    kind: EngineKind,
    format: u32,
    complete: bool,
}

fn read_marker(folder: &Path) -> Result<Option<Found>> {
    let path = folder.join(MARKER);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Error::from_io(
                &format!("reading {}", path.display()),
                &error,
            ));
        }
    };
    let marker: Marker = serde_json::from_slice(&bytes)
        .map_err(|error| Error::Damaged(format!("{}: {error}", path.display())))?;
    if marker.format > FORMAT {
        return Err(Error::Refused(format!(
            "{}: format {} is of a later release (this one reads up to {FORMAT}): upgrade, or convert with the release that wrote it",
            path.display(),
            marker.format
        )));
    }
    let kind = marker
        .engine
        .parse()
        .map_err(|error| Error::Refused(format!("{}: {error}", path.display())))?;
    Ok(Some(Found {
        kind,
        format: marker.format,
        complete: marker.complete,
    }))
}

/// Makes `kind` the current engine of `folder`, atomically and durably.
pub(super) fn mark(folder: &Path, kind: EngineKind) -> Result<()> {
    write_marker(folder, kind, true)
}

fn write_marker(folder: &Path, kind: EngineKind, complete: bool) -> Result<()> {
    let marker = Marker {
        engine: kind.name().into(),
        format: FORMAT,
        complete,
    };
    let text = serde_json::to_vec(&marker).map_err(|e| Error::Io(e.to_string()))?;
    replace(&folder.join(MARKER), &text)
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(|e| Error::from_io(&format!("writing {}", folder.join(MARKER).display()), &e))
}

/// Makes the entries of `folder` durable.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(|e| Error::from_io(&format!("syncing {}", folder.display()), &e))
}

/// Makes the entry of `folder` in its parent durable.
pub(super) fn sync_parent(folder: &Path) -> Result<()> {
    match folder.parent() {
        Some(parent) if parent.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

/// Writes the content of a file again and syncs it, if the file exists. Call it on an engine's log before the engine
/// reads it: after a sync that failed, the kernel's cache may hold what the disk does not, and a second sync would
/// not write it. Parts that are only zeros stay as they are, so holes remain. Returns how many bytes were written.
pub(super) fn rewrite(path: &Path) -> Result<u64> {
    let fail = |e: io::Error| Error::from_io(&format!("writing {} again", path.display()), &e);
    let file = match File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened.map_err(fail)?,
    };
    let mut chunk = Vec::new();
    let (mut offset, mut written) = (0, 0);
    loop {
        chunk.clear();
        let mut rest = Read::take(&file, CHUNK_BYTES);
        if rest.read_to_end(&mut chunk).map_err(fail)? == 0 {
            file.sync_all().map_err(fail)?;
            return Ok(written);
        }
        if chunk.iter().any(|byte| *byte != 0) {
            file.write_all_at(&chunk, offset).map_err(fail)?;
            written += chunk.len() as u64;
        }
        offset += chunk.len() as u64;
    }
}

/// Returns true if `folder` is empty or does not exist.
pub(super) fn is_empty(folder: &Path) -> Result<bool> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Error::from_io(
            &format!("reading {}", folder.display()),
            &error,
        )),
    }
}

/// Refuses to copy into a folder that is not empty.
pub(super) fn require_empty(folder: &Path) -> Result<()> {
    if !is_empty(folder)? {
        return Err(Error::Refused(format!(
            "{} is not empty; fix: move its files away, if nothing needs them",
            folder.display()
        )));
    }
    Ok(())
}

/// Returns the size of all files below `folder`, in bytes.
pub(super) fn size_bytes(folder: &Path) -> Result<u64> {
    let fail = |e: io::Error| Error::from_io(&format!("measuring {}", folder.display()), &e);
    let mut total = 0;
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        match entry.metadata() {
            Ok(about) if about.is_dir() => total += size_bytes(&entry.path())?,
            Ok(about) => total += about.len(),
            // Ignore missing files: engines remove files while the walk runs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(total)
}

pub(super) fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .map_err(|e| Error::from_io(&format!("creating {}", folder.display()), &e))?;
    sync_parent(folder)
}

/// Opens or makes a file and locks it.
pub(super) fn lock(path: &Path) -> Result<File> {
    let fail = |e: &io::Error| Error::from_io(&format!("locking {}", path.display()), e);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|e| fail(&e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Refused(format!(
            "{} is locked: this metadata is already open, in this process or another",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(fail(&error)),
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

fn refuse_remains(folder: &Path) -> Result<()> {
    for kind in EngineKind::ALL {
        let data = folder.join(kind.name());
        let empty = fs::read_dir(&data).map_or(true, |mut entries| entries.next().is_none());
        if !empty {
            return Err(Error::Damaged(format!(
                "{} holds metadata but {MARKER} beside it is missing: restore {MARKER}, or remove {} if it is not needed",
                data.display(),
                data.display()
            )));
        }
    }
    Ok(())
}

fn wrong_kind(folder: &Path, found: EngineKind, asked: EngineKind) -> Error {
    Error::Refused(format!(
        "the metadata in {} belongs to {found}, not to {asked}: set the engine to {found}, or convert the folder: archipel metadata convert {asked}",
        folder.display()
    ))
}
