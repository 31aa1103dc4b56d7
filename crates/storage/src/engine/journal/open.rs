//! Opening the journal, and its link in the engine below.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Condvar, Mutex, RwLock};

use super::log::Log;
use super::memtable::Memtable;
use super::recover::{self, Recovered};
use super::values::Values;
use super::{Core, JournalLimits, LINK_KEY, State, Work};
use crate::disk::Disk;
use crate::engine::failure::Breaker;
use crate::engine::{Engine, Result, Tree};
use crate::error::Error;

/// The journal's link in the engine below.
pub(super) struct Link {
    /// The journal's name.
    pub journal: [u8; 16],
    /// The last generation that the engine has whole.
    pub applied: u64,
}

impl Link {
    pub fn encode(&self) -> Vec<u8> {
        [&self.journal[..], &self.applied.to_be_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Link> {
        let (journal, applied) = bytes.split_first_chunk()?;
        Some(Link {
            journal: *journal,
            applied: u64::from_be_bytes(applied.try_into().ok()?),
        })
    }
}

impl Core {
    pub(super) fn open(
        below: Arc<dyn Engine>,
        disk: Arc<dyn Disk>,
        name: [u8; 16],
        limits: JournalLimits,
    ) -> Result<Core> {
        let link = read_link(&*below)?;
        let found = recover::name_of(&*disk)?;
        if link
            .as_ref()
            .is_some_and(|link| found != Some(link.journal))
        {
            return Err(Error::Failed(
                "the metadata has changes in a journal, and that journal is missing: restore the folder \"journal\" beside the metadata, or restore a snapshot".into(),
            ));
        }
        let name = found.unwrap_or(name);
        let values = Values::new(disk.clone(), name, limits.segment_bytes);
        let log = Log::new(disk, name, limits);
        let applied = link.as_ref().map(|link| link.applied);
        let another = || {
            Error::Failed(
                "the journal belongs to another store: restore both together, or restore a snapshot"
                    .into(),
            )
        };
        // Without a link the first start was interrupted, or it is the first.
        if link.is_none() && values.has_segments()? {
            return Err(another());
        }
        let mut recovered = match recover::recover(&log, applied)? {
            Some(recovered) => recovered,
            None => Recovered::new(&log)?,
        };
        if link.is_none() && recovered.has_changes() {
            return Err(another());
        }
        values.load(&*below.read()?)?;
        recovered.rewrite(&log)?;
        let Recovered {
            active,
            frozen,
            next,
        } = recovered;
        let first = active.tail.generation;
        let core = Core {
            below,
            log,
            values,
            limits,
            breaker: Breaker::default(),
            work: Mutex::new(Work {
                active: active.tail.generation,
                frozen: frozen.as_ref().map(|frozen| frozen.tail.generation),
                prepared: next.map_or(first, |next| next.tail.generation),
                ..Work::default()
            }),
            state: RwLock::new(State {
                end: (active.tail.generation, active.tail.records),
                active: Arc::new(active.changes),
                frozen: frozen.map(|frozen| Arc::new(frozen.changes)),
            }),
            tail: Mutex::new(active.tail),
            checkpointing: Mutex::default(),
            progress: Mutex::default(),
            wake: Condvar::new(),
            done: Condvar::new(),
            checkpoints: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            has_thread: false,
        };
        if link.is_none() {
            core.apply(first - 1, &Memtable::default())?;
        }
        let next = core.prepare_next();
        if core.state.read().active.is_empty() {
            // It is repeated if it fails, for lack of room for instance.
            let _ = next.inspect_err(|e| core.note_trouble(e));
        } else {
            // A checkpoint of this generation may have begun, and its last commit may show up only
            // after a later power cut. So the generation gets no more records.
            next.and_then(|()| core.freeze(&mut core.tail.lock()))?;
        }
        Ok(core)
    }
}

fn read_link(below: &dyn Engine) -> Result<Option<Link>> {
    let txn = below.read()?;
    let Some(bytes) = txn.get(Tree::Meta, LINK_KEY)? else {
        return Ok(None);
    };
    match Link::decode(&bytes) {
        Some(link) => Ok(Some(link)),
        None => Err(Error::Damaged("the link of the journal".into())),
    }
}
