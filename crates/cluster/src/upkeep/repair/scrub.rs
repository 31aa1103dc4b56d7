//! Scrubs: all stored data are read and verified, slowly and again and again. Damage is noted for
//! repair. The progress is stored on disk about once a minute.
//!
//! A pass checks the rows of each partition first, and notes the blocks that they refer to and no disk
//! holds. So the blocks of a lost disk come partition by partition, and the repair of each looks up its rows
//! in that partition alone. Then the pass reads all blocks.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{PartitionId, boxed, codec};
use archipel_storage::blocks::Scrubbed;
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowReader, RowTxn};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::pace::{ASKED_RATE, Progress, STEP_BYTES};
use crate::error::Error;
use crate::layout::PARTITIONS;
use crate::node::detach::DetachOnDrop;
use crate::upkeep::Upkeep;

/// The `meta` name of the progress.
const META: &str = "scrub";
/// The time after which the progress is stored again while a pass runs.
const KEEP_MS: u64 = 60_000;
/// The wait when there is nothing to do, and after an error.
const REST: Duration = Duration::from_secs(60);
/// The wait while damaged blocks fill the queue.
const NO_ROOM: Duration = Duration::from_secs(1);

/// The state of the scrub on this node.
#[derive(Default)]
pub(crate) struct Scrub {
    work: Mutex<Work>,
    wake: Notify,
}

#[derive(Clone, Default)]
struct Work {
    progress: Progress,
    /// Changes with each pass, so that a step is never counted for another pass.
    pass: u64,
    kept_ms: u64,
    /// 0 for scrubs on request only.
    cycle_ms: u64,
    stored_bytes: u64,
}

/// The progress of the scrub on a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScrubStatus {
    /// True while a pass runs.
    pub running: bool,
    /// True if the last pass was stopped before its end.
    pub stopped: bool,
    /// True if an operator asked for the pass.
    pub asked: bool,
    /// The rate in bytes a second.
    pub rate: u64,
    /// When the current or last pass began: milliseconds since 1970, 0 for never.
    pub began_ms: u64,
    /// When the last whole pass ended.
    pub ended_ms: u64,
    /// When the next scheduled pass begins, if none runs and one is scheduled.
    pub next_ms: Option<u64>,
    /// Blocks that the pass verified.
    pub blocks: u64,
    /// Bytes that the pass read: those of rows count only while it runs.
    pub bytes: u64,
    /// Bytes that are stored, about: those of rows count only while a pass runs.
    pub stored_bytes: u64,
    /// Damaged or missing blocks and damaged rows that the pass found. A missing block counts again if it is
    /// still missing when the pass comes to its disk.
    pub damaged: u64,
}

impl Scrub {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock()
    }
}

impl Upkeep {
    /// Scrubs when `cycle` has passed since the last pass began (never if it is zero), or on
    /// request, until the future is dropped. Run it in a task of its own.
    #[boxed]
    pub async fn run_scrub(self: &Arc<Upkeep>, cycle: Duration) {
        while let Err(error) = self.load_scrub(cycle).await {
            tracing::warn!(%error, "the progress of the last scrub cannot be read");
            tokio::time::sleep(REST).await;
        }
        loop {
            let rest = match self.scrub_some().await {
                Ok(rest) => rest,
                Err(error) => {
                    tracing::warn!(%error, "the scrub cannot continue; it is tried again");
                    REST
                }
            };
            let _ = tokio::time::timeout(rest, self.repair.scrub.wake.notified()).await;
        }
    }

    /// Begins a pass now. It replaces a pass that runs. `rate` is in bytes a second.
    #[boxed]
    pub async fn scrub_start(self: &Arc<Upkeep>, rate: Option<u64>) -> Result<(), Error> {
        self.change_scrub(move |progress, now| {
            progress.begin(now, Some(rate.unwrap_or(ASKED_RATE)))
        })
        .await
    }

