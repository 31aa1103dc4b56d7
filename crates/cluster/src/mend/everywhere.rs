//! How all nodes look after what they store, and a scrub of all of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::codec::Versioned;
use archipel_net::Class;
use archipel_storage::blocks::DiskState;
use serde::{Deserialize, Serialize};

use super::{Mending, Scrubbing};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::inner::Inner;
use crate::wire::method;

/// How long a node may take to answer.
const ANSWER: Duration = Duration::from_secs(3);

/// Asks a node how it looks after what it stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CareCall {
    /// Begin a scrub first, so many bytes a second fast; and try again at once what could not be mended.
    #[serde(rename = "s", default)]
    pub scrub: Option<u64>,
}

impl Versioned for CareCall {
    const VERSION: u8 = 1;
}

/// How a node looks after what it stores.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Care {
    /// Reading and verifying.
    #[serde(rename = "s")]
    pub scrub: Scrubbing,
    /// Replacing what is damaged.
    #[serde(rename = "m")]
    pub mending: Mending,
    /// The numbers of disks that failed, each with the reason.
    #[serde(rename = "f", default)]
    pub failed_disks: Vec<(u16, String)>,
    /// The nodes from which it has rows to fetch, or may have.
    #[serde(rename = "b", default)]
    pub behind: Vec<Behind>,
}

/// What a node has to fetch from another, as far as it knows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Behind {
    /// The other node.
    #[serde(rename = "n")]
    pub node: NodeId,
    /// Whether it seems to be away.
    #[serde(rename = "a")]
    pub away: bool,
    /// Partitions in which the two differ.
    #[serde(rename = "p")]
    pub partitions: u64,
    /// Rows to look at, at most.
    #[serde(rename = "r")]
    pub rows: u64,
    /// Why it does not go on, if so.
    #[serde(rename = "t")]
    pub trouble: Option<String>,
}

impl Versioned for Care {
    const VERSION: u8 = 1;
}

impl Cluster {
    /// How all nodes of the layout look after what they store, or why they could not be asked; by node. With `scrub`, all of
    /// them begin to scrub first, so many bytes a second fast.
    pub async fn care_of_all(&self, scrub: Option<u64>) -> Vec<(NodeId, Result<Care, String>)> {
        let Some(epoch) = self.epoch() else {
            return Vec::new();
        };
        let layouts = epoch.layouts.iter();
        let roles = layouts.flat_map(|layout| layout.storage_roles());
        let nodes: BTreeSet<NodeId> = roles.map(|role| role.store.node).collect();
        let asked = nodes.into_iter().map(|node| async move {
            let care = self.0.ask_care(node, CareCall { scrub }).await;
            (node, care.map_err(|error| error.to_string()))
        });
        futures_util::future::join_all(asked).await
    }
}

impl Inner {
    async fn ask_care(self: &Arc<Inner>, node: NodeId, call: CareCall) -> Result<Care, Error> {
        if node == self.epochs.me().node {
            return self.serve_care(call).await;
        }
        let alone = || Error::Unavailable("this node is alone".into());
        let peers = self.peers.as_ref().ok_or_else(alone)?;
        let asked = peers.call(&node, method::CARE, Class::Small, &call);
        tokio::time::timeout(ANSWER, asked)
            .await
            .unwrap_or_else(|_| Err(Error::Unavailable("it does not answer".into())))
    }

    /// Answers how this node looks after what it stores.
    pub(crate) async fn serve_care(self: &Arc<Inner>, call: CareCall) -> Result<Care, Error> {
        let cluster = Cluster(self.clone());
        if let Some(rate) = call.scrub {
            cluster.scrub_start(Some(rate)).await?;
            cluster.hurry_mending();
        }
        let blocks = self.store().blocks().clone();
        let disks = self.store().blocks().pool().run(move || Ok(blocks.disks()));
        let failed = disks.await?.into_iter();
        let failed = failed.filter(|disk| disk.state == DiskState::Failed);
        Ok(Care {
            scrub: cluster.scrubbing(),
            mending: cluster.mending(),
            failed_disks: failed
                .map(|disk| (disk.id, disk.reason.unwrap_or_default()))
                .collect(),
            behind: behind(&cluster),
        })
    }
}

/// What this node has to fetch, by node.
fn behind(cluster: &Cluster) -> Vec<Behind> {
    let peers = cluster.healing().peers.into_iter();
    let differ = peers.filter(|peer| peer.away || peer.partitions > 0);
    let each = differ.map(|peer| Behind {
        node: peer.node,
        away: peer.away,
        partitions: peer.partitions,
        rows: peer.rows,
        trouble: peer.trouble,
    });
    each.collect()
}
