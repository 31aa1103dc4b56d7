//! The leases of all nodes: for how long each goes on without a confirmation of its control data.
//!
//! The lease is a setting of each node, so nodes may differ. A node that waits for another one to
//! know of a change must not wait for a shorter time than the other one goes by. So each node's
//! lease is a row.
//!
//! # Invariant
//! Before a node reads the control data, its row says for how long that read will count.

use std::collections::BTreeMap;
use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::{NodeId, PartitionId};
use archipel_cluster::WriteOptions;
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::row;
use crate::Model;
use crate::error::{Error, damaged_row};
use crate::rowkeys::LEASE;

/// The row of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Lease {
    #[serde(rename = "m")]
    millis: u64,
}

impl Versioned for Lease {
    const VERSION: u8 = 1;
}

impl Model {
    /// Makes this node's row say its lease. A change of the setting costs one write.
    pub(super) async fn tell_lease(&self) -> Result<(), Error> {
        let lease = Lease {
            millis: millis(self.control().lease),
        };
        let own = RowKey {
            partition: PartitionId::CONTROL,
            key: key(&self.cluster().me().node),
        };
        let told = self.cluster().metadata(&own).await?;
        if told.is_some_and(|told| codec::decode::<Lease>(&told) == Ok(lease)) {
            return Ok(());
        }
        let value = Some(row(codec::encode(&lease)));
        let how = WriteOptions::durable(Durability::Fsync);
        self.cluster().write(&own, value, how).await?;
        Ok(())
    }

    /// Returns the longest lease of these nodes, and of this one.
    ///
    /// A node whose row changes after this has read all changes that were made before this.
    ///
    /// # Errors
    /// Errors of reading the rows.
    pub(super) async fn longest_lease(&self, nodes: &[NodeId]) -> Result<Duration, Error> {
        let all = self
            .cluster()
            .scan_whole(PartitionId::CONTROL, &Bytes::from_static(&[LEASE]))
            .await?;
        let mut leases = BTreeMap::new();
        for row in all {
            let lease: Lease = codec::decode(&row.metadata).map_err(damaged_row)?;
            leases.insert(row.key.key, Duration::from_millis(lease.millis));
        }
        // A node without a row has read nothing yet.
        let told = nodes.iter().filter_map(|node| leases.get(&key(node)));
        Ok(told.copied().fold(self.control().lease, Duration::max))
    }
}

fn key(node: &NodeId) -> Bytes {
    [&[LEASE], &node.as_bytes()[..]].concat().into()
}

fn millis(lease: Duration) -> u64 {
    lease.as_millis().try_into().unwrap_or(u64::MAX)
}
