//! Learning epochs from other nodes.

use archipel_base::{NodeId, boxed, codec};
use archipel_net::Class;
use bytes::Bytes;

use super::Node;
use super::epochs::in_time;
use super::wire::method;
use crate::error::Error;
use crate::layout::Epoch;

impl Node {
    /// Learns an epoch, durably, if it is newer than the one that this node knows.
    #[boxed]
    pub async fn learn(&self, epoch: Epoch) -> Result<(), Error> {
        self.epochs.learn(self.store(), epoch).await
    }

    /// Learns the epoch that another node knows, if it is newer. A call to a node that the layout
    /// has dropped meanwhile may still be answered, but nothing is learnt from it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the node is not trusted to tell epochs.
    #[boxed]
    pub async fn learn_from(&self, node: &NodeId) -> Result<(), Error> {
        let peers = self.peers()?;
        if !self.trusts(node) {
            return Err(Error::Unavailable(format!(
                "{} is in no layout that this node knows, so no epoch is learnt from it",
                node.short()
            )));
        }
        let class = Class::Control;
        let bytes = peers
            .call_bytes(node, method::EPOCH, class, Bytes::new())
            .await?;
        let epoch = Epoch::decode(&bytes).map_err(|error: codec::DecodeError| {
            Error::Unavailable(format!("the layout of {}: {error}", node.short()))
        })?;
        self.epochs.learn(self.store(), epoch).await
    }

    /// Learns the caller's epoch, if the caller knows a newer one and is trusted to tell it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the epoch cannot be learnt, or not [in time](in_time).
    pub(crate) async fn keep_up(&self, from: NodeId, epoch: u64) -> Result<(), Error> {
        if self.epochs.in_force() >= epoch {
            return Ok(());
        }
        self.epochs.settled().await?;
        if self.epochs.in_force() < epoch && self.trusts(&from) {
            in_time(self.learn_from(&from)).await?;
        }
        Ok(())
    }

    /// Returns true if this node learns epochs from another one: a node of the layout, or one that
    /// this node's operator joined it to. For a node without a layout the settings and lookups name
    /// others, too, and a promise names those of its layout. With a layout they do not count: a
    /// node that was removed may still answer there.
    pub(crate) fn trusts(&self, node: &NodeId) -> bool {
        let directory = self.peers.as_ref().map(|peers| &peers.directory);
        match self.epoch() {
            Some(epoch) if epoch.has_member(node) => true,
            Some(_) => directory.is_some_and(|directory| directory.is_joined(node)),
            // The founder of the layout that this node promised to be part of may be gone, and the
            // layout in force. No other cluster is learnt meanwhile.
            None => {
                let promised = self.epochs.promised();
                promised.is_some_and(|promise| promise.nodes.contains(node))
                    || directory.is_some_and(|directory| directory.is_named(node))
            }
        }
    }

    /// Returns true if a node has a part in the cluster: the layout has it, or an operator admitted
    /// or named it.
    pub(crate) fn knows(&self, node: &NodeId) -> bool {
        self.epoch().is_some_and(|epoch| epoch.admits(node)) || self.trusts(node)
    }

    /// Returns a text for the operator if other nodes told of a cluster, or tell an epoch.
    pub(crate) fn heard_of_cluster(&self) -> Option<String> {
        self.peers.as_ref()?.directory.heard_of_cluster()
    }

    /// Promises to be part of a first layout that another node proposes.
    ///
    /// # Errors
    /// A text for that node's operator.
    pub(crate) async fn promise_first(&self, from: NodeId, epoch: Epoch) -> Result<(), String> {
        let heard = || self.heard_of_cluster();
        let promised = self.epochs.promise(self.store(), from, epoch, heard);
        promised.await
    }
}
