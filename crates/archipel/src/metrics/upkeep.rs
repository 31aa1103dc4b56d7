//! Metrics of feature levels, scrubbing, block repair and anti-entropy.

use std::fmt;

use archipel_cluster::Cluster;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::{counter, gauge};

/// Registers the metrics of feature levels, scrubbing, block repair and anti-entropy.
pub fn register(registry: &mut Registry, cluster: Cluster) {
    registry.register_collector(Box::new(Upkeep(cluster)));
}

struct Upkeep(Cluster);

impl fmt::Debug for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upkeep")
    }
}

impl Collector for Upkeep {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        super::anti_entropy::encode(&mut encoder, &self.0)?;
        let (repair, scrub) = (
            self.0.upkeep().repair_status(),
            self.0.upkeep().scrub_status(),
        );
        let level = self.0.epoch().map_or(0, |epoch| epoch.level);
        let gauges = [
            (
                "archipel_cluster_feature_level",
                "The cluster's feature level; 0 if the node is in no layout",
                f64::from(level),
            ),
            (
                "archipel_node_feature_level",
                "The highest feature level that this node speaks; below the cluster's, it serves nothing",
                f64::from(self.0.level()),
            ),
            (
                "archipel_repair_waiting",
                "Damaged or missing blocks that wait for a good copy",
                repair.waiting as f64,
            ),
            (
                "archipel_repair_stuck",
                "Waiting blocks for which no good copy was found yet",
                repair.stuck as f64,
            ),
            (
                "archipel_scrub_running",
                "1 while a scrub runs",
                f64::from(u8::from(scrub.running)),
            ),
            (
                "archipel_scrub_bytes",
                "Bytes read by the running scrub, or by the last one",
                scrub.bytes as f64,
            ),
            (
                "archipel_scrub_damaged",
                "Damaged blocks found by that scrub",
                scrub.damaged as f64,
            ),
            (
                "archipel_scrub_ended_timestamp_seconds",
                "End of the last complete scrub; 0 if there is none",
                scrub.ended_ms as f64 / 1000.0,
            ),
        ];
        for (name, about, value) in gauges {
            gauge(&mut encoder, name, about, value)?;
        }
        let about = "Damaged blocks replaced by a good copy";
        counter(&mut encoder, "archipel_repaired", about, repair.repaired)?;
        let about = "Failed attempts to replace a damaged block";
        counter(&mut encoder, "archipel_repair_failed", about, repair.failed)
    }
}
