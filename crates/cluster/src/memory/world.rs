//! Several nodes in this process, each with its store in memory, on a simulated network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::clock::{SystemClock, WallClock};
use archipel_base::random::SeededRandom;
use archipel_base::stamp::StampClock;
use archipel_base::{Id, NodeId, boxed};
use archipel_net::Peer;
use archipel_net::rpc::Rpc;
use archipel_net::simulated::{Link, SimulatedNetwork};
use archipel_storage::disk::MemoryDisk;
use archipel_storage::engine::Durability;
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::store::StoreOptions;
use archipel_storage::{Store, Threads};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use super::memory_options;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::layout::{Epoch, LEVEL, Layout, PARTITIONS, Redundancy, Role};
use crate::node::options::{ClusterOptions, Hooks, Listener, Network};
use crate::node::peers::Directory;

/// Nodes on a simulated network, for tests. On a runtime of one thread with paused time, only the
/// network takes time. So elapsed time counts round trips exactly.
pub struct World {
    /// The network.
    pub network: Arc<SimulatedNetwork>,
    /// The nodes' ids.
    pub ids: Vec<NodeId>,
    /// The nodes.
    pub nodes: Vec<Cluster>,
    /// Their disks.
    pub disks: Vec<Arc<MemoryDisk>>,
    /// Their metadata engines.
    pub engines: Vec<Arc<MemoryEngine>>,
    clocks: Mutex<BTreeMap<NodeId, Arc<ShiftedClock>>>,
    common_ms: Arc<AtomicU64>,
    told: Arc<Mutex<Told>>,
}

/// The facts that all nodes are told about one another.
#[derive(Default)]
struct Told {
    /// The nodes that were killed. All others suspect them.
    dead: BTreeSet<NodeId>,
    /// The nodes that seem to learn no newer layouts.
    lagging: BTreeSet<NodeId>,
    /// The feature level that each node says it speaks.
    levels: BTreeMap<NodeId, u32>,
    /// The nodes that say they have another store than the layout names.
    stores: BTreeMap<NodeId, Id>,
}

/// The system's clock, or one that is ahead of it.
struct ShiftedClock {
    ahead_ms: AtomicU64,
    /// The lead of the cluster's time; the largest number while nodes do not compare their clocks.
    common_ms: Arc<AtomicU64>,
}

impl WallClock for ShiftedClock {
    fn now_millis(&self) -> u64 {
        SystemClock.now_millis() + self.ahead_ms.load(Ordering::SeqCst)
    }

    fn earliest_millis(&self) -> u64 {
        let common = self.common_ms.load(Ordering::SeqCst);
        let ahead = self.ahead_ms.load(Ordering::SeqCst).min(common);
        SystemClock.now_millis() + ahead
    }
}

/// A directory that knows all nodes and suspects exactly those that were killed.
struct FixedDirectory {
    me: NodeId,
    nodes: Vec<NodeId>,
    told: Arc<Mutex<Told>>,
}

impl Directory for FixedDirectory {
    fn peer(&self, node: &NodeId) -> Option<Peer> {
        Some(Peer {
            id: *node,
            addresses: Arc::new([]),
        })
    }

    fn is_suspected(&self, node: &NodeId) -> bool {
        self.told.lock().dead.contains(node)
    }

    fn store_of(&self, node: &NodeId) -> Option<Id> {
        self.told.lock().stores.get(node).copied()
    }

    fn report(&self, _: &NodeId, _: bool) {}

    fn level(&self, node: &NodeId) -> u32 {
        let told = self.told.lock();
        told.levels.get(node).copied().unwrap_or_default()
    }

    fn is_named(&self, node: &NodeId) -> bool {
        self.nodes.contains(node)
    }

    fn is_joined(&self, node: &NodeId) -> bool {
        self.nodes.contains(node)
    }

    fn knows_layout(&self, node: &NodeId) -> bool {
        !self.is_lagging(node)
    }

    fn is_lagging(&self, node: &NodeId) -> bool {
        self.told.lock().lagging.contains(node)
    }

    fn heard_of_cluster(&self) -> Option<String> {
        None
    }

    fn others(&self) -> Vec<NodeId> {
        let nodes = self.nodes.iter().copied();
        nodes.filter(|id| *id != self.me).collect()
    }
}

