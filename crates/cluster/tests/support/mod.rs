//! A world of nodes on a simulated network.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::random::SeededRandom;
use archipel_base::{Id, NodeId, PartitionId};
use archipel_cluster::layout::{Epoch, Layout, PARTITIONS, Redundancy, Role};
use archipel_cluster::{Cluster, Directory, Hooks, Listener, Network, memory_store};
use archipel_net::Peer;
use archipel_net::rpc::Rpc;
use archipel_net::simulated::{Link, SimulatedNetwork};
use archipel_storage::{RowKey, Threads, Value};
use async_trait::async_trait;
use bytes::Bytes;

pub struct World {
    pub network: Arc<SimulatedNetwork>,
    pub ids: Vec<NodeId>,
    pub nodes: Vec<Cluster>,
}

/// Everybody is known and nobody is suspected.
struct Everybody(NodeId, Vec<NodeId>);

impl Directory for Everybody {
    fn peer(&self, node: &NodeId) -> Option<Peer> {
        Some(Peer {
            id: *node,
            addresses: Arc::new([]),
        })
    }

    fn is_suspected(&self, _: &NodeId) -> bool {
        false
    }

    fn report(&self, _: &NodeId, _: bool) {}

    fn others(&self) -> Vec<NodeId> {
        self.1.iter().copied().filter(|id| *id != self.0).collect()
    }
}

#[async_trait]
impl Listener for Everybody {
    async fn gossip(&self, _: NodeId, _: Bytes) -> Result<Bytes, String> {
        Err("no membership".into())
    }
}

pub const HOOKS: Hooks = Hooks {
    on_replace: |_, _, _| None,
    ends: |_, _| None,
    holds: |_, _| true,
};

impl World {
    /// So many nodes, 50 ms apart, of which none is in a cluster.
    pub async fn unfounded(nodes: u8, seed: u64) -> World {
        let network = SimulatedNetwork::new(Arc::new(SeededRandom::new(seed)));
        network.set_default_link(Link {
            latency: Duration::from_millis(50),
            ..Link::default()
        });
        let ids: Vec<_> = (1..=nodes).map(|n| NodeId([n; 32])).collect();
        let mut world = World {
            network,
            ids,
            nodes: Vec::new(),
        };
        for id in world.ids.clone() {
            let node = world.start(id, seed).await;
            world.nodes.push(node);
        }
        world
    }

    /// So many nodes, each with all partitions.
    pub async fn new(nodes: u8, seed: u64) -> World {
        let world = World::unfounded(nodes, seed).await;
        let roles = world.nodes.iter().enumerate().map(|(n, node)| Role {
            store: node.me(),
            zone: format!("zone{n}"),
            capacity_bytes: 1 << 40,
        });
        let roles: Vec<_> = roles.collect();
        let places: Vec<u16> = (0..nodes.into()).collect();
        let layout = Layout {
            version: 1,
            redundancy: Redundancy {
                replicas: nodes,
                zones: None,
            },
            assignment: places.repeat(PARTITIONS.into()),
            control: places,
            roles,
        };
        let epoch = Epoch::first(Id([1; 16]), layout);
        for node in &world.nodes {
            node.learn(epoch.clone()).await.unwrap();
        }
        world
    }

    async fn start(&self, id: NodeId, seed: u64) -> Cluster {
        let random = Arc::new(SeededRandom::new(seed ^ u64::from(id.0[0]) << 32));
        let rpc = Rpc::new(self.network.node(id));
        let everybody = Arc::new(Everybody(id, self.ids.clone()));
        let network = Network {
            rpc: rpc.clone(),
            directory: everybody.clone(),
            listener: everybody,
        };
        let store = memory_store(random.clone(), Threads::Inline).unwrap();
        let node = Cluster::with_store(store, id, random, HOOKS, Some(network));
        let node = node.await.unwrap();
        let service = node.service();
        tokio::spawn(async move { rpc.serve(service).await });
        node
    }

    pub fn three(&self) -> [&Cluster; 3] {
        [&self.nodes[0], &self.nodes[1], &self.nodes[2]]
    }

    /// Cuts a node off from all others.
    pub fn isolate(&self, place: usize) {
        for other in self.ids.iter().filter(|id| **id != self.ids[place]) {
            self.network.cut(self.ids[place], *other);
            self.network.cut(*other, self.ids[place]);
        }
    }

    /// Lets what is under way come to its end.
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

pub fn value(head: &str) -> Value {
    Value {
        head: Bytes::copy_from_slice(head.as_bytes()),
        ..Value::default()
    }
}
