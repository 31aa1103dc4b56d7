//! The other nodes: their addresses, their distances, and calls to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, NodeId, boxed};
use archipel_net::rpc::Rpc;
use archipel_net::{Class, Peer, Stream};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::error::Error;
use crate::node::times::Times;
use crate::node::wire::method;

#[cfg(test)]
mod tests;

/// The pause between two requests for a sign of life to a node that has not answered.
const NEXT_DOUBT: Duration = Duration::from_secs(1);
/// The time limit for a sign of life: this time, or twice the node's distance if that is longer.
const SIGN_OF_LIFE: Duration = Duration::from_millis(200);
/// The assumed distance of a node that was never called.
const UNKNOWN_DISTANCE: Duration = Duration::from_millis(500);

/// A directory of nodes: addresses, and which nodes are suspected.
pub trait Directory: Send + Sync + 'static {
    /// Returns the addresses of a node; `None` if none is known.
    fn peer(&self, node: &NodeId) -> Option<Peer>;
    /// Returns true if the node is suspected.
    fn is_suspected(&self, node: &NodeId) -> bool;
    /// Returns the store that the node says it has; `None` if it has not told.
    fn store_of(&self, node: &NodeId) -> Option<Id>;
    /// Notes that the node answered a call, or that a call or a stream to it failed.
    fn report(&self, node: &NodeId, answered: bool);
    /// Returns the highest feature level that another node speaks; 0 if it is not known.
    fn level(&self, node: &NodeId) -> u32;
    /// Returns true if the node answered at an address that the operator of this node named: in the
    /// settings, by a lookup, or by a command.
    fn is_named(&self, node: &NodeId) -> bool;
    /// Returns true if the node answered at an address that the operator named by a command.
    fn is_joined(&self, node: &NodeId) -> bool;
    /// Returns true if the node tells that it knows a layout.
    fn knows_layout(&self, node: &NodeId) -> bool;
    /// Returns true if the node has told an older epoch than this node knows for a minute.
    fn is_lagging(&self, node: &NodeId) -> bool;
    /// Returns a text for the operator if other nodes told of a cluster, or tell an epoch.
    fn heard_of_cluster(&self) -> Option<String>;
    /// Returns all known nodes but this one.
    fn others(&self) -> Vec<NodeId>;
}

/// The other nodes.
#[derive(Clone)]
pub(crate) struct Peers {
    pub times: Times,
    pub rpc: Rpc,
    pub directory: Arc<dyn Directory>,
    pub outbound: Outbound,
}

/// The most blocks that wait for one node. A distant or unreachable node must not fill the memory
/// that all share.
const BLOCKS_WAITING: usize = 8;

/// The permits for blocks that wait for each node.
#[derive(Clone, Default)]
pub(crate) struct Outbound(Arc<Mutex<BTreeMap<NodeId, Arc<Semaphore>>>>);

impl Outbound {
    /// Returns the permits of `node`, one for each block.
    pub fn to(&self, node: &NodeId) -> Arc<Semaphore> {
        let mut rooms = self.0.lock();
        let room = rooms
            .entry(*node)
            .or_insert_with(|| Arc::new(Semaphore::new(BLOCKS_WAITING)));
        room.clone()
    }
}

impl Peers {
    fn find(&self, node: &NodeId) -> Result<Peer, Error> {
        let unknown =
            || Error::Unavailable(format!("the address of {} is not known", node.short()));
        self.directory.peer(node).ok_or_else(unknown)
    }

    /// Sends a message and waits for the answer.
    pub async fn call<A: Versioned>(
        &self,
        node: &NodeId,
        method: &str,
        class: Class,
        request: &impl Versioned,
    ) -> Result<A, Error> {
        let time = self.times.call;
        self.call_within(node, method, class, time, request).await
    }

    /// Sends a message and waits this long for the answer.
    pub async fn call_within<A: Versioned>(
        &self,
        node: &NodeId,
        method: &str,
        class: Class,
        time: Duration,
        request: &impl Versioned,
    ) -> Result<A, Error> {
        let request = Bytes::from(codec::encode(request));
        let answer = self.exchange(node, method, class, time, request).await?;
        codec::decode(&answer).map_err(|error| {
            Error::Unavailable(format!("{} answers {method} with {error}", node.short()))
        })
    }

    /// Sends bytes and waits for the answer.
    #[boxed]
    pub async fn call_bytes(
        &self,
        node: &NodeId,
        method: &str,
        class: Class,
        request: Bytes,
    ) -> Result<Bytes, Error> {
        let time = self.times.call;
        self.exchange(node, method, class, time, request).await
    }

    #[boxed]
    async fn exchange(
        &self,
        node: &NodeId,
        method: &str,
        class: Class,
        time: Duration,
        request: Bytes,
    ) -> Result<Bytes, Error> {
        let peer = self.find(node)?;
        let answer = self.rpc.call(&peer, method, class, time, request).await;
        self.note(node, class, answer)
    }

    /// Opens a stream. Only a failure says something about the node: a kept connection takes a
    /// stream before any packet is sent, also if the other end died a moment ago.
    #[boxed]
    pub async fn stream(&self, node: &NodeId, method: &str, class: Class) -> Result<Stream, Error> {
        let peer = self.find(node)?;
        match self.rpc.stream(&peer, method, class, self.times.call).await {
            Ok(stream) => Ok(stream),
            failed => self.note(node, class, failed),
        }
    }

    /// Reports the outcome of a call. If nothing came in the background in time, that says nothing
    /// about the node: the background waits for everything else on the link.
    fn note<T>(
        &self,
        node: &NodeId,
        class: Class,
        result: Result<T, archipel_net::Error>,
    ) -> Result<T, Error> {
        let is_late = matches!(result, Err(archipel_net::Error::TimedOut(_)));
        if !(is_late && class == Class::Background) {
            let answered = matches!(result, Ok(_) | Err(archipel_net::Error::Refused(..)));
            self.directory.report(node, answered);
        }
        result.map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Returns once a node gives no sign of life. It is asked after `first`, and then again and
    /// again.
    #[boxed]
    pub async fn falls_silent(&self, node: &NodeId, first: Duration) {
        let mut rest = first;
        loop {
            tokio::time::sleep(rest).await;
            let call = self.call_bytes(node, method::EPOCH, Class::Control, Bytes::new());
            let distance = self.rpc.round_trip(node).unwrap_or_default();
            let answer = tokio::time::timeout(SIGN_OF_LIFE.max(2 * distance), call).await;
            if !matches!(answer, Ok(Ok(_))) {
                return;
            }
            rest = NEXT_DOUBT;
        }
    }

    /// Returns a sort key: suspected nodes come last, then distant ones.
    pub fn distance(&self, node: &NodeId) -> (bool, Duration) {
        let far = self.rpc.round_trip(node).unwrap_or(UNKNOWN_DISTANCE);
        (self.directory.is_suspected(node), far)
    }
}
