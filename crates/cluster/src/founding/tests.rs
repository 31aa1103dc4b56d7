//! Nodes that find each other on a simulated network, in any order, with crashes and cut links.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::SystemClock;
use archipel_base::random::{Random, SeededRandom};
use archipel_base::stamp::StampClock;
use archipel_base::{Id, NodeId};
use archipel_net::rpc::Rpc;
use archipel_net::simulated::{Link, SimulatedNetwork};
use archipel_storage::disk::MemoryDisk;
use archipel_storage::engine::Durability;
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::store::StoreOptions;
use archipel_storage::{Store, Threads};
use tokio::task::JoinHandle;

use super::*;
use crate::layout::LEVEL;
use crate::membership::NodeInfo;
use crate::memory::memory_options;
use crate::node::options::{ClusterOptions, Hooks, Network};

mod heard;
mod lost;

/// The time in which nodes without faults form their layout.
const LONG: Duration = Duration::from_secs(90);

/// A machine: its disks, and its process if it runs.
struct Machine {
    id: NodeId,
    disk: Arc<MemoryDisk>,
    engine: Arc<MemoryEngine>,
    first_nodes: u16,
    running: Option<Process>,
}

struct Process {
    cluster: Cluster,
    members: Members,
    tasks: Vec<JoinHandle<()>>,
    /// Learns newer layouts.
    follows: JoinHandle<()>,
}

struct Site {
    network: Arc<SimulatedNetwork>,
    random: Arc<SeededRandom>,
    machines: Vec<Machine>,
    /// The number of machines whose addresses the others are told.
    told: usize,
    /// The number of crashes between a promise and the layout.
    bound: usize,
}

fn id(n: usize) -> NodeId {
    NodeId([n as u8 + 1; 32])
}

impl Site {
    fn new(machines: usize, first_nodes: u16, seed: u64) -> Site {
        let random = Arc::new(SeededRandom::new(seed));
        let network = SimulatedNetwork::new(random.clone());
        network.set_default_link(Link {
            latency: Duration::from_millis(20),
            jitter: Duration::from_millis(30),
            loss_per_mille: 50,
            ..Link::default()
        });
        let machines = (0..machines).map(|n| Machine {
            id: id(n),
            disk: Arc::new(MemoryDisk::new()),
            engine: Arc::new(MemoryEngine::new()),
            first_nodes,
            running: None,
        });
        Site {
            network,
            random,
            told: machines.len(),
            machines: machines.collect(),
            bound: 0,
        }
    }

    fn below(&self, limit: usize) -> usize {
        (self.random.next_u64() % limit as u64) as usize
    }

    async fn start(&mut self, n: usize) {
        let seeds = self.machines[..self.told]
            .iter()
            .map(|one| one.id.to_string());
        let seeds: Vec<String> = seeds.collect();
        let (random, me) = (self.random.clone(), self.machines[n].id);
        let rpc = Rpc::new(self.network.node(me));
        let machine = &mut self.machines[n];
        let parts = memory_options(machine.disk.clone(), random.clone(), Threads::Inline);
        let store = Store::open(StoreOptions {
            engine: machine.engine.clone(),
            ..parts.unwrap()
        });
        let store = store.unwrap();
        let info = NodeInfo {
            addresses: vec![me.to_string()],
            store: store.identity(),
            level: LEVEL,
            capacity_bytes: 1 << 40,
            zone: format!("zone{n}"),
            ..NodeInfo::default()
        };
        let clock = Arc::new(SystemClock);
        let members = Members::new(
            rpc.clone(),
            random.clone(),
            store.boot(),
            info,
            seeds,
            clock,
        );
        let cluster = Cluster::open(ClusterOptions {
            stamps: StampClock::new(store.writer()),
            store,
            node: me,
            level: LEVEL,
            wall: Arc::new(SystemClock),
            random,
            durability: Durability::Fsync,
            sizes: crate::Sizes::USUAL,
            times: crate::Times::USUAL,
            hooks: Hooks::NONE,
            network: Some(Network {
                rpc: rpc.clone(),
                directory: Arc::new(members.clone()),
                listener: Arc::new(members.clone()),
            }),
        });
        let cluster = cluster.await.unwrap();
        members.tell_layout_of(&cluster);
        let (service, gossip, first) = (cluster.service(), members.clone(), self.first(n));
        let (follows, follower) = (members.clone(), cluster.clone());
        let (forming, forms) = (cluster.clone(), members.clone());
        let tasks = vec![
            tokio::spawn(async move { rpc.serve(service).await }),
            tokio::spawn(async move { gossip.run().await }),
            tokio::spawn(
                async move { form(&forming, &forms, first, &watch::Sender::default()).await },
            ),
        ];
        let follows = tokio::spawn(async move { follows.follow(&follower).await });
        self.machines[n].running = Some(Process {
            cluster,
            members,
            tasks,
            follows,
        });
    }

