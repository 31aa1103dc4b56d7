//! What is to be sent on a TCP connection, the most urgent first. Pure.
//!
//! Frames wait here and not in the connection's buffers for as long as the order is still ours. Streams that are
//! equally urgent take turns, a piece each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use bytes::{Buf, Bytes, BytesMut};

use super::wire::{self, Kind, PIECE_BYTES};
use crate::transport::Class;

/// A stream takes the next frame once it has no more than this to send.
const AHEAD: usize = 64 << 10;
/// Bytes that a receiver takes of a stream before it says more.
pub(super) const FIRST_CREDIT: usize = 256 << 10;

/// Smaller is more urgent: class, bytes still to go, turn, stream.
type Key = (u8, u64, u64, u64);

#[derive(Default)]
pub(super) struct Outbox {
    streams: BTreeMap<u64, Sending>,
    /// Those that can send now.
    ready: BTreeSet<Key>,
    /// Openings, resets and stops, in their order.
    told: VecDeque<(Kind, u64)>,
    credits: BTreeMap<u64, u32>,
    ping: Option<u64>,
    pong: Option<u64>,
    turn: u64,
}

struct Sending {
    urgency: (u8, u64),
    key: Option<Key>,
    queue: VecDeque<Bytes>,
    queued: usize,
    credit: usize,
    finished: bool,
    waiting: Option<Waker>,
}

fn urgency(class: Class) -> (u8, u64) {
    match class {
        Class::Control => (0, 0),
        Class::Small => (1, 0),
        // In steps: streams that are about as far take turns.
        Class::Data { remaining } => (2, remaining >> 16),
        Class::Background => (3, 0),
    }
}

impl Outbox {
    /// A stream to send on.
    pub fn add(&mut self, stream: u64, class: Class) {
        let sending = Sending {
            urgency: urgency(class),
            key: None,
            queue: VecDeque::new(),
            queued: 0,
            credit: FIRST_CREDIT,
            finished: false,
            waiting: None,
        };
        self.streams.insert(stream, sending);
    }

    /// Whether a stream may still be sent on.
    pub fn has(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Whether the next frame is taken; else `waker` is woken when it is. `None` if the peer wants no more.
    pub fn room(&mut self, stream: u64, waker: &Waker) -> Option<bool> {
        let sending = self.streams.get_mut(&stream)?;
        let room = sending.queued <= AHEAD;
        sending.waiting = (!room).then(|| waker.clone());
        Some(room)
    }

    /// Bytes of a frame.
    pub fn push(&mut self, stream: u64, bytes: Bytes) {
        if let Some(sending) = self.streams.get_mut(&stream)
            && !bytes.is_empty()
        {
            sending.queued += bytes.len();
            sending.queue.push_back(bytes);
        }
        self.settle(stream);
    }

    /// The end comes after all that was pushed.
    pub fn finish(&mut self, stream: u64) {
        if let Some(sending) = self.streams.get_mut(&stream) {
            sending.finished = true;
        }
        self.settle(stream);
    }

    pub fn set_class(&mut self, stream: u64, class: Class) {
        if let Some(sending) = self.streams.get_mut(&stream) {
            sending.urgency = urgency(class);
            // A stream that waits for its turn waits at its new place.
            if let Some(key) = sending.key.take() {
                self.ready.remove(&key);
            }
        }
        self.settle(stream);
    }

    /// Forgets a stream and what it had to send; whether it was there.
    pub fn remove(&mut self, stream: u64) -> bool {
        let Some(sending) = self.streams.remove(&stream) else {
            return false;
        };
        if let Some(key) = sending.key {
            self.ready.remove(&key);
        }
        if let Some(waker) = sending.waiting {
            waker.wake();
        }
        true
    }

    /// The peer takes more. `Err` if it is beyond all measure.
    pub fn credit(&mut self, stream: u64, bytes: u32) -> Result<(), String> {
        if let Some(sending) = self.streams.get_mut(&stream) {
            sending.credit += bytes as usize;
            if sending.credit > 1 << 30 {
                return Err("too much credit".into());
            }
        }
        self.settle(stream);
        Ok(())
    }

    /// Opens, resets or stops a stream.
    pub fn tell(&mut self, kind: Kind, stream: u64) {
        self.told.push_back((kind, stream));
    }

    /// How many of those have not been sent.
    pub fn untold(&self) -> usize {
        self.told.len()
    }

    /// Lets the peer send more of a stream.
    pub fn grant(&mut self, stream: u64, bytes: usize) {
        let credit = self.credits.entry(stream).or_default();
        *credit = credit.saturating_add(bytes as u32);
    }

    pub fn ping(&mut self, time: u64) {
        self.ping = Some(time);
    }

    pub fn pong(&mut self, time: u64) {
        self.pong = Some(time);
    }

    /// Wakes all who wait: the connection is over.
    pub fn wake_all(&mut self) {
        let streams = self.streams.values_mut();
        streams
            .filter_map(|s| s.waiting.take())
            .for_each(Waker::wake);
    }

    /// Puts a stream among those that can send, or not.
    fn settle(&mut self, stream: u64) {
        let Some(sending) = self.streams.get_mut(&stream) else {
            return;
        };
        let can = match sending.queue.is_empty() {
            true => sending.finished,
            false => sending.credit > 0,
        };
        if can && sending.key.is_none() {
            self.turn += 1;
            let (class, remaining) = sending.urgency;
            let key = (class, remaining, self.turn, stream);
            sending.key = Some(key);
            self.ready.insert(key);
        }
    }

    /// Writes what is to go next, until there is about `enough`.
    pub fn gather(&mut self, into: &mut BytesMut, enough: usize) {
        if let Some(time) = self.ping.take() {
            wire::put(into, Kind::Ping, 0, &time.to_be_bytes());
        }
        if let Some(time) = self.pong.take() {
            wire::put(into, Kind::Pong, 0, &time.to_be_bytes());
        }
        while into.len() < enough
            && let Some((kind, stream)) = self.told.pop_front()
        {
            wire::put(into, kind, stream, &[]);
        }
        while into.len() < enough
            && let Some((stream, bytes)) = self.credits.pop_first()
        {
            wire::put(into, Kind::Credit, stream, &bytes.to_be_bytes());
        }
        // What opens a stream goes before what is on it.
        while into.len() < enough && self.told.is_empty() {
            let Some(key) = self.ready.pop_first() else {
                return;
            };
            self.piece(key.3, into);
        }
    }

    fn piece(&mut self, stream: u64, into: &mut BytesMut) {
        let Some(sending) = self.streams.get_mut(&stream) else {
            return;
        };
        sending.key = None;
        if sending.queue.is_empty() {
            wire::put(into, Kind::End, stream, &[]);
            self.remove(stream);
            return;
        }
        let length = PIECE_BYTES.min(sending.credit).min(sending.queued);
        wire::put_head(into, Kind::Data, length, stream);
        sending.take(length, into);
        if sending.queued <= AHEAD
            && let Some(waker) = sending.waiting.take()
        {
            waker.wake();
        }
        self.settle(stream);
    }
}

impl Sending {
    /// The next bytes; there are so many, and credit for them.
    fn take(&mut self, mut left: usize, into: &mut BytesMut) {
        self.credit -= left;
        self.queued -= left;
        while left > 0
            && let Some(first) = self.queue.front_mut()
        {
            let part = first.split_to(left.min(first.len()));
            left -= part.len();
            into.extend_from_slice(&part);
            if !first.has_remaining() {
                self.queue.pop_front();
            }
        }
    }
}
