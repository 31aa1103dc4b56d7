//! Opening a disk: checks its owner, and finds the append position.
//!
//! No segment is read. The index names the live records, and every gap between them is dead.
//! Records that were appended after the last commit lie after the last live record and are cut off.
//! Other dead space is freed later: see [`startup_gc`](super::startup_gc).
//!
//! # Invariants
//! - Nothing is cut or freed on a disk that the index does not know. It knows the disks that were empty when
//!   they were first opened with it, and those that it was rebuilt from.
//! - A rebuild writes the identity of a disk of another store only after rows refer to a block on that disk.

use std::collections::BTreeSet;

use archipel_base::Id;

use super::append::Active;
use super::location::DiskLocation;
use super::volume::Volume;
use super::{BlockOptions, Blocks, DiskConfig, Start, index};
use crate::engine::{Durability, Engine, ReadTxn, Result, Tree};
use crate::error::Error;

/// The key in [`Tree::Meta`] of the numbers of the disks that the index knows.
const KEY_DISKS: &[u8] = b"disks";

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
    // All are checked before the first is changed: after a refusal none is.
    for volume in &volumes {
        tolerate(volume, check_disk(volume, options.owner, start).map(|_| ()))?;
    }
    for volume in &volumes {
        if volume.check().is_ok() {
            tolerate(volume, claim(volume, options.owner, start))?;
        }
    }
    note_disks(engine, &volumes, start)?;
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

/// Enters new disks into the store, durably, before anything is written to them. Refuses a disk that the index
/// does not know and that has segments. All of them would count as dead: either the index was rebuilt while the
/// disk was away, or the metadata is older than the disk.
fn note_disks(engine: &dyn Engine, volumes: &[Volume], start: Start) -> Result<()> {
    let mut txn = engine.write()?;
    let stored = known_disks(&*txn)?;
    let known = match &stored {
        Some(stored) if start != Start::Rebuild => {
            let mut known = stored.clone();
            let unknown = |volume: &&Volume| !stored.contains(&volume.id);
            for volume in volumes.iter().filter(unknown) {
                // A failed disk takes no blocks, so that it can be entered later.
                if volume.check().is_ok() {
                    tolerate(volume, check_new(volume))?;
                }
                if volume.check().is_ok() {
                    known.insert(volume.id);
                }
            }
            known
        }
        // A rebuilt index knows what is on its disks. A store without the key is from before there was one.
        _ => volumes.iter().map(|volume| volume.id).collect(),
    };
    if stored.as_ref() == Some(&known) {
        return Ok(());
    }
    let numbers: Vec<u8> = known.into_iter().flat_map(u16::to_be_bytes).collect();
    txn.put(Tree::Meta, KEY_DISKS, &numbers)?;
    txn.commit(Durability::Fsync)
}

fn known_disks(txn: &dyn ReadTxn) -> Result<Option<BTreeSet<u16>>> {
    let Some(bytes) = txn.get(Tree::Meta, KEY_DISKS)? else {
        return Ok(None);
    };
    match bytes.as_chunks::<2>() {
        (numbers, []) => Ok(Some(
            numbers.iter().copied().map(u16::from_be_bytes).collect(),
        )),
        _ => Err(Error::Damaged("the numbers of disks in meta".into())),
    }
}

fn check_new(volume: &Volume) -> Result<()> {
    if volume.segments()?.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "disk {} has segments that the index of blocks does not know, so that it would free them. The index was \
         rebuilt without this disk, or is older than the disk: rebuild it with all disks (archipel metadata \
         rebuild-blocks), or use an empty folder",
        volume.id
    )))
}

/// Makes the disk this store's after another check, and makes durable what an index may name. The second check finds a
/// folder that is two disks: the first of them has become this store's.
///
/// A rebuild names every record that it finds, also one that only the page cache holds because the
/// last process was killed. So all segments are synced before. After other ends no segment needs a
/// sync, whatever was written to it: a commit names a record only after the record is synced. Other
/// unsynced records are dead, because nobody knows their tickets any more.
fn claim(volume: &Volume, owner: Id, start: Start) -> Result<()> {
    let is_known = check_disk(volume, owner, start)?;
    // In a rebuild it is not certain yet that this is the metadata of the disk.
    if !is_known && start != Start::Rebuild {
        write_identity(volume, owner)?;
    }
    if start == Start::Rebuild {
        for segment in volume.segments()? {
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
    let position = index::last_before(txn, end)?.map_or(0, |last| last.end());
    let length = volume.length(segment)?;
    if position > length {
        // The segment is damaged: it is shorter than the index says. Scrubbing reports what is
        // lost.
        return Ok(None);
    }
    let cut = volume.disk.set_length(segment, position);
    cut.map_err(|e| volume.error("cutting a segment of", &e))?;
    Ok(Some(Active {
        segment,
        position,
        allocated: position,
        zeroed: position,
    }))
}

/// Refuses a disk that belongs to another store or had another number. Freeing the space that this
/// index does not name would destroy that disk's data. Returns true if the disk is known as this store's.
fn check_disk(volume: &Volume, owner: Id, start: Start) -> Result<bool> {
    let has_segments = !volume.segments()?.is_empty();
    let wanted = identity(volume.id, owner);
    match read_identity(volume)? {
        Some(found) if found == wanted.as_bytes() => Ok(true),
        Some(found) if !takes_over(&found, volume.id, start) => Err(Error::Refused(format!(
            "disk {} is another: it says {:?}, not {wanted:?}",
            volume.id,
            String::from_utf8_lossy(&found)
        ))),
        None if has_segments && start != Start::Rebuild => Err(Error::Refused(format!(
            "disk {} has segments but no file {IDENTITY:?} that says whose they are",
            volume.id
        ))),
        Some(_) | None => Ok(false),
    }
}

impl Blocks {
    /// Makes all disks those of `owner`. It is a step of a rebuild, after the references of rows and before
    /// anything is freed. Blocks the thread.
    ///
    /// # Errors
    /// [`Error::Refused`] if a disk is another store's, has blocks, and no row refers to any of them: then the
    /// metadata is most likely the wrong one. No disk has changed.
    pub fn take_over_disks(&self, owner: Id) -> Result<()> {
        let mut others = Vec::new();
        let txn = self.engine.read()?;
        for volume in self.volumes.values() {
            let wanted = identity(volume.id, owner);
            if read_identity(volume)?.is_some_and(|found| found == wanted.as_bytes()) {
                continue;
            }
            if index::has_only_unreferenced(&*txn, volume.id)? {
                return Err(Error::Refused(format!(
                    "disk {} is not of this store, and nothing in the metadata refers to any block on it, so that \
                     all of them would be freed. Most likely this is other metadata: check that metadata_dir is \
                     mounted. If the blocks are not needed, use an empty folder",
                    volume.id
                )));
            }
            others.push(volume);
        }
        drop(txn);
        for volume in others {
            write_identity(volume, owner)?;
        }
        Ok(())
    }
}

fn read_identity(volume: &Volume) -> Result<Option<Vec<u8>>> {
    let found = volume.disk.read_state(IDENTITY);
    found.map_err(|e| volume.error("reading the identity of", &e))
}

fn write_identity(volume: &Volume, owner: Id) -> Result<()> {
    let wanted = identity(volume.id, owner);
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
