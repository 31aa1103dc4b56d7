//! Metadata engines: ordered, transactional key-value stores behind one small trait.
//!
//! | engine | for |
//! |---|---|
//! | [`lmdb`] | the default: durable, readers never wait |
//! | [`sqlite`] | the best crash record |
//! | [`fjall`] | many small durable writes; young |
//! | [`memory`] | tests and simulation: loses what was not synced, on demand |
//!
//! One conformance suite (`tests/engines/main.rs`) runs on all of them.

pub mod convert;
mod failure;
pub mod fjall;
mod home;
mod incomplete;
pub mod journal;
mod key;
mod kind;
pub mod lmdb;
pub mod memory;
pub mod snapshot;
pub mod sqlite;

pub use kind::{EngineKind, EngineOptions, ParseEngineKindError, kind_of, open};

use std::borrow::Cow;
use std::ops::Bound;
use std::path::Path;

use crate::error::Error;

/// The result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// The trees of a node. Their names are in the files, so append new ones and never renumber.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Tree {
    /// Single values: the format version, the identity, and others.
    Meta = 0,
    /// partition, key → register state, metadata, usage.
    Rows = 1,
    /// partition, key → a payload that is not in the row.
    Payloads = 2,
    /// The data derived from rows. Those of a partition are adjacent, so that a change of a row
    /// touches one page. They are the order of changes (partition, 0, stamp, key → nothing),
    /// windows (partition, 1, granularity, window → digest and count) and counters (partition,
    /// 2, group → objects, bytes).
    Derived = 3,
    /// block hash → disk location and references.
    Blocks = 4,
    /// disk, segment, offset → block hash and length.
    Places = 5,
    /// disk, segment → state.
    Segments = 6,
    /// sequence → work to do after a commit (the durable queue of the model).
    Queue = 7,
}

impl Tree {
    /// All trees.
    pub const ALL: [Tree; 8] = [
        Tree::Meta,
        Tree::Rows,
        Tree::Payloads,
        Tree::Derived,
        Tree::Blocks,
        Tree::Places,
        Tree::Segments,
        Tree::Queue,
    ];

    /// Returns the tree's name in files.
    pub fn name(self) -> &'static str {
        match self {
            Tree::Meta => "meta",
            Tree::Rows => "rows",
            Tree::Payloads => "payloads",
            Tree::Derived => "derived",
            Tree::Blocks => "blocks",
            Tree::Places => "places",
            Tree::Segments => "segments",
            Tree::Queue => "queue",
        }
    }
}

/// The durability of a commit when it returns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Durability {
    /// The commit is visible and atomic. A power cut may undo it together with all later ones, but
    /// never damages the store.
    Buffered,
    /// The commit is on stable storage before any reader sees it.
    Fsync,
}

/// The decision of a visitor to continue or stop a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Visit the next entry.
    Continue,
    /// Stop the scan.
    Stop,
}

/// The direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the lowest key up.
    Ascending,
    /// From the highest key down.
    Descending,
}

/// The bounds of a scan: lower and upper.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The callback of a scan. It gets the key and the value of each entry.
pub type Visitor<'v> = dyn FnMut(&[u8], &[u8]) -> Result<Flow> + 'v;

/// The figures of a [`journal`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalStatus {
    /// Checkpoints since the engine was opened.
    pub checkpoints: u64,
    /// The number of times that a writer had to wait for a checkpoint.
    pub waits: u64,
    /// The estimated memory of changes that are not in the engine below yet, in bytes.
    pub memory_bytes: u64,
    /// The bytes of all segments of values.
    pub value_bytes: u64,
    /// The bytes in segments of values that are live.
    pub live_value_bytes: u64,
    /// The bytes of live values that were moved since the engine was opened, to free space.
    pub moved_value_bytes: u64,
}

/// A metadata engine. It has one writer at a time. Readers see the last commit before they began.
///
/// All calls may block. Never call them from an async thread, except short reads if
/// [`Engine::reads_in_place`] returns true.
pub trait Engine: Send + Sync {
    /// Begins to read a consistent view of the last commit.
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>>;

    /// Begins the one write transaction. Waits while there is another. Dropping the transaction
    /// undoes it.
    fn write(&self) -> Result<Box<dyn WriteTxn + '_>>;

    /// Puts all earlier commits on stable storage.
    fn sync(&self) -> Result<()>;

    /// Copies the last commit to a new, empty folder. The copy can be opened as an engine of the
    /// same kind.
    fn snapshot_to(&self, folder: &Path) -> Result<()> {
        self.copy_to(&*self.read()?, folder)
    }

    /// Makes an engine of the same kind in a new, empty folder, with all entries of `source`. After
    /// an error the folder is gone, unless it was not empty.
    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()>;

    /// Returns the size in bytes on disk, or in memory for the in-memory engine.
    fn size_bytes(&self) -> Result<u64>;

    /// Returns the figures of the engine's journal, if it has one of ours.
    fn journal(&self) -> Option<JournalStatus> {
        None
    }

    /// Returns true if `more_bytes` more would bring the engine near a limit of its own, whatever
    /// room the disk has. The rest is kept for deletions.
    fn is_nearly_full(&self, more_bytes: u64) -> bool {
        let _ = more_bytes;
        false
    }

    /// Returns true if a short read of data in memory is quick and waits for no lock that is held for
    /// long.
    /// Such a read may run in the calling thread ([`Store::look_up`](crate::Store::look_up)).
    fn reads_in_place(&self) -> bool {
        false
    }

    /// Unmaps file pages of this process if more than `limit_bytes` of them are resident. The
    /// kernel may keep them in its page cache. Returns how many bytes were resident. Call it at
    /// intervals and when idle: it takes about a millisecond. Engines that map no files do nothing
    /// and return 0.
    fn trim_resident(&self, limit_bytes: u64) -> Result<u64> {
        let _ = limit_bytes;
        Ok(0)
    }
}

/// A consistent view for reading.
pub trait ReadTxn {
    /// Returns the value of `key`; `None` for an impossible key (empty or too long).
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>>;

    /// Visits the entries of `range` in order until the visitor stops or fails. An empty range (its
    /// lower bound above the upper one) is no error. The visitor may read on the same transaction.
    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()>;
}

/// A transaction with changes. It sees its own changes.
pub trait Edit: ReadTxn {
    /// Sets `key` to `value`. Keys are 1 to [`MAX_KEY_BYTES`] long, and others are `Refused`.
    /// Values may be empty. After any other error the transaction must be dropped.
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes `key`. Returns true if it existed.
    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool>;
}

/// An engine's write transaction.
pub trait WriteTxn: Edit {
    /// Sets `key`, which is above all keys of its tree, to `value`. Copies are made so: an engine
    /// may fill its pages better than [`Edit::put`] does.
    fn append(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(tree, key, value)
    }

    /// Makes all changes visible together. After an error none of them ever becomes visible. The
    /// exception is [`Error::Failed`]: the outcome is then unknown, and the engine takes no more
    /// writes.
    fn commit(self: Box<Self>, durability: Durability) -> Result<()>;
}

/// The longest key of any tree, in bytes.
pub const MAX_KEY_BYTES: usize = 1200;

#[cfg(test)]
mod tests;
