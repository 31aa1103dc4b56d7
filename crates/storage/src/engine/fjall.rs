//! The Fjall engine: a log-structured merge tree in Rust. It suits many small durable writes, and
//! it is young.
//!
//! # Durability
//! Every commit goes to the journal. An `Fsync` commit syncs the journal (`fdatasync`) before it
//! becomes visible; a `Buffered` commit leaves that to the kernel. Recovery replays the journal in
//! order and stops at the first incomplete record, so a power cut undoes only the last commits.
//!
//! # Failures
//! After any failed write to the journal, even for lack of space, Fjall takes no more writes until
//! it is reopened. The engine then reports [`Error::Failed`] with the reason. After a sync that failed, the kernel's
//! cache may hold records that the disk lacks, and Fjall would append to them. So a start writes the journals again
//! before Fjall reads them. The files of trees need none of this: Fjall keeps a journal until they are synced.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;

use ::fjall::{
    Iter, KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase,
    SingleWriterTxKeyspace, SingleWriterWriteTx,
};
use parking_lot::{Mutex, MutexGuard};

use super::failure::Breaker;
use super::home::{self, Home};
use super::{
    Direction, Durability, Edit, Engine, EngineKind, EngineOptions, Flow, KeyRange, ReadTxn,
    Result, Tree, Visitor, WriteTxn, convert, key,
};
use crate::error::Error;

/// The size at which a tree's entries in memory are written out. In the worst case ten trees have
/// two such tables each.
const MEMTABLE_BYTES: u64 = 4 << 20;
/// The size of the journals at which trees are written out to shorten them.
const JOURNAL_BYTES: u64 = 128 << 20;
const CACHED_FILES: usize = 200;
/// The extension of the journals' names.
const JOURNAL: &str = "jnl";

/// An engine on Fjall.
pub struct FjallEngine {
    database: SingleWriterTxDatabase,
    trees: Vec<SingleWriterTxKeyspace>,
    breaker: Breaker,
    /// The lock of the one writer. Fjall has a lock of its own, but it panics after a panic under
    /// that lock. Because writers wait for this lock, none waits for Fjall's.
    writer: Mutex<()>,
    options: EngineOptions,
    // The last field, so that the folder stays locked until the database is closed.
    home: Home,
}

impl FjallEngine {
    /// Opens the engine in `folder`, or makes a new one.
    pub fn open(folder: &Path, options: &EngineOptions) -> Result<FjallEngine> {
        FjallEngine::open_in(Home::open(folder, EngineKind::Fjall)?, options)
    }

    pub(super) fn open_in(mut home: Home, options: &EngineOptions) -> Result<FjallEngine> {
        rewrite_journals(&home.data)?;
        let fail = |e| from_fjall(&format!("opening {}", home.data.display()), e);
        let database = SingleWriterTxDatabase::builder(&home.data)
            .cache_size(options.cache_bytes)
            .max_cached_files(Some(CACHED_FILES))
            .max_journaling_size(JOURNAL_BYTES)
            .open()
            .map_err(fail)?;
        let settings = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let trees = Tree::ALL
            .iter()
            .map(|tree| database.keyspace(tree.name(), settings).map_err(fail))
            .collect::<Result<Vec<_>>>()?;
        database.persist(PersistMode::SyncAll).map_err(fail)?;
        home::sync_folder(&home.data)?;
        home.complete()?;
        Ok(FjallEngine {
            database,
            trees,
            breaker: Breaker::default(),
            writer: Mutex::new(()),
            options: *options,
            home,
        })
    }

    fn tree(&self, tree: Tree) -> &SingleWriterTxKeyspace {
        &self.trees[tree as usize]
    }

    fn write_failed(&self, doing: &str, error: ::fjall::Error) -> Error {
        let error = from_fjall(doing, error);
        let advice = "Fjall takes no more writes until it is opened again: make room if there is none, and restart";
        self.breaker.trip(doing, format!("{error} ({advice})"))
    }
}

