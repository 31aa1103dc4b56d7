//! The driver of a [`Membership`]: it carries messages over calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::WallClock;
use archipel_base::random::Random;
use archipel_base::{Id, NodeId, boxed};
use archipel_net::rpc::Rpc;
use archipel_net::{Class, Error, Peer};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::belief::Naming;
use super::message::Gossip;
use super::node_info::NodeInfo;
use super::plan::Target;
use super::state::{Member, Membership, TICK_MS};
use crate::node::clock::CommonClock;
use crate::node::epochs::{Listening, News};
use crate::node::options::Listener;
use crate::node::peers::Directory;
use crate::node::wire::method;

const TICK: Duration = Duration::from_millis(TICK_MS);
/// The time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The number of nodes that are told that this node leaves, and the time limit for each.
const FAREWELLS: usize = 8;
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// The members, as the rest of the node sees them. Cheap to clone.
#[derive(Clone)]
pub struct Members(Arc<Inner>);

struct Inner {
    me: NodeId,
    state: Mutex<Membership>,
    begun: Instant,
    rpc: Rpc,
    random: Arc<dyn Random>,
    clock: Arc<CommonClock>,
    changes: News,
    /// The seeds that did not answer last, and why.
    silent: Mutex<BTreeMap<String, String>>,
}

/// Returns the generation of a run. It grows with each run of a store. An empty store after a loss
/// begins to count from the start, so its first run must not pass for that of the lost one: other
/// nodes would keep the lost store's node info. If it is lower, the node hears of the other one and
/// counts on.
fn generation(boot: u64, store: Id) -> u64 {
    let [.., high, low] = store.0;
    boot << 16 | u64::from(u16::from_be_bytes([high, low]))
}

impl Members {
    /// Creates the members of this node alone, until it [runs](Members::run). `boot` is how often
    /// its store was opened. See [`Membership::new`].
    pub fn new(
        rpc: Rpc,
        random: Arc<dyn Random>,
        boot: u64,
        info: NodeInfo,
        seeds: Vec<String>,
        clock: Arc<dyn WallClock>,
    ) -> Members {
        let me = rpc.transport().local();
        let generation = generation(boot, info.store);
        Members(Arc::new(Inner {
            me,
            state: Mutex::new(Membership::new(me, generation, info, seeds, 0)),
            begun: Instant::now(),
            rpc,
            random,
            clock: Arc::new(CommonClock::new(clock)),
            changes: News::default(),
            silent: Mutex::default(),
        }))
    }

    /// Returns the time that the nodes have in common.
    pub fn clock(&self) -> Arc<CommonClock> {
        self.0.clock.clone()
    }

