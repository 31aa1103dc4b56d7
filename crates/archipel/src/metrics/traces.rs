//! Metrics of the export of traces.

use std::fmt;

use archipel_traces::Tracer;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::counter;

/// Registers the metrics of the export of traces.
pub fn register(registry: &mut Registry, tracer: Tracer) {
    registry.register_collector(Box::new(Spans(tracer)));
}

struct Spans(Tracer);

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spans")
    }
}

impl Collector for Spans {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.counts();
        let counters = [
            (
                "archipel_traces_exported",
                "Spans that the collector of traces took",
                counts.exported,
            ),
            (
                "archipel_traces_dropped",
                "Spans for which the queue to the collector of traces had no room",
                counts.dropped,
            ),
            (
                "archipel_traces_failed",
                "Spans that could not be sent to the collector of traces",
                counts.failed,
            ),
        ];
        for (name, about, value) in counters {
            counter(&mut encoder, name, about, value)?;
        }
        Ok(())
    }
}