#[async_trait]
impl Listener for FixedDirectory {
    async fn gossip(&self, _: NodeId, _: Bytes) -> Result<Bytes, String> {
        Err("no membership".into())
    }
}

impl World {
    /// Opens this many nodes, `latency` apart (one way). None of them is in a cluster.
    #[boxed]
    pub async fn unfounded(
        nodes: u8,
        latency: Duration,
        seed: u64,
        hooks: Hooks,
    ) -> Result<World, Error> {
        let levels = vec![LEVEL; usize::from(nodes)];
        World::speaking(&levels, latency, seed, hooks).await
    }

    /// Opens a node for each of these feature levels, which it speaks. None of them is in a
    /// cluster.
    #[boxed]
    pub async fn speaking(
        levels: &[u32],
        latency: Duration,
        seed: u64,
        hooks: Hooks,
    ) -> Result<World, Error> {
        let network = SimulatedNetwork::new(Arc::new(SeededRandom::new(seed)));
        network.set_default_link(Link {
            latency,
            ..Link::default()
        });
        let ids: Vec<_> = (1..).map(|n| NodeId([n; 32])).take(levels.len()).collect();
        let mut world = World {
            network,
            ids,
            nodes: Vec::new(),
            disks: Vec::new(),
            engines: Vec::new(),
            clocks: Mutex::default(),
            common_ms: Arc::new(AtomicU64::new(u64::MAX)),
            told: Arc::default(),
        };
        for (id, level) in world.ids.clone().into_iter().zip(levels) {
            world.says(id, *level);
            let disk = Arc::new(MemoryDisk::new());
            let engine = Arc::new(MemoryEngine::new());
            let parts = (disk.clone(), engine.clone());
            let node = world.start((id, *level), parts, seed, hooks).await?;
            world.nodes.push(node);
            world.disks.push(disk);
            world.engines.push(engine);
        }
        Ok(world)
    }

    /// Opens this many nodes in a layout with this many copies. Each partition's replicas are on
    /// the next nodes in turn.
    #[boxed]
    pub async fn new(
        nodes: u8,
        replicas: u8,
        latency: Duration,
        seed: u64,
        hooks: Hooks,
    ) -> Result<World, Error> {
        let world = World::unfounded(nodes, latency, seed, hooks).await?;
        world.found_evenly(replicas).await?;
        Ok(world)
    }

    /// Opens three nodes in a layout with a copy on each, in the zones `a`, `b` and `c`. The
    /// `others` know the layout and are in none.
    #[boxed]
    pub async fn three_and(
        others: u8,
        latency: Duration,
        seed: u64,
        hooks: Hooks,
    ) -> Result<World, Error> {
        let world = World::unfounded(3 + others, latency, seed, hooks).await?;
        let zones = world.nodes.iter().zip(["a", "b", "c"]);
        let roles = zones.map(|(node, zone)| World::role(node, zone)).collect();
        let assignment = (0..PARTITIONS).flat_map(|_| 0..3).collect();
        world.found(3, roles, assignment).await?;
        Ok(world)
    }

    /// Opens a node for each of these feature levels, which it speaks, in a layout with a copy on
    /// each.
    #[boxed]
    pub async fn with_levels(
        levels: &[u32],
        latency: Duration,
        seed: u64,
        hooks: Hooks,
    ) -> Result<World, Error> {
        let world = World::speaking(levels, latency, seed, hooks).await?;
        world.found_evenly(levels.len() as u8).await?;
        Ok(world)
    }

    /// Lets a node say that it speaks a feature level, whatever it does speak.
    pub fn says(&self, node: NodeId, level: u32) {
        self.told.lock().levels.insert(node, level);
    }

    /// Lets a node say that it has another store than the layout names.
    pub fn says_store(&self, node: NodeId, store: Id) {
        self.told.lock().stores.insert(node, store);
    }

    /// Lets a node seem to learn no newer layouts.
    pub fn seems_to_lag(&self, node: NodeId) {
        self.told.lock().lagging.insert(node);
    }

    /// Returns the role of a node in a layout.
    pub fn role(node: &Cluster, zone: &str) -> Role {
        Role {
            store: node.me(),
            zone: zone.to_owned(),
            capacity_bytes: 1 << 40,
        }
    }

