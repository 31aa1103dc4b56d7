//! Metadata engines: ordered, transactional key-value stores behind one small trait.
//!
//! | engine | for |
//! |---|---|
//! | [`lmdb`] | the default: durable, readers never wait |
//! | [`sqlite`] | the best crash record |
//! | [`fjall`] | many small durable writes; young |
//! | [`memory`] | tests and simulation: loses what was not synced, on demand |
//!
//! One conformance suite (`tests/engines.rs`) runs on all of them.

pub mod convert;
mod failure;
pub mod fjall;
mod home;
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

/// The trees of a node. Their names stand in the files: append only, never renumber.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Tree {
    /// Format version, identity, and what else there is once.
    Meta = 0,
    /// partition, key → register state, head, tally.
    Rows = 1,
    /// partition, key → a body that does not stand in the row.
    Bodies = 2,
    /// What follows from rows, that of a partition side by side, so that a change of a row touches one page:
    /// the order of changes (partition, 0, stamp, key → nothing), windows (partition, 1, granularity, window →
    /// fingerprint and count), counters (partition, 2, group → objects, bytes).
    Derived = 3,
    /// block hash → place and references.
    Blocks = 4,
    /// disk, segment, offset → block hash and length.
    Places = 5,
    /// disk, segment → state.
    Segments = 6,
    /// sequence → work to do after a commit (durable queue of the model).
    Queue = 7,
}

impl Tree {
    /// All trees.
    pub const ALL: [Tree; 8] = [
        Tree::Meta,
        Tree::Rows,
        Tree::Bodies,
        Tree::Derived,
        Tree::Blocks,
        Tree::Places,
        Tree::Segments,
        Tree::Queue,
    ];

    /// The tree's name in files.
    pub fn name(self) -> &'static str {
        match self {
            Tree::Meta => "meta",
            Tree::Rows => "rows",
            Tree::Bodies => "bodies",
            Tree::Derived => "derived",
            Tree::Blocks => "blocks",
            Tree::Places => "places",
            Tree::Segments => "segments",
            Tree::Queue => "queue",
        }
    }
}

/// How far a commit goes before it returns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Durability {
    /// Visible and atomic; a power cut may undo it, and all later ones with it, but never damages the store.
    Buffered,
    /// On stable storage.
    Fsync,
}

/// Whether a scan goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Show the next entry.
    Continue,
    /// Enough.
    Stop,
}

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the lowest key up.
    Ascending,
    /// From the highest key down.
    Descending,
}

/// The bounds of a scan: lower and upper.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// What a scan calls for each entry: key, value.
pub type Visitor<'v> = dyn FnMut(&[u8], &[u8]) -> Result<Flow> + 'v;

/// A metadata engine. One writer at a time; readers see the last commit before they began.
///
/// All calls may block: never call them from an async thread, but for short reads where [`Engine::reads_in_place`].
pub trait Engine: Send + Sync {
    /// A consistent view of the last commit.
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>>;

    /// Begins the one write transaction; waits while there is another. Dropping it undoes it.
    fn write(&self) -> Result<Box<dyn WriteTxn + '_>>;

    /// Puts all that was committed before on stable storage.
    fn sync(&self) -> Result<()>;

    /// Copies the last commit to a new, empty folder, where it can be opened as an engine of the same kind.
    fn snapshot_to(&self, folder: &Path) -> Result<()>;

    /// Bytes on disk (or in memory, for the in-memory engine).
    fn size_bytes(&self) -> Result<u64>;

    /// Whether a short read of what is in memory makes no system call and waits for no lock: then it may be made where it is
    /// asked for ([`Store::look_up`](crate::Store::look_up)).
    fn reads_in_place(&self) -> bool {
        false
    }

    /// Lets go of file pages that are mapped into this process, if more than `limit_bytes` of
    /// them are resident; the kernel keeps them in its page cache as it sees fit. Returns how many
    /// bytes were resident. Cheap (about a millisecond): meant to be called now and then, and when
    /// there is nothing to do. Engines that map no files do nothing and return 0.
    fn trim_resident(&self, limit_bytes: u64) -> Result<u64> {
        let _ = limit_bytes;
        Ok(0)
    }
}

/// Reading: a consistent view.
pub trait ReadTxn {
    /// The value of `key`; none for a key that cannot be (empty or too long).
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>>;

    /// Shows the entries of `range` in order until the visitor stops or fails. A range that holds
    /// nothing (its lower bound above the upper one) is no error. The visitor may read on the same
    /// transaction.
    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()>;
}

/// Changing: sees its own changes.
pub trait Edit: ReadTxn {
    /// Sets `key` to `value`. Keys are 1 to [`MAX_KEY_BYTES`] long, others are `Refused`; values may
    /// be empty. After any other error the transaction must be dropped.
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes `key`; tells whether it was there.
    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool>;
}

/// An engine's write transaction.
pub trait WriteTxn: Edit {
    /// Makes the changes visible together. After an error none of them ever is, unless the
    /// error is [`Error::Failed`]: then it is not known, and the engine takes no more writes.
    fn commit(self: Box<Self>, durability: Durability) -> Result<()>;
}

/// The longest key of any tree, in bytes.
pub const MAX_KEY_BYTES: usize = 1200;
