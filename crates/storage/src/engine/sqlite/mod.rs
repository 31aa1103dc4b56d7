//! The SQLite engine: a B-tree with a write-ahead log. It has the longest record of surviving
//! crashes.
//!
//! Each tree is a table, `WITHOUT ROWID`, keyed by a blob. Blobs compare bytewise, so scans are in
//! order.
//!
//! # Durability
//! SQLite takes the durability of a commit from `PRAGMA synchronous`. The pragma cannot be changed
//! inside a transaction, but the caller chooses the durability only at its end. So each transaction
//! begins in the mode that the last commit asked for:
//! - asks for `Fsync`, began in FULL: the log is synced before the commit becomes visible;
//! - asks for `Buffered`, began in NORMAL: the log is not synced. A power cut may undo the last
//!   commits. Checkpoints sync the log before they touch the database file, so the file stays
//!   whole;
//! - asks for `Buffered`, began in FULL: the commit is more durable than asked;
//! - asks for `Fsync`, began in NORMAL: after the commit, a second transaction in FULL syncs the
//!   log up to itself. No reader may begin between the two, because it could act on a commit that a
//!   power cut undoes.
//!
//! # Failures
//! After a sync that failed, the kernel may have dropped what it did not write, and a later sync succeeds. So:
//! - The engine runs the checkpoints, because SQLite ignores their failures. One that fails is final, unless it
//!   could only not write a page, or lacks room or a lock: then the log is synced and keeps everything.
//! - After a final failure the log is left as it is, also when the engine is closed.
//! - A start writes the log again before SQLite reads it. Pages that a checkpoint wrote to the file and lost are
//!   in it, too: SQLite overwrites a log only once the file is synced.

mod checkpoint;
mod query;
mod readers;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ToSql};

use self::query::{get, scan};
use self::readers::Readers;
use super::failure::Breaker;
use super::home::{self, Home};
use super::{
    Direction, Durability, Edit, Engine, EngineKind, EngineOptions, KeyRange, ReadTxn, Result,
    Tree, Visitor, WriteTxn, convert, key,
};
use crate::error::Error;

type SqliteResult<T> = std::result::Result<T, rusqlite::Error>;

const DATA_FILE: &str = "metadata.sqlite";
/// SQLite's name for the log.
const LOG_FILE: &str = "metadata.sqlite-wal";
/// The wait for a lock. Other processes (a backup tool, the `sqlite3` shell) may hold one for a
/// moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The size to which an emptied log is cut. A log grows while a long reader holds it.
const KEPT_LOG_BYTES: u64 = 64 << 20;
/// The number of cached prepared statements: a get, put, delete and eight kinds of scan for each
/// tree.
const CACHED_STATEMENTS: usize = 128;

/// An engine on SQLite.
pub struct SqliteEngine {
    // Before the writer, whose connection copies the log to the file if it is the last one to be closed.
    readers: Readers,
    writer: Mutex<Writer>,
    breaker: Arc<Breaker>,
    /// Held for writing while a commit is visible and not yet durable. Readers begin under it.
    visible: RwLock<()>,
    options: EngineOptions,
    // The last field, so that the folder stays locked until the connections are closed.
    home: Home,
}

struct Writer {
    connection: Connection,
    /// The current `synchronous` mode of the connection.
    mode: Durability,
    /// The durability that the last commit asked for: the best guess for the next one.
    asked: Durability,
    /// True if a power cut may still undo a commit.
    unsynced: bool,
}

impl SqliteEngine {
    /// Opens the engine in `folder`, or makes a new one.
    pub fn open(folder: &Path, options: &EngineOptions) -> Result<SqliteEngine> {
        SqliteEngine::open_in(Home::open(folder, EngineKind::Sqlite)?, options)
    }

