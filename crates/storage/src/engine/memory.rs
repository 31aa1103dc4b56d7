//! The in-memory engine: for tests and simulation. Loses what was not synced, and fails, on demand.
//!
//! Everything is deterministic: the same calls with the same seed give the same state. The maps
//! share structure, so a reader, a transaction or a kept state costs nothing, and a change costs
//! O(log n).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use archipel_base::random::Random;
use rpds::RedBlackTreeMapSync;

use super::{
    Direction, Durability, Edit, Engine, Flow, KeyRange, ReadTxn, Result, Tree, Visitor, WriteTxn,
    key,
};
use crate::error::Error;

type Trees = [RedBlackTreeMapSync<Vec<u8>, Vec<u8>>; Tree::ALL.len()];

/// How many states since the last sync are kept for [`MemoryEngine::crash_keeping`].
const KEPT_STATES: usize = 1024;

/// What shall go wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which commit from now on: 0 is the next.
    pub after_commits: u64,
    /// What it says. With [`Error::Failed`] the engine takes no more writes until it crashes, and
    /// a crash may show the commit after all (see [`MemoryEngine::crash_keeping`]).
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
    /// What a crash leaves at least: the state at the last sync.
    synced: Trees,
    /// The states after each commit since then, oldest first: a crash may leave any of them.
    unsynced: VecDeque<Trees>,
    writing: bool,
    /// Transactions that began before a crash can no longer commit.
    crashes: u64,
    fault: Option<Fault>,
    sync_fault: Option<Error>,
    failed: Option<Error>,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }

    /// What a power cut does at worst: everything that was not synced is gone. The engine works again.
    pub fn crash(&self) {
        let mut state = self.lock();
        let survived = state.synced.clone();
        state.restart(survived);
    }

    /// What a power cut does: of the commits that were not synced, the first few survive, as many
    /// as `random` says, and none after them.
    pub fn crash_keeping(&self, random: &dyn Random) {
        let mut state = self.lock();
        let choices = state.unsynced.len() as u64 + 1;
        let kept = (random.next_u64() % choices) as usize;
        let survived = match kept.checked_sub(1).and_then(|i| state.unsynced.get(i)) {
            Some(trees) => trees.clone(),
            None => state.synced.clone(),
        };
        state.restart(survived);
    }

    /// An engine that holds what is on stable storage here now: a backup.
    pub fn copy(&self) -> MemoryEngine {
        let synced = self.lock().synced.clone();
        let copied = State {
            now: synced.clone(),
            synced,
            ..State::default()
        };
        MemoryEngine {
            state: Mutex::new(copied),
            writer_gone: Condvar::new(),
        }
    }

    /// How many commits a crash may undo.
    pub fn unsynced_commits(&self) -> usize {
        self.lock().unsynced.len()
    }

    /// Makes a later commit fail.
    pub fn inject(&self, fault: Fault) {
        self.lock().fault = Some(fault);
    }

    /// Makes the next [`Engine::sync`] fail with `error`; [`Error::Failed`] is final until a crash.
    pub fn inject_sync(&self, error: Error) {
        self.lock().sync_fault = Some(error);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn restart(&mut self, survived: Trees) {
        self.now = survived.clone();
        self.synced = survived;
        self.unsynced.clear();
        self.failed = None;
        self.crashes += 1;
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: Error) -> Error {
        if matches!(error, Error::Failed(_)) {
            self.failed = Some(error.clone());
        }
        error
    }

    /// The error that is due for this commit, if any.
    fn due_fault(&mut self) -> Option<Error> {
        let fault = self.fault.as_mut()?;
        if fault.after_commits > 0 {
            fault.after_commits -= 1;
            return None;
        }
        self.fault.take().map(|fault| fault.error)
    }

    fn keep_unsynced(&mut self, trees: Trees) {
        if self.unsynced.len() == KEPT_STATES {
            self.unsynced.pop_front();
        }
        self.unsynced.push_back(trees);
    }

    fn mark_synced(&mut self) {
        self.synced = self.now.clone();
        self.unsynced.clear();
    }

    fn commit(&mut self, trees: Trees, durability: Durability) -> Result<()> {
        self.check()?;
        if let Some(error) = self.due_fault() {
            // After a final failure nobody knows what reached the disk.
            if matches!(error, Error::Failed(_)) {
                self.keep_unsynced(trees);
            }
            return Err(self.fail(error));
        }
        self.now = trees;
        match durability {
            Durability::Fsync => self.mark_synced(),
            Durability::Buffered => self.keep_unsynced(self.now.clone()),
        }
        Ok(())
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
        state.check()?;
        state.writing = true;
        Ok(Box::new(Transaction {
            trees: Snapshot(state.now.clone()),
            crashes: state.crashes,
            engine: self,
        }))
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.lock();
        state.check()?;
        if let Some(error) = state.sync_fault.take() {
            return Err(state.fail(error));
        }
        state.mark_synced();
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
        Ok(self.0[tree as usize]
            .get(key)
            .map(|v| Cow::Borrowed(v.as_slice())))
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
        let mut entries = self.0[tree as usize].range::<[u8], (Bound<&[u8]>, Bound<&[u8]>)>(range);
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

struct Transaction<'e> {
    trees: Snapshot,
    crashes: u64,
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
        key::check(key)?;
        self.trees.0[tree as usize].insert_mut(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        Ok(self.trees.0[tree as usize].remove_mut(key))
    }
}

impl WriteTxn for Transaction<'_> {
    fn commit(self: Box<Self>, durability: Durability) -> Result<()> {
        let mut state = self.engine.lock();
        if state.crashes != self.crashes {
            return Err(Error::Io("the engine crashed meanwhile".into()));
        }
        state.commit(self.trees.0.clone(), durability)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.engine.lock().writing = false;
        self.engine.writer_gone.notify_one();
    }
}
