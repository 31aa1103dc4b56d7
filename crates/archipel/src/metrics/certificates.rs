//! Metrics of certificates, from files and from an authority.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::acme::Acme;
use crate::certificates::InUse;

/// Registers the metrics of certificates.
pub fn register(registry: &mut Registry, files: InUse, acme: Option<Acme>) {
    registry.register_collector(Box::new(Certificates { files, acme }));
}

struct Certificates {
    files: InUse,
    acme: Option<Acme>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

impl Collector for Certificates {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let domains = self.acme.as_ref().map(Acme::domains).unwrap_or_default();
        let ends = domains.iter().map(|(name, domain)| {
            let end = domain.not_after_ms.unwrap_or_default() as f64 / 1000.0;
            (name.clone(), end)
        });
        let failures = domains.iter().map(|(name, domain)| {
            let times = domain.failure.as_ref().map_or(0, |(_, times, _)| *times);
            (name.clone(), f64::from(times))
        });
        let files = self.files.ends().into_iter().map(|(file, end_ms)| {
            let file = file.display().to_string();
            (file, end_ms as f64 / 1000.0)
        });
        let mut family = |name: &str, about: &str, label, values: Vec<(String, f64)>| {
            let name = format!("archipel_certificate_{name}");
            let mut family = encoder.encode_descriptor(&name, about, None, MetricType::Gauge)?;
            for (of, value) in values {
                ConstGauge::new(value).encode(family.encode_family(&[(label, of)])?)?;
            }
            Ok::<_, fmt::Error>(())
        };
        family(
            "end_timestamp_seconds",
            "Until when the certificate of a domain in acme.domains is valid; 0 without one",
            "domain",
            ends.collect(),
        )?;
        family(
            "file_end_timestamp_seconds",
            "Until when the certificate in a file of tls.certificates is valid",
            "file",
            files.collect(),
        )?;
        family(
            "failed_orders",
            "Orders of a certificate that have failed since the last one that did not",
            "domain",
            failures.collect(),
        )
    }
}
