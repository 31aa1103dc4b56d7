//! A node whose time the test decides.

use std::sync::Arc;

use archipel_base::NodeId;
use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_base::stamp::StampClock;
use archipel_cluster::{Cluster, ClusterOptions, memory_store};
use archipel_storage::engine::Durability;
use archipel_storage::store::Threads;

use crate::{HOOKS, Model};

/// 2026-01-01T12:00:00Z.
pub(crate) const NOON: u64 = 1_767_268_800_000;

/// Founds a cluster of one node at [`NOON`]. Returns its model and its clock.
pub(crate) async fn timed() -> (Model, Arc<ManualClock>) {
    let random = Arc::new(SeededRandom::new(1));
    let store = memory_store(random.clone(), Threads::Inline).unwrap();
    let wall = Arc::new(ManualClock::at(NOON));
    let cluster = Cluster::open(ClusterOptions {
        stamps: StampClock::new(store.writer()),
        store,
        node: NodeId::default(),
        wall: wall.clone(),
        random,
        durability: Durability::Fsync,
        sizes: archipel_cluster::Sizes::USUAL,
        times: archipel_cluster::Times::USUAL,
        hooks: HOOKS,
        level: archipel_cluster::layout::LEVEL,
        network: None,
    });
    let cluster = cluster.await.unwrap();
    cluster.found("here", 1 << 40).await.unwrap();
    (Model::open(cluster).await.unwrap(), wall)
}
