//! The pieces to send on a TCP connection, the most urgent first. Pure.
//!
//! Frames wait here and not in the connection's buffers, so that their order can change as long as
//! possible. Equally urgent streams take turns, one piece each. Content is sent by what is left of it,
//! and each eighth piece is of the stream that has waited for longest: short streams that use up the
//! link would hold up a long one for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use bytes::{Buf, Bytes, BytesMut};

use super::wire::{self, Kind, PIECE_BYTES};
use crate::transport::Class;

/// A stream accepts the next frame once it has no more than this left to send.
const AHEAD_BYTES: usize = 64 << 10;
/// The bytes of a new stream that a receiver accepts before it grants more credit.
pub(super) const FIRST_CREDIT_BYTES: usize = 256 << 10;

/// The order of the ready streams, most urgent first: class, rank, turn, stream.
type Key = (u8, u64, u64, u64);
/// The class of content in a key.
const CONTENT: u8 = 2;
/// Of this many pieces of content, one is of the stream that has waited for longest.
const LONGEST_WAIT: u64 = 8;

#[derive(Default)]
pub(super) struct Outbox {
    streams: BTreeMap<u64, Sending>,
    /// The streams that can send now.
    ready: BTreeSet<Key>,
    /// Openings, resets and stops, in their order.
    controls: VecDeque<(Kind, u64)>,
    credits: BTreeMap<u64, u32>,
    ping: Option<u64>,
    pong: Option<u64>,
    turn: u64,
    /// The number of pieces of content that were sent. Content that comes last does not count.
    content: u64,
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
        Class::Data { remaining } => (CONTENT, Class::rank(remaining)),
        Class::Background => (3, 0),
    }
}

impl Outbox {
    /// Adds a stream to send on.
    pub fn add(&mut self, stream: u64, class: Class) {
        let sending = Sending {
            urgency: urgency(class),
            key: None,
            queue: VecDeque::new(),
            queued: 0,
            credit: FIRST_CREDIT_BYTES,
            finished: false,
            waiting: None,
        };
        self.streams.insert(stream, sending);
    }

    /// Returns true if the stream may still be sent on.
    pub fn has(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Returns true if the stream accepts the next frame. Otherwise `waker` is woken later. Returns
    /// `None` if the peer has stopped the stream.
    pub fn room(&mut self, stream: u64, waker: &Waker) -> Option<bool> {
        let sending = self.streams.get_mut(&stream)?;
        let room = sending.queued <= AHEAD_BYTES;
        sending.waiting = (!room).then(|| waker.clone());
        Some(room)
    }

    /// Appends the bytes of a frame.
    pub fn push(&mut self, stream: u64, bytes: Bytes) {
        if let Some(sending) = self.streams.get_mut(&stream)
            && !bytes.is_empty()
        {
            sending.queued += bytes.len();
            sending.queue.push_back(bytes);
        }
        self.settle(stream);
    }

    /// Ends the stream after all pushed bytes.
    pub fn finish(&mut self, stream: u64) {
        if let Some(sending) = self.streams.get_mut(&stream) {
            sending.finished = true;
        }
        self.settle(stream);
    }

    pub fn set_class(&mut self, stream: u64, class: Class) {
        if let Some(sending) = self.streams.get_mut(&stream) {
            sending.urgency = urgency(class);
            // A waiting stream moves to its new position.
            if let Some(key) = sending.key.take() {
                self.ready.remove(&key);
            }
        }
        self.settle(stream);
    }

    /// Removes a stream and its unsent bytes. Returns true if it existed.
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

    /// Adds credit from the peer. `Err` if the sum is impossibly large.
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

    /// Queues a control piece that opens, resets or stops a stream.
    pub fn push_control(&mut self, kind: Kind, stream: u64) {
        self.controls.push_back((kind, stream));
    }

    /// Returns the number of unsent control pieces.
    pub fn unsent_controls(&self) -> usize {
        self.controls.len()
    }

    /// Queues credit for the peer.
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

    /// Wakes all senders after the connection is over.
    pub fn wake_all(&mut self) {
        let streams = self.streams.values_mut();
        streams
            .filter_map(|s| s.waiting.take())
            .for_each(Waker::wake);
    }

    /// Adds a stream to the ready ones or removes it, depending on its bytes and credit.
    fn settle(&mut self, stream: u64) {
        let Some(sending) = self.streams.get_mut(&stream) else {
            return;
        };
        let can = if sending.queue.is_empty() {
            sending.finished
        } else {
            sending.credit > 0
        };
        if can && sending.key.is_none() {
            self.turn += 1;
            let (class, rank) = sending.urgency;
            let key = (class, rank, self.turn, stream);
            sending.key = Some(key);
            self.ready.insert(key);
        }
    }

    /// Writes the next pieces until there are about `enough` bytes.
    pub fn gather(&mut self, into: &mut BytesMut, enough: usize) {
        if let Some(time) = self.ping.take() {
            wire::put(into, Kind::Ping, 0, &time.to_be_bytes());
        }
        if let Some(time) = self.pong.take() {
            wire::put(into, Kind::Pong, 0, &time.to_be_bytes());
        }
        while into.len() < enough
            && let Some((kind, stream)) = self.controls.pop_front()
        {
            wire::put(into, kind, stream, &[]);
        }
        while into.len() < enough
            && let Some((stream, bytes)) = self.credits.pop_first()
        {
            wire::put(into, Kind::Credit, stream, &bytes.to_be_bytes());
        }
        // The piece that opens a stream precedes its data.
        while into.len() < enough && self.controls.is_empty() {
            let Some(key) = self.choose() else {
                return;
            };
            self.ready.remove(&key);
            self.piece(key.3, into);
        }
    }

    /// Returns the stream whose piece is sent next. Content that comes last waits for as long as
    /// there is other content.
    fn choose(&mut self) -> Option<Key> {
        let first = *self.ready.first()?;
        if first.0 != CONTENT || first.1 == Class::LAST_RANK {
            return Some(first);
        }
        self.content += 1;
        if !self.content.is_multiple_of(LONGEST_WAIT) {
            return Some(first);
        }
        let content = self.ready.range(first..(CONTENT, Class::LAST_RANK, 0, 0));
        content.min_by_key(|key| key.2).copied()
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
        if sending.queued <= AHEAD_BYTES
            && let Some(waker) = sending.waiting.take()
        {
            waker.wake();
        }
        self.settle(stream);
    }
}

impl Sending {
    /// Moves the next `left` bytes out of the queue. They must exist, and credit must cover them.
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
