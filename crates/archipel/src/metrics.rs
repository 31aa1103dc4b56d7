//! Metrics of the process and of storage, read when they are requested.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::clock::WallClock;
use archipel_storage::Store;
use archipel_storage::blocks::Counter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::network::Links;
use crate::{process, version};

mod anti_entropy;
pub mod certificates;
pub mod disks;
pub mod events;
mod journal;
pub mod keyring;
pub mod lifecycle;
mod lookups;
mod peers;
pub mod traces;
pub mod upkeep;

/// Registers the metrics of the process, the build and the store, without those that file systems are
/// asked for.
pub fn register(registry: &mut Registry, clock: Arc<dyn WallClock>, store: Store) {
    let build = vec![
        ("version", version::VERSION),
        ("commit", version::COMMIT.unwrap_or("unknown")),
    ];
    registry.register(
        "archipel_build",
        "The version and commit of the program",
        Info::new(build),
    );
    let started_ms = clock.now_millis();
    registry.register_collector(Box::new(Process { started_ms }));
    registry.register_collector(Box::new(Storage(store)));
}

/// Registers the metrics of the network between nodes.
pub fn register_links(registry: &mut Registry, links: Links) {
    registry.register_collector(Box::new(peers::Peers(links)));
}

/// A collector of process metrics, with the names that all exporters use.
#[derive(Debug)]
struct Process {
    started_ms: u64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let started = self.started_ms as f64 / 1000.0;
        let about = "Start time of the process, in seconds since 1970";
        gauge(&mut encoder, "process_start_time_seconds", about, started)?;
        if let Some(memory) = process::memory() {
            let about = "Resident memory of the process, including pages of mapped files";
            let (name, value) = ("process_resident_memory_bytes", memory.resident as f64);
            gauge(&mut encoder, name, about, value)?;
            let about = "Private memory of the process: heaps and stacks";
            let (name, value) = ("process_anonymous_memory_bytes", memory.anonymous as f64);
            gauge(&mut encoder, name, about, value)?;
        }
        if let Some(files) = process::open_files() {
            gauge(&mut encoder, "process_open_fds", "Open files", files as f64)?;
        }
        Ok(())
    }
}

/// A collector of metrics of the store.
struct Storage(Store);

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Storage")
    }
}

impl Collector for Storage {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.metadata(&mut encoder)?;
        self.blocks(&mut encoder)?;
        let about = "Damaged blocks that are still referred to";
        let damaged = self.0.blocks().damaged().len();
        gauge(
            &mut encoder,
            "archipel_blocks_damaged_now",
            about,
            damaged as f64,
        )?;
        gauge(
            &mut encoder,
            "archipel_blocks_unsearched_segments",
            "Segments not yet searched for space that the last run did not free",
            self.0.blocks().unsearched_segments() as f64,
        )?;
        disks::encode(&self.0.blocks().disk_counts(), &mut encoder)
    }
}

impl Storage {
    fn metadata(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counters = self.0.counters();
        let all: [(&str, &str, &AtomicU64); 6] = [
            (
                "commits",
                "Commits of the metadata engine",
                &counters.commits,
            ),
            (
                "durable_commits",
                "Commits synced to stable storage",
                &counters.durable_commits,
            ),
            (
                "syncs",
                "Syncs of the metadata engine besides commits",
                &counters.syncs,
            ),
            (
                "transactions",
                "Committed transactions",
                &counters.transactions,
            ),
            (
                "transactions_without_effect",
                "Transactions that failed, were refused, or changed nothing",
                &counters.without_effect,
            ),
            ("reads", "Reads of metadata", &counters.reads),
        ];
        all.iter().try_for_each(|(name, about, value)| {
            let name = format!("archipel_metadata_{name}");
            counter(encoder, &name, about, value.load(Ordering::Relaxed))
        })?;
        journal::encode(&self.0.journal().unwrap_or_default(), encoder)
    }

    fn blocks(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counters = self.0.blocks().counters();
        let all: [(&str, &str, &Counter); 13] = [
            ("appended", "Blocks written", &counters.appended),
            (
                "content_bytes",
                "Bytes of blocks written, before compression",
                &counters.content_bytes,
            ),
            (
                "written_bytes",
                "Bytes written to disks for blocks, with headers",
                &counters.written_bytes,
            ),
            (
                "deduplicated",
                "Blocks that were already stored",
                &counters.deduplicated,
            ),
            (
                "saved_bytes",
                "Bytes saved by compression",
                &counters.saved_bytes,
            ),
            ("read", "Blocks read and verified", &counters.read),
            (
                "read_bytes",
                "Bytes of blocks read from disks",
                &counters.read_bytes,
            ),
            (
                "damaged",
                "Damaged or unreadable blocks found",
                &counters.damaged,
            ),
            (
                "healed",
                "Damaged blocks replaced by a good copy",
                &counters.repaired,
            ),
            ("freed", "Blocks freed", &counters.freed),
            (
                "punched_bytes",
                "Bytes returned to file systems",
                &counters.punched_bytes,
            ),
            (
                "missing",
                "Released references to blocks missing in the index",
                &counters.missing,
            ),
            (
                "free_errors",
                "Failed calls that free space",
                &counters.free_errors,
            ),
        ];
        all.iter().try_for_each(|(name, about, value)| {
            counter(
                encoder,
                &format!("archipel_blocks_{name}"),
                about,
                value.get(),
            )
        })
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