    async fn found_evenly(&self, replicas: u8) -> Result<(), Error> {
        let nodes = self.nodes.len() as u16;
        let roles = self.nodes.iter().enumerate();
        let roles = roles.map(|(n, node)| World::role(node, &format!("zone{n}")));
        let place = |partition: u16, n: u8| (partition + u16::from(n)) % nodes;
        let assignment = (0..PARTITIONS).flat_map(|p| (0..replicas).map(move |n| place(p, n)));
        self.found(replicas, roles.collect(), assignment.collect())
            .await
    }

    /// Lets all nodes learn a first layout.
    async fn found(
        &self,
        replicas: u8,
        roles: Vec<Role>,
        assignment: Vec<u16>,
    ) -> Result<(), Error> {
        let layout = Layout {
            version: 1,
            redundancy: Redundancy {
                replicas,
                zones: None,
            },
            assignment,
            control: (0..roles.len().min(3) as u16).collect(),
            roles,
        };
        let epoch = Epoch::first(Id([1; 16]), layout);
        for node in &self.nodes {
            node.learn(epoch.clone()).await?;
        }
        Ok(())
    }

    async fn start(
        &self,
        (id, level): (NodeId, u32),
        (disk, engine): (Arc<MemoryDisk>, Arc<MemoryEngine>),
        seed: u64,
        hooks: Hooks,
    ) -> Result<Cluster, Error> {
        let random = Arc::new(SeededRandom::new(seed ^ (u64::from(id.0[0]) << 32)));
        let rpc = Rpc::new(self.network.node(id));
        let everybody = Arc::new(FixedDirectory {
            me: id,
            nodes: self.ids.clone(),
            told: self.told.clone(),
        });
        let network = Network {
            rpc: rpc.clone(),
            directory: everybody.clone(),
            listener: everybody,
        };
        let store = Store::open(StoreOptions {
            engine,
            ..memory_options(disk, random.clone(), Threads::Inline)?
        })?;
        let node = Cluster::open(ClusterOptions {
            stamps: StampClock::new(store.writer()),
            store,
            node: id,
            level,
            wall: self.clock_of(id),
            random,
            durability: Durability::Fsync,
            sizes: crate::Sizes::USUAL,
            times: crate::Times::USUAL,
            hooks,
            network: Some(network),
        });
        let node = node.await?;
        let service = node.service();
        tokio::spawn(async move { rpc.serve(service).await });
        Ok(node)
    }

    /// Sets a node's clock ahead of the right time, from now on.
    pub fn set_clock_ahead(&self, index: usize, by: Duration) {
        let clock = self.clock_of(self.ids[index]);
        clock
            .ahead_ms
            .store(by.as_millis() as u64, Ordering::SeqCst);
    }

    /// Lets all nodes know the cluster's time, as if they had compared their clocks: so far ahead
    /// of the right time.
    pub fn set_common_ahead(&self, by: Duration) {
        self.common_ms
            .store(by.as_millis() as u64, Ordering::SeqCst);
    }

    fn clock_of(&self, id: NodeId) -> Arc<ShiftedClock> {
        let mut clocks = self.clocks.lock();
        let clock = clocks.entry(id).or_insert_with(|| {
            Arc::new(ShiftedClock {
                ahead_ms: AtomicU64::new(0),
                common_ms: self.common_ms.clone(),
            })
        });
        clock.clone()
    }

    /// Cuts a node off from all others for good. All others suspect it.
    pub fn kill(&self, index: usize) {
        self.isolate(index);
        self.told.lock().dead.insert(self.ids[index]);
    }

    /// Moves a node away from all others: so far one way.
    pub fn move_away(&self, place: usize, latency: Duration) {
        let link = Link {
            latency,
            ..Link::default()
        };
        for other in self.ids.iter().filter(|id| **id != self.ids[place]) {
            self.network.set_link(self.ids[place], *other, link);
            self.network.set_link(*other, self.ids[place], link);
        }
    }

    /// Cuts a node off from all others.
    pub fn isolate(&self, index: usize) {
        for other in self.ids.iter().filter(|id| **id != self.ids[index]) {
            self.network.cut(self.ids[index], *other);
            self.network.cut(*other, self.ids[index]);
        }
    }
}
