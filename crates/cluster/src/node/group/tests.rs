use archipel_net::Peer;
use archipel_net::rpc::Rpc;
use archipel_storage::engine::Durability;
use archipel_storage::{ListQuery, RowKey, Value};
use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::data::options::WriteOptions;
use crate::layout::Layout;
use crate::memory::World;
use crate::node::options::Hooks;
use crate::node::peers::Directory;

const LATENCY: Duration = Duration::from_millis(1);

fn key() -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"row"),
    }
}

/// Creates three nodes with this one-way latency, and a row. Each node has called the others
/// before.
async fn world(latency: Duration) -> World {
    let world = World::new(3, 3, latency, 1, Hooks::NONE).await.unwrap();
    for node in &world.nodes {
        let how = WriteOptions::durable(Durability::Fsync);
        let row = key();
        let written = node.write(&row, Some(Value::default()), how);
        written.await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    world
}

/// Reads and lists through the first node. Returns how long each took.
async fn read_and_list(world: &World) -> (Duration, Duration) {
    let (node, begun) = (&world.nodes[0], Instant::now());
    let metadata = node.metadata(&key()).await.unwrap();
    assert!(metadata.is_some());
    let (read, begun) = (begun.elapsed(), Instant::now());
    let query = ListQuery::new(PartitionId(0), Bytes::from_static(b"row"));
    assert_eq!(node.list(query).await.unwrap().entries.len(), 1);
    (read, begun.elapsed())
}

/// Returns how many nodes the first node sent something to.
async fn asked(world: &World) -> usize {
    let before = world.network.frames();
    read_and_list(world).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = world.network.frames();
    let more = |to: &&NodeId| {
        let link = (world.ids[0], **to);
        after.get(&link) > before.get(&link)
    };
    world.ids[1..].iter().filter(more).count()
}

#[tokio::test(start_paused = true)]
async fn read_and_listing_send_nothing_to_a_third_near_replica() {
    assert_eq!(asked(&world(LATENCY).await).await, 1);
    assert_eq!(asked(&world(Duration::from_millis(10)).await).await, 2);
}

#[tokio::test(start_paused = true)]
async fn deferred_request_is_sent_when_a_nearer_replica_is_silent() {
    let world = world(LATENCY).await;
    let group = world.nodes[0].group(PartitionId(0)).unwrap();
    let nearest = group.members[1].node.node;
    world.network.cut(world.ids[0], nearest);
    let (read, listed) = read_and_list(&world).await;
    for took in [read, listed] {
        let late = took.saturating_sub(Times::USUAL.defer);
        assert!(
            took >= Times::USUAL.defer && late <= 6 * LATENCY,
            "{took:?}"
        );
    }
}

/// A directory in which the node learns an epoch as soon as it is asked about another node.
struct Meddling {
    node: crate::cluster::Cluster,
    next: Mutex<Option<Epoch>>,
}

impl Directory for Meddling {
    fn is_suspected(&self, _: &NodeId) -> bool {
        if let Some(next) = self.next.lock().take() {
            // A store without threads of its own never waits.
            let learnt = self.node.epochs.learn(self.node.store(), next);
            learnt.now_or_never().unwrap().unwrap();
        }
        false
    }

    fn peer(&self, _: &NodeId) -> Option<Peer> {
        None
    }

    fn store_of(&self, _: &NodeId) -> Option<archipel_base::Id> {
        None
    }

    fn report(&self, _: &NodeId, _: bool) {}

    fn level(&self, _: &NodeId) -> u32 {
        0
    }

    fn is_named(&self, _: &NodeId) -> bool {
        true
    }

    fn is_joined(&self, _: &NodeId) -> bool {
        true
    }

    fn knows_layout(&self, _: &NodeId) -> bool {
        true
    }

    fn is_lagging(&self, _: &NodeId) -> bool {
        false
    }

    fn heard_of_cluster(&self) -> Option<String> {
        None
    }

    fn others(&self) -> Vec<NodeId> {
        Vec::new()
    }
}

/// A layout is learnt in the middle of a renewal. The quorums and the replicas of the group are of
/// one epoch: a quorum of the later epoch would count only the replicas that were known before.
#[tokio::test(start_paused = true)]
async fn a_group_is_of_one_epoch() {
    let world = World::new(4, 3, LATENCY, 1, Hooks::NONE).await.unwrap();
    let node = world.nodes[0].clone();
    let before = node.epochs.current().unwrap();
    let mut moved: Layout = before.newest().clone();
    moved.version += 1;
    moved.assignment.rotate_left(3);
    let after = before.with_next(moved);
    let group = node.group(PartitionId(0)).unwrap();
    let directory = Arc::new(Meddling {
        node: node.clone(),
        next: Mutex::new(Some(after.clone())),
    });
    let peers = Peers {
        times: Times::USUAL,
        rpc: Rpc::new(world.network.node(NodeId([9; 32]))),
        directory,
        outbound: Default::default(),
    };
    for epoch in [&*before, &after] {
        let renewed = group.renewed(&node.epochs, Some(&peers)).unwrap();
        assert_eq!(renewed.epoch, epoch.number());
        for version in epoch.replicas(PartitionId(0)) {
            let known = version
                .iter()
                .map(|m| renewed.members.iter().position(|k| k == m));
            let known: ReplicaSet = known.map(Option::unwrap).collect();
            assert_eq!(known.len(), 3);
            assert!(known.iter().all(|one| renewed.quorums.all().contains(one)));
        }
        assert_eq!(node.epochs.number(), after.number());
    }
}
