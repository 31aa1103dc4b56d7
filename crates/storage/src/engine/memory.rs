//! The in-memory engine: for tests and simulation. Loses what was not synced, on demand, and
//! fails when told to.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{
    Direction, Durability, Edit, Engine, Flow, KeyRange, MAX_KEY_BYTES, ReadTxn, Result, Tree,
    Visitor, WriteTxn,
};
use crate::error::Error;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;
/// One map a tree, shared with the readers that began before a change.
type Trees = [Arc<Entries>; Tree::ALL.len()];

/// What shall go wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which commit from now on: 0 is the next.
    pub after_commits: u64,
    /// What it says.
    pub error: Error,
}

/// An in-memory engine.
#[derive(Default)]
pub struct MemoryEngine {
    state: Mutex<State>,
    writer_gone: Condvar,
}

#[derive(Default)]
struct State {
    now: Trees,
    /// What a crash leaves: the state at the last sync.
    synced: Trees,
    writing: bool,
    fault: Option<Fault>,
    failed: Option<Error>,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }

    /// What a power cut does: everything that was not synced is gone.
    pub fn crash(&self) {
        let mut state = self.lock();
        state.now = state.synced.clone();
        state.failed = None;
    }

    /// Makes a later commit fail.
    pub fn inject(&self, fault: Fault) {
        self.lock().fault = Some(fault);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match &mut self.fault {
            Some(fault) if fault.after_commits > 0 => {
                fault.after_commits -= 1;
                Ok(())
            }
            Some(fault) => {
                let error = fault.error.clone();
                self.fault = None;
                if matches!(error, Error::Failed(_)) {
                    self.failed = Some(error.clone());
                }
                Err(error)
            }
            None => Ok(()),
        }
    }
}

impl Engine for MemoryEngine {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        Ok(Box::new(Snapshot(self.lock().now.clone())))
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        let mut state = self.lock();
        while state.writing {
            state = self
                .writer_gone
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        state.writing = true;
        Ok(Box::new(Transaction {
            trees: Snapshot(state.now.clone()),
            engine: self,
        }))
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        state.synced = state.now.clone();
        Ok(())
    }

    fn snapshot_to(&self, _folder: &Path) -> Result<()> {
        Err(Error::Refused("the in-memory engine has no files".into()))
    }

    fn size_bytes(&self) -> Result<u64> {
        let trees = self.lock().now.clone();
        let entries = trees.iter().flat_map(|tree| tree.iter());
        Ok(entries.map(|(k, v)| (k.len() + v.len()) as u64).sum())
    }
}

struct Snapshot(Trees);

impl ReadTxn for Snapshot {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        Ok(self.0[tree as usize].get(key).map(|v| Cow::Borrowed(&v[..])))
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        if is_empty(&range) {
            return Ok(());
        }
        let mut entries = self.0[tree as usize].range::<[u8], _>(range);
        loop {
            let entry = match direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            match entry {
                Some((key, value)) if visit(key, value)? == Flow::Continue => {}
                _ => return Ok(()),
            }
        }
    }
}

/// Whether a range holds nothing, in a way that `BTreeMap::range` would panic on.
fn is_empty((from, to): &KeyRange<'_>) -> bool {
    match (from, to) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Excluded(b))
        | (Bound::Excluded(a), Bound::Included(b)) => a >= b,
        _ => false,
    }
}

struct Transaction<'e> {
    trees: Snapshot,
    engine: &'e MemoryEngine,
}

impl ReadTxn for Transaction<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.trees.get(tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.trees.scan(tree, range, direction, visit)
    }
}

impl Edit for Transaction<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(Error::Refused(format!("a key of {} bytes", key.len())));
        }
        let tree = Arc::make_mut(&mut self.trees.0[tree as usize]);
        tree.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        Ok(Arc::make_mut(&mut self.trees.0[tree as usize])
            .remove(key)
            .is_some())
    }
}

impl WriteTxn for Transaction<'_> {
    fn commit(self: Box<Self>, durability: Durability) -> Result<()> {
        let mut state = self.engine.lock();
        state.check()?;
        state.now = self.trees.0.clone();
        if durability == Durability::Fsync {
            state.synced = state.now.clone();
        }
        drop(state);
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.engine.lock().writing = false;
        self.engine.writer_gone.notify_one();
    }
}
