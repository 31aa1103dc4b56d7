//! Copying everything from one engine to another, and converting a folder in place.
//!
//! # Invariants
//! - Until the copy is complete, on stable storage, opened anew and compared with the source, the
//!   source stays the current engine; then the copy becomes it at once (one rename).
//! - The source is never changed or removed.

use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};

use super::home::{self, Home};
use super::kind::{open, open_home};
use super::{
    Direction, Durability, Engine, EngineKind, EngineOptions, Flow, KeyRange, ReadTxn, Result,
    Tree, WriteTxn,
};
use crate::error::Error;

/// A transaction of the copy ends when it holds this many entries or bytes.
const BATCH_ENTRIES: u64 = 4096;
const BATCH_BYTES: u64 = 4 << 20;
const EVERYTHING: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// How much was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Entries of all trees.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// A finished conversion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Converted {
    /// What the folder was kept by before.
    pub from: EngineKind,
    /// What was copied.
    pub copied: Copied,
    /// Where the old engine's files are; they are no longer used and may be removed.
    pub old_files: PathBuf,
}

/// Converts the metadata in `folder` to the engine `to`. Nobody may have it open. `progress` is
/// called after each batch.
///
/// # Errors
/// `Refused` if there is nothing to convert, if it is kept by `to` already, or if files of such an
/// engine are in the way. After an error the folder is as before, unless the very last sync failed:
/// then either engine may be the current one, and both are complete.
pub fn convert(
    folder: &Path,
    to: EngineKind,
    options: &EngineOptions,
    progress: &mut dyn FnMut(Copied),
) -> Result<Converted> {
    let refuse = |why: &str| Error::Refused(format!("{}: {why}", folder.display()));
    let from = home::marked_kind(folder)?.ok_or_else(|| refuse("there is no metadata"))?;
    if from == to {
        return Err(refuse(&format!("the metadata is kept by {to} already")));
    }
    let source = open(from, folder, options)?;
    let target = folder.join(to.name());
    home::require_empty(&target)?;
    let copied = copy_into(source.as_ref(), folder, to, options, progress)
        .inspect_err(|_| discard(&target))?;
    home::mark(folder, to).inspect_err(|_| {
        // If the marker names the copy already, and only its folder could not be synced, a power cut
        // may bring back either engine: both stay.
        if matches!(home::marked_kind(folder), Ok(Some(kind)) if kind == from) {
            discard(&target);
        }
    })?;
    Ok(Converted {
        from,
        copied,
        old_files: folder.join(from.name()),
    })
}

fn copy_into(
    source: &dyn Engine,
    folder: &Path,
    to: EngineKind,
    options: &EngineOptions,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied> {
    let source = source.read()?;
    let target = open_home(to, Home::beside(folder, to)?, options)?;
    let copied = copy_entries(source.as_ref(), target.as_ref(), progress)?;
    drop(target);
    // Once more from the files, as the next start will find them.
    let target = open_home(to, Home::beside(folder, to)?, options)?;
    compare(source.as_ref(), target.read()?.as_ref())?;
    Ok(copied)
}

/// The copy is ours and incomplete; what cannot be removed stands in the way of the next attempt,
/// which says so.
fn discard(target: &Path) {
    if let Err(error) = fs::remove_dir_all(target) {
        tracing::warn!("removing {}: {error}", target.display());
    }
}

/// Copies all entries that `source` sees to the empty engine `target`, in bounded transactions, and
/// syncs it. `progress` is called after each.
pub fn copy_entries(
    source: &dyn ReadTxn,
    target: &dyn Engine,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied> {
    let mut copy = Copy {
        target,
        batch: None,
        pending: Copied::default(),
        done: Copied::default(),
        progress,
    };
    for tree in Tree::ALL {
        source.scan(tree, EVERYTHING, Direction::Ascending, &mut |key, value| {
            copy.add(tree, key, value)?;
            Ok(Flow::Continue)
        })?;
    }
    copy.end_batch()?;
    target.sync()?;
    Ok(copy.done)
}

struct Copy<'a> {
    target: &'a dyn Engine,
    batch: Option<Box<dyn WriteTxn + 'a>>,
    /// What the batch holds.
    pending: Copied,
    /// What was committed.
    done: Copied,
    progress: &'a mut dyn FnMut(Copied),
}

impl Copy<'_> {
    fn add(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        let batch = match &mut self.batch {
            Some(batch) => batch,
            None => self.batch.insert(self.target.write()?),
        };
        batch.put(tree, key, value)?;
        self.pending.entries += 1;
        self.pending.bytes += (key.len() + value.len()) as u64;
        if self.pending.entries >= BATCH_ENTRIES || self.pending.bytes >= BATCH_BYTES {
            self.end_batch()?;
        }
        Ok(())
    }

    fn end_batch(&mut self) -> Result<()> {
        let Some(batch) = self.batch.take() else {
            return Ok(());
        };
        batch.commit(Durability::Buffered)?;
        self.done.entries += self.pending.entries;
        self.done.bytes += self.pending.bytes;
        self.pending = Copied::default();
        (self.progress)(self.done);
        Ok(())
    }
}

/// Checks that two engines hold the same: as many entries in each tree, with the same bytes.
fn compare(source: &dyn ReadTxn, target: &dyn ReadTxn) -> Result<()> {
    for tree in Tree::ALL {
        let (expected, found) = (fingerprint(source, tree)?, fingerprint(target, tree)?);
        if expected != found {
            return Err(Error::Damaged(format!(
                "the copy of tree {} differs: {} entries, expected {}",
                tree.name(),
                found.0,
                expected.0
            )));
        }
    }
    Ok(())
}

/// The number of entries of a tree, and a checksum over them with their lengths.
fn fingerprint(txn: &dyn ReadTxn, tree: Tree) -> Result<(u64, u64)> {
    let mut entries = 0;
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    txn.scan(tree, EVERYTHING, Direction::Ascending, &mut |key, value| {
        entries += 1;
        for part in [key, value] {
            digest.update(&(part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Ok(Flow::Continue)
    })?;
    Ok((entries, digest.finalize()))
}
