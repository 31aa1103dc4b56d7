//! Metrics of lifecycle rules.

use std::fmt;

use archipel_model::Model;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::{counter, gauge};

/// Registers the metrics of lifecycle rules.
pub fn register(registry: &mut Registry, model: Model) {
    registry.register_collector(Box::new(Lifecycle(model)));
}

struct Lifecycle(Model);

impl fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lifecycle")
    }
}

impl Collector for Lifecycle {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = self.0.expiry_status();
        let seconds = |ms: u64| ms as f64 / 1000.0;
        let gauges = [
            (
                "archipel_lifecycle_buckets",
                "Buckets with lifecycle rules that may remove something",
                status.buckets as f64,
            ),
            (
                "archipel_lifecycle_running",
                "1 while this node applies lifecycle rules",
                f64::from(u8::from(status.running)),
            ),
            (
                "archipel_lifecycle_ended_timestamp_seconds",
                "End of the last walk by lifecycle rules; 0 if there was none",
                seconds(status.ended_ms),
            ),
            (
                "archipel_lifecycle_next_timestamp_seconds",
                "Time of the next walk by lifecycle rules; 0 if there are no rules",
                seconds(status.next_ms.unwrap_or_default()),
            ),
        ];
        for (name, about, value) in gauges {
            gauge(&mut encoder, name, about, value)?;
        }
        let counts = status.counts;
        let counters = [
            (
                "archipel_lifecycle_examined",
                "Rows that were looked at by lifecycle rules",
                counts.examined,
            ),
            (
                "archipel_lifecycle_expired_objects",
                "Objects that were removed or covered by a delete marker by lifecycle rules",
                counts.objects,
            ),
            (
                "archipel_lifecycle_expired_versions",
                "Noncurrent versions that were removed by lifecycle rules",
                counts.versions,
            ),
            (
                "archipel_lifecycle_expired_markers",
                "Delete markers that were removed by lifecycle rules as the only version",
                counts.markers,
            ),
            (
                "archipel_lifecycle_expired_bytes",
                "Bytes that were removed by lifecycle rules",
                counts.bytes,
            ),
            (
                "archipel_lifecycle_aborted_uploads",
                "Uploads that were aborted by lifecycle rules",
                counts.uploads,
            ),
            (
                "archipel_lifecycle_failed",
                "Removals by lifecycle rules that failed and are tried again",
                counts.failed,
            ),
        ];
        for (name, about, value) in counters {
            counter(&mut encoder, name, about, value)?;
        }
        Ok(())
    }
}