    fn first(&self, n: usize) -> FirstLayout {
        FirstLayout {
            nodes: self.machines[n].first_nodes,
            replicas: None,
            zone: "local".into(),
        }
    }

    /// Ends a process at this moment. Its disks keep what was committed.
    fn crash(&mut self, n: usize) {
        let machine = &mut self.machines[n];
        if let Some(process) = machine.running.take() {
            self.network.crash(machine.id);
            process.tasks.iter().for_each(JoinHandle::abort);
            process.follows.abort();
        }
    }

    /// Crashes a machine and replaces its disks by empty ones.
    fn wipe(&mut self, n: usize) {
        self.crash(n);
        self.machines[n].disk = Arc::new(MemoryDisk::new());
        self.machines[n].engine = Arc::new(MemoryEngine::new());
    }

    /// Cuts these machines off from all others.
    fn cut_off(&self, some: &[usize]) {
        let others = (0..self.machines.len()).filter(|n| !some.contains(n));
        others.for_each(|other| {
            some.iter()
                .for_each(|n| self.network.cut(id(*n), id(other)))
        });
    }

    fn cluster_of(&self, n: usize) -> Option<Id> {
        let process = self.machines[n].running.as_ref()?;
        process.cluster.epoch().map(|epoch| epoch.cluster)
    }

    fn clusters(&self) -> Vec<(NodeId, Id, usize)> {
        let running = self.machines.iter().filter_map(|machine| {
            let epoch = machine.running.as_ref()?.cluster.epoch()?;
            Some((machine.id, epoch.cluster, epoch.newest().roles.len()))
        });
        running.collect()
    }

    /// Returns the clusters that exist. There may be one at most.
    fn check(&self, seen: &mut BTreeSet<Id>) {
        seen.extend(self.clusters().iter().map(|(_, cluster, _)| *cluster));
        assert!(seen.len() <= 1, "two clusters: {:?}", self.clusters());
    }

