//! The finished spans on their way to the collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::record::Record;

/// The most spans that wait.
pub const QUEUE_SPANS: usize = 2048;

/// The numbers of finished spans since the start, by their fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Spans that the collector took.
    pub exported: u64,
    /// Spans for which the queue had no room.
    pub dropped: u64,
    /// Spans that could not be sent to the collector.
    pub failed: u64,
}

#[derive(Default)]
struct Counters {
    exported: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The end of the queue where spans come in.
pub(crate) struct Entrance {
    sender: mpsc::Sender<Record>,
    counters: Arc<Counters>,
}

/// The end of the queue where spans go out, for the one that sends them to the collector.
pub struct Queue {
    receiver: mpsc::Receiver<Record>,
    counters: Arc<Counters>,
}

pub(crate) fn queue() -> (Entrance, Queue) {
    let (sender, receiver) = mpsc::channel(QUEUE_SPANS);
    let counters = Arc::<Counters>::default();
    let entrance = Entrance {
        sender,
        counters: counters.clone(),
    };
    (entrance, Queue { receiver, counters })
}

impl Entrance {
    pub fn put(&self, record: Record) {
        if self.sender.try_send(record).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn counts(&self) -> Counts {
        let counters = &self.counters;
        Counts {
            exported: counters.exported.load(Ordering::Relaxed),
            dropped: counters.dropped.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
        }
    }
}

impl Queue {
    /// Waits for finished spans and appends at most `most` of them to `batch`. Returns their
    /// number; 0 means that there will be none any more. Cancel-safe.
    pub async fn receive(&mut self, batch: &mut Vec<Record>, most: usize) -> usize {
        self.receiver.recv_many(batch, most).await
    }

    /// Returns a finished span if one waits.
    pub fn try_receive(&mut self) -> Option<Record> {
        self.receiver.try_recv().ok()
    }

    /// Counts spans that the collector took.
    pub fn exported(&self, spans: usize) {
        self.counters
            .exported
            .fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Counts spans that could not be sent.
    pub fn failed(&self, spans: usize) {
        self.counters
            .failed
            .fetch_add(spans as u64, Ordering::Relaxed);
    }
}
