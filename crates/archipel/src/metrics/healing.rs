//! How a node is brought up to date by others, and how floors stand.

use std::fmt;

use archipel_cluster::Cluster;
use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, gauge};

/// Tells all of it.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    cluster: &Cluster,
) -> Result<(), fmt::Error> {
    let healing = cluster.healing();
    let peers = &healing.peers;
    let sum = |of: fn(&archipel_cluster::PeerHealing) -> u64| peers.iter().map(of).sum::<u64>();
    let oldest = peers.iter().map(|peer| peer.whole_ms).min();
    let gauges = [
        (
            "archipel_healing_partitions",
            "Partitions in which other nodes were found to differ, summed over these nodes",
            sum(|peer| peer.partitions) as f64,
        ),
        (
            "archipel_healing_rows",
            "Rows at most that are still to be compared or fetched from other nodes",
            sum(|peer| peer.rows) as f64,
        ),
        (
            "archipel_healing_waiting_bytes",
            "Bytes of blocks that rows at hand wait for",
            healing.waiting_bytes as f64,
        ),
        (
            "archipel_healing_whole_timestamp_seconds",
            "When the last whole pass ended with the node for which this is longest ago; 0 for never",
            oldest.unwrap_or_default() as f64 / 1000.0,
        ),
        (
            "archipel_background_allowance",
            "How many units of 8 rows may be healed or moved at once beside clients; below 1, for which part of the time one may be",
            cluster.background_allowance(),
        ),
        (
            "archipel_floors_waiting",
            "Partitions whose tombstones are old enough to go and wait for a replica",
            healing.floors.waiting as f64,
        ),
        (
            "archipel_floors_oldest_timestamp_seconds",
            "The oldest tombstone that waits; 0 for none",
            healing.floors.oldest_ms as f64 / 1000.0,
        ),
    ];
    for (name, about, value) in gauges {
        gauge(encoder, name, about, value)?;
    }
    let counters = [
        (
            "archipel_healing_passes",
            "Comparisons with other nodes",
            healing.passes,
        ),
        (
            "archipel_healing_calls",
            "Calls that these made",
            healing.calls,
        ),
        (
            "archipel_healing_call_bytes",
            "Bytes of these calls and their answers, without blocks",
            healing.call_bytes,
        ),
        (
            "archipel_healed_rows",
            "Rows that came from other nodes",
            healing.rows,
        ),
        (
            "archipel_healed_block_bytes",
            "Bytes of blocks that came with them",
            healing.block_bytes,
        ),
        (
            "archipel_floors_moved",
            "Floors that this node moved",
            healing.floors.moved,
        ),
        (
            "archipel_floors_dropped",
            "Tombstones and promises that went",
            healing.floors.dropped,
        ),
    ];
    for (name, about, value) in counters {
        counter(encoder, name, about, value)?;
    }
    Ok(())
}
