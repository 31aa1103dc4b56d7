//! A cluster in memory: for tests of what stands above.

use std::sync::Arc;

use archipel_base::Id;
use archipel_base::clock::SystemClock;
use archipel_base::random::{Random, SeededRandom};
use archipel_base::stamp::StampClock;
use archipel_storage::Store;
use archipel_storage::blocks::{BlockOptions, DiskConfig};
use archipel_storage::disk::MemoryDisk;
use archipel_storage::engine::Durability;
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::pool::{Pool, PoolOptions};
use archipel_storage::store::{Limits, StoreOptions, Threads};

use crate::error::Error;
use crate::local::{Cluster, ClusterOptions, OnReplace};

impl Cluster {
    /// A cluster of one node whose engine and disk are in memory, and gone when it is dropped.
    pub fn in_memory(seed: u64, on_replace: OnReplace) -> Result<Cluster, Error> {
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
        let store = Store::open(StoreOptions {
            engine: Arc::new(MemoryEngine::new()),
            disks: vec![DiskConfig {
                id: 0,
                disk: Arc::new(MemoryDisk::new()),
                draining: false,
                capacity_bytes: None,
            }],
            blocks: BlockOptions {
                owner: Id::default(),
                segment_bytes: 64 << 20,
                preallocate_bytes: 1 << 20,
                reserve_bytes: Some(0),
                compression_level: None,
            },
            pool: Pool::start(PoolOptions::default())?,
            threads: Threads::Own,
            clock: Arc::new(SystemClock),
            random: random.clone(),
            identity: None,
            metadata_space: None,
            limits: Limits::default(),
        })?;
        Ok(Cluster::single(ClusterOptions {
            stamps: StampClock::new(store.writer()),
            store,
            wall: Arc::new(SystemClock),
            random,
            durability: Durability::Fsync,
            on_replace,
        }))
    }
}
