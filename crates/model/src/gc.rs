//! Garbage collection (GC): finds content that no row refers to any more, and drops it.
//!
//! Each node has a durable queue of GC tasks. A task names content and its owner. The transaction
//! that makes a task necessary also queues it: the replacement of a row that refers to content in
//! other rows, and the begin of a tail. No timer decides. GC drops content only if all of this
//! holds:
//!
//! - The owner's row does not refer to the content and never will again. GC settles the row, so
//!   that a write that only a minority holds cannot become its value later.
//! - No node writes or reads the content.
//!
//! | module | what it holds |
//! |---|---|
//! | `task` | the tasks, and which replacements queue one |
//! | `collect` | one task: asks the owner, drops what it does not need |

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use archipel_base::{Id, PartitionId, boxed, codec};
use archipel_cluster::Cluster;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Model;
use crate::error::{Error, damaged_row};
use crate::in_use::InUse;
use crate::version::Versioning;

mod collect;
mod task;

pub(crate) use collect::{has_tail, listed_parts, listed_parts_of_kept};
pub(crate) use task::{GcTask, on_replace};

/// The number of queue entries that are read at once.
const BATCH: usize = 64;
/// The delay of a task, and the additional delay for each replica that comes before this one.
pub(crate) const DELAY: Duration = Duration::from_secs(3);

/// The pause of GC before it looks again at tasks whose content was in use.
const GC_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest pause of GC. Under load, clients replace content all the time, and each task waits
/// for longer than this anyway.
const GC_REST: Duration = Duration::from_millis(500);

impl Model {
    /// Runs GC in the background until it is dropped: after each replacement, and every few
    /// seconds. Run it in a task of its own.
    #[boxed]
    pub async fn run_gc(&self) {
        loop {
            let pause = match self.run_due_gc_tasks().await {
                Ok(report) if report.delayed > 0 => DELAY,
                Ok(_) => GC_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "garbage collection failed and will be tried again");
                    GC_INTERVAL
                }
            };
            tokio::time::sleep(GC_REST).await;
            let _ = tokio::time::timeout(pause, self.inner.gc_wake.notified()).await;
        }
    }

    /// Runs the queued GC tasks whose delay is over, each once.
    #[boxed]
    pub async fn run_due_gc_tasks(&self) -> Result<GcReport, Error> {
        self.run_gc_tasks(Some(&self.inner.gc_delays)).await
    }

    async fn run_gc_tasks(&self, delays: Option<&Delays>) -> Result<GcReport, Error> {
        let is_plain = |bucket: &Id| {
            let found = self.look(|cached| {
                let mut all = cached.buckets.values();
                all.find(|one| one.id == *bucket)
                    .is_some_and(|one| one.versioning == Versioning::Never)
            });
            // A bucket that this node does not know may have versions.
            found.unwrap_or(false)
        };
        run_tasks(self.cluster(), &self.inner.in_use, delays, &is_plain).await
    }

    /// Runs all queued GC tasks once, without delay.
    #[boxed]
    pub async fn run_all_gc_tasks(&self) -> Result<GcReport, Error> {
        self.run_gc_tasks(None).await
    }

    /// Returns the number of GC tasks in this node's queue.
    #[boxed]
    pub async fn gc_tasks(&self) -> Result<u64, Error> {
        count_tasks(self.cluster()).await
    }
}

/// The times at which this node first saw the tasks in its queue.
///
/// GC runs no task at once, for two reasons. A request that has just read an owner's row needs a
/// moment to mark the content as [in use](InUse). And other replicas have the same task in their
/// queues: each of them would settle the owner's row, and that rewrites the row and disturbs
/// concurrent writers. So the replicas run the task one after another, and the later ones mostly
/// find nothing to do.
#[derive(Debug, Default)]
pub(crate) struct Delays(Mutex<BTreeMap<u64, Instant>>);

impl Delays {
    /// Returns true if the delay of a task is over. The first call for a task starts its delay.
    fn is_due(&self, cluster: &Cluster, sequence: u64, task: &GcTask) -> bool {
        let mut seen = self.0.lock();
        let since = seen.entry(sequence).or_insert_with(Instant::now);
        let turns_before = cluster.turns_before(task.partition(cluster));
        since.elapsed() >= DELAY * (1 + turns_before as u32)
    }

