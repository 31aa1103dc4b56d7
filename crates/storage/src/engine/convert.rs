//! Copies of a whole engine, and conversion of a folder to another engine.
//!
//! # Invariants
//! - The source stays the current engine until the copy is complete, on stable storage, reopened,
//!   and compared with the source. Then one rename makes the copy the current engine.
//! - The source is never changed or removed.

use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};

use super::home::{self, Home};
use super::incomplete;
use super::kind::{make_lmdb, open, open_bare, open_home};
use super::{
    Direction, Durability, Engine, EngineKind, EngineOptions, Flow, KeyRange, ReadTxn, Result,
    Tree, WriteTxn,
};
use crate::error::Error;

/// The number of entries or bytes at which a transaction of the copy ends.
const BATCH_ENTRIES: u64 = 4096;
const BATCH_BYTES: u64 = 4 << 20;
pub(super) const EVERYTHING: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// The amount of copied data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Entries of all trees.
    pub entries: u64,
    /// Bytes of the keys and values of these entries.
    pub bytes: u64,
}

/// The result of a conversion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Converted {
    /// The kind of engine that held the metadata before.
    pub from: EngineKind,
    /// The amount of copied data.
    pub copied: Copied,
    /// The folder of the old engine's files. They are no longer used and may be removed.
    pub old_files: PathBuf,
}

/// The progress of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The amount copied so far.
    Copying(Copied),
    /// The entries compared so far, of both engines together.
    Comparing {
        /// Entries read.
        done: u64,
        /// Entries to read.
        all: u64,
    },
}

/// Converts the metadata in `folder` to the engine `to`. No process may have it open. Calls
/// `progress` after each batch.
///
/// # Errors
/// `Refused` if there is nothing to convert, if `to` is the current engine already, or if files of
/// that engine are in the way. After an error the folder is unchanged, unless the very last sync
/// failed. Then either engine may be the current one, and both are complete.
pub fn convert(
    folder: &Path,
    to: EngineKind,
    options: &EngineOptions,
    progress: &mut dyn FnMut(Step),
) -> Result<Converted> {
    let refuse = |why: &str| Error::Refused(format!("{}: {why}", folder.display()));
    let from = home::marked_kind(folder)?.ok_or_else(|| {
        refuse("there is no metadata; fix: name the folder of the server's metadata")
    })?;
    if from == to {
        return Err(refuse(&format!(
            "{to} is the current engine already; fix: name another one"
        )));
    }
    let source = open(from, folder, options)?;
    let target = folder.join(to.name());
    home::require_empty(&target)?;
    let copied = copy_into(source.as_ref(), folder, to, options, progress)
        .inspect_err(|_| discard(&target))?;
    home::mark(folder, to).inspect_err(|_| {
        // If the marker names the copy already and only the sync of the folder failed, a power cut
        // may bring back either engine. So keep both.
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
    progress: &mut dyn FnMut(Step),
) -> Result<Copied> {
    let source = source.read()?;
    let home = Home::for_copy(folder, to)?;
    let copied = fill(to, home, &*source, options, &mut |copied| {
        progress(Step::Copying(copied));
    })?;
    // Reopen the copy from its files, as the next start will.
    let target = open_home(to, Home::for_copy(folder, to)?, options)?;
    let (all, mut done) = (2 * copied.entries, 0);
    compare(source.as_ref(), target.read()?.as_ref(), &mut || {
        done += 1;
        if done % BATCH_ENTRIES == 0 || done == all {
            progress(Step::Comparing { done, all });
        }
    })?;
    Ok(copied)
}

/// Removes an incomplete copy. If that fails, the next attempt reports the remains.
fn discard(target: &Path) {
    if let Err(error) = fs::remove_dir_all(target) {
        tracing::warn!("removing {}: {error}", target.display());
    }
}

/// Copies all entries of `source` to the empty engine `target`, in bounded transactions, and syncs
/// it. Calls `progress` after each transaction.
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

/// Makes an engine of `kind` in the new, empty `folder`, with all entries of `source`. After an
/// error the folder is gone: its remains would take space, and nobody would see them.
pub(super) fn copy_to_folder(
    kind: EngineKind,
    source: &dyn ReadTxn,
    folder: &Path,
    options: &EngineOptions,
) -> Result<()> {
    let _lock = incomplete::begin(folder)?;
    Home::for_copy(folder, kind)
        .and_then(|home| fill(kind, home, source, options, &mut |_| {}))
        .and_then(|_| home::mark(folder, kind))
        .and_then(|()| incomplete::end(folder))
        .inspect_err(|_| {
            if let Err(error) = incomplete::remove(folder) {
                tracing::warn!("an incomplete copy is left: {error}");
            }
        })
}

/// Makes an engine of `kind` in an empty `home`, with all entries of `source`. The engine is on
/// stable storage and closed when this returns. Long values of LMDB are in segments beside it, as
/// they are in the engine that opens the copy: its map need not hold them.
fn fill(
    kind: EngineKind,
    home: Home,
    source: &dyn ReadTxn,
    options: &EngineOptions,
    progress: &mut dyn FnMut(Copied),
) -> Result<Copied> {
    // The pages of a copy may be filled less well than those of its source.
    let options = EngineOptions {
        map_bytes: None,
        ..*options
    };
    match kind {
        EngineKind::Lmdb => make_lmdb(home, &options)?.fill(source, progress),
        EngineKind::Sqlite | EngineKind::Fjall => {
            copy_entries(source, &*open_bare(kind, home, &options)?, progress)
        }
    }
}

struct Copy<'a> {
    target: &'a dyn Engine,
    batch: Option<Box<dyn WriteTxn + 'a>>,
    /// The amount in the current batch.
    pending: Copied,
    /// The committed amount.
    done: Copied,
    progress: &'a mut dyn FnMut(Copied),
}

impl Copy<'_> {
    fn add(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        let batch = match &mut self.batch {
            Some(batch) => batch,
            None => self.batch.insert(self.target.write()?),
        };
        batch.append(tree, key, value)?;
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

/// Checks that two engines have the same number of entries in each tree, with the same bytes. Calls
/// `progress` after each entry that it read.
fn compare(source: &dyn ReadTxn, target: &dyn ReadTxn, progress: &mut dyn FnMut()) -> Result<()> {
    for tree in Tree::ALL {
        let expected = tree_digest(source, tree, progress)?;
        let found = tree_digest(target, tree, progress)?;
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

/// Returns the number of entries of a tree, and a checksum of them with their lengths.
fn tree_digest(txn: &dyn ReadTxn, tree: Tree, progress: &mut dyn FnMut()) -> Result<(u64, u64)> {
    let mut entries = 0;
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    txn.scan(tree, EVERYTHING, Direction::Ascending, &mut |key, value| {
        entries += 1;
        progress();
        for part in [key, value] {
            digest.update(&(part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Ok(Flow::Continue)
    })?;
    Ok((entries, digest.finalize()))
}