    fn state(&self) -> MutexGuard<'_, Membership> {
        self.0.state.lock()
    }

    fn now(&self) -> u64 {
        self.0.begun.elapsed().as_millis() as u64
    }

    /// Changes the membership, and reports what changed.
    fn with<T>(&self, work: impl FnOnce(&mut Membership, u64) -> T) -> T {
        let (done, before, changes) = {
            let mut state = self.state();
            let before = state.changes();
            let done = work(&mut state, self.now());
            (done, before, state.changes())
        };
        if changes != before {
            self.0.changes.tell(changes);
        }
        done
    }

    /// Returns all known nodes, including this one, by id.
    pub fn list(&self) -> Vec<Member> {
        self.state().members(self.now())
    }

    /// Returns the cluster of which this node is, or of which it heard.
    pub fn cluster(&self) -> Option<Id> {
        self.state().cluster()
    }

    /// Returns a listener that reports every change but signs of life: known nodes, their node
    /// info, suspicions.
    pub fn changed(&self) -> Listening {
        self.0.changes.listen()
    }

    /// Changes this node's own node info.
    pub fn change(&self, change: impl FnOnce(&mut NodeInfo)) {
        self.with(|state, _| state.change(change));
    }

    /// Sets the cluster, the newest known epoch, the nodes of its layouts, and the admitted ones.
    pub fn set_cluster(
        &self,
        cluster: Id,
        epoch: u64,
        nodes: BTreeSet<NodeId>,
        admitted: BTreeSet<NodeId>,
    ) {
        let others = nodes.iter().filter(|node| **node != self.0.me);
        self.0.clock.retain(&others.copied().collect());
        self.with(|state, _| {
            state.set_cluster(cluster, epoch);
            state.pin(nodes, admitted);
        });
    }

    /// Replaces the addresses that were looked up: a list of each source. Unknown nodes may answer
    /// there.
    pub fn looked_up(&self, sources: &[Vec<String>]) {
        self.with(|state, _| state.looked_up(sources));
    }

    /// Adds addresses that an earlier run of this node knew. Unknown nodes may answer there.
    pub fn remember(&self, addresses: &[String]) {
        self.with(|state, _| state.remember(addresses));
    }

    /// Returns an address of the settings or of the last lookup at which no reachable node was
    /// found, if there is one.
    pub fn not_found(&self) -> Option<String> {
        self.state().not_found().next().cloned()
    }

    /// Returns the addresses of the settings and of the last lookup at which no reachable node was
    /// found, each with the reason.
    pub fn silent_seeds(&self) -> Vec<(String, String)> {
        let silent = self.0.silent.lock();
        let state = self.state();
        let lost = state.not_found();
        lost.filter_map(|address| Some((address.clone(), silent.get(address)?.clone())))
            .collect()
    }

    /// Joins the nodes at these addresses.
    ///
    /// # Errors
    /// A text for the operator if no node answers, or only this node itself.
    #[boxed]
    pub async fn join(&self, addresses: &[String]) -> Result<(), String> {
        let mut why = String::from("no address was given");
        let mut joined = false;
        for address in addresses {
            match self.greet(address, Naming::Command).await {
                Ok(id) if id == self.0.me => why = format!("{address}: it is this node itself"),
                Ok(_) => joined = true,
                Err(error) => why = error,
            }
        }
        if joined { Ok(()) } else { Err(why) }
    }

    /// Finds out which node answers at an address, and exchanges news with it, unless it is this
    /// node.
    async fn greet(&self, address: &str, by: Naming) -> Result<NodeId, String> {
        let identified = self.0.rpc.transport().identify(address);
        let id = identified.await.map_err(|error| error.to_string())?;
        if id != self.0.me {
            let peer = Peer {
                id,
                addresses: Arc::new([address.to_owned()]),
            };
            // Before it tells the epoch that it knows: that is believed only of nodes with a name.
            self.with(|state, _| state.named(id, address, by));
            let greeting = self.with(|state, now| state.greeting(now, &*self.0.random));
            let exchanged = self.exchange(&peer, greeting).await;
            exchanged.map_err(|why| format!("{address}: {why}"))?;
        }
        Ok(id)
    }

    /// Sends a request, handles the answer, and then sends what the other turned out to lack.
    async fn exchange(&self, peer: &Peer, request: Gossip) -> Result<(), String> {
        let mut message = Some(request);
        for _ in 0..2 {
            let Some(told) = message.take() else { break };
            let heard = self.say(peer, &told, TIMEOUT).await?;
            message = self.with(|state, now| {
                state.hear(peer.id, &heard, now)?;
                Ok::<_, String>(state.rest(&heard, now))
            })?;
        }
        Ok(())
    }

    async fn say(&self, peer: &Peer, gossip: &Gossip, timeout: Duration) -> Result<Gossip, String> {
        let message = Bytes::from(gossip.encode());
        let asked = self.0.clock.own_millis();
        let called = self
            .0
            .rpc
            .call(peer, method::GOSSIP, Class::Control, timeout, message);
        let answer = called.await;
        let answered = matches!(answer, Ok(_) | Err(Error::Refused(..)));
        self.report(&peer.id, answered);
        let heard = Gossip::decode(&answer.map_err(|error| error.to_string())?)?;
        if heard.wall_ms > 0 {
            self.0.clock.heard(peer.id, heard.wall_ms, asked);
        }
        Ok(heard)
    }

    /// Gossips until the future is dropped. Run it in a task of its own.
    #[boxed]
    pub async fn run(&self) {
        let mut asking = JoinSet::new();
        let mut next = Instant::now();
        loop {
            let random = &*self.0.random;
            for target in self.with(|state, now| state.tick(now, random)) {
                let members = self.clone();
                asking.spawn(async move { members.ask(target).await });
            }
            next = (next + TICK).max(Instant::now());
            loop {
                tokio::select! {
                    biased;
                    Some(_) = asking.join_next() => {}
                    () = tokio::time::sleep_until(next) => break,
                }
            }
        }
    }

    async fn ask(&self, target: Target) {
        match target {
            Target::Node(node) => {
                let Some(peer) = self.peer(&node) else { return };
                let request = self.with(|state, now| state.request(now, &*self.0.random));
                if let Err(why) = self.exchange(&peer, request).await {
                    tracing::debug!(peer = %node.short(), why, "gossip failed");
                }
            }
            Target::Address(address) => {
                let greeted = self.greet(&address, Naming::Plan).await;
                let who = greeted.as_ref().ok().copied();
                self.with(|state, now| state.greeted(&address, who, now));
                self.note_seed(address, greeted.err());
            }
        }
    }

    /// Notes why a seed does not answer. Logs it once, and not each second, unless no operator
    /// named the seed, or its node was found elsewhere.
    fn note_seed(&self, address: String, failed: Option<String>) {
        let mut silent = self.0.silent.lock();
        let lost: BTreeSet<String> = self.state().not_found().cloned().collect();
        silent.retain(|seed, _| lost.contains(seed));
        let Some(why) = failed.filter(|_| lost.contains(&address)) else {
            return;
        };
        if silent.insert(address.clone(), why.clone()).is_none() {
            tracing::warn!(
                address,
                why,
                "a seed node does not answer; it is tried again"
            );
        }
    }

    /// Tells some other nodes that this node leaves, so that they do not wait for it. They pass it
    /// on. Returns when they know or do not answer. A later run of this node revokes it.
    #[boxed]
    pub async fn leave(&self) {
        self.with(|state, _| state.leave());
        let here = self.list().into_iter().filter(|member| !member.suspected);
        let peers = here.filter_map(|member| self.peer(&member.id));
        let mut telling = JoinSet::new();
        for peer in peers.take(FAREWELLS) {
            let members = self.clone();
            telling.spawn(async move {
                let random = members.0.random.clone();
                let farewell = members.with(|state, now| state.greeting(now, &*random));
                if let Err(why) = members.say(&peer, &farewell, FAREWELL_TIMEOUT).await {
                    tracing::debug!(peer = %peer.id.short(), why, "a node was not told that this one leaves");
                }
            });
        }
        while telling.join_next().await.is_some() {}
    }
}

