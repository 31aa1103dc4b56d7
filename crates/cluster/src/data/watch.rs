//! Watches: waiting for changes of rows, at all replicas of a partition.
//!
//! A node that has watches follows the [feeds](crate::node::feed) of the nodes that hold replicas
//! of the watched partitions: one call to each is always under way, however many watches there are.
//! A change in a feed wakes the watches of its topics. They look at their rows then.
//!
//! # No change is missed
//! A watch is armed once the node follows the feeds of all replicas, each from a known position.
//! Then its owner reads the row, and then it waits. A write that is acknowledged later was accepted
//! by a replica that also answered this read, because two quorums share a replica. If it accepted
//! before it answered, the read returned that version or a newer one. If it accepted afterwards,
//! the change stands in its feed behind the position. The same holds for a listing.
//!
//! A feed that has lost a part, a feed that was lost or is followed again, and a new epoch wake all
//! watches, and they begin again. While the feed of a replica cannot be followed, a watch also
//! looks again from time to time, because that replica may still have answered the read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, boxed};
use archipel_net::Class;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Data;
use crate::error::Error;
use crate::node::epochs::Listening;
use crate::node::wire::{FeedCall, FeedReply, Position, method};

/// The time for which a node holds a call for its feed while nothing changes. Calls end after 10 s.
const HOLD: Duration = Duration::from_secs(5);
/// The time for which arming waits for feeds that are not followed yet.
const ARM_TIME: Duration = Duration::from_secs(2);
/// The pause before a lost feed is asked for again.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval at which a watch looks again while a feed is lost.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// The watches of a node, and the feeds that it follows for them.
#[derive(Default)]
pub(crate) struct Watches {
    /// By topic, and by the number of the watch.
    watching: Mutex<Watching>,
    followed: Mutex<BTreeMap<NodeId, Follows>>,
    /// A feed was found or lost.
    settled: Notify,
}

#[derive(Default)]
struct Watching {
    last: u64,
    by_topic: BTreeMap<u64, Vec<(u64, Arc<Notify>)>>,
}

/// The state of a feed that this node follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Follows {
    NotYet,
    Well,
    Lost,
}

impl Watches {
    fn wake(&self, topic: u64) {
        let watching = self.watching.lock();
        let found = watching.by_topic.get(&topic);
        found
            .into_iter()
            .flatten()
            .for_each(|(_, one)| one.notify_one());
    }

    fn wake_all(&self) {
        let watching = self.watching.lock();
        let all = watching.by_topic.values().flatten();
        all.for_each(|(_, one)| one.notify_one());
    }

    /// Notes the state of a feed. If it has changed, all watches begin again.
    fn note(&self, node: NodeId, now: Follows) {
        let before = self.followed.lock().insert(node, now);
        if before != Some(now) {
            self.settled.notify_waiters();
            self.wake_all();
        }
    }

    /// Stops following a feed if there are no watches. Returns true if it has stopped.
    fn stop(&self, node: &NodeId) -> bool {
        // Watches are counted before their feeds are asked for, so none comes between.
        let mut followed = self.followed.lock();
        let is_idle = self.watching.lock().by_topic.is_empty();
        if is_idle {
            followed.remove(node);
        }
        is_idle
    }
}

/// A watch of the changes of one topic in a partition. It ends when it is dropped.
pub struct Watch {
    data: Arc<Data>,
    partition: PartitionId,
    topic: u64,
    number: u64,
    changed: Arc<Notify>,
    /// Reports epochs later than the one in which the watch was armed.
    epochs: Listening,
    /// True if the feeds of all replicas are followed.
    is_complete: bool,
}

impl Watch {
    /// Follows the feeds of the partition's replicas. A read or a listing that begins after this
    /// returned, and every change that it did not see, end the next [`Watch::changed`].
    ///
    /// # Errors
    /// [`Error::Unavailable`] while this node is in no cluster.
    #[boxed]
    pub async fn arm(&mut self) -> Result<(), Error> {
        self.epochs = self.data.epoch_changes();
        let group = self.data.group(self.partition)?;
        let nodes: BTreeSet<NodeId> = group.members.iter().map(|m| m.node.node).collect();
        let watches = &self.data.watches;
        for node in &nodes {
            self.data.follow(*node);
        }
        let all_known = async {
            loop {
                let mut settled = std::pin::pin!(watches.settled.notified());
                settled.as_mut().enable();
                if !self.data.follows_any(&nodes, Follows::NotYet) {
                    return;
                }
                settled.await;
            }
        };
        // A node that does not answer for so long counts as lost for now.
        let _ = tokio::time::timeout(ARM_TIME, all_known).await;
        self.is_complete = !self.data.follows_any(&nodes, Follows::NotYet)
            && !self.data.follows_any(&nodes, Follows::Lost);
        Ok(())
    }

