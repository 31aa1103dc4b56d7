//! Scrubbing, mending and healing.

use std::fmt;

use archipel_cluster::Cluster;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::{counter, gauge};

/// Registers the metrics of scrubbing, mending and healing.
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
        super::healing::encode(&mut encoder, &self.0)?;
        let (mending, scrub) = (self.0.mending(), self.0.scrubbing());
        let gauges = [
            (
                "archipel_mending_waiting",
                "Damaged or missing blocks that wait for a good copy",
                mending.waiting as f64,
            ),
            (
                "archipel_mending_stuck",
                "Those of them for which no good copy was found yet",
                mending.stuck as f64,
            ),
            (
                "archipel_scrub_running",
                "Whether a scrub runs",
                f64::from(u8::from(scrub.running)),
            ),
            (
                "archipel_scrub_bytes",
                "Bytes that the scrub that runs, or else the last one, has read",
                scrub.bytes as f64,
            ),
            (
                "archipel_scrub_damaged",
                "Damaged blocks that it found",
                scrub.damaged as f64,
            ),
            (
                "archipel_scrub_ended_timestamp_seconds",
                "When the last whole scrub ended; 0 for never",
                scrub.ended_ms as f64 / 1000.0,
            ),
        ];
        for (name, about, value) in gauges {
            gauge(&mut encoder, name, about, value)?;
        }
        let about = "Damaged blocks that were replaced by a good copy";
        counter(&mut encoder, "archipel_mended", about, mending.mended)?;
        let about = "Attempts to replace a damaged block that failed";
        counter(
            &mut encoder,
            "archipel_mending_failed",
            about,
            mending.failed,
        )
    }
}
