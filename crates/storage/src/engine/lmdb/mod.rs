//! The LMDB engine, the default: a memory-mapped copy-on-write B+ tree. Readers never wait.
//!
//! # Durability
//! An `Fsync` commit writes the new pages and syncs them. Then it writes the meta page that makes
//! them current, with `O_DSYNC`. On disk the pages always precede the meta page.
//!
//! A `Buffered` commit is LMDB's `NOMETASYNC`: only the pages are synced. A power cut may undo the
//! last commit; the older meta page and all its pages are then whole. The engine never uses
//! `NOSYNC`, because LMDB reuses pages that the last commits freed. Without syncs the kernel writes
//! in any order, so a new page may reach the disk before the meta page that freed it. This
//! overwrites the tree of the older meta page and damages the store beyond repair.
//!
//! # Memory
//! Pages that were read stay mapped and count as resident memory of this process, although they are
//! the kernel's page cache. The engine unmaps them when they exceed `resident_bytes`. It checks
//! after commits and, at intervals, after reads. [`Engine::trim_resident`] does so on request.
//!
//! # Limits
//! A disk that fails to read a mapped page ends the process (SIGBUS). The file grows while old read
//! transactions are open, and never shrinks. [`Engine::snapshot_to`] writes a compact copy.

mod error;
mod open;
mod resident;
mod room;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, FlagSetMode, PutFlags, RoTxn, RwTxn, WithoutTls};

use self::error::from_lmdb;
use self::open::{open_env, open_trees};
use super::failure::Breaker;
use super::home::{self, Home};
use super::{
    Direction, Durability, Edit, Engine, EngineKind, EngineOptions, Flow, KeyRange, MAX_KEY_BYTES,
    ReadTxn, Result, Tree, Visitor, WriteTxn, convert, key,
};
use crate::error::Error;

type Trees = [Database<'static, Bytes, Bytes>; Tree::ALL.len()];
type LmdbResult<T> = std::result::Result<T, heed::Error>;

const DATA_FILE: &str = "data.mdb";
/// The number of entries that a scan visits between two checks of the resident size.
const ENTRIES_BETWEEN_CHECKS: usize = 4096;

/// An engine on LMDB.
pub struct LmdbEngine {
    env: Env<WithoutTls>,
    trees: Trees,
    breaker: Breaker,
    /// A handle of our own on LMDB's file. The kernel tells each handle once that it could not write.
    file: File,
    /// The number of the last transaction that is known to be on stable storage.
    synced: AtomicUsize,
    /// The number of commits that began. It is raised under LMDB's writer lock; see `begin_read`.
    commits_begun: AtomicUsize,
    options: EngineOptions,
    resident: resident::Limit,
    // The last field, so that the folder stays locked until the environment is closed.
    home: Home,
}

impl LmdbEngine {
    /// Opens the engine in `folder`, or makes a new one.
    pub fn open(folder: &Path, options: &EngineOptions) -> Result<LmdbEngine> {
        LmdbEngine::open_in(Home::open(folder, EngineKind::Lmdb)?, options)
    }

    pub(super) fn open_in(mut home: Home, options: &EngineOptions) -> Result<LmdbEngine> {
        let env = open_env(&home.data, options)?;
        if env.max_key_size() < MAX_KEY_BYTES {
            return Err(Error::Failed(format!(
                "LMDB was built for keys of at most {} bytes",
                env.max_key_size()
            )));
        }
        let trees = open_trees(&env).map_err(|e| from_lmdb("opening the trees", e))?;
        // The creation of the trees is a commit of its own, and the files may be new. Make both
        // durable.
        env.force_sync().map_err(|e| from_lmdb("syncing", e))?;
        home::sync_folder(&home.data)?;
        let path = home.data.join(DATA_FILE);
        let file = File::open(&path)
            .map_err(|e| Error::from_io(&format!("opening {}", path.display()), &e))?;
        home.complete()?;
        Ok(LmdbEngine {
            file,
            synced: AtomicUsize::new(env.info().last_txn_id),
            commits_begun: AtomicUsize::new(0),
            env,
            trees,
            breaker: Breaker::default(),
            options: *options,
            resident: resident::Limit::new(&path, options.resident_bytes),
            home,
        })
    }

    fn database(&self, tree: Tree) -> Database<'static, Bytes, Bytes> {
        self.trees[tree as usize]
    }

    /// Begins a read transaction on the last commit.
    ///
    /// LMDB looks up the number of the last commit, N, and then copies the meta page N modulo 2. A
    /// thread that is delayed between the two may copy the page that commit N + 2 is writing. That
    /// commit is not on stable storage yet, and the next reader does not see it. N + 2 begins to
    /// commit after N + 1 has ended. So if no commit began meanwhile, the page was N's.
    fn begin_read(&self) -> LmdbResult<RoTxn<'_, WithoutTls>> {
        loop {
            let before = self.commits_begun.load(Ordering::SeqCst);
            let txn = self.env.read_txn()?;
            fence(Ordering::SeqCst);
            if self.commits_begun.load(Ordering::SeqCst) == before {
                return Ok(txn);
            }
        }
    }

    fn mark_synced(&self, txn: usize) {
        self.synced.fetch_max(txn, Ordering::SeqCst);
    }

    fn scan(
        &self,
        tree: Tree,
        txn: &RoTxn<'_>,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        let Some(range) = key::possible_range(range) else {
            return Ok(());
        };
        let database = self.database(tree);
        let fail = |e| from_lmdb("scanning", e);
        match direction {
            Direction::Ascending => {
                self.visit_entry(database.range(txn, &range).map_err(fail)?, visit)
            }
            Direction::Descending => {
                self.visit_entry(database.rev_range(txn, &range).map_err(fail)?, visit)
            }
        }
    }

    fn visit_entry<'t>(
        &self,
        entries: impl Iterator<Item = LmdbResult<(&'t [u8], &'t [u8])>>,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        for (i, entry) in entries.enumerate() {
            let (key, value) = entry.map_err(|e| from_lmdb("scanning", e))?;
            if visit(key, value)? == Flow::Stop {
                break;
            }
            if i % ENTRIES_BETWEEN_CHECKS == ENTRIES_BETWEEN_CHECKS - 1 {
                self.resident.check();
            }
        }
        Ok(())
    }

    fn sync_if_needed(&self) -> Result<()> {
        if self.env.info().last_txn_id > self.synced.load(Ordering::SeqCst) {
            return self.sync();
        }
        Ok(())
    }
}

