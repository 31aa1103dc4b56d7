//! Helpers for tests of several nodes.

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_cluster::{Cluster, Hooks};
use archipel_storage::{RowKey, Value};
use bytes::Bytes;

const LATENCY: Duration = Duration::from_millis(50);

/// Nodes 50 ms apart.
pub struct World(pub archipel_cluster::World);

impl std::ops::Deref for World {
    type Target = archipel_cluster::World;

    fn deref(&self) -> &archipel_cluster::World {
        &self.0
    }
}

impl World {
    /// Opens `nodes` nodes, each with all partitions.
    pub async fn new(nodes: u8, seed: u64) -> World {
        World::with_replicas(nodes, nodes, seed).await
    }

    /// Opens `nodes` nodes with `replicas` replicas of each partition.
    pub async fn with_replicas(nodes: u8, replicas: u8, seed: u64) -> World {
        let world = archipel_cluster::World::new(nodes, replicas, LATENCY, seed, Hooks::NONE);
        World(world.await.expect("a world"))
    }

    /// Opens `nodes` nodes. None of them is in a cluster.
    pub async fn unfounded(nodes: u8, seed: u64) -> World {
        let world = archipel_cluster::World::unfounded(nodes, LATENCY, seed, Hooks::NONE);
        World(world.await.expect("a world"))
    }

    /// Opens three nodes with all partitions, and `others` that know the layout and are in none.
    pub async fn three_and(others: u8, seed: u64) -> World {
        let world = archipel_cluster::World::three_and(others, LATENCY, seed, Hooks::NONE);
        World(world.await.expect("a world"))
    }

    pub fn three(&self) -> [&Cluster; 3] {
        [&self.nodes[0], &self.nodes[1], &self.nodes[2]]
    }

    /// Waits until all work under way has ended.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
}

pub fn key(name: &str) -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::copy_from_slice(name.as_bytes()),
    }
}

pub fn value(metadata: &str) -> Value {
    Value {
        metadata: Bytes::copy_from_slice(metadata.as_bytes()),
        ..Value::default()
    }
}
