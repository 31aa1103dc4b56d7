//! The maintenance of all nodes: its status, and a scrub of all of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::codec::Versioned;
use archipel_net::Class;
use archipel_storage::blocks::DiskState;
use serde::{Deserialize, Serialize};

use super::{RepairStatus, ScrubStatus};
use crate::error::Error;
use crate::node::wire::method;
use crate::upkeep::Upkeep;

/// How long a node may take to answer.
const ANSWER: Duration = Duration::from_secs(3);

/// Asks a node for its maintenance status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MaintenanceCall {
    /// Begins a scrub first, with this many bytes a second, and retries failed repairs at once.
    #[serde(rename = "s", default)]
    pub scrub: Option<u64>,
}

impl Versioned for MaintenanceCall {
    const VERSION: u8 = 1;
}

/// How a node scrubs and repairs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MaintenanceStatus {
    /// The scrub.
    #[serde(rename = "s")]
    pub scrub: ScrubStatus,
    /// The repairs.
    #[serde(rename = "m")]
    pub repairs: RepairStatus,
    /// The numbers of the disks that failed, each with the reason.
    #[serde(rename = "f", default)]
    pub failed_disks: Vec<(u16, String)>,
    /// The nodes from which it has rows to fetch, or may have.
    #[serde(rename = "b", default)]
    pub lagging: Vec<Lagging>,
}

/// The rows that a node has to fetch from another node, as far as it knows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lagging {
    /// The other node.
    #[serde(rename = "n")]
    pub node: NodeId,
    /// True if the other node is suspected.
    #[serde(rename = "a")]
    pub away: bool,
    /// Partitions in which the two nodes differ.
    #[serde(rename = "p")]
    pub partitions: u64,
    /// Rows to look at, at most.
    #[serde(rename = "r")]
    pub rows: u64,
    /// Why the work does not continue, if so.
    #[serde(rename = "t")]
    pub trouble: Option<String>,
}

impl Versioned for MaintenanceStatus {
    const VERSION: u8 = 1;
}

impl Upkeep {
    /// Returns the maintenance status of all nodes of the layout, by node, or why a node could not
    /// be asked. With `scrub`, all of them begin a scrub first, with this many bytes a second.
    pub async fn maintenance_of_all(
        self: &Arc<Upkeep>,
        scrub: Option<u64>,
    ) -> Vec<(NodeId, Result<MaintenanceStatus, String>)> {
        let Some(epoch) = self.epoch() else {
            return Vec::new();
        };
        let layouts = epoch.layouts.iter();
        let roles = layouts.flat_map(|layout| layout.storage_roles());
        let nodes: BTreeSet<NodeId> = roles.map(|role| role.store.node).collect();
        let asked = nodes.into_iter().map(|node| async move {
            let status = self.ask_maintenance(node, MaintenanceCall { scrub }).await;
            (node, status.map_err(|error| error.to_string()))
        });
        futures_util::future::join_all(asked).await
    }
}

impl Upkeep {
    async fn ask_maintenance(
        self: &Arc<Upkeep>,
        node: NodeId,
        call: MaintenanceCall,
    ) -> Result<MaintenanceStatus, Error> {
        if node == self.epochs.me().node {
            return self.serve_maintenance(call).await;
        }
        let peers = self.peers()?;
        let asked = peers.call(&node, method::MAINTENANCE, Class::Small, &call);
        tokio::time::timeout(ANSWER, asked)
            .await
            .unwrap_or_else(|_| Err(Error::Unavailable("it does not answer".into())))
    }

    /// Answers with this node's maintenance status.
    pub(crate) async fn serve_maintenance(
        self: &Arc<Upkeep>,
        call: MaintenanceCall,
    ) -> Result<MaintenanceStatus, Error> {
        let upkeep = self;
        if let Some(rate) = call.scrub {
            upkeep.scrub_start(Some(rate)).await?;
            upkeep.retry_repairs();
        }
        let blocks = self.store().blocks().clone();
        let disks = self.store().blocks().pool().run(move || Ok(blocks.disks()));
        let failed = disks.await?.into_iter();
        let failed = failed.filter(|disk| disk.state == DiskState::Failed);
        Ok(MaintenanceStatus {
            scrub: upkeep.scrub_status(),
            repairs: upkeep.repair_status(),
            failed_disks: failed
                .map(|disk| (disk.id, disk.reason.unwrap_or_default()))
                .collect(),
            lagging: lagging(upkeep),
        })
    }
}

/// Returns what this node has to fetch, by node.
fn lagging(upkeep: &Arc<Upkeep>) -> Vec<Lagging> {
    let peers = upkeep.anti_entropy_status().peers.into_iter();
    let differ = peers.filter(|peer| peer.away || peer.partitions > 0);
    let each = differ.map(|peer| Lagging {
        node: peer.node,
        away: peer.away,
        partitions: peer.partitions,
        rows: peer.rows,
        trouble: peer.trouble,
    });
    each.collect()
}
