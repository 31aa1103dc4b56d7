//! What came on a TCP connection and was not taken yet, stream by stream. Pure.
//!
//! A peer sends of each stream only as much as it has credit for, so one that nobody reads fills its own window and
//! no other's. The window of a stream that is read fast grows, as long as there is memory set aside for it.
//!
//! Invariant: what the peer may still send, and what came and was not credited again, are the window together.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};
use std::time::Duration;

use archipel_base::NodeId;
use bytes::Bytes;
use tokio::time::Instant;

use super::outbox::{FIRST_CREDIT, Outbox};
use super::wire::Kind;
use crate::error::Error;
use crate::frames::Assembler;

/// The largest window: 4 MiB in 100 ms are 335 Mbit/s.
const LARGEST_WINDOW: usize = 4 << 20;
/// How much all windows of a connection may grow together.
const GROWTH: usize = 64 << 20;

pub(super) struct Inbox {
    peer: NodeId,
    streams: BTreeMap<u64, Receiving>,
    growth: usize,
}

struct Receiving {
    buffer: Assembler,
    window: usize,
    /// What the peer may still send.
    left: usize,
    uncredited: usize,
    credited_at: Instant,
    end: Option<End>,
    waiting: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Good,
    Reset,
}

impl Inbox {
    pub fn new(peer: NodeId) -> Inbox {
        Inbox {
            peer,
            streams: BTreeMap::new(),
            growth: GROWTH,
        }
    }

    /// A stream to receive.
    pub fn add(&mut self, stream: u64, now: Instant) {
        let receiving = Receiving {
            buffer: Assembler::default(),
            window: FIRST_CREDIT,
            left: FIRST_CREDIT,
            uncredited: 0,
            credited_at: now,
            end: None,
            waiting: None,
        };
        self.streams.insert(stream, receiving);
    }

    /// Whether somebody may still take of it.
    pub fn has(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Bytes came. `Err` if they should not have: there is no going on.
    pub fn data(
        &mut self,
        stream: u64,
        bytes: &[u8],
        pace: Pace,
        outbox: &mut Outbox,
    ) -> Result<(), String> {
        let Some(receiving) = self.streams.get_mut(&stream) else {
            return Ok(());
        };
        if receiving.end.is_some() {
            return Err("bytes after the end of a stream".into());
        }
        let left = receiving.left.checked_sub(bytes.len());
        receiving.left = left.ok_or("more bytes than there was credit for")?;
        receiving.uncredited += bytes.len();
        receiving.buffer.extend(bytes);
        if receiving.buffer.is_ready() {
            receiving.wake();
        } else if receiving.waiting.is_some() {
            // Somebody waits for the rest of the frame.
            let taken = receiving.uncredited;
            self.credit(stream, taken, pace, outbox);
        }
        Ok(())
    }

    /// The stream is over.
    pub fn end(&mut self, stream: u64, kind: Kind) {
        if let Some(receiving) = self.streams.get_mut(&stream) {
            if kind == Kind::Reset {
                receiving.end = Some(End::Reset);
                receiving.buffer = Assembler::default();
            } else {
                receiving.end = Some(End::Good);
            }
            receiving.wake();
        }
    }

    /// The next frame, or the end; else `waker` is woken.
    pub fn take(
        &mut self,
        stream: u64,
        waker: &Waker,
        pace: Pace,
        outbox: &mut Outbox,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        let peer = self.peer;
        let broken = |why: &str| Poll::Ready(Err(Error::Broken(peer, why.into())));
        let Some(receiving) = self.streams.get_mut(&stream) else {
            return broken("the stream is over");
        };
        let frame = receiving.buffer.next(peer);
        match (frame, receiving.end) {
            (Err(error), _) => Poll::Ready(Err(error)),
            (Ok(Some(frame)), _) => {
                let kept = receiving.buffer.len();
                let taken = receiving.uncredited.saturating_sub(kept);
                self.credit(stream, taken, pace, outbox);
                Poll::Ready(Ok(Some(frame)))
            }
            (_, Some(End::Reset)) => broken("the stream was broken off"),
            (_, Some(End::Good)) if receiving.buffer.is_empty() => Poll::Ready(Ok(None)),
            (_, Some(End::Good)) => broken("it ended within a frame"),
            (Ok(None), None) => {
                receiving.waiting = Some(waker.clone());
                let taken = receiving.uncredited;
                self.credit(stream, taken, pace, outbox);
                Poll::Pending
            }
        }
    }

    /// Nobody wants the stream any more; whether the peer is still to be told.
    pub fn remove(&mut self, stream: u64) -> bool {
        let Some(receiving) = self.streams.remove(&stream) else {
            return false;
        };
        self.growth += receiving.window - FIRST_CREDIT;
        receiving.end.is_none()
    }

    /// Wakes all who wait: the connection is over.
    pub fn wake_all(&mut self) {
        self.streams.values_mut().for_each(Receiving::wake);
    }

    /// Lets the peer send more in place of what was taken, once that is worth a message.
    fn credit(&mut self, stream: u64, taken: usize, pace: Pace, outbox: &mut Outbox) {
        let Some(receiving) = self.streams.get_mut(&stream) else {
            return;
        };
        if receiving.end.is_some() || taken < receiving.window / 2 {
            return;
        }
        let mut more = taken;
        let quick = pace.now.duration_since(receiving.credited_at) < 2 * pace.round_trip;
        if quick && receiving.window < LARGEST_WINDOW && receiving.window <= self.growth {
            // It takes all that may be on its way: the window is what holds it up.
            self.growth -= receiving.window;
            more += receiving.window;
            receiving.window *= 2;
        }
        receiving.credited_at = pace.now;
        receiving.uncredited -= taken;
        receiving.left += more;
        outbox.grant(stream, more);
    }
}

impl Receiving {
    fn wake(&mut self) {
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

/// What time it is, and how long a round trip takes.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub now: Instant,
    pub round_trip: Duration,
}
