//! The received but unread bytes of each stream of a TCP connection. Pure.
//!
//! A peer sends no more of a stream than its credit allows, so that an unread stream fills only its
//! own window. The window of a stream that is read fast grows as long as memory is left for it.
//!
//! Invariant: the remaining credit of the peer and the bytes not yet credited again add up to the
//! window.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};
use std::time::Duration;

use archipel_base::NodeId;
use bytes::Bytes;
use tokio::time::Instant;

use super::outbox::{FIRST_CREDIT_BYTES, Outbox};
use super::wire::Kind;
use crate::error::Error;
use crate::frames::Assembler;

/// The limit of a window: 4 MiB in 100 ms are 335 Mbit/s.
const LARGEST_WINDOW_BYTES: usize = 4 << 20;
/// The limit of the growth of all windows of a connection together.
const GROWTH_BYTES: usize = 64 << 20;

pub(super) struct Inbox {
    peer: NodeId,
    streams: BTreeMap<u64, Receiving>,
    growth: usize,
}

struct Receiving {
    buffer: Assembler,
    window: usize,
    /// The bytes that the peer may still send.
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
            growth: GROWTH_BYTES,
        }
    }

    /// Adds a stream to receive.
    pub fn add(&mut self, stream: u64, now: Instant) {
        let receiving = Receiving {
            buffer: Assembler::default(),
            window: FIRST_CREDIT_BYTES,
            left: FIRST_CREDIT_BYTES,
            uncredited: 0,
            credited_at: now,
            end: None,
            waiting: None,
        };
        self.streams.insert(stream, receiving);
    }

    /// Returns true if the stream may still be read.
    pub fn has(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Returns the number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Adds received bytes to a stream. After an `Err` the connection must be closed.
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
            // The reader waits for the rest of the frame.
            let taken = receiving.uncredited;
            self.credit(stream, taken, pace, outbox);
        }
        Ok(())
    }

    /// Records that the peer ended or reset the stream.
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

    /// Returns the next frame or the end of the stream. If neither has arrived, `waker` is woken
    /// later.
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

    /// Removes a stream that is no longer read. Returns true if the peer must be told.
    pub fn remove(&mut self, stream: u64) -> bool {
        let Some(receiving) = self.streams.remove(&stream) else {
            return false;
        };
        self.growth += receiving.window - FIRST_CREDIT_BYTES;
        receiving.end.is_none()
    }

    /// Wakes all readers after the connection is over.
    pub fn wake_all(&mut self) {
        self.streams.values_mut().for_each(Receiving::wake);
    }

    /// Grants credit for `taken` bytes once the amount justifies a message.
    fn credit(&mut self, stream: u64, taken: usize, pace: Pace, outbox: &mut Outbox) {
        let Some(receiving) = self.streams.get_mut(&stream) else {
            return;
        };
        if receiving.end.is_some() || taken < receiving.window / 2 {
            return;
        }
        let mut more = taken;
        let quick = pace.now.duration_since(receiving.credited_at) < 2 * pace.round_trip;
        if quick && receiving.window < LARGEST_WINDOW_BYTES && receiving.window <= self.growth {
            // The sender uses the whole window within two round trips, so that the window limits
            // it.
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

/// The current time and the round-trip time.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub now: Instant,
    pub round_trip: Duration,
}
