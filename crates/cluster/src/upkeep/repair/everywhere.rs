//! The maintenance of all nodes: its status, and a scrub of all of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::codec::Versioned;
use archipel_base::{BlockHash, NodeId, Stamp, boxed};
use archipel_net::Class;
use archipel_storage::RowKey;
use archipel_storage::blocks::{DiskState, DiskStatus};
use serde::{Deserialize, Serialize};

use super::look_up::BlockReport;
use super::{RepairStatus, ScrubStatus};
use crate::error::Error;
use crate::node::wire::method;
use crate::upkeep::Upkeep;
use crate::upkeep::anti_entropy::PeerStatus;
use crate::upkeep::verify::VerificationState;

/// The time that a node may take to answer.
const ANSWER: Duration = Duration::from_secs(3);
/// The time that it may take to look a block up, for which it reads the payloads of all rows, or to
/// read all blocks of a row.
const BLOCK_ANSWER: Duration = Duration::from_secs(40);

/// Asks a node for its maintenance status.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MaintenanceCall {
    /// Begins a scrub first, with this many bytes a second, and retries failed repairs at once.
    #[serde(rename = "s", default)]
    pub scrub: Option<u64>,
    /// Stops the scrub.
    #[serde(rename = "x", default)]
    pub stop: bool,
    /// Looks this block up.
    #[serde(rename = "b", default)]
    pub block: Option<BlockHash>,
    /// Reads the blocks of this row, if it has this stamp there.
    #[serde(rename = "l", default)]
    pub row: Option<(RowKey, Stamp)>,
}

impl Versioned for MaintenanceCall {
    const VERSION: u8 = 1;
}

/// The state of a node's scrub and repairs.
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
    /// The space of its disks; absent from older releases.
    #[serde(rename = "d", default)]
    pub space: Option<DiskSpace>,
    /// The nodes from which it has rows to fetch, or may have.
    #[serde(rename = "b", default)]
    pub lagging: Vec<Lagging>,
    /// True while it compares its rows with another node, or is about to because it was asked to.
    #[serde(rename = "a", default)]
    pub comparing: bool,
    /// The last verification that it was asked for.
    #[serde(rename = "v", default)]
    pub verification: Option<VerificationState>,
    /// Its report on the block that it was asked for.
    #[serde(rename = "k", default)]
    pub block: Option<BlockReport>,
    /// True if it has lost a block of the row that it was asked for.
    #[serde(rename = "l", default)]
    pub lost: Option<bool>,
}

/// The space of all disks of a node that work, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DiskSpace {
    /// The space that blocks take.
    #[serde(rename = "u")]
    pub used: u64,
    /// The space that may still be written.
    #[serde(rename = "f")]
    pub free: u64,
    /// The size of the disks.
    #[serde(rename = "t")]
    pub total: u64,
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
    /// The reason why the work does not continue, if so.
    #[serde(rename = "t")]
    pub trouble: Option<String>,
}

impl Versioned for MaintenanceStatus {
    const VERSION: u8 = 1;
}

impl Upkeep {
    /// Returns the maintenance status of all nodes of the layout, by node, or why a node could not
    /// be asked. With `scrub`, all of them begin a scrub first, with this many bytes a second.
    #[boxed]
    pub async fn maintenance_of_all(
        self: &Arc<Upkeep>,
        scrub: Option<u64>,
    ) -> Vec<(NodeId, Result<MaintenanceStatus, String>)> {
        let call = MaintenanceCall {
            scrub,
            ..MaintenanceCall::default()
        };
        let call = &call;
        let asked = self.storing_nodes().into_iter().map(|node| async move {
            let status = self.ask_maintenance(node, call, ANSWER).await;
            (node, status.map_err(|error| error.to_string()))
        });
        futures_util::future::join_all(asked).await
    }
}

impl Upkeep {
    /// Stops the scrub of a node, and returns its maintenance status after that.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it does not answer.
    #[boxed]
    pub async fn stop_scrub_of(
        self: &Arc<Upkeep>,
        node: NodeId,
    ) -> Result<MaintenanceStatus, Error> {
        let call = MaintenanceCall {
            stop: true,
            ..MaintenanceCall::default()
        };
        self.ask_maintenance(node, &call, ANSWER).await
    }

