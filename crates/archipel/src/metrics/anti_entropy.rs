//! Metrics of anti-entropy and of tombstone floors.

use std::fmt;

use archipel_cluster::Cluster;
use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, gauge};

/// Writes all of these metrics.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    cluster: &Cluster,
) -> Result<(), fmt::Error> {
    let status = cluster.upkeep().anti_entropy_status();
    let peers = &status.peers;
    let sum = |of: fn(&archipel_cluster::PeerStatus) -> u64| peers.iter().map(of).sum::<u64>();
    let oldest = peers.iter().map(|peer| peer.whole_ms).min();
    let gauges = [
        (
            "archipel_anti_entropy_partitions",
            "Partitions that differ from another node, summed over the other nodes",
            sum(|peer| peer.partitions) as f64,
        ),
        (
            "archipel_anti_entropy_rows",
            "Upper limit of the rows to compare with or to fetch from other nodes",
            sum(|peer| peer.rows) as f64,
        ),
        (
            "archipel_anti_entropy_waiting_bytes",
            "Bytes of blocks that fetched rows still need",
            status.waiting_bytes as f64,
        ),
        (
            "archipel_anti_entropy_whole_timestamp_seconds",
            "End of the last complete pass, of the node with the oldest one; 0 if there is none",
            oldest.unwrap_or_default() as f64 / 1000.0,
        ),
        (
            "archipel_background_allowance",
            "Units of 8 rows that anti-entropy and rebalancing may process at once beside clients; below 1, the share of time for one unit",
            cluster.background_allowance(),
        ),
        (
            "archipel_floors_waiting",
            "Partitions whose expired tombstones wait for a replica",
            status.floors.waiting as f64,
        ),
        (
            "archipel_floors_oldest_timestamp_seconds",
            "Time of the oldest waiting tombstone; 0 if there is none",
            status.floors.oldest_ms as f64 / 1000.0,
        ),
    ];
    for (name, about, value) in gauges {
        gauge(encoder, name, about, value)?;
    }
    let counters = [
        (
            "archipel_anti_entropy_passes",
            "Comparisons with other nodes",
            status.passes,
        ),
        (
            "archipel_anti_entropy_calls",
            "Calls made by these comparisons",
            status.calls,
        ),
        (
            "archipel_anti_entropy_call_bytes",
            "Bytes of these calls and their answers, without blocks",
            status.call_bytes,
        ),
        (
            "archipel_anti_entropy_applied_rows",
            "Rows received from other nodes",
            status.rows,
        ),
        (
            "archipel_anti_entropy_fetched_bytes",
            "Bytes of blocks received with these rows",
            status.block_bytes,
        ),
        (
            "archipel_floors_moved",
            "Floors raised by this node",
            status.floors.moved,
        ),
        (
            "archipel_floors_dropped",
            "Removed tombstones and promises",
            status.floors.dropped,
        ),
    ];
    for (name, about, value) in counters {
        counter(encoder, name, about, value)?;
    }
    Ok(())
}
