//! Metrics of disks and of the metadata's space. File systems are asked for some, and one may hang.

use std::fmt;

use archipel_storage::blocks::{DiskCounts, DiskState, DiskStatus};
use archipel_storage::{Status, Store};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Returns the metrics that file systems are asked for. They have a registry of their own, because
/// reading them lasts for as long as a file system hangs.
pub fn registry(store: Store) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Space(store)));
    registry
}

/// Writes the metrics of disks for which no file system is asked.
pub(super) fn encode(
    disks: &[DiskCounts],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let of = |figure: fn(&DiskCounts) -> u64| disks.iter().map(move |disk| (disk.id, figure(disk)));
    let about = "Bytes used by blocks on the disk";
    gauges(encoder, "used_bytes", about, of(|disk| disk.used_bytes))?;
    let failed = of(|disk| u64::from(disk.state == DiskState::Failed));
    gauges(encoder, "failed", "1 if the disk failed", failed)?;
    let about = "fsync and fdatasync calls on the disk";
    let (name, kind) = ("archipel_disk_fsyncs", MetricType::Counter);
    let mut family = encoder.encode_descriptor(name, about, None, kind)?;
    for (id, fsyncs) in of(|disk| disk.fsyncs) {
        let counter = ConstCounter::new(fsyncs);
        counter.encode(family.encode_family(&[("disk", id.to_string())])?)?;
    }
    Ok(())
}

struct Space(Store);

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Space")
    }
}

impl Collector for Space {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let disks = self.0.blocks().disks();
        let of =
            |figure: fn(&DiskStatus) -> u64| disks.iter().map(move |disk| (disk.id, figure(disk)));
        let about = "Bytes still available on the disk";
        let free = of(|disk| disk.free_bytes);
        gauges(&mut encoder, "free_bytes", about, free)?;
        let about = "Usable bytes of the disk";
        let capacity = of(|disk| disk.total_bytes);
        gauges(&mut encoder, "capacity_bytes", about, capacity)?;
        match self.0.status_blocking() {
            Ok(status) => metadata(&mut encoder, &status),
            Err(error) => {
                tracing::warn!(%error, "the space of the metadata is not known");
                Ok(())
            }
        }
    }
}

/// Writes the space of the metadata.
fn metadata(encoder: &mut DescriptorEncoder<'_>, status: &Status) -> Result<(), fmt::Error> {
    let mut gauge = |name: &str, about: &str, value: f64| {
        let name = format!("archipel_metadata_{name}");
        let gauge = encoder.encode_descriptor(&name, about, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(gauge)
    };
    gauge(
        "bytes",
        "Size of the metadata",
        status.metadata_bytes as f64,
    )?;
    if let Some(free) = status.metadata_free_bytes {
        let about = "Bytes still available on the disk of the metadata";
        gauge("free_bytes", about, free as f64)?;
    }
    gauge(
        "full",
        "1 if the metadata takes no new data: its disk, or LMDB's file of metadata_map_size, is nearly full",
        f64::from(u8::from(!status.has_room)),
    )
}

/// Writes a family of gauges, with the disk's number as label.
fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    about: &str,
    disks: impl Iterator<Item = (u16, u64)>,
) -> Result<(), fmt::Error> {
    let name = format!("archipel_disk_{name}");
    let mut family = encoder.encode_descriptor(&name, about, None, MetricType::Gauge)?;
    for (id, figure) in disks {
        let gauge = ConstGauge::new(figure as f64);
        gauge.encode(family.encode_family(&[("disk", id.to_string())])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use archipel_base::clock::SystemClock;
    use archipel_base::random::SystemRandom;
    use archipel_storage::Threads;
    use prometheus_client::encoding::text::encode;

    use super::*;

    /// A failed disk is known while a file system hangs, and so are all other metrics.
    #[tokio::test]
    async fn only_space_is_asked_of_file_systems() {
        let random = Arc::new(SystemRandom);
        let store = archipel_cluster::memory_store(random, Threads::Inline).unwrap();
        let (mut others, mut space) = (String::new(), String::new());
        let mut registry = Registry::default();
        super::super::register(&mut registry, Arc::new(SystemClock), store.clone());
        encode(&mut others, &registry).unwrap();
        encode(&mut space, &super::registry(store)).unwrap();
        assert!(others.contains("archipel_blocks_"), "{others}");
        for name in ["free_bytes{", "capacity_bytes{"] {
            let name = format!("archipel_disk_{name}");
            assert!(space.contains(&name) && !others.contains(&name), "{name}");
        }
        for name in ["bytes", "full"] {
            let name = format!("\narchipel_metadata_{name} ");
            assert!(space.contains(&name) && !others.contains(&name), "{name}");
        }
        for name in ["used_bytes{", "failed{", "fsyncs_total{"] {
            let name = format!("archipel_disk_{name}");
            assert!(others.contains(&name) && !space.contains(&name), "{name}");
        }
    }
}
