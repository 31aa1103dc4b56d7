//! Learning epochs from other nodes, and what they tell of a cluster.

use archipel_base::{NodeId, codec};
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

    /// Learns the caller's epoch, if the caller knows a newer one.
    pub(crate) async fn keep_up(&self, from: NodeId, epoch: u64) -> Result<(), Error> {
        if self.epochs.number() < epoch {
            self.learn_from(&from).await?;
        }
        Ok(())
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