    /// Returns the nodes of the layout that hold data.
    pub(super) fn storing_nodes(&self) -> BTreeSet<NodeId> {
        let epoch = self.epoch();
        let layouts = epoch.iter().flat_map(|epoch| &epoch.layouts);
        let roles = layouts.flat_map(|layout| layout.storage_roles());
        roles.map(|role| role.store.node).collect()
    }

    /// Asks a node whether it holds a row under this stamp and has lost one of its blocks.
    pub(in crate::upkeep) async fn ask_for_losses(
        self: &Arc<Upkeep>,
        node: NodeId,
        row: &RowKey,
        stamp: Stamp,
    ) -> Result<bool, Error> {
        let call = MaintenanceCall {
            row: Some((row.clone(), stamp)),
            ..MaintenanceCall::default()
        };
        let told = self.ask_maintenance(node, &call, BLOCK_ANSWER).await?;
        let old = || Error::Unavailable("its release does not tell what it has lost".into());
        told.lost.ok_or_else(old)
    }

    /// Asks a node what it knows of a block.
    pub(super) async fn ask_for_block(
        self: &Arc<Upkeep>,
        node: NodeId,
        hash: BlockHash,
    ) -> Result<BlockReport, String> {
        let call = MaintenanceCall {
            block: Some(hash),
            ..MaintenanceCall::default()
        };
        let told = self.ask_maintenance(node, &call, BLOCK_ANSWER).await;
        let told = told.map_err(|error| error.to_string())?;
        let old = || "its release does not look blocks up".to_owned();
        told.block.ok_or_else(old)
    }

    /// Asks a node, which may be this one: its disks may hang, too.
    async fn ask_maintenance(
        self: &Arc<Upkeep>,
        node: NodeId,
        call: &MaintenanceCall,
        time: Duration,
    ) -> Result<MaintenanceStatus, Error> {
        let asked = async {
            if node == self.epochs.me().node {
                return self.serve_maintenance(call.clone()).await;
            }
            let peers = self.peers()?;
            // Calls of class `Small` measure the distance of a node. This one takes too long for that.
            let class = match time > ANSWER {
                true => Class::Background,
                false => Class::Small,
            };
            // `time` is over first, so that a slow answer is not reported as a node that does not
            // answer.
            let limit = time + peers.times.call;
            let method = method::MAINTENANCE;
            peers.call_within(&node, method, class, limit, call).await
        };
        tokio::time::timeout(time, asked)
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
        if call.stop {
            upkeep.scrub_stop().await?;
        }
        let disks = self.store().blocks().ask_disks().await?;
        let anti_entropy = upkeep.anti_entropy_status();
        let (failed, working): (Vec<_>, Vec<_>) = disks
            .into_iter()
            .partition(|disk| disk.state == DiskState::Failed);
        Ok(MaintenanceStatus {
            scrub: upkeep.scrub_status(),
            repairs: upkeep.repair_status(),
            failed_disks: failed
                .into_iter()
                .map(|disk| (disk.id, disk.reason.unwrap_or_default()))
                .collect(),
            space: Some(space(&working)),
            lagging: lagging(anti_entropy.peers),
            comparing: anti_entropy.busy,
            verification: upkeep.verification().map(|asked| asked.state()),
            block: match call.block {
                Some(hash) => Some(upkeep.look_up_block(hash).await?),
                None => None,
            },
            lost: match call.row {
                Some((row, stamp)) => Some(upkeep.has_lost(&row, stamp).await?),
                None => None,
            },
        })
    }
}

/// Returns the space of disks together.
fn space(disks: &[DiskStatus]) -> DiskSpace {
    let mut space = DiskSpace::default();
    for disk in disks {
        space.used = space.used.saturating_add(disk.used_bytes);
        space.free = space.free.saturating_add(disk.free_bytes);
        space.total = space.total.saturating_add(disk.total_bytes);
    }
    space
}

/// Returns what this node has to fetch, by node. The counts alone do not tell: a pass that failed may
/// have counted no partition, and one that left rows has counted them down to 0.
fn lagging(peers: Vec<PeerStatus>) -> Vec<Lagging> {
    let peers = peers.into_iter();
    let differ = peers.filter(|peer| peer.away || peer.partitions > 0 || peer.trouble.is_some());
    let each = differ.map(|peer| Lagging {
        node: peer.node,
        away: peer.away,
        partitions: peer.partitions,
        rows: peer.rows,
        trouble: peer.trouble,
    });
    each.collect()
}

#[cfg(test)]
mod tests;
