//! A store in memory, and the tests of its parts.

mod batches;
mod blocks;
mod boots;
mod bound;
mod concurrent;
mod damaged_rows;
mod held;
mod migration;
mod mixed;
mod rebuild;
mod repair;
mod space;
mod synced;

use std::future::Future;
use std::sync::Arc;

use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_base::{Id, PartitionId, Stamp, Writer};
use bytes::Bytes;

use super::{Limits, Store, StoreOptions, Threads};
use crate::blocks::{BlockOptions, DiskConfig};
use crate::disk::MemoryDisk;
use crate::engine::Engine;
use crate::engine::Result;
use crate::engine::memory::MemoryEngine;
use crate::pool::{Pool, PoolOptions};
use crate::row::{Row, RowKey, Value};

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

/// A node's parts in memory. They outlive the stores that are opened on them.
pub(crate) struct Parts {
    pub engine: Arc<MemoryEngine>,
    pub disk: Arc<MemoryDisk>,
    pub clock: Arc<ManualClock>,
}

impl Parts {
    pub fn new() -> Parts {
        Parts {
            engine: Arc::new(MemoryEngine::new()),
            disk: Arc::new(MemoryDisk::new()),
            clock: Arc::new(ManualClock::at(1_700_000_000_000)),
        }
    }

    /// Returns options for a store in one thread.
    pub fn options(&self) -> StoreOptions {
        StoreOptions {
            engine: self.engine.clone(),
            disks: vec![DiskConfig::new(1, self.disk.clone())],
            blocks: BlockOptions {
                owner: Id::default(),
                segment_bytes: 1 << 20,
                preallocate_bytes: 0,
                zero_bytes: 0,
                reserve_bytes: Some(0),
                compression_level: None,
            },
            pool: Pool::inline(),
            threads: Threads::Inline,
            clock: self.clock.clone(),
            random: Arc::new(SeededRandom::new(1)),
            identity: None,
            metadata_space: None,
            limits: Limits::default(),
        }
    }

    /// Returns options for a store with threads, on another engine.
    pub fn threaded(&self, engine: Arc<dyn Engine>) -> StoreOptions {
        StoreOptions {
            engine,
            pool: Pool::start(PoolOptions::default()).unwrap(),
            threads: Threads::Own,
            ..self.options()
        }
    }

    pub fn open(&self) -> Store {
        Store::open(self.options()).unwrap()
    }

    /// Simulates a power cut.
    pub fn crash(&self) {
        self.engine.crash();
        self.disk.crash(None);
    }
}

pub(crate) fn key(name: &str) -> RowKey {
    RowKey {
        partition: PartitionId(3),
        key: Bytes::from(name.to_string()),
    }
}

pub(crate) fn stamp(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Writer(1))
}

/// Returns a live row without a payload.
pub(crate) fn row(millis: u64, metadata: &str) -> Row {
    Row {
        promised: stamp(millis),
        stamp: stamp(millis),
        write: Id([millis as u8; 16]),
        value: Some(Value {
            metadata: Bytes::from(metadata.to_string()),
            ..Value::default()
        }),
    }
}

/// Asserts that verification finds no problem.
pub(crate) fn assert_clean(store: &Store) {
    let report = block_on(store.verify()).unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

pub(crate) fn metadata_of(store: &Store, name: &str) -> Result<Option<Bytes>> {
    let key = key(name);
    block_on(store.read(move |rows| Ok(rows.metadata(&key)?.and_then(|row| row.metadata))))
}
