//! Who is there: gossip between all nodes, and the suspicion that one is away.
//!
//! Each node counts a **heartbeat** up, once a second, and tells a few others, by chance, what it knows: for each
//! node a line (generation, revision, heartbeat), and of those that the other knows less of also
//! what they tell of themselves. A node whose heartbeat has not moved for a while, or that
//! just failed to answer a call, is *suspected*: asked last, waited for by nobody. Nothing that must be
//! right rests on it.
//!
//! [`Table`] is pure; [`Members`] drives it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::random::Random;
use archipel_base::{Id, NodeId};
use archipel_net::rpc::Rpc;
use archipel_net::{Class, Peer};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::{Cluster, Listener};
use crate::peers::Directory;
use crate::wire::method;

/// How often a node tells others.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long they may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many are told each time; one of them may be somebody who is suspected.
const FANOUT: usize = 3;
/// A heartbeat that has not moved for so long makes suspect; and so much longer for each doubling of the nodes.
const STALE_MS: u64 = 3_500;
const STALE_DOUBLING_MS: u64 = 400;
/// For so long a call that failed makes suspect, if none has succeeded since.
const FAILED_MS: u64 = 5_000;
/// After so long without a sign a node is forgotten that no layout names.
const FORGET_MS: u64 = 24 * 3600 * 1000;
/// Bounds of what others tell.
const MAX_MEMBERS: usize = 2000;
const MAX_ADDRESSES: usize = 8;
const MAX_TEXT: usize = 256;
/// How many members' facts go into one message.
const MAX_FACTS: usize = 500;

/// What a node tells of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// How to reach it: `host:port`.
    #[serde(rename = "a")]
    pub addresses: Vec<String>,
    /// Its store.
    #[serde(rename = "s")]
    pub store: Id,
    /// Its release.
    #[serde(rename = "v", default)]
    pub version: String,
    /// The epoch that it knows.
    #[serde(rename = "e", default)]
    pub epoch: u64,
    /// Where S3 clients reach it.
    #[serde(rename = "3", default)]
    pub s3: String,
}

impl Facts {
    fn is_bounded(&self) -> bool {
        let texts = self.addresses.iter().chain([&self.version, &self.s3]);
        self.addresses.len() <= MAX_ADDRESSES && texts.map(String::len).all(|n| n <= MAX_TEXT)
    }
}

/// How new what is known of a node is: its run, and within it how often its facts changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
struct Age {
    #[serde(rename = "g")]
    generation: u64,
    #[serde(rename = "r")]
    revision: u64,
}

/// A node in a message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Line {
    #[serde(rename = "n")]
    node: NodeId,
    #[serde(rename = "a")]
    age: Age,
    #[serde(rename = "h")]
    heartbeat: u64,
}

/// What nodes tell one another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Gossip {
    /// The teller's cluster; none yet for one that joins.
    #[serde(rename = "c")]
    cluster: Option<Id>,
    #[serde(rename = "l")]
    lines: Vec<Line>,
    #[serde(rename = "f")]
    facts: Vec<(NodeId, Age, Facts)>,
}

impl Versioned for Gossip {
    const VERSION: u8 = 1;
}

/// A node as it is known here.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    age: Age,
    facts: Option<Facts>,
    heartbeat: u64,
    /// When the heartbeat moved.
    heard_ms: u64,
    failed_ms: Option<u64>,
}

/// A node as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Who.
    pub id: NodeId,
    /// What it tells.
    pub facts: Facts,
    /// Whether it seems to be away.
    pub suspected: bool,
    /// How long ago it was heard of, in milliseconds; 0 for this node.
    pub heard_ms_ago: u64,
}

/// What one node knows of all. Pure: time (milliseconds of any steady clock) and chance are arguments.
pub struct Table {
    me: NodeId,
    cluster: Option<Id>,
    nodes: BTreeMap<NodeId, Known>,
    pinned: BTreeSet<NodeId>,
}

impl Table {
    /// A node that knows nobody but itself. `generation` grows with each of its runs.
    pub fn new(me: NodeId, generation: u64, facts: Facts) -> Table {
        let age = Age {
            generation,
            revision: 1,
        };
        let known = Known {
            age,
            facts: Some(facts),
            heartbeat: 0,
            heard_ms: 0,
            failed_ms: None,
        };
        Table {
            me,
            cluster: None,
            nodes: BTreeMap::from([(me, known)]),
            pinned: BTreeSet::new(),
        }
    }

    /// The cluster that this node is in: others are not listened to from then on.
    pub fn set_cluster(&mut self, cluster: Id) {
        self.cluster = Some(cluster);
    }