impl Directory for Members {
    fn peer(&self, node: &NodeId) -> Option<Peer> {
        self.state().peer(node)
    }

    fn is_suspected(&self, node: &NodeId) -> bool {
        self.state().is_suspected(node)
    }

    fn store_of(&self, node: &NodeId) -> Option<Id> {
        self.state().store_of(node)
    }

    fn report(&self, node: &NodeId, answered: bool) {
        self.with(|state, now| state.report(node, answered, now));
    }

    fn level(&self, node: &NodeId) -> u32 {
        self.state().level(node)
    }

    fn is_named(&self, node: &NodeId) -> bool {
        self.state().is_named(node)
    }

    fn is_joined(&self, node: &NodeId) -> bool {
        self.state().is_joined(node)
    }

    fn knows_layout(&self, node: &NodeId) -> bool {
        self.state().knows_layout(node)
    }

    fn is_lagging(&self, node: &NodeId) -> bool {
        self.state().is_lagging(node, self.now())
    }

    fn heard_of_cluster(&self) -> Option<String> {
        self.state().heard_of_cluster()
    }

    fn others(&self) -> Vec<NodeId> {
        self.state().others()
    }
}

#[async_trait]
impl Listener for Members {
    async fn gossip(&self, from: NodeId, message: Bytes) -> Result<Bytes, String> {
        let heard = Gossip::decode(&message)?;
        let answer = self.with(|state, now| {
            state.hear(from, &heard, now)?;
            Ok::<_, String>(state.answer(&heard, now, &*self.0.random))
        })?;
        let wall_ms = self.0.clock.own_millis();
        Ok(Gossip { wall_ms, ..answer }.encode().into())
    }
}
