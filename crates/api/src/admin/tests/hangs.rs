//! File systems that hang.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use archipel_base::random::{Random, SeededRandom};
use archipel_base::{BlockHash, NodeId, PartitionId};
use archipel_cluster::{Cluster, RepairStatus, Trouble, memory_store};
use archipel_model::{HOOKS, Model};
use archipel_storage::RowKey;
use archipel_storage::store::Threads;
use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::super::node::{DISKS_TIMEOUT, encoded};
use super::super::upkeep::{names_deadline, repair_counts};
use super::{OK, admin, admin_of, get};

/// A figure that takes until the sender is dropped.
struct Hanging {
    begun: Arc<AtomicUsize>,
    open: Mutex<mpsc::Receiver<()>>,
}

impl fmt::Debug for Hanging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hanging")
    }
}

impl Collector for Hanging {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let _ = self.open.lock().recv();
        let gauge = ConstGauge::new(1.0);
        let metric = encoder.encode_descriptor("hanging", "A figure", None, gauge.metric_type())?;
        gauge.encode(metric)
    }
}

/// The threads are few, and uploads need them, too. Other metrics are needed most during a fault.
#[tokio::test]
async fn figures_of_disks_that_hang_take_one_thread_and_are_left_out() {
    let (close, open) = mpsc::channel();
    let begun = Arc::new(AtomicUsize::new(0));
    let mut of_disks = Registry::default();
    of_disks.register_collector(Box::new(Hanging {
        begun: begun.clone(),
        open: Mutex::new(open),
    }));
    let admin = admin().await.with_disk_metrics(Arc::new(of_disks));
    tokio::time::pause();
    for _ in 0..3 {
        let reader = admin.clone();
        let reading = tokio::spawn(async move { encoded(&reader).await.ok() });
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        // The clock does not move by itself while a blocking thread works.
        tokio::time::advance(2 * DISKS_TIMEOUT).await;
        let text = reading.await.unwrap().unwrap();
        assert!(text.contains("things_total 0"), "{text}");
        assert!(
            !text.contains("hanging") && text.ends_with("# EOF\n"),
            "{text}"
        );
    }
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    drop(close);
}

/// Anybody may ask for it, again and again.
#[tokio::test]
async fn health_reads_nothing_from_storage() {
    let admin = admin().await;
    let counters = admin.model.cluster().store().counters();
    let before = counters.reads.load(Ordering::SeqCst);
    for path in ["/health", "/health/live", "/health/quorum"] {
        assert_eq!(get(&admin, path).await.0, OK, "{path}");
    }
    assert_eq!(counters.reads.load(Ordering::SeqCst), before);
    get(&admin, "/v1/status").await;
    assert!(counters.reads.load(Ordering::SeqCst) > before);
}

/// Only its row names what an extent belongs to.
#[tokio::test]
async fn names_that_storage_does_not_tell_are_not_waited_for() {
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(1));
    let store = memory_store(random.clone(), Threads::Own).unwrap();
    let cluster = Cluster::with_store(store.clone(), NodeId::default(), random, HOOKS, None);
    let cluster = cluster.await.unwrap();
    cluster.found("here", 1 << 40).await.unwrap();
    let admin = admin_of(Model::open(cluster).await.unwrap(), &[]);
    let mut jobs = Vec::new();
    // As many as there are threads, and more.
    for _ in 0..64 {
        let (close, open) = mpsc::channel::<()>();
        let hangs = move || {
            let _ = open.recv();
            Ok(())
        };
        let mut job = Box::pin(store.blocks().pool().run(hangs));
        assert!(job.as_mut().now_or_never().is_none());
        jobs.push((job, close));
    }
    let extent = |name: &'static [u8]| RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(name),
    };
    let repair = RepairStatus {
        stuck: 1,
        troubles: vec![Trouble {
            hash: BlockHash::of(b"damaged"),
            why: "no replica has it".into(),
            rows: vec![extent(b"x one"), extent(b"x two")],
        }],
        ..RepairStatus::default()
    };
    tokio::time::pause();
    let told = repair_counts(&admin, repair, names_deadline()).await;
    assert_eq!(
        told.troubles[0].used_by,
        ["something whose name cannot be read now"]
    );
    drop(jobs);
}