    pub(super) fn open_in(mut home: Home, options: &EngineOptions) -> Result<SqliteEngine> {
        let path = home.data.join(DATA_FILE);
        let breaker = Arc::<Breaker>::default();
        home::rewrite(&home.data.join(LOG_FILE))?;
        let fail = |e| from_sqlite(&format!("opening {}", path.display()), e);
        let mut connection = connect(&path, options.cache_bytes).map_err(fail)?;
        checkpoint::run_after_commits(&mut connection, breaker.clone()).map_err(fail)?;
        create_tables(&connection).map_err(fail)?;
        home::sync_folder(&home.data)?;
        home.complete()?;
        Ok(SqliteEngine {
            readers: Readers::new(path, options),
            writer: Mutex::new(Writer {
                connection,
                mode: Durability::Fsync,
                asked: Durability::Fsync,
                unsynced: false,
            }),
            breaker,
            visible: RwLock::new(()),
            options: *options,
            home,
        })
    }

    /// Converts the error of a failed write: refused, or of unknown outcome.
    fn write_failed(&self, doing: &str, error: rusqlite::Error) -> Error {
        match from_sqlite(doing, error) {
            refused @ (Error::Full(_) | Error::Busy(_) | Error::Refused(_)) => refused,
            other => self.breaker.trip(doing, other),
        }
    }
}

impl Engine for SqliteEngine {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        let reader = self.readers.take()?;
        let _visible = self.visible.read();
        // A transaction sees the last commit before its first read, not before its beginning. So
        // read something.
        reader
            .execute_batch("BEGIN; SELECT n FROM barrier;")
            .map_err(|e| from_sqlite("beginning to read", e))?;
        Ok(Box::new(Snapshot(reader)))
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        let mut writer = self.writer.lock();
        self.breaker.check()?;
        let asked = writer.asked;
        writer
            .set_mode(asked)
            .and_then(|()| writer.connection.execute_batch("BEGIN IMMEDIATE"))
            .map_err(|e| from_sqlite("beginning to write", e))?;
        Ok(Box::new(Transaction {
            engine: self,
            writer,
            changed: false,
            failed: None,
        }))
    }

    fn sync(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        self.breaker.check()?;
        let synced = writer.sync();
        synced.map_err(|e| self.write_failed("syncing", e))?;
        // A checkpoint after the commit may have failed.
        self.breaker.check()
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()> {
        convert::copy_to_folder(EngineKind::Sqlite, source, folder, &self.options)
    }

    fn size_bytes(&self) -> Result<u64> {
        home::size_bytes(&self.home.data)
    }
}

/// Lets the log be copied to the file and removed. After a final failure it stays: to copy it would sync pages that
/// may be lost.
impl Drop for SqliteEngine {
    fn drop(&mut self) {
        let writer = self.writer.get_mut();
        if self.breaker.check().is_ok()
            && let Err(error) = keep_log_when_closed(&writer.connection, false)
        {
            tracing::warn!("the log of SQLite is left to the next start: {error}");
        }
    }
}

impl Writer {
    fn set_mode(&mut self, mode: Durability) -> SqliteResult<()> {
        if self.mode == mode {
            return Ok(());
        }
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        self.connection.execute_batch(match mode {
            Durability::Fsync => "PRAGMA synchronous = FULL",
            Durability::Buffered => "PRAGMA synchronous = NORMAL",
        })?;
        self.mode = mode;
        Ok(())
    }

    /// Syncs the log, with all commits in it, by a small commit in FULL mode.
    fn sync(&mut self) -> SqliteResult<()> {
        if !self.unsynced {
            return Ok(());
        }
        self.set_mode(Durability::Fsync)?;
        self.connection
            .execute_batch("UPDATE barrier SET n = n + 1")?;
        self.unsynced = false;
        Ok(())
    }
}

struct Snapshot<'e>(readers::Reader<'e>);

impl ReadTxn for Snapshot<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        get(&self.0, tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        scan(&self.0, tree, range, direction, visit)
    }
}

struct Transaction<'e> {
    engine: &'e SqliteEngine,
    writer: MutexGuard<'e, Writer>,
    changed: bool,
    /// The first change that failed. SQLite may have undone the transaction by itself, and would
    /// then commit each later change alone.
    failed: Option<Error>,
}

