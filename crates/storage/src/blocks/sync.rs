//! Group sync: all who wait for a segment share one `fdatasync`.
//!
//! # Invariants
//! - A write is covered by every sync that *began* after the write returned.
//! - After a failed sync the disk is failed: no other sync is tried, and nobody is told that theirs succeeded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::volume::Volume;
use crate::engine::Result;
use crate::error::Error;
use crate::pool::Pool;

/// How far one segment is synced.
#[derive(Default)]
pub(super) struct SegmentSync {
    state: Mutex<State>,
    /// Held during an `fdatasync`. The kernel reports an error to one caller only: a second one
    /// at the same time could take its silence for success.
    one: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Writes that returned.
    written: u64,
    /// How many of them are on stable storage.
    synced: u64,
    running: bool,
    waiters: Vec<Waiter>,
}

struct Waiter {
    need: u64,
    done: oneshot::Sender<Result<()>>,
}

/// What must be synced before something may be acknowledged.
#[derive(Clone)]
pub(super) struct Ticket {
    pub volume: Arc<Volume>,
    pub segment: u32,
    need: u64,
}

impl SegmentSync {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write returned.
    pub fn wrote(&self) {
        self.lock().written += 1;
    }

    pub fn is_dirty(&self) -> bool {
        let state = self.lock();
        state.synced < state.written
    }

    fn answer(&self, synced: Result<u64>) -> bool {
        let mut state = self.lock();
        match synced {
            Ok(target) => {
                state.synced = state.synced.max(target);
                let synced = state.synced;
                let (done, waiting) = std::mem::take(&mut state.waiters)
                    .into_iter()
                    .partition(|waiter| waiter.need <= synced);
                state.waiters = waiting;
                tell(done, Ok(()));
            }
            Err(error) => tell(std::mem::take(&mut state.waiters), Err(error)),
        }
        state.running = !state.waiters.is_empty();
        state.running
    }
}

fn tell(waiters: Vec<Waiter>, result: Result<()>) {
    for waiter in waiters {
        // A waiter that went away needs no answer.
        let _ = waiter.done.send(result.clone());
    }
}

impl Ticket {
    /// What makes all writes to the segment that returned so far durable; `None` if they are.
    pub fn of(volume: &Arc<Volume>, segment: u32) -> Option<Ticket> {
        let sync = volume.sync_of(segment);
        let state = sync.lock();
        (state.synced < state.written).then(|| Ticket {
            volume: volume.clone(),
            segment,
            need: state.written,
        })
    }

    /// Whether this ticket covers what `other` does.
    pub fn covers(&self, other: &Ticket) -> bool {
        (self.volume.id, self.segment) == (other.volume.id, other.segment)
            && self.need >= other.need
    }

    /// Begins to wait: at once, so that the waits for several segments overlap.
    pub fn begin(self, pool: &Pool) -> oneshot::Receiver<Result<()>> {
        let (done, answer) = oneshot::channel();
        let sync = self.volume.sync_of(self.segment);
        let mut state = sync.lock();
        if state.synced >= self.need {
            // The receiver is in our hands.
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
            pool.defer(move || self.volume.run_syncs(self.segment));
        }
        answer
    }

    /// Syncs in this thread.
    pub fn run(&self) -> Result<()> {
        let sync = self.volume.sync_of(self.segment);
        if sync.lock().synced >= self.need {
            return Ok(());
        }
        let target = self.volume.sync_once(&sync, self.segment)?;
        let mut state = sync.lock();
        state.synced = state.synced.max(target);
        Ok(())
    }
}

/// Waits for what [`Ticket::begin`] began.
pub(super) async fn finished(answer: oneshot::Receiver<Result<()>>) -> Result<()> {
    let gone = |_| Err(Error::Failed("the storage threads ended".into()));
    answer.await.unwrap_or_else(gone)
}

impl Volume {
    /// Syncs until nobody waits. One such job runs for a segment at a time.
    fn run_syncs(&self, segment: u32) {
        let sync = self.sync_of(segment);
        while sync.answer(self.sync_once(&sync, segment)) {}
    }

    /// One `fdatasync`; answers how many writes it covers.
    fn sync_once(&self, sync: &SegmentSync, segment: u32) -> Result<u64> {
        let _one = sync.one.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        let target = sync.lock().written;
        if let Err(error) = self.disk.sync(segment) {
            self.fail(format!("fdatasync of segment {segment}: {error}"));
        }
        self.check()?;
        Ok(target)
    }
}
