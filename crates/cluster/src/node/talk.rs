//! Notices to all other nodes, and checks whether they use content. No guarantee depends on them: a
//! node that is unreachable or slow misses them.

use std::time::Duration;

use archipel_base::{NodeId, boxed};
use archipel_net::Class;
use archipel_traces::carry;
use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::Node;
use super::wire::method;

/// The time limit for an answer: long enough for nodes that are near.
const MOMENT: Duration = Duration::from_secs(1);

/// Receives the notices of other nodes' models.
pub(super) type Hear = Box<dyn Fn(Bytes) -> BoxFuture<'static, bool> + Send + Sync>;

/// Answers whether this node's model uses content, from memory.
pub(super) type AnswerCheck = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

impl Node {
    /// Sends a notice of the model to all other nodes that the layout has or an operator admitted.
    /// Returns those that did not confirm in time that they acted on it: also nodes that are
    /// suspected or were never heard of, which are not asked.
    #[boxed]
    pub async fn notify(&self, notice: Bytes) -> Vec<NodeId> {
        let told = self
            .tell_those(self.admitted(), method::NOTICE, notice)
            .await;
        let silent = told.into_iter().filter(|(_, answer)| answer.is_none());
        silent.map(|(node, _)| node).collect()
    }

    /// Tells all other nodes the number of the epoch that is known here, so that they ask for it.
    pub(crate) async fn tell_epoch(&self) {
        let number = self.epochs.number().to_be_bytes();
        let peers = self.peers.as_ref();
        let others = peers.map_or_else(Vec::new, |peers| peers.directory.others());
        self.tell_those(others, method::EPOCH, number.to_vec().into())
            .await;
    }

    /// Asks all other admitted nodes whether they use content. Returns true if one of them does.
    #[boxed]
    pub async fn ask_all(&self, content: Bytes) -> bool {
        let answers = self
            .tell_those(self.admitted(), method::IN_USE, content)
            .await;
        let mut answers = answers.iter().filter_map(|(_, answer)| answer.as_ref());
        answers.any(|answer| answer.iter().any(|b| *b != 0))
    }

    /// Sets the function that answers the in-use checks of other nodes ([`Node::ask_all`]). Only
    /// the first call has an effect.
    pub fn on_in_use_check(&self, answer: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
        let _ = self.on_in_use_check.set(Box::new(answer));
    }

    /// Sets the listener of the notices of other nodes ([`Node::notify`]). It returns true if it
    /// could act on the notice. Only the first call has an effect.
    pub fn on_notice(
        &self,
        hear: impl Fn(Bytes) -> BoxFuture<'static, bool> + Send + Sync + 'static,
    ) {
        let _ = self.on_notice.set(Box::new(hear));
    }

    /// Returns the other nodes that the layout has or an operator admitted. No one else is told
    /// what the model says.
    pub(crate) fn admitted(&self) -> Vec<NodeId> {
        let (epoch, me) = (self.epoch(), self.me().node);
        let all = epoch.iter().flat_map(|epoch| epoch.all_admitted());
        all.filter(|node| *node != me).collect()
    }

    /// Sends a message to those of these nodes that are not suspected. Returns all of them, with
    /// the answers that come in time. The other nodes catch up when they are back.
    async fn tell_those(
        &self,
        those: Vec<NodeId>,
        method: &'static str,
        message: Bytes,
    ) -> Vec<(NodeId, Option<Bytes>)> {
        let Some(peers) = &self.peers else {
            return Vec::new();
        };
        let told = those.into_iter().map(|node| {
            let (peers, message) = (peers.clone(), message.clone());
            let there = !peers.directory.is_suspected(&node);
            // The call runs in a task of its own, so that it continues if no caller waits any more.
            let told = there.then(|| {
                tokio::spawn(carry(async move {
                    let class = Class::Control;
                    peers.call_bytes(&node, method, class, message).await
                }))
            });
            async move {
                let Some(told) = told else {
                    return (node, None);
                };
                let answer = tokio::time::timeout(MOMENT, told).await;
                (node, answer.ok().and_then(Result::ok).and_then(Result::ok))
            }
        });
        futures_util::future::join_all(told.collect::<Vec<_>>()).await
    }

    /// Passes another node's gossip to the membership.
    pub(crate) async fn gossip(&self, from: NodeId, message: Bytes) -> Result<Bytes, String> {
        match &self.listener {
            Some(listener) => listener.gossip(from, message).await,
            None => Err("this node has no membership".into()),
        }
    }

    /// Passes another node's notice to the model. Returns true if the model acted on it.
    pub(crate) async fn hear_notice(&self, notice: Bytes) -> bool {
        match self.on_notice.get() {
            Some(hear) => hear(notice).await,
            None => false,
        }
    }

    /// Answers whether this node uses content that another node asks about.
    pub(crate) fn answer_in_use_check(&self, content: &[u8]) -> bool {
        let answer = self.on_in_use_check.get();
        answer.is_some_and(|answer| answer(content))
    }
}
