//! Who is there: gossip between all nodes, and the suspicion that one is away.
//!
//! Each node counts a **heartbeat** up, once a second, and tells a few others, by chance, what it knows: for each
//! node a line (generation, revision, heartbeat), and of those that the other knows less of also
//! what they tell of themselves. A node whose heartbeat has not moved for a while, or that
//! just failed to answer a call, is *suspected*: asked last, waited for by nobody. Nothing that must be
//! right rests on it.
//!
//! [`Table`] is pure; [`Members`] drives it.

mod table;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::codec;
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
use table::{Gossip, MAX_ADDRESSES, MAX_TEXT};

pub use table::{Member, Table};

/// How often a node tells others.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long they may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
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
