//! An engine that holds its commits until it is told to go on, counts them, and panics on demand.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::engine::memory::MemoryEngine;
use crate::engine::{
    Direction, Durability, Edit, Engine, KeyRange, ReadTxn, Result, Tree, Visitor, WriteTxn,
};

/// Called after each commit or sync, before anything else happens.
pub type Watch = Box<dyn Fn(&MemoryEngine) + Send + Sync>;

pub struct HeldEngine {
    pub watch: Mutex<Option<Watch>>,
    pub inner: MemoryEngine,
    open: Mutex<bool>,
    opened: Condvar,
    commits: AtomicU64,
    pub durable_commits: AtomicU64,
    pub panics: AtomicBool,
}

impl HeldEngine {
    pub fn new() -> Arc<HeldEngine> {
        Arc::new(HeldEngine {
            watch: Mutex::new(None),
            inner: MemoryEngine::new(),
            open: Mutex::new(true),
            opened: Condvar::new(),
            commits: AtomicU64::new(0),
            durable_commits: AtomicU64::new(0),
            panics: AtomicBool::new(false),
        })
    }

    pub fn set_open(&self, open: bool) {
        *self.open.lock() = open;
        self.opened.notify_all();
    }

    fn watched<T>(&self, done: T) -> T {
        if let Some(watch) = &*self.watch.lock() {
            watch(&self.inner);
        }
        done
    }

    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }
}

impl Engine for HeldEngine {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        self.inner.read()
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        Ok(Box::new(HeldTxn {
            inner: self.inner.write()?,
            engine: self,
        }))
    }

    fn sync(&self) -> Result<()> {
        self.watched(self.inner.sync())
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()> {
        self.inner.copy_to(source, folder)
    }

    fn size_bytes(&self) -> Result<u64> {
        self.inner.size_bytes()
    }
}

struct HeldTxn<'e> {
    inner: Box<dyn WriteTxn + 'e>,
    engine: &'e HeldEngine,
}

impl ReadTxn for HeldTxn<'_> {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Cow<'_, [u8]>>> {
        self.inner.get(tree, key)
    }

    fn scan(
        &self,
        tree: Tree,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visitor<'_>,
    ) -> Result<()> {
        self.inner.scan(tree, range, direction, visit)
    }
}

impl Edit for HeldTxn<'_> {
    fn put(&mut self, tree: Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(tree, key, value)
    }

    fn delete(&mut self, tree: Tree, key: &[u8]) -> Result<bool> {
        self.inner.delete(tree, key)
    }
}

impl WriteTxn for HeldTxn<'_> {
    fn commit(self: Box<Self>, durability: Durability) -> Result<()> {
        self.engine.commits.fetch_add(1, Ordering::SeqCst);
        if durability == Durability::Fsync {
            self.engine.durable_commits.fetch_add(1, Ordering::SeqCst);
        }
        let mut open = self.engine.open.lock();
        while !*open {
            self.engine.opened.wait(&mut open);
        }
        drop(open);
        if self.engine.panics.load(Ordering::SeqCst) {
            // `panic!` would print.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        let engine = self.engine;
        engine.watched(self.inner.commit(durability))
    }
}
