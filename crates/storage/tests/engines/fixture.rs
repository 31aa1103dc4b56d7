//! The folder of an engine under test, and helpers.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use archipel_storage::Error;
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::engine::{
    Direction, Durability, Engine, EngineKind, EngineOptions, Flow, KeyRange, ReadTxn, Tree, open,
};
use tempfile::TempDir;

/// The range of all keys.
pub const ALL: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// A new folder for an engine, or none for the in-memory engine.
pub struct Fixture {
    folder: Option<(EngineKind, TempDir)>,
}

impl Fixture {
    pub fn new(kind: EngineKind) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        Fixture {
            folder: Some((kind, folder)),
        }
    }

    pub fn in_memory() -> Fixture {
        Fixture { folder: None }
    }

    /// Opens the engine. The in-memory engine is new each time.
    pub fn open(&self) -> Arc<dyn Engine> {
        match self.files() {
            Some((kind, folder)) => open(kind, folder, &EngineOptions::default()).unwrap(),
            None => Arc::new(MemoryEngine::new()),
        }
    }

    pub fn files(&self) -> Option<(EngineKind, &Path)> {
        self.folder.as_ref().map(|(kind, f)| (*kind, f.path()))
    }
}

/// Commits one put.
pub fn put(engine: &dyn Engine, tree: Tree, key: &[u8], value: &[u8]) {
    let mut txn = engine.write().unwrap();
    txn.put(tree, key, value).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

/// Returns the current value of a key.
pub fn get(engine: &dyn Engine, tree: Tree, key: &[u8]) -> Option<Vec<u8>> {
    let txn = engine.read().unwrap();
    let value = txn.get(tree, key).unwrap();
    value.map(|v| v.into_owned())
}

/// Returns all entries of a range.
pub fn entries<T: ReadTxn + ?Sized>(
    txn: &T,
    tree: Tree,
    range: KeyRange<'_>,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    txn.scan(tree, range, direction, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(Flow::Continue)
    })
    .unwrap();
    found
}

/// Returns the current keys of a tree.
pub fn keys(engine: &dyn Engine, tree: Tree) -> Vec<Vec<u8>> {
    let txn = engine.read().unwrap();
    let all = entries(txn.as_ref(), tree, ALL, Direction::Ascending);
    all.into_iter().map(|(key, _)| key).collect()
}

/// Returns the error of a call that must fail.
pub fn error_of<T>(result: Result<T, Error>) -> Error {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error,
    }
}
