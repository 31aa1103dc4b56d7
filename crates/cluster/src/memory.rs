//! A cluster in memory, for tests of the layers above.

use std::sync::Arc;

use archipel_base::clock::SystemClock;
use archipel_base::random::{Random, SeededRandom};
use archipel_base::stamp::StampClock;
use archipel_base::{Id, NodeId, boxed};
use archipel_storage::Store;
use archipel_storage::blocks::{BlockOptions, DiskConfig};
use archipel_storage::disk::MemoryDisk;
use archipel_storage::engine::Durability;
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::pool::{Pool, PoolOptions};
use archipel_storage::store::{Limits, StoreOptions, Threads};

use crate::cluster::Cluster;
use crate::error::Error;
use crate::layout::LEVEL;
use crate::node::options::{ClusterOptions, Hooks, Network};

#[cfg(test)]
pub(crate) mod versioned;
mod world;

pub use world::World;

impl Cluster {
    /// Opens a cluster of one node. Its engine and disk are in memory, and gone when it is dropped.
    #[boxed]
    pub async fn in_memory(seed: u64, hooks: Hooks) -> Result<Cluster, Error> {
        Cluster::alone(seeded_options(seed, Threads::Inline)?, hooks).await
    }

    /// Opens a cluster of one node on a store with these options, and with the store's random
    /// numbers.
    pub(crate) async fn alone(options: StoreOptions, hooks: Hooks) -> Result<Cluster, Error> {
        let random = options.random.clone();
        let store = Store::open(options)?;
        let cluster = Cluster::with_store(store, NodeId::default(), random, hooks, None).await?;
        cluster.found("here", 1 << 40).await?;
        Ok(cluster)
    }

    /// Opens a node of a cluster on a given store.
    #[boxed]
    pub async fn with_store(
        store: Store,
        node: NodeId,
        random: Arc<dyn Random>,
        hooks: Hooks,
        network: Option<Network>,
    ) -> Result<Cluster, Error> {
        Cluster::open(ClusterOptions {
            stamps: StampClock::new(store.writer()),
            store,
            node,
            level: LEVEL,
            wall: Arc::new(SystemClock),
            random,
            durability: Durability::Fsync,
            sizes: crate::Sizes::USUAL,
            times: crate::Times::USUAL,
            hooks,
            network,
        })
        .await
    }
}

/// Opens a store whose engine and disk are in memory.
pub fn memory_store(random: Arc<dyn Random>, threads: Threads) -> Result<Store, Error> {
    let disk = Arc::new(MemoryDisk::new());
    Ok(Store::open(memory_options(disk, random, threads)?)?)
}

/// Returns the options of a store with an empty disk and engine in memory, and a seed for its
/// random numbers.
pub(crate) fn seeded_options(seed: u64, threads: Threads) -> Result<StoreOptions, Error> {
    let random = Arc::new(SeededRandom::new(seed));
    memory_options(Arc::new(MemoryDisk::new()), random, threads)
}

/// Returns the options of a store whose engine and disk are in memory.
pub(crate) fn memory_options(
    disk: Arc<MemoryDisk>,
    random: Arc<dyn Random>,
    threads: Threads,
) -> Result<StoreOptions, Error> {
    Ok(StoreOptions {
        engine: Arc::new(MemoryEngine::new()),
        disks: vec![DiskConfig::new(0, disk)],
        blocks: BlockOptions {
            owner: Id::default(),
            segment_bytes: 64 << 20,
            preallocate_bytes: 1 << 20,
            zero_bytes: 0,
            reserve_bytes: Some(0),
            compression_level: None,
        },
        pool: match threads {
            Threads::Own => Pool::start(PoolOptions::default())?,
            Threads::Inline => Pool::inline(),
        },
        threads,
        clock: Arc::new(SystemClock),
        random,
        identity: None,
        metadata_space: None,
        limits: Limits::default(),
    })
}