    async fn wait_for_all(&self, seen: &mut BTreeSet<Id>) {
        let all = async {
            while self.clusters().len() < self.machines.len() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(LONG, all).await;
        self.check(seen);
        assert!(waited.is_ok(), "no layout: {:?}", self.clusters());
    }

    fn has_promise(&self) -> bool {
        let running = self.machines.iter().filter_map(|one| one.running.as_ref());
        running
            .map(|process| process.cluster.epochs.promised())
            .any(|promise| promise.is_some())
    }

    /// Waits a while for a machine that has promised. Returns true if there is one.
    async fn wait_for_promise(&self) -> bool {
        for _ in 0..1_000 {
            if self.has_promise() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        false
    }

    /// Starts, crashes and cuts off machines at random.
    async fn storm(&mut self, steps: usize, seen: &mut BTreeSet<Id>) {
        for _ in 0..steps {
            let n = self.below(self.machines.len());
            match self.below(8) {
                0 => self.crash(n),
                1 => {
                    self.bound += usize::from(self.wait_for_promise().await);
                    self.crash(n);
                }
                2 => {
                    let other = self.below(self.machines.len());
                    self.network.cut(id(n), id(other));
                }
                3 => self.network.end_all_cuts(),
                _ if self.machines[n].running.is_none() => self.start(n).await,
                _ => {}
            }
            let pause = self.below(1_500) as u64;
            tokio::time::sleep(Duration::from_millis(pause)).await;
            self.check(seen);
        }
    }

    async fn start_all(&mut self) {
        self.network.end_all_cuts();
        for n in 0..self.machines.len() {
            if self.machines[n].running.is_none() {
                self.start(n).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_start_in_any_order_and_crash_form_one_layout() {
    let (mut promised, mut formed_in_storm) = (0, 0);
    for seed in 0..16 {
        let mut site = Site::new(3, 3, seed);
        let mut seen = BTreeSet::new();
        site.storm(24, &mut seen).await;
        formed_in_storm += usize::from(!seen.is_empty());
        site.start_all().await;
        promised += site.bound;
        site.wait_for_all(&mut seen).await;
        assert!(site.clusters().iter().all(|(_, _, nodes)| *nodes == 3));
        (0..3).for_each(|n| site.crash(n));
    }
    assert!(formed_in_storm > 4, "storms: {formed_in_storm}");
    assert!(promised > 1, "crashes after a promise: {promised}");
}

#[tokio::test(start_paused = true)]
async fn fewer_than_twice_as_many_nodes_never_form_two_layouts() {
    for seed in 0..8 {
        let mut site = Site::new(5, 3, seed);
        let mut seen = BTreeSet::new();
        site.storm(40, &mut seen).await;
        site.start_all().await;
        tokio::time::sleep(LONG).await;
        site.check(&mut seen);
        (0..5).for_each(|n| site.crash(n));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_a_layout_is_joined_and_none_is_formed() {
    for seed in 0..6 {
        let mut site = Site::new(4, 3, seed);
        let old = seed as usize % 4;
        site.start(old).await;
        let process = site.machines[old].running.as_ref().unwrap();
        process.cluster.found("old", 1 << 40).await.unwrap();
        let mut seen = BTreeSet::new();
        site.start_all().await;
        site.storm(20, &mut seen).await;
        site.start_all().await;
        // All learn the layout, and are not in it: an operator assigns them.
        site.wait_for_all(&mut seen).await;
        assert!(site.clusters().iter().all(|(_, _, nodes)| *nodes == 1));
        (0..4).for_each(|n| site.crash(n));
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_the_layout_is_in_force_releases_the_promises() {
    let mut site = Site::new(3, 3, 7);
    for n in 0..3 {
        site.start(n).await;
    }
    // The first node by id proposes. It crashes as soon as another one has promised.
    let promised = |site: &Site| {
        let others = site.machines[1..].iter();
        let mut clusters = others.map(|machine| &machine.running.as_ref().unwrap().cluster);
        clusters.any(|cluster| cluster.epochs.promised().is_some())
    };
    while !promised(&site) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    site.crash(0);
    tokio::time::sleep(LONG).await;
    assert!(promised(&site) && site.clusters().is_empty());
    site.start(0).await;
    site.wait_for_all(&mut BTreeSet::new()).await;
}

fn member(n: usize, first_nodes: u16) -> Member {
    Member {
        id: id(n),
        info: NodeInfo {
            first_nodes,
            capacity_bytes: 1,
            ..NodeInfo::default()
        },
        generation: 1,
        suspected: false,
        leaving: false,
        since_ms_ago: 0,
        heard_ms_ago: 0,
        lagging: false,
        in_layout: false,
    }
}

#[test]
fn exactly_the_number_of_nodes_must_be_there_and_agree() {
    let waits = |members: &[Member]| match decide(id(0), members, None, 3) {
        Step::Wait(why) => why,
        Step::Propose(_) => panic!("it proposes"),
    };
    let all = |first: [u16; 4]| {
        let nodes = first.iter().enumerate();
        nodes
            .map(|(n, first)| member(n, *first))
            .collect::<Vec<_>>()
    };
    assert!(waits(&all([3, 3, 0, 0])).contains("2 of 3 nodes are there"));
    assert!(waits(&all([3, 3, 3, 3])).contains("4 nodes are there, but cluster.first_nodes is 3"));
    assert!(waits(&all([3, 3, 3, 4])).contains("cluster.first_nodes is 4 on node"));
    let mut gone = all([3, 3, 3, 0]);
    gone[2].suspected = true;
    assert!(waits(&gone).contains("2 of 3"));
    let here = all([3, 3, 3, 0]);
    let heard = Some("there is a cluster already".into());
    assert!(matches!(decide(id(0), &here, heard, 3), Step::Wait(_)));
    assert!(matches!(decide(id(1), &here, None, 3), Step::Wait(_)));
    assert_eq!(
        decide(id(0), &here, None, 3),
        Step::Propose(here[..3].to_vec())
    );
}
