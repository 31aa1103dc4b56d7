//! The facade: the store as the model sees it. It offers rows that are linearizable registers,
//! blocks and listings over all nodes of the layout, upkeep, and changes of the layout.

use std::ops::Deref;
use std::sync::Arc;

use archipel_base::boxed;
use archipel_net::rpc::Service;

use crate::data::Data;
use crate::error::Error;
use crate::node::Node;
use crate::node::options::ClusterOptions;
use crate::reconfigure::LayoutChanges;
use crate::server::NodeService;
use crate::upkeep::Upkeep;

/// A node's view of the cluster. Derefs to [`Data`]: rows, blocks, listings. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub data: Arc<Data>,
    pub upkeep: Arc<Upkeep>,
    pub layouts: LayoutChanges,
}

impl Cluster {
    /// Opens the cluster as this node sees it, from its store's records. A node without a layout
    /// answers no requests until it [founds](Node::found) a cluster or hears of one.
    #[boxed]
    pub async fn open(options: ClusterOptions) -> Result<Cluster, Error> {
        let node = Arc::new(Node::open(options).await?);
        let data = Arc::new(Data::new(node));
        Ok(Cluster(Arc::new(Inner {
            upkeep: Upkeep::new(data.clone()),
            layouts: LayoutChanges::new(data.clone()),
            data,
        })))
    }

    /// Returns the service that answers other nodes, for
    /// [`Rpc::serve`](archipel_net::rpc::Rpc).
    pub fn service(&self) -> Arc<dyn Service> {
        Arc::new(NodeService(Arc::downgrade(&self.0)))
    }

    /// Returns the rows, blocks and listings, for a caller that outlives this handle.
    #[cfg(test)]
    pub(crate) fn data(&self) -> Arc<Data> {
        self.0.data.clone()
    }

    /// Returns the background work that keeps data whole.
    pub fn upkeep(&self) -> &Arc<Upkeep> {
        &self.0.upkeep
    }

    /// Returns the changes of the layout.
    pub fn layouts(&self) -> &LayoutChanges {
        &self.0.layouts
    }
}

impl Deref for Cluster {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.0.data
    }
}

#[cfg(test)]
mod tests;
