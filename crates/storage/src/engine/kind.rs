//! The kinds of engines, and how they are opened.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use archipel_base::random::{Random, SystemRandom};

use super::fjall::FjallEngine;
use super::home::{self, Home};
use super::journal::{JournalLimits, Journaled};
use super::lmdb::LmdbEngine;
use super::sqlite::SqliteEngine;
use super::{Engine, Result};
use crate::disk::{Disk, FileDisk};
use crate::error::Error;

/// The folder of the journal, beside LMDB's own files.
const JOURNAL_FOLDER: &str = "journal";

/// An engine that keeps its data in files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum EngineKind {
    /// LMDB.
    #[default]
    Lmdb,
    /// SQLite.
    Sqlite,
    /// Fjall.
    Fjall,
}

impl EngineKind {
    /// All kinds.
    pub const ALL: [EngineKind; 3] = [EngineKind::Lmdb, EngineKind::Sqlite, EngineKind::Fjall];

    /// Returns the name in settings and files.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Lmdb => "lmdb",
            EngineKind::Sqlite => "sqlite",
            EngineKind::Fjall => "fjall",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of parsing a name that is not an engine's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such metadata engine: {0:?} (there are lmdb, sqlite and fjall)")]
pub struct ParseEngineKindError(String);

impl FromStr for EngineKind {
    type Err = ParseEngineKindError;

    fn from_str(text: &str) -> std::result::Result<EngineKind, ParseEngineKindError> {
        EngineKind::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| ParseEngineKindError(text.chars().take(40).collect()))
    }
}

/// The settings of all engines. Each engine takes those that concern it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineOptions {
    /// LMDB: the largest size of the file, in bytes of address space (not of memory or disk).
    /// `None` means 1 TiB or twice the file, whichever is more; less where the address space is
    /// limited.
    pub map_bytes: Option<u64>,
    /// LMDB: the resident size of the map above which the engine unmaps pages, in bytes.
    pub resident_bytes: u64,
    /// SQLite and Fjall: memory for cached pages or blocks, in bytes.
    pub cache_bytes: u64,
    /// The number of concurrent read transactions.
    pub max_readers: u32,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            map_bytes: None,
            resident_bytes: 64 << 20,
            cache_bytes: 16 << 20,
            max_readers: 512,
        }
    }
}

/// Opens the engine of `kind` in `folder`, or makes a new one.
///
/// # Errors
/// `Refused` if the folder holds another kind or a later format, or is already open. The text names
/// the fix.
pub fn open(kind: EngineKind, folder: &Path, options: &EngineOptions) -> Result<Arc<dyn Engine>> {
    open_home(kind, Home::open(folder, kind)?, options)
}

/// Opens the engine of `kind` in a folder that is locked already. LMDB gets its journal.
pub(super) fn open_home(
    kind: EngineKind,
    home: Home,
    options: &EngineOptions,
) -> Result<Arc<dyn Engine>> {
    if kind != EngineKind::Lmdb {
        return open_bare(kind, home, options);
    }
    let (lmdb, disk, name) = open_lmdb(home, options)?;
    let journaled = Journaled::open(lmdb, disk, name, JournalLimits::default())?;
    Ok(Arc::new(journaled))
}

/// Makes LMDB with a journal in an empty folder, for [`Journaled::fill`].
pub(super) fn make_lmdb(home: Home, options: &EngineOptions) -> Result<Journaled> {
    let (lmdb, disk, name) = open_lmdb(home, options)?;
    Journaled::without_thread(lmdb, disk, name, JournalLimits::default())
}

/// LMDB, and the disk and the name of its journal.
type LmdbParts = (Arc<dyn Engine>, Arc<dyn Disk>, [u8; 16]);

/// Opens LMDB and the disk of its journal. Draws a name for the journal, in case it is new.
fn open_lmdb(home: Home, options: &EngineOptions) -> Result<LmdbParts> {
    let folder = home.data.join(JOURNAL_FOLDER);
    let lmdb = open_bare(EngineKind::Lmdb, home, options)?;
    let disk = FileDisk::open(&folder)
        .map_err(|e| Error::from_io(&format!("opening {}", folder.display()), &e))?;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut name = [0; 16];
    SystemRandom.fill(&mut name);
    Ok((lmdb, disk, name))
}

/// Opens the engine of `kind` without a journal of ours.
pub(super) fn open_bare(
    kind: EngineKind,
    home: Home,
    options: &EngineOptions,
) -> Result<Arc<dyn Engine>> {
    Ok(match kind {
        EngineKind::Lmdb => Arc::new(LmdbEngine::open_in(home, options)?),
        EngineKind::Sqlite => Arc::new(SqliteEngine::open_in(home, options)?),
        EngineKind::Fjall => Arc::new(FjallEngine::open_in(home, options)?),
    })
}

/// Returns the kind of engine that `folder` holds; `None` if it is new.
pub fn kind_of(folder: &Path) -> Result<Option<EngineKind>> {
    home::marked_kind(folder)
}
