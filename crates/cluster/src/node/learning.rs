//! Learning epochs from other nodes.

use archipel_base::NodeId;
use archipel_base::codec;
use archipel_net::Class;
use bytes::Bytes;

use super::Node;
use super::wire::method;
use crate::error::Error;
use crate::layout::Epoch;

impl Node {
    /// Learns an epoch, durably, if it is newer than the one that this node knows.
    pub async fn learn(&self, epoch: Epoch) -> Result<(), Error> {
        self.epochs.learn(self.store(), epoch).await
    }

    /// Learns the epoch that another node knows, if it is newer.
    pub async fn learn_from(&self, node: &NodeId) -> Result<(), Error> {
        let peers = self.peers()?;
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
    pub(crate) async fn keep_up(&self, from: NodeId, epoch: u64) -> Result<(), Error> {
        if self.epochs.number() < epoch && self.trusts(&from) {
            self.learn_from(&from).await?;
        }
        Ok(())
    }

    /// Returns true if this node learns epochs from another one: a node of the layout, or one at an
    /// address that this node's operator named.
    pub(crate) fn trusts(&self, node: &NodeId) -> bool {
        let peers = self.peers.as_ref();
        self.epoch().is_some_and(|epoch| epoch.has_member(node))
            || peers.is_some_and(|peers| peers.directory.is_named(node))
    }
}
