//! Follows the [relays](super) of all nodes: what their models tell, as it happens.
//!
//! One call to each node is always under way. A node that does not answer is asked again and again;
//! its messages of that time may be lost.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use archipel_base::{NodeId, boxed};
use archipel_net::Class;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use super::Relay;
use crate::data::Data;
use crate::error::Error;
use crate::node::wire::{Position, RelayCall, RelayReply, method};

/// The time for which a node holds a call while its model tells nothing. Calls end after 10 s.
const HOLD: Duration = Duration::from_secs(5);
/// The time limit for the first answer of a node.
const FIRST: Duration = Duration::from_secs(2);
/// The pause before a node that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// The number of answers that wait until they are taken. The rest waits at the nodes.
const WAITING: usize = 16;

/// The messages of the models of all nodes, this one included. They end when it is dropped.
pub struct Relayed {
    answers: mpsc::Receiver<Vec<Bytes>>,
    is_followed: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Relayed {
    /// Returns a flag that turns true once all nodes that answer are followed: all that their
    /// models tell from then on is heard.
    pub fn is_followed(&self) -> watch::Receiver<bool> {
        self.is_followed.clone()
    }

    /// Returns the next messages of a node; `None` if the cluster is closed.
    #[boxed]
    pub async fn next(&mut self) -> Option<Vec<Bytes>> {
        self.answers.recv().await
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Data {
    /// Returns the relay of this node, whose messages go to all nodes that ask.
    pub fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Follows the relays of all nodes.
    pub fn follow_relays(self: &Arc<Data>) -> Relayed {
        let (sender, answers) = mpsc::channel(WAITING);
        let (followed, is_followed) = watch::channel(false);
        let data = Arc::downgrade(self);
        let task = tokio::spawn(async move { follow_all(data, sender, followed).await });
        Relayed {
            answers,
            is_followed,
            task,
        }
    }

    /// Answers a node that follows this node's relay.
    pub(crate) async fn serve_relay(&self, call: RelayCall) -> RelayReply {
        self.relay.after(call.after, HOLD).await
    }

    async fn relay_of(&self, node: &NodeId, after: Option<Position>) -> Result<RelayReply, Error> {
        let call = RelayCall { after };
        if *node == self.me().node {
            return Ok(self.serve_relay(call).await);
        }
        // This class: as urgent as can be, and the time of the answer is not taken for a round
        // trip.
        let class = Class::Data { remaining: 0 };
        self.peers()?.call(node, method::RELAY, class, &call).await
    }

    /// Returns the present position of a node; `None` if it does not answer in time.
    async fn position_of(&self, node: &NodeId) -> Option<Position> {
        let peers = self.peers().ok();
        if peers.is_some_and(|peers| peers.directory.is_suspected(node)) {
            return None;
        }
        let asked = tokio::time::timeout(FIRST, self.relay_of(node, None)).await;
        Some(asked.ok()?.ok()?.next)
    }

    fn all_nodes(&self) -> Vec<NodeId> {
        let mut all = self.admitted();
        all.push(self.me().node);
        all
    }
}

/// Follows all nodes of the layout, also those that come later.
async fn follow_all(
    data: Weak<Data>,
    sender: mpsc::Sender<Vec<Bytes>>,
    followed: watch::Sender<bool>,
) {
    let (mut known, mut epochs) = match data.upgrade() {
        None => return,
        Some(data) => {
            let (epochs, nodes) = (data.epoch_changes(), data.all_nodes());
            let positions = nodes
                .iter()
                .map(|node| async { (*node, data.position_of(node).await) });
            let positions: BTreeMap<_, _> = join_all(positions).await.into_iter().collect();
            (positions, epochs)
        }
    };
    let _ = followed.send(true);
    let mut tasks = JoinSet::new();
    let mut following: BTreeMap<NodeId, AbortHandle> = BTreeMap::new();
    loop {
        {
            let Some(data) = data.upgrade() else {
                return;
            };
            let nodes = data.all_nodes();
            following.retain(|node, task| {
                let stays = nodes.contains(node);
                if !stays {
                    task.abort();
                }
                stays
            });
            for node in nodes {
                let (data, sender) = (Arc::downgrade(&data), sender.clone());
                let position = known.remove(&node).flatten();
                following
                    .entry(node)
                    .or_insert_with(|| tasks.spawn(follow(data, node, position, sender)));
            }
        }
        epochs.changed().await;
        // Drop the tasks that have ended.
        while tasks.try_join_next().is_some() {}
    }
}

/// Follows one node.
async fn follow(
    data: Weak<Data>,
    node: NodeId,
    mut position: Option<Position>,
    sender: mpsc::Sender<Vec<Bytes>>,
) {
    while let Some(data) = data.upgrade() {
        let asked = data.relay_of(&node, position).await;
        drop(data);
        match asked {
            Ok(reply) => {
                position = Some(reply.next);
                if !reply.messages.is_empty() && sender.send(reply.messages).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, from = %node.short(), "messages are not heard");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