    /// Ends the pass that runs. The next scheduled one begins after a whole cycle.
    #[boxed]
    pub async fn scrub_stop(self: &Arc<Upkeep>) -> Result<(), Error> {
        self.change_scrub(Progress::stop).await
    }

    /// Returns the progress of the scrub.
    pub fn scrub_status(&self) -> ScrubStatus {
        let work = self.repair.scrub.work().clone();
        let progress = &work.progress;
        let next = progress.began_ms.saturating_add(work.cycle_ms);
        // The control data is a partition, too.
        let (bytes, all) = progress.share(work.stored_bytes, PARTITIONS + 1);
        ScrubStatus {
            running: progress.running,
            stopped: progress.stopped,
            asked: progress.asked_rate.is_some(),
            rate: progress.rate(work.stored_bytes, work.cycle_ms),
            began_ms: progress.began_ms,
            ended_ms: progress.ended_ms,
            next_ms: (!progress.running && work.cycle_ms > 0).then_some(next),
            blocks: progress.blocks,
            bytes,
            stored_bytes: all,
            damaged: progress.damaged,
        }
    }

    async fn load_scrub(self: &Arc<Upkeep>, cycle: Duration) -> Result<(), Error> {
        let kept = self.store().read(|rows| rows.meta(META)).await?;
        let stored_bytes = self.stored_bytes().await?;
        let is_new = kept.is_none();
        self.begin_with(kept.as_deref(), cycle, stored_bytes);
        if is_new {
            // Otherwise each start would delay the first pass by a whole cycle.
            self.keep_scrub().await
        } else {
            Ok(())
        }
    }

    fn begin_with(&self, kept: Option<&[u8]>, cycle: Duration, stored_bytes: u64) {
        let mut work = self.repair.scrub.work();
        work.cycle_ms = cycle.as_millis() as u64;
        work.stored_bytes = stored_bytes;
        match kept.map(codec::decode) {
            Some(Ok(progress)) => work.progress = progress,
            Some(Err(error)) => {
                tracing::warn!(%error, "the progress of the last scrub is damaged, so the scrub begins again");
            }
            // In a new store nothing is old enough to be verified.
            None => work.progress.began_ms = self.now_ms(),
        }
    }

    async fn stored_bytes(&self) -> Result<u64, Error> {
        let disks = self.store().blocks().ask_disks().await?;
        Ok(disks.iter().map(|disk| disk.used_bytes).sum())
    }

    /// Changes the progress and stores it. A change that cannot be stored is undone. It goes on without its
    /// caller: one that was stopped between would neither be stored nor undone.
    async fn change_scrub(
        self: &Arc<Upkeep>,
        change: impl FnOnce(&mut Progress, u64) + Send + 'static,
    ) -> Result<(), Error> {
        let upkeep = self.clone();
        DetachOnDrop::new(async move { upkeep.change_scrub_now(change).await }).await
    }

    async fn change_scrub_now(
        self: &Arc<Upkeep>,
        change: impl FnOnce(&mut Progress, u64) + Send,
    ) -> Result<(), Error> {
        let now = self.now_ms();
        let (before, pass) = {
            let mut work = self.repair.scrub.work();
            let before = work.progress.clone();
            change(&mut work.progress, now);
            work.pass += 1;
            (before, work.pass)
        };
        if let Err(error) = self.keep_scrub().await {
            let mut work = self.repair.scrub.work();
            if work.pass == pass {
                work.progress = before;
                work.pass += 1;
            }
            return Err(error);
        }
        self.repair.scrub.wake.notify_one();
        Ok(())
    }

