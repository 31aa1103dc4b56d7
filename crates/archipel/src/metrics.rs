//! Metrics that are read when they are asked for: of the process, and of storage.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::clock::WallClock;
use archipel_storage::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::{process, version};

/// Registers the metrics of the process, the build and the store.
pub fn register(registry: &mut Registry, clock: Arc<dyn WallClock>, store: Store) {
    let build = vec![
        ("version", version::VERSION),
        ("commit", version::COMMIT.unwrap_or("unknown")),
    ];
    registry.register(
        "archipel_build",
        "What the program was built from",
        Info::new(build),
    );
    let started_ms = clock.now_millis();
    registry.register_collector(Box::new(Process { started_ms }));
    registry.register_collector(Box::new(Storage(store)));
}

/// The process; the names are those that all exporters use.
#[derive(Debug)]
struct Process {
    started_ms: u64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let started = self.started_ms as f64 / 1000.0;
        let about = "When the process started, in seconds since 1970";
        gauge(&mut encoder, "process_start_time_seconds", about, started)?;
        if let Some(bytes) = process::resident_bytes() {
            let about = "Memory that the process holds";
            gauge(
                &mut encoder,
                "process_resident_memory_bytes",
                about,
                bytes as f64,
            )?;
        }
        if let Some(files) = process::open_files() {
            gauge(
                &mut encoder,
                "process_open_fds",
                "Files that are open",
                files as f64,
            )?;
        }
        Ok(())
    }
}

/// The store.
struct Storage(Store);

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Storage")
    }
}

impl Collector for Storage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counters = self.0.counters();
        let all: [(&str, &str, &AtomicU64); 6] = [
            (
                "commits",
                "Commits of the metadata engine",
                &counters.commits,
            ),
            (
                "durable_commits",
                "Commits that went to stable storage",
                &counters.durable_commits,
            ),
            (
                "syncs",
                "Syncs of the metadata engine besides commits",
                &counters.syncs,
            ),
            (
                "transactions",
                "Transactions that were committed",
                &counters.transactions,
            ),
            (
                "transactions_without_effect",
                "Transactions that failed, were refused or changed nothing",
                &counters.without_effect,
            ),
            ("reads", "Reads of metadata", &counters.reads),
        ];
        for (name, about, value) in all {
            let name = format!("archipel_storage_{name}");
            counter(&mut encoder, &name, about, value.load(Ordering::Relaxed))?;
        }
        Ok(())
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    about: &str,
    value: f64,
) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(value);
    let metric = encoder.encode_descriptor(name, about, None, gauge.metric_type())?;
    gauge.encode(metric)
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    about: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let counter = ConstCounter::new(value);
    let metric = encoder.encode_descriptor(name, about, None, counter.metric_type())?;
    counter.encode(metric)
}
