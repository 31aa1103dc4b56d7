//! Opening a disk: checks its owner, and finds the append position.
//!
//! No segment is read. The index names the live records, and every gap between them is dead.
//! Records that were appended after the last commit lie after the last live record and are cut off.
//! Other dead space is freed later: see [`startup_gc`](super::startup_gc).

use archipel_base::Id;

use super::append::Active;
use super::location::DiskLocation;
use super::volume::Volume;
use super::{BlockOptions, DiskConfig, Start, index};
use crate::engine::{Engine, ReadTxn, Result};
use crate::error::Error;

/// The state file that names the disk's owner.
const IDENTITY: &str = "disk";
const VERSION: u32 = 1;

/// Opens the disks. A disk that cannot be opened is failed from the start.
pub(super) fn open(
    engine: &dyn Engine,
    disks: Vec<DiskConfig>,
    options: &BlockOptions,
    start: Start,
) -> Result<Vec<Volume>> {
    let volumes = disks.into_iter().map(|config| Volume::new(config, options));
    let volumes: Vec<Volume> = volumes.collect();
    for volume in &volumes {
        tolerate(volume, claim(volume, options.owner, start))?;
    }
    if start == Start::Unclean {
        // The last process may have died with buffered commits. A power cut must not bring back
        // names of space that is freed now, and the named records must exist.
        engine.sync()?;
    }
    for volume in &volumes {
        if volume.check().is_ok() {
            tolerate(volume, resume(engine, volume, start))?;
        }
    }
    Ok(volumes)
}

/// Marks the disk as failed if the error is its own. Returns errors of the settings to the caller.
fn tolerate(volume: &Volume, result: Result<()>) -> Result<()> {
    match result {
        Err(error @ Error::Refused(_)) => Err(error),
        Err(error) => {
            volume.fail(format!("it could not be opened: {error}"));
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Checks that the disk belongs to this store, and makes durable what an index may name.
///
/// A rebuild names every record that it finds, also one that only the page cache holds because the
/// last process was killed. So all segments are synced before. After other ends no segment needs a
/// sync, whatever was written to it: a commit names a record only after the record is synced. Other
/// unsynced records are dead, because nobody knows their tickets any more.
fn claim(volume: &Volume, owner: Id, start: Start) -> Result<()> {
    let segments = volume.segments()?;
    check_identity(volume, owner, !segments.is_empty(), start)?;
    if start == Start::Rebuild {
        for segment in segments {
            let synced = volume.disk.sync(segment);
            synced.map_err(|e| volume.error("syncing", &e))?;
        }
    }
    Ok(())
}

fn resume(engine: &dyn Engine, volume: &Volume, start: Start) -> Result<()> {
    let segments = volume.segments()?;
    let txn = engine.read()?;
    let last_file = segments.last().copied().unwrap_or(0);
    let last_named = index::last_of(&*txn, volume.id)?.map_or(0, |last| last.location.segment);
    let active = match start {
        Start::Rebuild => None,
        Start::Clean | Start::Unclean => reopen(&*txn, volume, last_file)?,
    };
    let next = last_file.max(last_named).checked_add(1);
    let next = next.ok_or_else(|| Error::Failed("no segment numbers are left".into()))?;
    volume.resume(active, next)
}

/// Reopens the last segment for appending, after its last live record. Later bytes are dead.
fn reopen(txn: &dyn ReadTxn, volume: &Volume, segment: u32) -> Result<Option<Active>> {
    if segment == 0 {
        return Ok(None);
    }
    let end = DiskLocation {
        disk: volume.id,
        segment,
        offset: u64::MAX,
    };
    let metadata = index::last_before(txn, end)?.map_or(0, |last| last.end());
    let length = volume.length(segment)?;
    if metadata > length {
        // The segment is damaged: it is shorter than the index says. Scrubbing reports what is
        // lost.
        return Ok(None);
    }
    let cut = volume.disk.set_length(segment, metadata);
    cut.map_err(|e| volume.error("cutting a segment of", &e))?;
    Ok(Some(Active {
        segment,
        metadata,
        allocated: metadata,
    }))
}

/// Refuses a disk that belongs to another store or had another number. Freeing the space that this
/// index does not name would destroy that disk's data.
fn check_identity(volume: &Volume, owner: Id, has_segments: bool, start: Start) -> Result<()> {
    let wanted = identity(volume.id, owner);
    let found = volume.disk.read_state(IDENTITY);
    let found = found.map_err(|e| volume.error("reading the identity of", &e))?;
    match found {
        Some(found) if found == wanted.as_bytes() => return Ok(()),
        Some(found) if !takes_over(&found, volume.id, start) => {
            return Err(Error::Refused(format!(
                "disk {} is another: it says {:?}, not {wanted:?}",
                volume.id,
                String::from_utf8_lossy(&found)
            )));
        }
        None if has_segments && start != Start::Rebuild => {
            return Err(Error::Refused(format!(
                "disk {} has segments but no file {IDENTITY:?} that says whose they are",
                volume.id
            )));
        }
        Some(_) | None => {}
    }
    let written = volume.disk.write_state(IDENTITY, wanted.as_bytes());
    written.map_err(|e| volume.error("writing the identity of", &e))
}

/// Returns true if a rebuilt index may take over the disk: it has the same number.
fn takes_over(found: &[u8], disk: u16, start: Start) -> bool {
    let prefix = identity_prefix(disk);
    start == Start::Rebuild && found.starts_with(prefix.as_bytes())
}

fn identity_prefix(disk: u16) -> String {
    format!("archipel disk\nversion {VERSION}\nid {disk}\n")
}

fn identity(disk: u16, owner: Id) -> String {
    format!("{}store {owner}\n", identity_prefix(disk))
}