    /// Nodes that are never forgotten.
    pub fn pin(&mut self, nodes: BTreeSet<NodeId>) {
        self.pinned = nodes;
    }

    /// Changes what this node tells of itself.
    pub fn change(&mut self, change: impl FnOnce(&mut Facts)) {
        if let Some(known) = self.nodes.get_mut(&self.me)
            && let Some(facts) = &mut known.facts
        {
            let before = facts.clone();
            change(facts);
            known.age.revision += u64::from(*facts != before);
        }
    }

    fn stale_ms(&self) -> u64 {
        STALE_MS + STALE_DOUBLING_MS * u64::from(self.nodes.len().max(1).ilog2())
    }

    /// Whether a node seems to be away.
    pub fn is_suspected(&self, node: &NodeId, now_ms: u64) -> bool {
        if *node == self.me {
            return false;
        }
        let Some(known) = self.nodes.get(node) else {
            return true;
        };
        let stale = now_ms.saturating_sub(known.heard_ms) > self.stale_ms();
        let failed = known
            .failed_ms
            .is_some_and(|at| now_ms.saturating_sub(at) < FAILED_MS);
        stale || failed
    }

    /// What came of asking a node.
    pub fn report(&mut self, node: &NodeId, answered: bool, now_ms: u64) {
        if let Some(known) = self.nodes.get_mut(node) {
            known.failed_ms = (!answered).then_some(now_ms);
            if answered {
                known.heard_ms = known.heard_ms.max(now_ms);
            }
        }
    }

    /// A second has passed: the heartbeat moves. Gives whom to tell.
    fn tick(&mut self, now_ms: u64, random: &dyn Random) -> Vec<NodeId> {
        if let Some(me) = self.nodes.get_mut(&self.me) {
            me.heartbeat += 1;
            me.heard_ms = now_ms;
        }
        let (me, pinned) = (self.me, &self.pinned);
        self.nodes.retain(|node, known| {
            let old = now_ms.saturating_sub(known.heard_ms) > FORGET_MS;
            *node == me || pinned.contains(node) || !old
        });
        let others = self
            .nodes
            .iter()
            .filter(|(node, known)| **node != me && known.facts.is_some());
        let (mut away, mut here): (Vec<_>, Vec<_>) = others
            .map(|(node, _)| *node)
            .partition(|node| self.is_suspected(node, now_ms));
        let mut chosen = Vec::new();
        if let Some(node) = take(&mut away, random) {
            chosen.push(node);
        }
        while chosen.len() < FANOUT
            && let Some(node) = take(&mut here, random)
        {
            chosen.push(node);
        }
        chosen
    }

    fn lines(&self) -> Vec<Line> {
        let line = |(node, known): (&NodeId, &Known)| Line {
            node: *node,
            age: known.age,
            heartbeat: known.heartbeat,
        };
        self.nodes.iter().map(line).collect()
    }

    /// What to tell somebody of whom nothing is known.
    fn greeting(&self) -> Gossip {
        Gossip {
            cluster: self.cluster,
            lines: self.lines(),
            facts: self.facts_for(&[]),
        }
    }

    /// What to tell first: lines alone.
    fn question(&self) -> Gossip {
        Gossip {
            cluster: self.cluster,
            lines: self.lines(),
            facts: Vec::new(),
        }
    }

    /// What to tell to somebody who told these lines.
    fn answer(&self, theirs: &[Line]) -> Gossip {
        Gossip {
            facts: self.facts_for(theirs),
            ..self.question()
        }
    }

    /// The facts that somebody lacks who told these lines.
    fn facts_for(&self, theirs: &[Line]) -> Vec<(NodeId, Age, Facts)> {
        let ages: BTreeMap<NodeId, Age> = theirs.iter().map(|l| (l.node, l.age)).collect();
        let newer = self.nodes.iter().filter_map(|(node, known)| {
            let facts = known.facts.clone()?;
            let lacks = ages.get(node).is_none_or(|age| *age < known.age);
            lacks.then_some((*node, known.age, facts))
        });
        newer.take(MAX_FACTS).collect()
    }