    fn remove(&self, sequence: u64) {
        self.0.lock().remove(&sequence);
    }
}

/// The result of one pass over the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GcReport {
    /// Tasks that were completed and removed from the queue.
    pub completed: u64,
    /// Tasks that stay in the queue because their content is in use.
    pub in_use: u64,
    /// Tasks that stay in the queue because their delay is not over.
    pub delayed: u64,
    /// Tasks that stay in the queue because they failed, or could not succeed.
    pub failed: u64,
    /// Rows (extents and parts) that were dropped.
    pub dropped: u64,
}

/// The tasks that failed in one pass over the queue. They hold up no others.
#[derive(Default)]
struct Failures {
    first: Option<Error>,
    /// The partitions that cannot be reached: each further task would wait as long.
    unavailable: BTreeSet<PartitionId>,
}

impl Failures {
    fn note(&mut self, partition: Option<PartitionId>, error: Error) {
        if let (Some(partition), Error::Unavailable(_)) = (partition, &error) {
            self.unavailable.insert(partition);
        }
        self.first.get_or_insert(error);
    }
}

/// Returns the number of tasks in the queue.
pub(crate) async fn count_tasks(cluster: &Cluster) -> Result<u64, Error> {
    let mut count = 0;
    visit_queue(cluster, |_| count += 1).await?;
    Ok(count)
}

/// Returns the content that the tasks in the queue name.
pub(crate) async fn queued_content(cluster: &Cluster) -> Result<HashSet<Id>, Error> {
    let mut found = HashSet::new();
    visit_queue(cluster, |bytes| {
        // One that cannot be read queues nothing.
        found.extend(codec::decode(bytes).ok().map(|task: GcTask| task.content()));
    })
    .await?;
    Ok(found)
}

/// Shows each entry of the queue to `visit`, in order.
async fn visit_queue(cluster: &Cluster, mut visit: impl FnMut(&[u8]) + Send) -> Result<(), Error> {
    let mut after = 0;
    loop {
        let entries = cluster.queue_read(after, 1000).await?;
        let Some((last, _)) = entries.last() else {
            return Ok(());
        };
        after = *last;
        entries.iter().for_each(|(_, bytes)| visit(bytes));
    }
}

/// Returns true if a bucket never had versions, as far as this node has heard.
pub(crate) type IsPlain<'a> = &'a (dyn Fn(&Id) -> bool + Sync);

/// Goes once through the queue and runs the tasks whose delay is over, or all tasks without
/// `delays`. One that fails stays in the queue.
pub(crate) async fn run_tasks(
    cluster: &Cluster,
    in_use: &InUse,
    delays: Option<&Delays>,
    is_plain: IsPlain<'_>,
) -> Result<GcReport, Error> {
    let mut report = GcReport::default();
    let mut failures = Failures::default();
    let mut after = 0;
    loop {
        let entries = cluster.queue_read(after, BATCH).await?;
        let Some((last, _)) = entries.last() else {
            if let Some(error) = failures.first {
                let failed = report.failed;
                tracing::warn!(%error, failed, "garbage collection will try tasks again");
            }
            return Ok(report);
        };
        after = *last;
        for (sequence, bytes) in entries {
            let task: GcTask = match codec::decode(&bytes) {
                Ok(task) => task,
                Err(error) => {
                    report.failed += 1;
                    failures.note(None, damaged_row(error));
                    continue;
                }
            };
            if in_use.contains(&task.content()) {
                report.in_use += 1;
                continue;
            }
            if delays.is_some_and(|delays| !delays.is_due(cluster, sequence, &task)) {
                report.delayed += 1;
                continue;
            }
            let partition = task.partition(cluster);
            if failures.unavailable.contains(&partition) {
                report.failed += 1;
                continue;
            }
            let dropped = match collect::run(cluster, &task, is_plain).await {
                Ok(Some(dropped)) => dropped,
                Ok(None) => {
                    report.in_use += 1;
                    continue;
                }
                Err(error) => {
                    report.failed += 1;
                    failures.note(Some(partition), error);
                    continue;
                }
            };
            cluster.queue_remove(sequence).await?;
            delays.inspect(|delays| delays.remove(sequence));
            report.dropped += dropped;
            report.completed += 1;
        }
    }
}

#[cfg(test)]
mod tests;
