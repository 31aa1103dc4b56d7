//! Scrubbing: all that is stored here is read and verified, slowly and again and again; what is damaged is noted to be
//! mended. Where it stands is kept on disk about once a minute.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::{PartitionId, codec};
use archipel_storage::blocks::Scrubbed;
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowReader, RowTxn};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::pace::{ASKED_RATE, Progress, STEP_BYTES};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::layout::PARTITIONS;

/// Where progress is kept in the store's `meta`.
const META: &str = "scrub";
/// How often it is kept while a pass runs.
const KEEP_MS: u64 = 60_000;
/// How long to wait when there is nothing to do, and after an error.
const REST: Duration = Duration::from_secs(60);

/// What scrubbing does now.
#[derive(Default)]
pub(crate) struct Scrub {
    work: Mutex<Work>,
    wake: Notify,
}

#[derive(Clone, Default)]
struct Work {
    progress: Progress,
    /// Changes with each pass, so that a step that ran meanwhile is not counted for another one.
    pass: u64,
    kept_ms: u64,
    /// 0: only when asked.
    cycle_ms: u64,
    stored_bytes: u64,
}

/// How scrubbing goes on this node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scrubbing {
    /// Whether a pass runs.
    pub running: bool,
    /// Whether somebody asked for it.
    pub asked: bool,
    /// How fast it goes, in bytes a second.
    pub rate: u64,
    /// When the pass that runs, or else the last one, began: milliseconds since 1970, 0 for never.
    pub began_ms: u64,
    /// When the last whole pass ended.
    pub ended_ms: u64,
    /// When the next one begins by itself, if none runs and it does.
    pub next_ms: Option<u64>,
    /// Blocks that the pass verified.
    pub blocks: u64,
    /// Bytes that it read.
    pub bytes: u64,
    /// Bytes that are stored, about.
    pub stored_bytes: u64,
    /// Damaged blocks and rows that it found.
    pub damaged: u64,
}

impl Scrub {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster {
    /// Scrubs whenever `cycle` has passed since the last pass began (never by itself if it is zero), or somebody asks, until
    /// it is dropped. Run it in a task of its own.
    pub async fn scrub_forever(&self, cycle: Duration) {
        while let Err(error) = self.load_scrub(cycle).await {
            tracing::warn!(%error, "how far the last scrub came cannot be read");
            tokio::time::sleep(REST).await;
        }
        loop {
            let rest = match self.scrub_some().await {
                Ok(rest) => rest,
                Err(error) => {
                    tracing::warn!(%error, "the scrub does not go on; it will be tried again");
                    REST
                }
            };
            let _ = tokio::time::timeout(rest, self.0.mend.scrub.wake.notified()).await;
        }
    }

    /// Begins a pass now, in the place of one that runs; `rate` is in bytes a second.
    pub async fn scrub_start(&self, rate: Option<u64>) -> Result<(), Error> {
        self.change_scrub(|progress, now| progress.begin(now, Some(rate.unwrap_or(ASKED_RATE))))
            .await
    }

    /// Ends the pass that runs. The next one begins by itself after a whole cycle.
    pub async fn scrub_stop(&self) -> Result<(), Error> {
        self.change_scrub(Progress::stop).await
    }

    /// How scrubbing goes.
    pub fn scrubbing(&self) -> Scrubbing {
        let work = self.0.mend.scrub.work().clone();
        let progress = &work.progress;
        let next = progress.began_ms.saturating_add(work.cycle_ms);
        Scrubbing {
            running: progress.running,
            asked: progress.asked_rate.is_some(),
            rate: progress.rate(work.stored_bytes, work.cycle_ms),
            began_ms: progress.began_ms,
            ended_ms: progress.ended_ms,
            next_ms: (!progress.running && work.cycle_ms > 0).then_some(next),
            blocks: progress.blocks,
            bytes: progress.bytes,
            stored_bytes: work.stored_bytes,
            damaged: progress.damaged,
        }
    }

    async fn load_scrub(&self, cycle: Duration) -> Result<(), Error> {
        let kept = self.store().read(|rows| rows.meta(META)).await?;
        let stored_bytes = self.stored_bytes().await?;
        let is_new = kept.is_none();
        self.begin_with(kept.as_deref(), cycle, stored_bytes);
        match is_new {
            // Else each start would put the first pass off for a whole cycle.
            true => self.keep_scrub().await,
            false => Ok(()),
        }
    }

