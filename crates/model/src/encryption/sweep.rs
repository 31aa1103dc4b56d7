//! Takes earlier keys of the ring out of use: wraps keys and secrets again by the newest key.
//!
//! The first live node of the control data does it, for all. It goes through all versions and
//! uploads of all buckets, as a quorum shows them.
//!
//! # Invariants
//! - A pass begins only when no node begins content under an earlier key any more: a node follows
//!   the ring within its lease, and commits wrap again what a long request has wrapped
//!   (`freshened`).
//! - No key leaves the ring. A row that no quorum shows now may need it later: one of a node that
//!   was away, of a restored copy, of a request that took days.
//! - Earlier keys count as out of use when a second pass, a day after the first one, has found
//!   nothing that needs them.
//! - A pass that could not read or change something is not through.
//! - A pass that a restart interrupts goes on at the bucket where it was.
//!
//! | module | what it holds |
//! |---|---|
//! | `rows` | versions and uploads |
//! | `secrets` | secrets of the control data |

mod rows;
mod secrets;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::{Id, PartitionId, boxed};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::rotation::SweepCounts;
use crate::Model;
use crate::error::Error;

/// The longest pause between looks at whether something is to be done.
const TICK: Duration = Duration::from_secs(30);
/// The shortest pause, for tests with short days.
const SHORTEST_TICK: Duration = Duration::from_millis(100);

/// Wakes the task, and counts for metrics.
#[derive(Default)]
pub(crate) struct Sweeps {
    pub wake: Notify,
    /// The time before which a pass that failed is not tried again, in milliseconds since 1970.
    retry_ms: AtomicU64,
    examined: AtomicU64,
    rewrapped: AtomicU64,
    failed: AtomicU64,
}

/// A pass, as the ring's row says it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Sweep {
    /// The key by which everything is to be wrapped.
    #[serde(rename = "t")]
    pub to: Id,
    /// The last bucket of the present pass that is done.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Id>,
    /// The numbers of buckets that are done, and of all.
    #[serde(rename = "d", default)]
    pub buckets_done: u64,
    #[serde(rename = "n", default)]
    pub buckets: u64,
    /// The counts of all passes.
    #[serde(rename = "e", default)]
    pub examined: u64,
    #[serde(rename = "w", default)]
    pub rewrapped: u64,
    /// The count of the present pass, or of the last one: each pass tries again what failed before.
    #[serde(rename = "f", default)]
    pub failed: u64,
    /// The end of the last pass that was through and found anything, or of the first one, in
    /// milliseconds since 1970.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub clean_ms: Option<u64>,
    /// True if a pass found nothing that needs an earlier key: no more passes follow.
    #[serde(rename = "o", default)]
    pub is_over: bool,
}

impl Sweeps {
    /// Adds what a part of a pass has done.
    fn count(&self, done: SweepCounts) {
        self.examined.fetch_add(done.examined, Ordering::Relaxed);
        self.rewrapped.fetch_add(done.rewrapped, Ordering::Relaxed);
        self.failed.fetch_add(done.failed, Ordering::Relaxed);
    }
}

impl Sweep {
    fn to(key: Id) -> Sweep {
        Sweep {
            to: key,
            last: None,
            buckets_done: 0,
            buckets: 0,
            examined: 0,
            rewrapped: 0,
            failed: 0,
            clean_ms: None,
            is_over: false,
        }
    }

    pub fn counts(&self) -> SweepCounts {
        SweepCounts {
            examined: self.examined,
            rewrapped: self.rewrapped,
            failed: self.failed,
        }
    }

    fn add(&mut self, counts: SweepCounts) {
        self.examined += counts.examined;
        self.rewrapped += counts.rewrapped;
        self.failed += counts.failed;
    }
}

impl SweepCounts {
    fn add(&mut self, other: SweepCounts) {
        self.examined += other.examined;
        self.rewrapped += other.rewrapped;
        self.failed += other.failed;
    }

    /// Counts one that was looked at: whether it was wrapped again.
    fn count(&mut self, what: &str, changed: Result<bool, Error>) {
        self.examined += 1;
        match changed {
            Ok(changed) => self.rewrapped += u64::from(changed),
            Err(error) => {
                tracing::warn!(%error, "the key of {what} cannot be wrapped again; next try soon");
                self.failed += 1;
            }
        }
    }
}

impl Model {
    /// Returns what the passes of this node have done since its start.
    pub fn sweep_counts(&self) -> SweepCounts {
        let sweeps = &self.keyring().sweeps;
        SweepCounts {
            examined: sweeps.examined.load(Ordering::Relaxed),
            rewrapped: sweeps.rewrapped.load(Ordering::Relaxed),
            failed: sweeps.failed.load(Ordering::Relaxed),
        }
    }

