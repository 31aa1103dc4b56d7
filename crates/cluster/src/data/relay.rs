//! The relay: the latest messages of this node's model, for the nodes that ask for them. It is in
//! memory only, and keeps nothing while no node asks. No guarantee depends on it: a node that asks
//! too late, or that asks a node which has started again, misses messages.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archipel_base::{Id, boxed};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::node::wire::{Position, RelayReply};

mod follow;

pub use follow::Relayed;

/// The most messages that are kept, and their most bytes together.
const KEPT: usize = 10_000;
const KEPT_BYTES: usize = 8 << 20;
/// The most messages that one answer holds, and about their most bytes together.
const TOLD: usize = 1000;
const TOLD_BYTES: usize = 256 << 10;
/// The longest message. It fits an answer beside others.
const LONGEST_BYTES: usize = 16 << 10;
/// A relay that was not asked for so long keeps no messages any more.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// The messages of one run of a node.
pub struct Relay {
    run: Id,
    /// Some node asks for messages.
    is_asked: AtomicBool,
    state: Mutex<State>,
    grown: Notify,
}

#[derive(Default)]
struct State {
    /// When a node asked last.
    asked: Option<Instant>,
    /// The number of messages that are not kept any more.
    dropped: u64,
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
}

impl State {
    fn end(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.kept.pop_front() {
            self.kept_bytes -= first.len();
            self.dropped += 1;
        }
    }
}

impl Relay {
    /// Creates the relay of a run with this random name.
    pub(crate) fn new(run: Id) -> Relay {
        Relay {
            run,
            is_asked: AtomicBool::new(false),
            state: Mutex::default(),
            grown: Notify::new(),
        }
    }

    /// Returns true if some node asks, or did so lately.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Tells the nodes that ask a message, which is made only if there are some. One that is longer
    /// than 16 KiB is left out.
    pub fn tell(&self, message: impl FnOnce() -> Option<Bytes>) {
        // Every write passes here, so it costs nothing while no node asks.
        if !self.is_asked() {
            return;
        }
        let message = message().filter(|message| message.len() <= LONGEST_BYTES);
        let Some(message) = message else {
            return;
        };
        {
            let mut state = self.state.lock();
            if state.asked.is_none_or(|asked| asked.elapsed() > FORGOTTEN) {
                self.is_asked.store(false, Ordering::Relaxed);
                state.dropped = state.end();
                (state.kept, state.kept_bytes) = (VecDeque::new(), 0);
                return;
            }
            state.kept_bytes += message.len();
            state.kept.push_back(message);
            while state.kept.len() > KEPT || state.kept_bytes > KEPT_BYTES {
                state.drop_first();
            }
        }
        self.grown.notify_waiters();
    }

    /// Returns the messages after a position, at once if there are some, and otherwise after the
    /// next one or when `hold` is over. Without a position, returns the present one. From now on
    /// messages are kept for a while.
    #[boxed]
    pub(crate) async fn after(&self, after: Option<Position>, hold: Duration) -> RelayReply {
        self.state.lock().asked = Some(Instant::now());
        self.is_asked.store(true, Ordering::Relaxed);
        let waiting = async {
            loop {
                // The listener is there before the look, so that no message comes between.
                let mut grown = std::pin::pin!(self.grown.notified());
                grown.as_mut().enable();
                let (messages, _) = self.look(after);
                if after.is_none() || !messages.is_empty() {
                    return;
                }
                grown.await;
            }
        };
        // When the time is over, the answer says that there is nothing.
        let _ = tokio::time::timeout(hold, waiting).await;
        let (messages, number) = self.look(after);
        RelayReply {
            messages,
            next: Position {
                run: self.run,
                number,
            },
        }
    }

    /// Returns the messages after a position, and the position after them. Those that are not kept
    /// any more are left out.
    fn look(&self, after: Option<Position>) -> (Vec<Bytes>, u64) {
        let state = self.state.lock();
        let known = after.filter(|after| after.run == self.run && after.number <= state.end());
        let from = match (after, known) {
            (None, _) => state.end(),
            // All messages of this run came after what the asking node heard of another one.
            (Some(_), None) => state.dropped,
            (Some(_), Some(known)) => known.number.max(state.dropped),
        };
        let mut room = TOLD_BYTES;
        // It fits, because it is at most the number of messages kept.
        let rest = state.kept.iter().skip((from - state.dropped) as usize);
        let told = rest.take(TOLD).take_while(|message| {
            let fits = message.len() <= room;
            room = room.saturating_sub(message.len());
            fits
        });
        let told: Vec<Bytes> = told.cloned().collect();
        let next = from + told.len() as u64;
        (told, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(5);
    const RUN: Id = Id([1; 16]);

    fn tell(relay: &Relay, text: &str) {
        relay.tell(|| Some(Bytes::copy_from_slice(text.as_bytes())));
    }

    async fn read(relay: &Relay, number: u64) -> (Vec<Bytes>, u64) {
        let reply = relay.after(Some(Position { run: RUN, number }), LONG).await;
        assert_eq!(reply.next.run, RUN);
        (reply.messages, reply.next.number)
    }

    #[tokio::test(start_paused = true)]
    async fn messages_are_kept_only_for_those_who_ask() {
        let relay = Relay::new(RUN);
        relay.tell(|| panic!("nobody asks"));
        assert_eq!(relay.after(None, LONG).await.next.number, 0);
        tell(&relay, "a");
        tell(&relay, "b");
        assert_eq!(read(&relay, 0).await, (vec!["a".into(), "b".into()], 2));
        let before = Instant::now();
        assert_eq!(read(&relay, 2).await, (vec![], 2));
        assert_eq!(before.elapsed(), LONG);
        let telling = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            tell(&relay, "c");
        };
        let (told, ()) = tokio::join!(read(&relay, 2), telling);
        assert_eq!(told, (vec!["c".into()], 3));
        tokio::time::sleep(FORGOTTEN + LONG).await;
        tell(&relay, "d");
        assert_eq!(relay.state.lock().kept.len(), 0);
        relay.tell(|| panic!("nobody asks any more"));
        // The numbers go on, so that an old position is never taken for a new one.
        assert_eq!(relay.after(None, LONG).await.next.number, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_node_misses_the_oldest_messages() {
        let relay = Relay::new(RUN);
        relay.after(None, LONG).await;
        for n in 0..KEPT + 10 {
            tell(&relay, &n.to_string());
        }
        let (told, next) = read(&relay, 3).await;
        assert_eq!((&told[0][..], told.len()), (&b"10"[..], TOLD));
        assert_eq!(next, 10 + TOLD as u64);
        // A position of another run is not known: all that is kept is new.
        let other = Position {
            run: Id([2; 16]),
            number: 9_000_000,
        };
        let reply = relay.after(Some(other), LONG).await;
        assert_eq!(&reply.messages[0][..], b"10");
        let beyond = read(&relay, u64::MAX).await;
        assert_eq!(&beyond.0[0][..], b"10");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_and_answers_are_bounded() {
        let relay = Relay::new(RUN);
        relay.after(None, LONG).await;
        let long = "x".repeat(LONGEST_BYTES);
        tell(&relay, &(long.clone() + "x"));
        assert_eq!(relay.state.lock().end(), 0, "too long");
        for _ in 0..1000 {
            tell(&relay, &long);
        }
        assert_eq!(relay.state.lock().kept_bytes, KEPT_BYTES);
        let first = relay.state.lock().dropped;
        let (told, next) = read(&relay, first).await;
        assert_eq!(told.len(), TOLD_BYTES / LONGEST_BYTES);
        assert_eq!(next, first + told.len() as u64);
    }
}
