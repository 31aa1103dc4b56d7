//! Group sync: all waiters for a segment share one `fdatasync`.
//!
//! # Invariants
//! - A write is covered by every sync that *began* after the write returned.
//! - After a failed sync the disk is failed. No other sync is tried, and no waiter is told that its
//!   sync succeeded.
//! - A removed segment is not synced. Nobody waits for its content, and its absence is no failure
//!   of the disk.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::volume::Volume;
use crate::engine::Result;
use crate::error::Error;
use crate::pool::Pool;

/// After so many syncs of a single write each, writes come one by one. Under load a sync covers a
/// single write now and then.
const LONE_SYNCS: u32 = 4;

/// The sync state of one segment.
#[derive(Default)]
pub(super) struct SegmentSync {
    state: Mutex<SyncState>,
    /// The lock that an `fdatasync` holds. The kernel reports an error to one caller only. A second
    /// concurrent caller could take the kernel's silence for success.
    syncing: Mutex<()>,
}

#[derive(Default)]
struct SyncState {
    /// The number of writes that returned.
    written: u64,
    /// The number of those writes that are on stable storage.
    synced: u64,
    /// The number of the last syncs that covered a single write each.
    lone: u32,
    running: bool,
    waiters: Vec<Waiter>,
}

struct Waiter {
    need: u64,
    done: oneshot::Sender<Result<()>>,
}

/// The writes that must be synced before the node may acknowledge something.
#[derive(Clone)]
pub(super) struct Ticket {
    volume: Arc<Volume>,
    segment: u32,
    /// The ticket holds the state, because the volume drops it when the segment is removed.
    sync: Arc<SegmentSync>,
    need: u64,
}

impl SegmentSync {
    /// Counts a write that returned. Returns its number.
    fn wrote(&self) -> u64 {
        let mut state = self.state.lock();
        state.written += 1;
        state.written
    }

    /// Returns true if each of the last syncs covered a single write.
    pub fn is_lone(&self) -> bool {
        self.state.lock().lone >= LONE_SYNCS
    }

    /// Removes the segment by `unlink`. No sync runs meanwhile, and nothing needs a sync
    /// afterwards.
    pub fn remove<T>(&self, unlink: impl FnOnce() -> Result<T>) -> Result<T> {
        let _syncing = self.syncing.lock();
        let done = unlink()?;
        self.state.lock().synced = u64::MAX;
        Ok(done)
    }

    fn answer(&self, synced: Result<u64>) -> bool {
        let mut state = self.state.lock();
        match synced {
            Ok(target) => {
                state.synced = state.synced.max(target);
                let synced = state.synced;
                let (done, waiting) = std::mem::take(&mut state.waiters)
                    .into_iter()
                    .partition(|waiter| waiter.need <= synced);
                state.waiters = waiting;
                answer_waiters(done, Ok(()));
            }
            Err(error) => answer_waiters(std::mem::take(&mut state.waiters), Err(error)),
        }
        state.running = !state.waiters.is_empty();
        state.running
    }
}

fn answer_waiters(waiters: Vec<Waiter>, result: Result<()>) {
    for waiter in waiters {
        // A waiter that went away needs no answer.
        let _ = waiter.done.send(result.clone());
    }
}

impl Ticket {
    /// Counts a write to the segment that returned. Returns the ticket that makes it durable.
    pub fn of_write(volume: &Arc<Volume>, segment: u32) -> Ticket {
        let sync = volume.sync_of(segment);
        let need = sync.wrote();
        Ticket {
            volume: volume.clone(),
            segment,
            sync,
            need,
        }
    }

    /// Returns the tickets that make all returned writes to a disk durable.
    pub fn of_all(volume: &Arc<Volume>) -> Vec<Ticket> {
        let tickets = volume.syncs().into_iter().map(|(segment, sync)| {
            let need = sync.state.lock().written;
            Ticket {
                volume: volume.clone(),
                segment,
                sync,
                need,
            }
        });
        tickets.filter(|ticket| !ticket.is_done()).collect()
    }

    /// Returns true if the writes are durable.
    pub fn is_done(&self) -> bool {
        self.sync.state.lock().synced >= self.need
    }

    /// Returns true if this ticket covers the writes of `other`.
    pub fn covers(&self, other: &Ticket) -> bool {
        (self.volume.id, self.segment) == (other.volume.id, other.segment)
            && self.need >= other.need
    }

    /// Starts the sync at once, so that the waits for several segments overlap.
    pub fn begin(self, pool: &Pool) -> oneshot::Receiver<Result<()>> {
        let (done, answer) = oneshot::channel();
        let mut state = self.sync.state.lock();
        if state.synced >= self.need {
            // The send cannot fail, because this function still has the receiver.
            let _ = done.send(Ok(()));
            return answer;
        }
        state.waiters.push(Waiter {
            need: self.need,
            done,
        });
        let first = !std::mem::replace(&mut state.running, true);
        drop(state);
        if first {
            pool.defer(move || self.run_syncs());
        }
        answer
    }

    /// Syncs in the calling thread.
    pub fn run(&self) -> Result<()> {
        if self.is_done() {
            return Ok(());
        }
        let target = self.sync_once()?;
        let mut state = self.sync.state.lock();
        state.synced = state.synced.max(target);
        Ok(())
    }

    /// Syncs until nobody waits. One such job runs for a segment at a time.
    fn run_syncs(&self) {
        while self.sync.answer(self.sync_once()) {}
    }

    /// Makes one `fdatasync` if it is needed. Returns how many writes are covered.
    fn sync_once(&self) -> Result<u64> {
        let _syncing = self.sync.syncing.lock();
        self.volume.check()?;
        let (synced, target) = {
            let state = self.sync.state.lock();
            (state.synced, state.written)
        };
        if synced >= target {
            return Ok(target);
        }
        if let Err(error) = self.volume.disk.sync(self.segment) {
            let segment = self.segment;
            self.volume
                .fail(format!("fdatasync of segment {segment}: {error}"));
        }
        self.volume.check()?;
        let mut state = self.sync.state.lock();
        state.lone = match target - synced {
            1 => state.lone.saturating_add(1),
            _ => 0,
        };
        Ok(target)
    }
}

/// Waits for the sync that [`Ticket::begin`] started.
pub(super) async fn finished(answer: oneshot::Receiver<Result<()>>) -> Result<()> {
    let gone = |_| Err(Error::Failed("the storage threads have ended".into()));
    answer.await.unwrap_or_else(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sync that has seen unsynced writes would find its segment gone, and fail the disk.
    #[test]
    fn no_sync_runs_while_a_segment_is_removed() {
        let sync = SegmentSync::default();
        let is_held = sync.remove(|| Ok(sync.syncing.is_locked()));
        assert!(is_held.unwrap());
        assert!(!sync.syncing.is_locked());
    }
}