    /// Takes in what another tells. Gives whether anything but heartbeats changed.
    ///
    /// # Errors
    /// If it is of another cluster.
    fn hear(&mut self, gossip: &Gossip, now_ms: u64) -> Result<bool, String> {
        if let (Some(ours), Some(theirs)) = (self.cluster, gossip.cluster)
            && ours != theirs
        {
            return Err(format!(
                "another cluster ({theirs}); this node is in {ours}"
            ));
        }
        let mut changed = false;
        for (node, age, facts) in &gossip.facts {
            let room = self.nodes.len() < MAX_MEMBERS || self.nodes.contains_key(node);
            if *node == self.me || !facts.is_bounded() || !room {
                continue;
            }
            let known = self.nodes.entry(*node).or_insert(Known {
                age: Age::default(),
                facts: None,
                heartbeat: 0,
                heard_ms: now_ms,
                failed_ms: None,
            });
            if known.age < *age {
                if known.age.generation < age.generation {
                    (known.heartbeat, known.failed_ms) = (0, None);
                }
                (known.age, known.facts) = (*age, Some(facts.clone()));
                known.heard_ms = now_ms;
                changed = true;
            }
        }
        for line in &gossip.lines {
            if let Some(known) = self.nodes.get_mut(&line.node)
                && line.node != self.me
                && known.age.generation == line.age.generation
                && known.heartbeat < line.heartbeat
            {
                known.heartbeat = line.heartbeat;
                known.heard_ms = now_ms;
            }
        }
        Ok(changed)
    }

    /// All nodes of which more than the id is known.
    pub fn members(&self, now_ms: u64) -> Vec<Member> {
        let member = |(id, known): (&NodeId, &Known)| {
            Some(Member {
                id: *id,
                facts: known.facts.clone()?,
                suspected: self.is_suspected(id, now_ms),
                heard_ms_ago: now_ms.saturating_sub(known.heard_ms),
            })
        };
        self.nodes.iter().filter_map(member).collect()
    }
}

fn take(nodes: &mut Vec<NodeId>, random: &dyn Random) -> Option<NodeId> {
    if nodes.is_empty() {
        return None;
    }
    let place = random.next_u64() as usize % nodes.len();
    Some(nodes.swap_remove(place))
}

/// The members, as the rest of the node sees them. Cheap to clone.
#[derive(Clone)]
pub struct Members(Arc<Inner>);

struct Inner {
    me: NodeId,
    table: Mutex<Table>,
    begun: Instant,
    rpc: Rpc,
    random: Arc<dyn Random>,
    /// Where to begin, and to begin again if nobody is there.
    seeds: Mutex<Vec<String>>,
    changes: watch::Sender<u64>,
}

impl Members {
    /// Knows this node alone until it [runs](Members::run).
    pub fn new(
        rpc: Rpc,
        random: Arc<dyn Random>,
        generation: u64,
        facts: Facts,
        seeds: Vec<String>,
    ) -> Members {
        let me = rpc.transport().local();
        Members(Arc::new(Inner {
            me,
            table: Mutex::new(Table::new(me, generation, facts)),
            begun: Instant::now(),
            rpc,
            random,
            seeds: Mutex::new(seeds),
            changes: watch::channel(0).0,
        }))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        // Not from nothing: a node that was never heard of is stale at the start.
        self.0.begun.elapsed().as_millis() as u64 + 10_000
    }

    /// All nodes that are known.
    pub fn list(&self) -> Vec<Member> {
        self.table().members(self.now())
    }

    /// Tells when something but heartbeats changed.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Changes what this node tells of itself.
    pub fn change(&self, change: impl FnOnce(&mut Facts)) {
        self.table().change(change);
    }

    /// The cluster and the nodes of its layouts, once they are known.
    pub fn set_cluster(&self, cluster: Id, nodes: BTreeSet<NodeId>) {
        let mut table = self.table();
        table.set_cluster(cluster);
        table.pin(nodes);
    }

    /// Joins whoever is at these addresses.
    ///
    /// # Errors
    /// A text for the operator if nobody answers.
    pub async fn join(&self, addresses: &[String]) -> Result<(), String> {
        let mut why = String::from("no address was given");
        let mut joined = false;
        for address in addresses {
            match self.greet(address).await {
                Ok(()) => joined = true,
                Err(error) => why = format!("{address}: {error}"),
            }
        }
        if joined { Ok(()) } else { Err(why) }
    }

    async fn greet(&self, address: &str) -> Result<(), String> {
        let identified = self.0.rpc.transport().identify(address);
        let id = identified.await.map_err(|error| error.to_string())?;
        if id == self.0.me {
            return Ok(());
        }
        let peer = Peer {
            id,
            addresses: Arc::new([address.to_owned()]),
        };
        let greeting = self.table().greeting();
        self.exchange(&peer, greeting).await
    }

    /// Tells and hears; and tells once more what the other turned out to lack.
    async fn exchange(&self, peer: &Peer, told: Gossip) -> Result<(), String> {
        let heard = self.say(peer, &told).await?;
        let more = {
            let mut table = self.table();
            let changed = table.hear(&heard, self.now())?;
            self.note(changed);
            table.answer(&heard.lines)
        };
        if !more.facts.is_empty() && told.facts.is_empty() {
            self.say(peer, &more).await?;
        }
        Ok(())
    }

