use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_net::rpc::Service;
use archipel_net::simulated::SimulatedNetwork;
use async_trait::async_trait;

use super::*;
use crate::membership::{Members, NodeInfo};
use crate::node::options::Listener;

const HERE: NodeId = NodeId([1; 32]);
const THERE: NodeId = NodeId([2; 32]);

/// Answers gossip but not when it is asked for its epoch, and takes streams that it never reads.
struct Gossiper(Members);

#[async_trait]
impl Service for Gossiper {
    fn knows(&self, _: &NodeId) -> bool {
        true
    }

    async fn call(&self, from: NodeId, method: &str, request: Bytes) -> Result<Bytes, String> {
        if method == method::EPOCH {
            std::future::pending::<()>().await;
        }
        self.0.gossip(from, request).await
    }

    async fn stream(&self, _: NodeId, _: &str, _stream: Stream) -> Result<(), String> {
        std::future::pending().await
    }
}

/// Starts a node, which serves others once it is told to.
fn start(network: &Arc<SimulatedNetwork>, me: NodeId, seeds: &[NodeId]) -> (Rpc, Members) {
    let rpc = Rpc::new(network.node(me));
    let info = NodeInfo {
        addresses: vec![me.to_string()],
        ..NodeInfo::default()
    };
    let (random, clock) = (Arc::new(SeededRandom::new(1)), ManualClock::at(1));
    let seeds = seeds.iter().map(|seed| seed.to_string()).collect();
    let members = Members::new(rpc.clone(), random, 1, info, seeds, Arc::new(clock));
    (rpc, members)
}

/// Clients of this node would wait for the other one three times as long.
#[tokio::test(start_paused = true)]
async fn dead_node_is_suspected_in_time_although_its_connection_takes_streams() {
    let network = SimulatedNetwork::new(Arc::new(SeededRandom::new(1)));
    network.keep_connections();
    let (rpc, members) = start(&network, HERE, &[THERE]);
    let (serving, other) = start(&network, THERE, &[]);
    tokio::spawn(async move { serving.serve(Arc::new(Gossiper(other))).await });
    let gossiping = members.clone();
    tokio::spawn(async move { gossiping.run().await });
    let seconds = |count| tokio::time::sleep(Duration::from_secs(count));
    seconds(3).await;
    let peers = Peers {
        times: Times::USUAL,
        rpc,
        directory: Arc::new(members.clone()),
        outbound: Outbound::default(),
    };
    let class = Class::Data { remaining: 0 };
    let clients = peers.clone();
    tokio::spawn(async move {
        for _ in 0..1000 {
            // A client asks others if it fails.
            let _ = clients.stream(&THERE, method::FETCH, class).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    seconds(10).await;
    assert!(!members.is_suspected(&THERE));
    network.cut(HERE, THERE);
    network.cut(THERE, HERE);
    seconds(1).await;
    let opened = peers.stream(&THERE, method::FETCH, class).await;
    assert!(opened.is_ok(), "the connection is kept");
    seconds(4).await;
    assert!(members.is_suspected(&THERE));
    // It is back: an answer counts.
    network.end_all_cuts();
    seconds(20).await;
    assert!(!members.is_suspected(&THERE));
}

/// Found by reading: clients that used up the link made the node at its other end seem unreachable.
#[tokio::test(start_paused = true)]
async fn calls_in_the_background_that_get_no_turn_make_no_node_suspected() {
    let network = SimulatedNetwork::new(Arc::new(SeededRandom::new(1)));
    let (rpc, members) = start(&network, HERE, &[THERE]);
    let (serving, other) = start(&network, THERE, &[]);
    tokio::spawn(async move { serving.serve(Arc::new(Gossiper(other))).await });
    let gossiping = members.clone();
    let gossiping = tokio::spawn(async move { gossiping.run().await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    // A sign of life counts more than failed calls.
    gossiping.abort();
    let peers = Peers {
        times: Times::USUAL,
        rpc,
        directory: Arc::new(members.clone()),
        outbound: Outbound::default(),
    };
    let time = Duration::from_millis(200);
    for class in [Class::Background, Class::Small] {
        let calls =
            (0..3).map(|_| peers.exchange(&THERE, method::EPOCH, class, time, Bytes::new()));
        let answers = futures_util::future::join_all(calls).await;
        assert!(answers.iter().all(Result::is_err));
        let is_suspected = members.is_suspected(&THERE);
        assert_eq!(is_suspected, class == Class::Small, "{class:?}");
    }
}