    fn begin_with(&self, kept: Option<&[u8]>, cycle: Duration, stored_bytes: u64) {
        let mut work = self.0.mend.scrub.work();
        work.cycle_ms = cycle.as_millis() as u64;
        work.stored_bytes = stored_bytes;
        match kept.map(codec::decode) {
            Some(Ok(progress)) => work.progress = progress,
            Some(Err(error)) => {
                tracing::warn!(%error, "how far the last scrub came is not readable: it begins anew");
            }
            // A new store: nothing is old enough to be verified.
            None => work.progress.began_ms = self.now_ms(),
        }
    }

    async fn stored_bytes(&self) -> Result<u64, Error> {
        let blocks = self.store().blocks().clone();
        let disks = self.store().blocks().pool().run(move || Ok(blocks.disks()));
        Ok(disks.await?.iter().map(|disk| disk.used_bytes).sum())
    }

    async fn change_scrub(&self, change: impl FnOnce(&mut Progress, u64)) -> Result<(), Error> {
        let now = self.now_ms();
        {
            let mut work = self.0.mend.scrub.work();
            change(&mut work.progress, now);
            work.pass += 1;
        }
        self.keep_scrub().await?;
        self.0.mend.scrub.wake.notify_one();
        Ok(())
    }

    /// Does a step, if it is time; tells how long to rest.
    async fn scrub_some(&self) -> Result<Duration, Error> {
        let stored_bytes = self.stored_bytes().await?;
        let now = self.now_ms();
        let (pass, progress, cycle_ms) = {
            let mut work = self.0.mend.scrub.work();
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
        let step = self
            .store()
            .blocks()
            .scrub_step(progress.after(), STEP_BYTES)
            .await?;
        let ended = step.next.is_none();
        self.note_damaged(step.damaged.iter().copied());
        let rate = progress.rate(stored_bytes, cycle_ms);
        if ended {
            self.scrub_rows(pass, rate).await?;
        }
        if self.take_step(pass, &step) {
            self.keep_scrub().await?;
        }
        match ended {
            true => Ok(REST),
            false => Ok(Duration::from_secs_f64(step.bytes as f64 / rate as f64)),
        }
    }

    /// Verifies what stands in metadata, at so many bytes a second, and mends what can be mended.
    async fn scrub_rows(&self, pass: u64, rate: u64) -> Result<(), Error> {
        for number in (0..PARTITIONS).chain([PartitionId::CONTROL.0]) {
            if self.0.mend.scrub.work().pass != pass {
                return Ok(());
            }
            let look = move |rows: &RowReader<'_>| rows.damaged_rows(PartitionId(number));
            let (damaged, bytes) = self.store().read(look).await?;
            self.0.mend.scrub.work().progress.damaged += damaged.len() as u64;
            for row in damaged {
                self.0.mend_row(&row).await;
            }
            if bytes > 0 {
                tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / rate as f64)).await;
            }
        }
        Ok(())
    }

    /// Takes a step's result in; tells whether progress should be kept.
    fn take_step(&self, pass: u64, step: &Scrubbed) -> bool {
        let now = self.now_ms();
        let mut work = self.0.mend.scrub.work();
        if work.pass != pass {
            return false;
        }
        work.progress.add(step, now);
        if step.next.is_none() {
            let (blocks, damaged) = (work.progress.blocks, work.progress.damaged);
            tracing::info!(
                blocks,
                damaged,
                "everything stored here was read and verified"
            );
        }
        step.next.is_none() || now.abs_diff(work.kept_ms) >= KEEP_MS
    }

    async fn keep_scrub(&self) -> Result<(), Error> {
        let bytes = {
            let mut work = self.0.mend.scrub.work();
            work.kept_ms = self.now_ms();
            codec::encode(&work.progress)
        };
        let keep = move |txn: &mut RowTxn<'_>| txn.set_meta(META, Some(&bytes));
        let how = Transact::new(Durability::Buffered).bounded();
        Ok(self.store().transact(how, keep).await?)
    }
}
