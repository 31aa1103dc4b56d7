//! Metrics of looking nodes up.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::discovery::Lookups;

/// Encodes what each source of `cluster.discover` told.
pub fn encode(lookups: &Lookups, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let told = lookups.told();
    let about = "Addresses of nodes that a source of cluster.discover told last";
    let name = "archipel_discovered_addresses";
    let mut family = encoder.encode_descriptor(name, about, None, MetricType::Gauge)?;
    for (source, told) in &told {
        let gauge = ConstGauge::new(told.addresses.len() as f64);
        gauge.encode(family.encode_family(&[("source", source.as_str())])?)?;
    }
    let about = "Lookups of nodes that failed";
    let name = "archipel_discovery_failures";
    let mut family = encoder.encode_descriptor(name, about, None, MetricType::Counter)?;
    for (source, told) in &told {
        let counter = ConstCounter::new(told.failed);
        counter.encode(family.encode_family(&[("source", source.as_str())])?)?;
    }
    Ok(())
}