    async fn say(&self, peer: &Peer, gossip: &Gossip) -> Result<Gossip, String> {
        let message = Bytes::from(codec::encode(gossip));
        let class = Class::Control;
        let called = self
            .0
            .rpc
            .call(peer, method::GOSSIP, class, TIMEOUT, message);
        let answer = called.await;
        self.report(&peer.id, answer.is_ok());
        let answer = answer.map_err(|error| error.to_string())?;
        codec::decode(&answer).map_err(|error| error.to_string())
    }

    fn note(&self, changed: bool) {
        if changed {
            self.0.changes.send_modify(|number| *number += 1);
        }
    }

    /// Gossips until it is dropped. Run it in a task of its own.
    pub async fn run(&self) {
        loop {
            self.round().await;
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Tells others which layout this node knows, and learns newer ones from them, until it is
    /// dropped. Run it in a task of its own.
    pub async fn follow(&self, cluster: &Cluster) {
        let (mut news, mut epochs) = (self.changed(), cluster.epoch_changes());
        loop {
            self.tell_layout_of(cluster);
            let known = cluster.epoch().map_or(0, |epoch| epoch.number());
            let ahead = self.list().into_iter().filter(|m| m.facts.epoch > known);
            let newest = ahead.max_by_key(|member| member.facts.epoch);
            let mut behind = false;
            if let Some(newest) = newest
                && let Err(error) = cluster.learn_from(&newest.id).await
            {
                let from = newest.id.short();
                tracing::warn!(%error, from, "a newer layout cannot be learnt");
                behind = true;
            }
            tokio::select! {
                biased;
                _ = epochs.changed() => {}
                heard = news.changed() => if heard.is_err() { return },
                () = tokio::time::sleep(INTERVAL), if behind => {}
            }
        }
    }

    fn tell_layout_of(&self, cluster: &Cluster) {
        let Some(epoch) = cluster.epoch() else { return };
        let roles = epoch.layouts.iter().flat_map(|layout| &layout.roles);
        let nodes: BTreeSet<_> = roles.map(|role| role.store.node).collect();
        self.set_cluster(epoch.cluster, nodes);
        self.change(|facts| facts.epoch = epoch.number());
    }

    async fn round(&self) {
        let now = self.now();
        let chosen = self.table().tick(now, &*self.0.random);
        let alone = chosen.iter().all(|node| self.is_suspected(node));
        for node in chosen {
            let Some(peer) = self.peer(&node) else {
                continue;
            };
            let (members, question) = (self.clone(), self.table().question());
            tokio::spawn(async move {
                if let Err(why) = members.exchange(&peer, question).await {
                    tracing::debug!(peer = %peer.id.short(), why, "gossip failed");
                }
            });
        }
        let seeds = self
            .0
            .seeds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if alone && !seeds.is_empty() {
            let members = self.clone();
            tokio::spawn(async move {
                if let Err(why) = members.join(&seeds).await {
                    tracing::warn!(why, "nobody of cluster.join answers; it is tried again");
                }
            });
        }
    }
}

impl Directory for Members {
    fn peer(&self, node: &NodeId) -> Option<Peer> {
        let table = self.table();
        let facts = table.nodes.get(node)?.facts.as_ref()?;
        Some(Peer {
            id: *node,
            addresses: facts.addresses.clone().into(),
        })
    }

    fn is_suspected(&self, node: &NodeId) -> bool {
        self.table().is_suspected(node, self.now())
    }

    fn report(&self, node: &NodeId, answered: bool) {
        let now = self.now();
        self.table().report(node, answered, now);
    }

    fn others(&self) -> Vec<NodeId> {
        let table = self.table();
        let known = table
            .nodes
            .iter()
            .filter(|(_, known)| known.facts.is_some());
        known
            .map(|(node, _)| *node)
            .filter(|node| *node != self.0.me)
            .collect()
    }
}

#[async_trait]
impl Listener for Members {
    async fn gossip(&self, _: NodeId, message: Bytes) -> Result<Bytes, String> {
        let told: Gossip = codec::decode(&message).map_err(|error| error.to_string())?;
        let mut table = self.table();
        let changed = table.hear(&told, self.now())?;
        let answer = table.answer(&told.lines);
        drop(table);
        self.note(changed);
        Ok(codec::encode(&answer).into())
    }
}

#[cfg(test)]
mod tests;