    /// Seals secrets that stand in plain text, and takes earlier keys of the ring out of use, until
    /// the future is dropped. Run it in a task of its own.
    #[boxed]
    pub async fn sweep_forever(&self) {
        let short = Duration::from_millis(self.day_ms() / 8);
        let tick = short.clamp(SHORTEST_TICK, TICK);
        loop {
            if let Err(error) = self.sweep_what_is_due().await {
                tracing::warn!(%error, "keys cannot be wrapped again now; next try soon");
            }
            let _ = tokio::time::timeout(tick, self.keyring().sweeps.wake.notified()).await;
        }
    }

    /// Seals secrets and takes keys out of use, as far as that is due on this node.
    pub(crate) async fn sweep_what_is_due(&self) -> Result<(), Error> {
        let cluster = self.cluster();
        let is_mine = cluster.is_in_layout()
            && cluster.is_time_known()
            && self.keyring().has_secrets()
            && cluster.is_first_live(PartitionId::CONTROL);
        if !is_mine {
            return Ok(());
        }
        self.check_control()?;
        self.reseal_cached().await?;
        let ring = self.ring().await?;
        let Some(newest) = ring.keys.last().filter(|_| ring.keys.len() > 1) else {
            return Ok(());
        };
        let settled_ms = newest.made_ms + 2 * self.control().lease.as_millis() as u64;
        if self.now_ms() < settled_ms
            || self.keyring().newest().map(|(id, _)| id) != Some(newest.id)
        {
            return Ok(());
        }
        let sweep = ring.sweep.clone().filter(|sweep| sweep.to == newest.id);
        let sweep = sweep.unwrap_or_else(|| Sweep::to(newest.id));
        let retry_ms = self.keyring().sweeps.retry_ms.load(Ordering::Relaxed);
        if sweep.is_over || self.now_ms() < retry_ms {
            return Ok(());
        }
        let is_resting = sweep.last.is_none()
            && sweep
                .clean_ms
                .is_some_and(|clean| self.now_ms() < clean.saturating_add(self.day_ms()));
        if is_resting {
            return Ok(());
        }
        self.pass(sweep).await
    }

    /// Goes through all buckets, or those that are left of a pass that was interrupted.
    async fn pass(&self, mut sweep: Sweep) -> Result<(), Error> {
        self.refresh_all().await?;
        let mut buckets = self.buckets()?;
        buckets.sort_unstable_by_key(|bucket| bucket.id);
        let is_resumed = sweep.last.is_some();
        if !is_resumed {
            sweep.failed = 0;
        }
        // A pass that ends within the first bucket must count as interrupted, too.
        sweep.last.get_or_insert_default();
        if !self.note_sweep(&sweep).await? {
            return Ok(());
        }
        sweep.buckets = buckets.len() as u64;
        let todo = buckets.iter().filter(|bucket| Some(bucket.id) > sweep.last);
        let todo: Vec<_> = todo.cloned().collect();
        sweep.buckets_done = sweep.buckets - todo.len() as u64;
        let mut found = SweepCounts::default();
        found.add(self.reseal_certificates().await);
        for bucket in todo {
            found.add(self.sweep_bucket(&bucket).await?);
            sweep.last = Some(bucket.id);
            sweep.buckets_done += 1;
            let mut noted = sweep.clone();
            noted.add(found);
            if !self.note_sweep(&noted).await? {
                // There is a newer key.
                return Ok(());
            }
        }
        sweep.add(found);
        sweep.last = None;
        if found.failed > 0 {
            self.note_sweep(&sweep).await?;
            // Looking at everything costs too much to be repeated at once.
            let retry_ms = self.now_ms() + self.day_ms() / 24;
            self.keyring()
                .sweeps
                .retry_ms
                .store(retry_ms, Ordering::Relaxed);
            let failed = found.failed;
            return Err(Error::Unavailable(format!("{failed} keys are left")));
        }
        // This run does not know what the pass found before the interruption.
        let found_nothing = found.rewrapped == 0 && !is_resumed;
        sweep.is_over =
            sweep.clean_ms.is_some() && found_nothing && self.all_are_sealed_by(sweep.to)?;
        sweep.clean_ms = Some(self.now_ms());
        self.note_sweep(&sweep).await?;
        let SweepCounts {
            examined,
            rewrapped,
            ..
        } = sweep.counts();
        tracing::info!(examined, rewrapped, key = %sweep.to, "a pass over the keyring is through");
        Ok(())
    }

    /// Writes how far the pass is. Returns false if the ring has a newer key.
    async fn note_sweep(&self, sweep: &Sweep) -> Result<bool, Error> {
        let sweep = sweep.clone();
        self.change_ring(&move |ring| {
            if ring.keys.last().map(|key| key.id) != Some(sweep.to) {
                return Ok(None);
            }
            let mut new = ring.clone();
            new.sweep = Some(sweep.clone());
            Ok(Some(new))
        })
        .await
    }
}