impl Engine for FjallEngine {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        Ok(Box::new(View {
            engine: self,
            source: self.database.read_tx(),
        }))
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        let writer = self.writer.lock();
        self.breaker.check()?;
        Ok(Box::new(Transaction {
            panics: PanicWatch(self),
            view: View {
                engine: self,
                source: self.database.write_tx(),
            },
            changed: false,
            _writer: writer,
        }))
    }

    fn sync(&self) -> Result<()> {
        self.breaker.check()?;
        self.database
            .persist(PersistMode::SyncData)
            .map_err(|e| self.write_failed("syncing", e))
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()> {
        convert::copy_to_folder(EngineKind::Fjall, source, folder, &self.options)
    }

    fn size_bytes(&self) -> Result<u64> {
        home::size_bytes(&self.home.data)
    }
}

/// A view of a snapshot or of a write transaction: both are read in the same way.
struct View<'e, S> {
    engine: &'e FjallEngine,
    source: S,
}

impl<S: Readable> ReadTxn for View<'_, S> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        if !key::is_possible(key) {
            return Ok(None);
        }
        let value = self.source.get(self.engine.tree(tree), key);
        Ok(value
            .map_err(|e| from_fjall("reading", e))?
            .map(|value| Cow::Owned(value.to_vec())))
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let Some(range) = key::possible_range(range) else {
            return Ok(());
        };
        let mut entries: Iter = self.source.range::<&[u8], _>(self.engine.tree(tree), range);
        loop {
            let entry = match direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            let Some(entry) = entry else { return Ok(()) };
            let (key, value) = entry.into_inner().map_err(|e| from_fjall("scanning", e))?;
            if visit(&key, &value)? == Flow::Stop {
                return Ok(());
            }
        }
    }
}

struct Transaction<'e> {
    // The first field, so that it learns of a panic before the next writer begins.
    panics: PanicWatch<'e>,
    view: View<'e, SingleWriterWriteTx<'e>>,
    changed: bool,
    _writer: MutexGuard<'e, ()>,
}

/// A watch for panics. A panic in a write transaction poisons Fjall's own lock for good.
struct PanicWatch<'e>(&'e FjallEngine);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.breaker.trip("writing", "a panic: restart");
        }
    }
}

impl ReadTxn for Transaction<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.view.get(tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.view.scan(tree, range, direction, visit)
    }
}

impl Edit for Transaction<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        key::check(key)?;
        self.changed = true;
        let tree = self.view.engine.tree(tree);
        self.view.source.insert(tree, key, value);
        Ok(())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        let tree = self.view.engine.tree(tree);
        let found = key::is_possible(key)
            && self
                .view
                .source
                .contains_key(tree, key)
                .map_err(|e| from_fjall("deleting", e))?;
        if found {
            self.changed = true;
            self.view.source.remove(tree, key);
        }
        Ok(found)
    }
}

impl WriteTxn for Transaction<'_> {
    fn commit(self: Box<Self>, durability: Durability) -> Result<()> {
        let engine = self.view.engine;
        // Fjall does nothing for a transaction without changes, not even a sync.
        if !self.changed {
            return match durability {
                Durability::Fsync => engine.sync(),
                Durability::Buffered => Ok(()),
            };
        }
        let Transaction {
            panics,
            view,
            _writer: writer,
            ..
        } = *self;
        let mode = match durability {
            Durability::Fsync => PersistMode::SyncData,
            Durability::Buffered => PersistMode::Buffer,
        };
        let committed = view.source.durability(Some(mode)).commit();
        let result = committed.map_err(|e| engine.write_failed("committing", e));
        drop(panics);
        drop(writer);
        result
    }
}

/// Puts what the journals hold on stable storage.
fn rewrite_journals(folder: &Path) -> Result<()> {
    let fail = |e: io::Error| Error::from_io(&format!("reading {}", folder.display()), &e);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == JOURNAL)
        {
            home::rewrite(&path)?;
        }
    }
    Ok(())
}

/// Converts a Fjall error to a storage error.
fn from_fjall(doing: &str, error: ::fjall::Error) -> Error {
    use ::fjall::Error as E;
    let text = format!("Fjall, {doing}: {error}");
    match error {
        E::Io(io) | E::Storage(::fjall::LsmError::Io(io)) => {
            Error::from_io(&format!("Fjall, {doing}"), &io)
        }
        E::Locked | E::InvalidVersion(_) => Error::Refused(text),
        E::Poisoned | E::KeyspaceDeleted => Error::Failed(text),
        _ => Error::Damaged(text),
    }
}