impl Engine for LmdbEngine {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        let txn = self
            .begin_read()
            .map_err(|e| from_lmdb("beginning to read", e))?;
        Ok(Box::new(Snapshot { engine: self, txn }))
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        self.breaker.check()?;
        let txn = self
            .env
            .write_txn()
            .map_err(|e| from_lmdb("beginning to write", e))?;
        // Another writer may have failed while this one waited.
        self.breaker.check()?;
        Ok(Box::new(Transaction {
            engine: self,
            txn,
            changed: false,
            failed: None,
        }))
    }

    fn sync(&self) -> Result<()> {
        self.breaker.check()?;
        // Read the number before the sync, because it is unknown if later commits are synced.
        let last = self.env.info().last_txn_id;
        self.env
            .force_sync()
            .map_err(|e| self.breaker.trip("syncing", e))?;
        self.mark_synced(last);
        Ok(())
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()> {
        convert::copy_to_folder(EngineKind::Lmdb, source, folder, &self.options)
    }

    fn size_bytes(&self) -> Result<u64> {
        home::size_bytes(&self.home.data)
    }

    fn is_nearly_full(&self, more_bytes: u64) -> bool {
        self.has_little_room(more_bytes)
    }

    fn reads_in_place(&self) -> bool {
        true
    }

    fn trim_resident(&self, limit_bytes: u64) -> Result<u64> {
        resident::trim(&self.home.data.join(DATA_FILE), limit_bytes)
    }
}

struct Snapshot<'e> {
    engine: &'e LmdbEngine,
    txn: RoTxn<'e, WithoutTls>,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.engine.resident.after_read();
    }
}

impl ReadTxn for Snapshot<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        get(self.engine.database(tree), &self.txn, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.engine.scan(tree, &self.txn, range, direction, visit)
    }
}

struct Transaction<'e> {
    engine: &'e LmdbEngine,
    txn: RwTxn<'e>,
    changed: bool,
    /// The first change that failed. LMDB does not commit after it.
    failed: Option<Error>,
}

impl Transaction<'_> {
    fn change<T>(
        &mut self,
        doing: &str,
        change: impl FnOnce(&mut RwTxn<'_>) -> LmdbResult<T>,
    ) -> Result<T> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.changed = true;
        change(&mut self.txn).map_err(|e| {
            let error = self.engine.write_failed(doing, e);
            self.failed = Some(error.clone());
            error
        })
    }
}

impl ReadTxn for Transaction<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        get(self.engine.database(tree), &self.txn, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.engine.scan(tree, &self.txn, range, direction, visit)
    }
}

impl Edit for Transaction<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        key::check(key)?;
        let database = self.engine.database(tree);
        self.change("writing", |txn| database.put(txn, key, value))
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        if !key::is_possible(key) {
            return Ok(false);
        }
        let database = self.engine.database(tree);
        self.change("deleting", |txn| database.delete(txn, key))
    }
}

impl WriteTxn for Transaction<'_> {
    fn append(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        key::check(key)?;
        let database = self.engine.database(tree);
        self.change("writing", |txn| {
            database.put_with_flags(txn, PutFlags::APPEND, key, value)
        })
    }

    fn commit(self: Box<Self>, durability: Durability) -> Result<()> {
        let Transaction {
            engine,
            txn,
            changed,
            failed,
        } = *self;
        if let Some(error) = failed {
            return Err(error);
        }
        if !changed {
            drop(txn);
            return match durability {
                Durability::Buffered => Ok(()),
                Durability::Fsync => engine.sync_if_needed(),
            };
        }
        let mode = match durability {
            Durability::Buffered => FlagSetMode::Enable,
            Durability::Fsync => FlagSetMode::Disable,
        };
        // SAFETY: one thread at a time may set flags. This thread holds LMDB's writer lock until
        // the commit below, and nothing else sets flags. Each commit sets the flag, and nobody
        // resets it after the lock is gone. `NO_META_SYNC` keeps the file whole (see the module).
        unsafe { engine.env.set_flags(EnvFlags::NO_META_SYNC, mode) }
            .map_err(|e| from_lmdb("choosing the durability", e))?;
        let id = txn.id();
        engine.commits_begun.fetch_add(1, Ordering::SeqCst);
        txn.commit().map_err(|e| engine.commit_failed(e))?;
        if durability == Durability::Fsync {
            // The commit synced the whole file first, so earlier commits are durable too.
            engine.mark_synced(id);
        }
        engine.resident.check();
        Ok(())
    }
}

fn get<'t>(
    database: Database<'static, Bytes, Bytes>,
    txn: &'t RoTxn<'_>,
    key: &[u8],
) -> Result<Option<Cow<'t, [u8]>>> {
    if !key::is_possible(key) {
        return Ok(None);
    }
    let value = database
        .get(txn, key)
        .map_err(|e| from_lmdb("reading", e))?;
    Ok(value.map(Cow::Borrowed))
}
