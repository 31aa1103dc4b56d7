//! Links that limit what arrives, for the tests of content.

use std::time::Duration;

use archipel_base::PartitionId;
use archipel_net::simulated::Link;
use archipel_storage::RowKey;
use bytes::Bytes;

use crate::cluster::Cluster;
use crate::memory::World;
use crate::node::wire::method;

pub(crate) const LATENCY: Duration = Duration::from_millis(20);

/// Lets what some other nodes, by their indices, send to the last one of three arrive at a rate.
pub(crate) fn limit(world: &World, others: &[usize], bytes_per_second: u64) {
    let link = Link {
        latency: LATENCY,
        bytes_per_second: Some(bytes_per_second),
        ..Link::default()
    };
    for other in others {
        world
            .network
            .set_link(world.ids[*other], world.ids[2], link);
    }
}

/// Lets the last node of three know how far the others are.
pub(crate) async fn measure(world: &World) {
    let absent = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"absent"),
    };
    world.nodes[2].metadata(&absent).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Returns how many streams of blocks a node has opened.
pub(crate) fn fetches(node: &Cluster) -> u64 {
    let counts = node.peers.as_ref().unwrap().rpc.counts();
    counts.get(method::FETCH).map_or(0, |counts| counts.made)
}
