//! Targets of events, as operators declare them, and what is known of their state.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::event::Event;

/// A bucket's keys are spread over this many partitions, so each partition takes that share.
const SHARES: u64 = crate::rowkeys::NEW_BUCKET_SHARDS as u64;
/// The pause after the first failure of a target, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The most bytes of the reason for a failure. A target may answer with a text of any length.
const MAX_REASON: usize = 512;
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The limits of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventTarget {
    /// Its name.
    pub name: String,
    /// Its kind: `webhook`, for example.
    pub kind: String,
    /// The most events that wait for it in the partitions of one bucket.
    pub backlog: u64,
    /// True if writes are refused while that many wait. Otherwise their events are dropped.
    pub refuses: bool,
}

impl EventTarget {
    /// Returns the limits of a target that this node does not know.
    pub(super) fn unknown(name: &str) -> EventTarget {
        EventTarget {
            name: name.to_owned(),
            kind: String::new(),
            backlog: 100_000,
            refuses: false,
        }
    }

    /// Returns the most events that wait for it in one partition.
    pub(super) fn most_in_partition(&self) -> u64 {
        self.backlog.div_ceil(SHARES).max(1)
    }
}

/// Brings events to a target.
#[async_trait]
pub trait DeliverEvent: Send + Sync + 'static {
    /// Delivers an event. Returns once the target has confirmed it.
    ///
    /// # Errors
    /// A text for operators. The event is tried again.
    async fn deliver(&self, event: &Event) -> Result<(), String>;

    /// Tells the target that a bucket's rules name it from now on.
    ///
    /// # Errors
    /// A text for the client that set the rules.
    async fn test(&self, bucket: &str, request_id: &str, now_ms: u64) -> Result<(), String>;
}

/// Returns the beginning of the reason for a failure: what is kept, logged and shown.
pub(super) fn shortened(mut why: String) -> String {
    why.truncate(why.floor_char_boundary(MAX_REASON));
    why.shrink_to_fit();
    why
}

/// The state of a target, as this node sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TargetStatus {
    /// Its name.
    pub name: String,
    /// Its kind; empty if this node does not know the target.
    pub kind: String,
    /// The events that wait for it, in the partitions for which this node delivers.
    pub backlog: u64,
    /// The events that this node delivered since it started.
    pub delivered: u64,
    /// The attempts of this node that failed since it started.
    pub failed: u64,
    /// The events that this node's replicas dropped since it started, because too many waited.
    pub dropped: u64,
    /// The reason why the last attempt failed; `None` if it did not.
    pub error: Option<String>,
    /// When a target that failed is tried again, in milliseconds since 1970.
    pub retry_ms: Option<u64>,
}

/// The progress with one target.
#[derive(Default)]
pub(super) struct Progress {
    pub status: TargetStatus,
    pauses: u32,
    until: Option<Instant>,
}

impl Progress {
    /// Notes a delivery.
    pub fn delivered(&mut self) {
        self.status.delivered += 1;
        self.status.error = None;
        self.pauses = 0;
        self.until = None;
    }

    /// Returns until when the target is left alone.
    pub fn paused(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// Notes a failure, and returns until when the target is left alone.
    pub fn failed(&mut self, why: String, now: Instant) -> Instant {
        let why = shortened(why);
        if self.status.error.is_none() {
            let target = self.status.name.as_str();
            tracing::warn!(target_name = target, why, "events cannot be delivered");
        }
        self.status.failed += 1;
        self.status.error = Some(why);
        if let Some(until) = self.paused(now) {
            // It was under way when another one failed, so it says nothing new.
            return until;
        }
        let pause = FIRST_PAUSE * 2u32.pow(self.pauses.min(6));
        self.pauses += 1;
        let until = now + pause.min(LONGEST_PAUSE);
        self.until = Some(until);
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_pause_longer_and_a_delivery_ends_that() {
        let mut progress = Progress::default();
        let mut now = Instant::now();
        let mut last = Duration::ZERO;
        for _ in 0..9 {
            let until = progress.failed("no".into(), now);
            // Those that fail at the same time do not prolong the pause.
            assert_eq!(progress.failed("no".into(), now), until);
            assert_eq!(progress.paused(now), Some(until));
            assert_eq!(progress.paused(until), None);
            assert!(until - now >= last);
            last = until - now;
            now = until;
        }
        assert_eq!(last, LONGEST_PAUSE);
        progress.delivered();
        assert_eq!(progress.failed("no".into(), now), now + FIRST_PAUSE);
        progress.delivered();
        assert_eq!(progress.paused(now), None);
        assert_eq!((progress.status.failed, progress.status.delivered), (19, 2));
    }

    #[test]
    fn long_texts_of_targets_are_shortened() {
        let mut progress = Progress::default();
        progress.failed("é".repeat(1 << 20) + "x", Instant::now());
        assert_eq!(progress.status.error, Some("é".repeat(MAX_REASON / 2)));
        let odd = shortened(format!("x{}", "é".repeat(MAX_REASON)));
        assert_eq!(odd.len(), MAX_REASON - 1);
        assert_eq!(shortened("no".into()), "no");
    }

    #[test]
    fn backlog_is_shared_among_partitions() {
        let with = |backlog| EventTarget {
            backlog,
            ..EventTarget::unknown("t")
        };
        assert_eq!(with(1600).most_in_partition(), 100);
        assert_eq!(with(1601).most_in_partition(), 101);
        assert_eq!(with(1).most_in_partition(), 1);
    }
}
