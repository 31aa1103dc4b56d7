//! Metrics of event notifications.

use std::fmt;

use archipel_model::{Model, TargetStatus};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Registers the metrics of event notifications.
pub fn register(registry: &mut Registry, model: Model) {
    registry.register_collector(Box::new(Events(model)));
}

struct Events(Model);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Collector for Events {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let targets = self.0.event_status();
        let mut backlog = encoder.encode_descriptor(
            "archipel_events_waiting",
            "Events that wait for a target, in the partitions for which this node delivers",
            None,
            MetricType::Gauge,
        )?;
        for target in &targets {
            let labels = [("target", target.name.as_str())];
            let value = ConstGauge::new(target.backlog as i64);
            value.encode(backlog.encode_family(&labels)?)?;
        }
        let listeners = encoder.encode_descriptor(
            "archipel_event_listeners",
            "Clients that listen to events at this node",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(self.0.event_listeners() as i64).encode(listeners)?;
        type Count = fn(&TargetStatus) -> u64;
        let counters: [(&str, &str, Count); 3] = [
            (
                "archipel_events_delivered",
                "Events that this node brought to a target",
                |target| target.delivered,
            ),
            (
                "archipel_events_failed",
                "Attempts to bring an event to a target that failed; each is tried again",
                |target| target.failed,
            ),
            (
                "archipel_events_dropped",
                "Events that a replica of this node dropped, because too many waited",
                |target| target.dropped,
            ),
        ];
        for (name, about, count) in counters {
            let mut family = encoder.encode_descriptor(name, about, None, MetricType::Counter)?;
            for target in &targets {
                let labels = [("target", target.name.as_str())];
                let value = ConstCounter::new(count(target));
                value.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