    /// Does a step if it is due. Returns how long to rest.
    async fn scrub_some(self: &Arc<Upkeep>) -> Result<Duration, Error> {
        let stored_bytes = self.stored_bytes().await?;
        let now = self.now_ms();
        let (pass, progress, cycle_ms) = {
            let mut work = self.repair.scrub.work();
            work.stored_bytes = stored_bytes;
            if work.progress.is_due(now, work.cycle_ms) {
                work.progress.begin(now, None);
                work.pass += 1;
            }
            (work.pass, work.progress.clone(), work.cycle_ms)
        };
        if !progress.running {
            return Ok(REST);
        }
        let rate = progress.rate(stored_bytes, cycle_ms);
        if let Some(partition) = next_partition(&progress) {
            return self.scrub_rows(pass, partition, rate).await;
        }
        let step = self
            .store()
            .blocks()
            .scrub_step(progress.after(), STEP_BYTES)
            .await?;
        let ended = step.next.is_none();
        if !self.repair.note_all(&step.damaged, None) {
            // The same step is repeated when there is room.
            return Ok(NO_ROOM);
        }
        if self.take_step(pass, &step) {
            self.keep_scrub().await?;
        }
        if ended {
            Ok(REST)
        } else {
            Ok(Duration::from_secs_f64(step.bytes as f64 / rate as f64))
        }
    }

    /// Checks the rows of a partition, and notes or repairs what is damaged. Returns how long to rest.
    async fn scrub_rows(
        self: &Arc<Upkeep>,
        pass: u64,
        partition: PartitionId,
        rate: u64,
    ) -> Result<Duration, Error> {
        let blocks = self.store().blocks().clone();
        let check = move |rows: &RowReader<'_>| rows.check(partition, &blocks);
        let checked = self.store().read(check).await?;
        if !self.repair.note_all(&checked.missing, Some(partition)) {
            // The same partition is checked again when there is room.
            return Ok(NO_ROOM);
        }
        for row in &checked.damaged {
            self.repair_row(row).await;
        }
        let found = (checked.damaged.len() + checked.missing.len()) as u64;
        if self.take_partition(pass, found, checked.bytes) {
            self.keep_scrub().await?;
        }
        Ok(Duration::from_secs_f64(checked.bytes as f64 / rate as f64))
    }

    /// Adds a checked partition. Returns true if the progress should be stored.
    fn take_partition(&self, pass: u64, damaged: u64, bytes: u64) -> bool {
        let now = self.now_ms();
        let mut work = self.repair.scrub.work();
        if work.pass != pass {
            return false;
        }
        work.progress.partitions += 1;
        work.progress.row_bytes += bytes;
        work.progress.damaged += damaged;
        now.abs_diff(work.kept_ms) >= KEEP_MS
    }

    /// Adds the result of a step. Returns true if the progress should be stored.
    fn take_step(&self, pass: u64, step: &Scrubbed) -> bool {
        let now = self.now_ms();
        let mut work = self.repair.scrub.work();
        if work.pass != pass {
            return false;
        }
        work.progress.add(step, now);
        if step.next.is_none() {
            let (blocks, damaged) = (work.progress.blocks, work.progress.damaged);
            tracing::info!(blocks, damaged, "all stored data were read and verified");
        }
        step.next.is_none() || now.abs_diff(work.kept_ms) >= KEEP_MS
    }

    async fn keep_scrub(self: &Arc<Upkeep>) -> Result<(), Error> {
        let bytes = {
            let mut work = self.repair.scrub.work();
            work.kept_ms = self.now_ms();
            codec::encode(&work.progress)
        };
        let keep = move |txn: &mut RowTxn<'_>| txn.set_meta(META, Some(&bytes));
        let how = Transact::new(Durability::Buffered).bounded();
        Ok(self.store().transact(how, keep).await?)
    }
}

/// Returns the partition that a pass checks next; `None` if it has checked all.
fn next_partition(progress: &Progress) -> Option<PartitionId> {
    match progress.partitions {
        number if number < PARTITIONS => Some(PartitionId(number)),
        PARTITIONS => Some(PartitionId::CONTROL),
        _ => None,
    }
}
