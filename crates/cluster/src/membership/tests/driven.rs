//! The driver, over calls on a simulated network, in paused time.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_net::Stream;
use archipel_net::rpc::{Rpc, Service};
use archipel_net::simulated::{Link, SimulatedNetwork};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::node::options::Listener;
use crate::node::peers::Directory;

struct Gossiper(Members);

#[async_trait]
impl Service for Gossiper {
    fn knows(&self, _: &NodeId) -> bool {
        true
    }

    async fn call(&self, from: NodeId, method: &str, request: Bytes) -> Result<Bytes, String> {
        assert_eq!(method, crate::node::wire::method::GOSSIP);
        self.0.gossip(from, request).await
    }

    async fn stream(&self, _: NodeId, _: &str, _: Stream) -> Result<(), String> {
        Err("no streams here".into())
    }
}

struct Node {
    members: Members,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct Network {
    network: Arc<SimulatedNetwork>,
    random: Arc<SeededRandom>,
}

impl Network {
    fn new(seed: u64) -> Network {
        let random = Arc::new(SeededRandom::new(seed));
        let network = SimulatedNetwork::new(random.clone());
        network.set_default_link(Link {
            latency: Duration::from_millis(40),
            jitter: Duration::from_millis(20),
            loss_per_mille: 20,
            ..Link::default()
        });
        Network { network, random }
    }

    /// Starts a node that knows the address of the first one.
    fn start(&self, n: usize, generation: u64) -> Node {
        let rpc = Rpc::new(self.network.node(id(n)));
        let info = NodeInfo {
            addresses: vec![id(n).to_string()],
            ..info(n)
        };
        let seeds = vec![id(0).to_string()];
        let (random, clock) = (self.random.clone(), Arc::new(ManualClock::at(1)));
        let members = Members::new(rpc.clone(), random, generation, info, seeds, clock);
        let (service, running) = (Arc::new(Gossiper(members.clone())), members.clone());
        let tasks = vec![
            tokio::spawn(async move { rpc.serve(service).await }),
            tokio::spawn(async move { running.run().await }),
        ];
        Node { members, tasks }
    }

    fn crash(&self, n: usize, node: Node) {
        self.network.crash(id(n));
        drop(node);
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_meet_and_suspect_a_stopped_node_until_it_is_back() {
    let network = Network::new(1);
    let mut nodes: Vec<_> = (0..3).map(|n| network.start(n, 1)).collect();
    seconds(3).await;
    for node in &nodes {
        let all = node.members.list();
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|member| !member.suspected));
    }
    network.crash(2, nodes.remove(2));
    seconds(5).await;
    for node in &nodes {
        assert!(node.members.is_suspected(&id(2)));
        assert!(!node.members.is_suspected(&id(0)) && !node.members.is_suspected(&id(1)));
    }
    nodes.push(network.start(2, 2));
    seconds(4).await;
    for node in &nodes {
        let all = node.members.list();
        assert!(all.iter().all(|member| !member.suspected));
        assert_eq!(all[2].generation >> 16, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn changed_node_info_is_told() {
    let network = Network::new(2);
    let nodes: Vec<_> = (0..2).map(|n| network.start(n, 1)).collect();
    seconds(3).await;
    let mut news = nodes[0].members.changed();
    let quiet = tokio::time::timeout(Duration::from_secs(20), news.changed()).await;
    assert!(quiet.is_err(), "signs of life are no news");
    nodes[1].members.change(|info| info.epoch = 5);
    let told = tokio::time::timeout(Duration::from_secs(3), news.changed()).await;
    assert!(told.is_ok());
    let all = nodes[0].members.list();
    assert_eq!(all[1].info.epoch, 5);
    network.network.cut(id(0), id(1));
    network.network.cut(id(1), id(0));
    let told = tokio::time::timeout(Duration::from_secs(5), news.changed()).await;
    assert!(told.is_ok());
    assert!(nodes[0].members.is_suspected(&id(1)));
}

#[tokio::test(start_paused = true)]
async fn join_says_why_it_fails() {
    let network = Network::new(3);
    let nodes: Vec<_> = (0..2).map(|n| network.start(n, 1)).collect();
    let join = async |addresses: &[String]| nodes[0].members.join(addresses).await;
    let to = |n: usize| id(n).to_string();
    assert_eq!(join(&[]).await.unwrap_err(), "no address was given");
    assert!(join(&[to(0)]).await.unwrap_err().contains("itself"));
    assert!(
        join(&[to(9)])
            .await
            .unwrap_err()
            .contains("no node of the cluster answers")
    );
    assert_eq!(join(&[to(9), to(1), to(0)]).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn two_clusters_do_not_join() {
    let network = Network::new(4);
    let ours = network.start(0, 1);
    ours.members
        .set_cluster(Id([1; 16]), 1, BTreeSet::new(), BTreeSet::new());
    let theirs = network.start(1, 1);
    theirs
        .members
        .set_cluster(Id([2; 16]), 1, BTreeSet::new(), BTreeSet::new());
    seconds(30).await;
    assert_eq!(
        (ours.members.list().len(), theirs.members.list().len()),
        (1, 1)
    );
    let refused = theirs.members.join(&[id(0).to_string()]).await.unwrap_err();
    assert!(refused.contains("another cluster"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn leaving_node_tells_the_others() {
    let network = Network::new(5);
    let mut nodes: Vec<_> = (0..4).map(|n| network.start(n, 1)).collect();
    seconds(5).await;
    nodes[3].members.leave().await;
    for node in &nodes[..3] {
        assert!(node.members.is_suspected(&id(3)));
    }
    network.crash(3, nodes.remove(3));
    nodes.push(network.start(3, 2));
    seconds(3).await;
    for node in &nodes[..3] {
        assert!(!node.members.is_suspected(&id(3)));
    }
}

/// Returns what the first node was told, and when, in a run of some seconds with a death.
async fn trace(seed: u64) -> Vec<(u128, Vec<Member>)> {
    let network = Network::new(seed);
    let mut nodes: Vec<_> = (0..6).map(|n| network.start(n, 1)).collect();
    let (begun, mut told) = (Instant::now(), Vec::new());
    let watching = nodes[0].members.clone();
    let mut news = watching.changed();
    let end = begun + Duration::from_secs(15);
    let death = begun + Duration::from_secs(6);
    loop {
        tokio::select! {
            biased;
            _ = news.changed() => told.push((begun.elapsed().as_micros(), watching.list())),
            () = tokio::time::sleep_until(death), if nodes.len() == 6 => {
                network.crash(5, nodes.remove(5));
            }
            () = tokio::time::sleep_until(end) => return told,
        }
    }
}

#[test]
fn seed_replays_a_run_exactly() {
    let run = |seed: u64| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(trace(seed))
    };
    let once = run(7);
    assert!(once.len() > 3 && once.last().unwrap().1.iter().any(|m| m.suspected));
    assert_eq!(once, run(7));
    assert_ne!(once, run(8));
}