impl ReadTxn for Transaction<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        get(&self.writer.connection, tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        scan(&self.writer.connection, tree, range, direction, visit)
    }
}

impl Transaction<'_> {
    fn execute(&mut self, sql: &str, parameters: &[&dyn ToSql]) -> Result<usize> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.changed = true;
        let done = self
            .writer
            .connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute(parameters));
        done.map_err(|e| {
            let error = self.engine.write_failed("writing", e);
            self.failed.insert(error).clone()
        })
    }
}

impl Edit for Transaction<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        key::check(key)?;
        let sql = format!("INSERT OR REPLACE INTO {} VALUES (?1, ?2)", tree.name());
        self.execute(&sql, &[&key, &value]).map(|_| ())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        let sql = format!("DELETE FROM {} WHERE k = ?1", tree.name());
        self.execute(&sql, &[&key]).map(|rows| rows > 0)
    }
}

impl WriteTxn for Transaction<'_> {
    fn commit(mut self: Box<Self>, durability: Durability) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let engine = self.engine;
        let fail = |e| engine.write_failed("committing", e);
        self.writer.asked = durability;
        let late_sync = durability == Durability::Fsync
            && (self.writer.mode == Durability::Buffered || !self.changed);
        let _not_yet_visible = late_sync.then(|| engine.visible.write());
        self.writer
            .connection
            .execute_batch("COMMIT")
            .map_err(fail)?;
        match (self.changed, self.writer.mode) {
            (true, Durability::Buffered) => self.writer.unsynced = true,
            (true, Durability::Fsync) => self.writer.unsynced = false,
            (false, _) => {}
        }
        if late_sync {
            self.writer.sync().map_err(|e| {
                // The commit is visible already, so even lack of space leaves its outcome unknown.
                engine.breaker.trip("syncing a commit", e)
            })?;
        }
        // A checkpoint after a commit may have failed.
        engine.breaker.check()
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let connection = &self.writer.connection;
        if !connection.is_autocommit()
            && let Err(error) = connection.execute_batch("ROLLBACK")
        {
            self.engine.write_failed("undoing a transaction", error);
        }
    }
}

/// Opens a connection: write-ahead log, syncing, a bounded cache, no map. When it is closed, it leaves
/// the log as it is.
fn connect(path: &Path, cache_bytes: u64) -> SqliteResult<Connection> {
    let connection = Connection::open(path)?;
    keep_log_when_closed(&connection, true)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    let cache_kib = (cache_bytes / 1024).clamp(64, 1 << 30);
    // `journal_mode` returns a row, so it needs a query.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA cache_size = -{cache_kib}; PRAGMA mmap_size = 0;
         PRAGMA journal_size_limit = {KEPT_LOG_BYTES};"
    ))?;
    Ok(connection)
}

fn keep_log_when_closed(connection: &Connection, keep: bool) -> SqliteResult<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)?;
    Ok(())
}

fn create_tables(connection: &Connection) -> SqliteResult<()> {
    let mut sql = String::from("BEGIN IMMEDIATE;");
    for tree in Tree::ALL {
        sql += &format!(
            "CREATE TABLE IF NOT EXISTS {} (k BLOB PRIMARY KEY NOT NULL, v BLOB NOT NULL) WITHOUT ROWID;",
            tree.name()
        );
    }
    // The row that a sync changes, so that it has something to commit.
    sql += "CREATE TABLE IF NOT EXISTS barrier (n INTEGER NOT NULL);
            INSERT INTO barrier SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM barrier);
            COMMIT;";
    connection.execute_batch(&sql)
}

/// Converts a SQLite error to a storage error.
fn from_sqlite(doing: &str, error: rusqlite::Error) -> Error {
    let text = format!("SQLite, {doing}: {error}");
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full(text),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy(text),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Damaged(text),
        Some(ErrorCode::TooBig) => Error::Refused(text),
        _ => Error::Io(text),
    }
}
