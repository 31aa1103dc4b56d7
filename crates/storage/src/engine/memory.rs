//! The in-memory engine, for tests and simulation. On demand it loses unsynced commits, and fails.
//!
//! It is deterministic: the same calls with the same seed give the same state. The maps share
//! structure, so a reader, a transaction or a kept state costs nothing, and a change costs O(log
//! n).

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Bound;
use std::path::Path;

use archipel_base::random::Random;
use parking_lot::{Condvar, Mutex};
use rpds::RedBlackTreeMapSync;

use super::{
    Direction, Durability, Edit, Engine, Flow, KeyRange, ReadTxn, Result, Tree, Visitor, WriteTxn,
    key,
};
use crate::error::Error;

type Trees = [RedBlackTreeMapSync<Vec<u8>, Vec<u8>>; Tree::ALL.len()];

/// The number of states since the last sync that are kept for [`MemoryEngine::crash_keeping`].
const KEPT_STATES: usize = 1024;

/// A fault to inject.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The commit that fails, counted from now: 0 is the next.
    pub after_commits: u64,
    /// The error of the commit. After [`Error::Failed`] the engine takes no more writes until it
    /// crashes, and a crash may show the commit after all (see [`MemoryEngine::crash_keeping`]).
    pub error: Error,
}

/// An in-memory engine.
#[derive(Default)]
pub struct MemoryEngine {
    state: Mutex<EngineState>,
    writer_gone: Condvar,
}

#[derive(Default)]
struct EngineState {
    now: Trees,
    /// The state at the last sync, which survives any crash.
    synced: Trees,
    /// The states after each later commit, oldest first. A crash may leave any of them.
    unsynced: VecDeque<Trees>,
    writing: bool,
    /// The number of crashes. Transactions that began before a crash cannot commit.
    crashes: u64,
    fault: Option<Fault>,
    sync_fault: Option<Error>,
    failed: Option<Error>,
}

impl MemoryEngine {
    /// Makes an empty engine.
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }

    /// Simulates the worst power cut: all unsynced commits are gone. The engine works again.
    pub fn crash(&self) {
        self.crash_after(0);
    }

    /// Simulates a power cut that only the first `kept` of the unsynced commits survive.
    pub fn crash_after(&self, kept: usize) {
        let mut state = self.state.lock();
        let last = kept.min(state.unsynced.len()).checked_sub(1);
        let survived = match last.and_then(|last| state.unsynced.get(last)) {
            Some(trees) => trees.clone(),
            None => state.synced.clone(),
        };
        state.restart(survived);
    }

    /// Simulates a power cut. `random` decides how many of the first unsynced commits survive it.
    pub fn crash_keeping(&self, random: &dyn Random) {
        let choices = self.unsynced_commits() as u64 + 1;
        self.crash_after((random.next_u64() % choices) as usize);
    }

    /// Returns a new engine with this one's synced state: a backup.
    pub fn copy(&self) -> MemoryEngine {
        let synced = self.state.lock().synced.clone();
        let copied = EngineState {
            now: synced.clone(),
            synced,
            ..EngineState::default()
        };
        MemoryEngine {
            state: Mutex::new(copied),
            writer_gone: Condvar::new(),
        }
    }

    /// Returns how many commits a crash may undo.
    pub fn unsynced_commits(&self) -> usize {
        self.state.lock().unsynced.len()
    }

    /// Makes a later commit fail.
    pub fn inject(&self, fault: Fault) {
        self.state.lock().fault = Some(fault);
    }

    /// Makes the next [`Engine::sync`] fail with `error`; [`Error::Failed`] is final until a crash.
    pub fn inject_sync(&self, error: Error) {
        self.state.lock().sync_fault = Some(error);
    }
}

impl EngineState {
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

    /// Returns the error that is due for this commit, if any.
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
            // After a final failure it is unknown if the commit reached the disk.
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
        Ok(Box::new(Snapshot(self.state.lock().now.clone())))
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        let mut state = self.state.lock();
        while state.writing {
            self.writer_gone.wait(&mut state);
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
        let mut state = self.state.lock();
        state.check()?;
        if let Some(error) = state.sync_fault.take() {
            return Err(state.fail(error));
        }
        state.mark_synced();
        Ok(())
    }

    fn copy_to(&self, _source: &dyn ReadTxn, _folder: &Path) -> Result<()> {
        Err(Error::Refused("the in-memory engine has no files".into()))
    }

    fn size_bytes(&self) -> Result<u64> {
        let trees = self.state.lock().now.clone();
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
        let mut state = self.engine.state.lock();
        if state.crashes != self.crashes {
            return Err(Error::Io("the engine crashed meanwhile".into()));
        }
        state.commit(self.trees.0.clone(), durability)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.engine.state.lock().writing = false;
        self.engine.writer_gone.notify_one();
    }
}