    /// Waits until the watched rows may have changed. Arm the watch again afterwards.
    #[boxed]
    pub async fn changed(&mut self) {
        let (changed, is_complete) = (self.changed.clone(), self.is_complete);
        tokio::select! {
            // In this order, so that a simulation replays exactly.
            biased;
            () = changed.notified() => {}
            _ = self.epochs.changed() => {}
            () = tokio::time::sleep(LOOK_AGAIN), if !is_complete => {}
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watching = self.data.watches.watching.lock();
        let Some(of_topic) = watching.by_topic.get_mut(&self.topic) else {
            return;
        };
        of_topic.retain(|(number, _)| *number != self.number);
        if of_topic.is_empty() {
            watching.by_topic.remove(&self.topic);
        }
    }
}

impl Data {
    /// Watches the changes of a topic in a partition: see [`Hooks::topics`](crate::Hooks).
    pub fn watch(self: &Arc<Data>, partition: PartitionId, topic: u64) -> Watch {
        let changed = Arc::new(Notify::new());
        let mut watching = self.watches.watching.lock();
        watching.last += 1;
        let number = watching.last;
        let of_topic = watching.by_topic.entry(topic).or_default();
        of_topic.push((number, changed.clone()));
        Watch {
            data: self.clone(),
            partition,
            topic,
            number,
            changed,
            epochs: self.epoch_changes(),
            is_complete: false,
        }
    }

    /// Answers a node that follows this node's feed.
    pub(crate) async fn serve_feed(&self, call: FeedCall) -> FeedReply {
        let feed = self.replica.feed();
        feed.after(call.after, HOLD, self.epochs.number()).await
    }

    fn follows_any(&self, nodes: &BTreeSet<NodeId>, how: Follows) -> bool {
        let followed = self.watches.followed.lock();
        nodes.iter().any(|node| followed.get(node) == Some(&how))
    }

    /// Follows the feed of a node, unless that is under way.
    fn follow(self: &Arc<Data>, node: NodeId) {
        let mut followed = self.watches.followed.lock();
        if followed.contains_key(&node) {
            return;
        }
        followed.insert(node, Follows::NotYet);
        let data = Arc::downgrade(self);
        tokio::spawn(async move { follow(data, node).await });
    }

    async fn feed_of(&self, node: &NodeId, after: Option<Position>) -> Result<FeedReply, Error> {
        let call = FeedCall { after };
        if *node == self.me().node {
            return Ok(self.serve_feed(call).await);
        }
        // This class: as urgent as can be, and the time of the answer is not taken for a round
        // trip.
        let class = Class::Data { remaining: 0 };
        self.peers()?.call(node, method::FEED, class, &call).await
    }
}

/// Follows a feed until there are no watches.
async fn follow(data: Weak<Data>, node: NodeId) {
    let mut position = None;
    while let Some(data) = data.upgrade() {
        match data.feed_of(&node, position).await {
            Ok(reply) => {
                // In this order: a watch that is armed now begins behind what is told now.
                match &reply.changes {
                    Some(changes) => changes.iter().flatten().for_each(|t| data.watches.wake(*t)),
                    None => data.watches.wake_all(),
                }
                position = Some(reply.next);
                data.watches.note(node, Follows::Well);
                if reply.epoch > data.epochs.number()
                    && let Err(error) = data.learn_from(&node).await
                {
                    tracing::debug!(%error, from = %node.short(), "a newer layout cannot be learnt");
                }
                if data.watches.stop(&node) {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, from = %node.short(), "changes of rows are not heard");
                data.watches.note(node, Follows::Lost);
                if data.watches.stop(&node) {
                    return;
                }
                drop(data);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
