//! The streams of a TCP connection and the handling of received pieces. Pure.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};
use std::time::Duration;

use archipel_base::NodeId;
use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;

use super::inbox::{Inbox, Pace};
use super::outbox::Outbox;
use super::wire::{Kind, Piece};
use crate::error::Error;
use crate::identity::Side;
use crate::transport::Class;

/// The number of streams that each end may have open.
pub(super) const STREAMS: usize = 1024;
/// The limit of unsent control pieces. Beyond it the peer does not read.
const MAX_UNSENT_CONTROLS: usize = 4 * STREAMS;
/// The assumed round-trip time before the first measurement.
const ROUND_TRIP: Duration = Duration::from_millis(100);

/// The reason why a connection is over.
pub(super) type Broken = String;

pub(super) struct ConnectionState {
    pub outbox: Outbox,
    inbox: Inbox,
    /// The number of this end's next stream.
    next: u64,
    permits: BTreeMap<u64, OwnedSemaphorePermit>,
    /// The queue of streams that the peer opened. `None` when the connection is over.
    opened: Option<mpsc::Sender<u64>>,
    round_trip: Option<Duration>,
    broken: Option<Broken>,
}

impl ConnectionState {
    pub fn new(peer: NodeId, side: Side, opened: mpsc::Sender<u64>) -> ConnectionState {
        ConnectionState {
            outbox: Outbox::default(),
            inbox: Inbox::new(peer),
            next: match side {
                Side::Dialling => 1,
                Side::Listening => 2,
            },
            permits: BTreeMap::new(),
            opened: Some(opened),
            round_trip: None,
            broken: None,
        }
    }

    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Ends the connection. The first reason is kept.
    pub fn break_off(&mut self, why: &str) {
        self.broken.get_or_insert_with(|| why.to_owned());
        self.opened = None;
        self.outbox.wake_all();
        self.inbox.wake_all();
    }

    /// Opens a stream from this end.
    pub fn open(
        &mut self,
        class: Class,
        permit: OwnedSemaphorePermit,
        now: Instant,
    ) -> Result<u64, Broken> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        if self.outbox.unsent_controls() > MAX_UNSENT_CONTROLS {
            return Err("the peer reads nothing".into());
        }
        let id = self.next;
        self.next += 2;
        self.outbox.push_control(Kind::Open, id);
        self.outbox.add(id, class);
        self.inbox.add(id, now);
        self.permits.insert(id, permit);
        Ok(id)
    }

    /// Writes the next pieces to send.
    pub fn gather(&mut self, into: &mut BytesMut, enough: usize) {
        self.outbox.gather(into, enough);
        // Streams whose end has just been written.
        let (outbox, inbox) = (&self.outbox, &self.inbox);
        self.permits
            .retain(|id, _| outbox.has(*id) || inbox.has(*id));
    }

    /// Returns a frame of a stream, or its end.
    pub fn take(
        &mut self,
        id: u64,
        waker: &Waker,
        now: Instant,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        let pace = self.pace(now);
        self.inbox.take(id, waker, pace, &mut self.outbox)
    }

    /// Resets a stream whose sending half was dropped before its end.
    pub fn reset(&mut self, id: u64) {
        if self.outbox.remove(id) {
            self.outbox.push_control(Kind::Reset, id);
        }
    }

    /// Stops a stream whose receiving half was dropped.
    pub fn stop(&mut self, id: u64) {
        if self.inbox.remove(id) {
            self.outbox.push_control(Kind::Stop, id);
        }
    }

    fn pace(&self, now: Instant) -> Pace {
        Pace {
            now,
            round_trip: self.round_trip.unwrap_or(ROUND_TRIP),
        }
    }

    /// Handles a received piece. `Err` if the piece violates the protocol; the connection must be
    /// closed.
    pub fn handle(&mut self, piece: Piece, now: Instant, begun: Instant) -> Result<(), Broken> {
        let Piece {
            kind,
            stream,
            mut payload,
        } = piece;
        match kind {
            Kind::Open => self.opened(stream, now)?,
            Kind::Data => {
                let pace = self.pace(now);
                self.inbox.data(stream, &payload, pace, &mut self.outbox)?;
            }
            Kind::End | Kind::Reset => self.inbox.end(stream, kind),
            Kind::Stop => {
                self.outbox.remove(stream);
            }
            Kind::Credit => {
                let bytes = payload.try_get_u32().map_err(|_| "a short piece")?;
                self.outbox.credit(stream, bytes)?;
            }
            Kind::Ping => {
                let time = payload.try_get_u64().map_err(|_| "a short piece")?;
                self.outbox.pong(time);
            }
            Kind::Pong => {
                let time = payload.try_get_u64().map_err(|_| "a short piece")?;
                self.answered(time, now.duration_since(begun));
            }
        }
        Ok(())
    }

    fn opened(&mut self, id: u64, now: Instant) -> Result<(), Broken> {
        let ours = id % 2 == self.next % 2;
        if ours || self.inbox.has(id) || self.outbox.has(id) {
            return Err("a stream with a wrong number".into());
        }
        if self.inbox.len() > 4 * STREAMS || self.outbox.unsent_controls() > MAX_UNSENT_CONTROLS {
            return Err("too many streams".into());
        }
        // The answering half is small until the service changes the class.
        self.outbox.add(id, Class::Small);
        self.inbox.add(id, now);
        let Some(opened) = &self.opened else {
            return Ok(());
        };
        let offered = opened.try_send(id);
        offered.map_err(|_| "too many streams".into())
    }

    fn answered(&mut self, time: u64, now: Duration) {
        let Some(taken) = now.checked_sub(Duration::from_micros(time)) else {
            return;
        };
        let smoothed = self.round_trip.unwrap_or(taken);
        self.round_trip = Some((smoothed * 7 + taken) / 8);
    }
}
