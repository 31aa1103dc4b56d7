//! The streams of a TCP connection: what each piece that comes means. Pure.

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

/// Streams that each end may have opened at a time.
pub(super) const STREAMS: usize = 1024;
/// Openings and endings that wait to be sent at most: the peer reads nothing.
const UNTOLD: usize = 4 * STREAMS;
/// A round trip as long as none was measured.
const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Why a connection is over.
pub(super) type Broken = String;

pub(super) struct State {
    pub outbox: Outbox,
    inbox: Inbox,
    /// Of this end's next stream.
    next: u64,
    permits: BTreeMap<u64, OwnedSemaphorePermit>,
    /// Takes the numbers of the peer's streams; gone when the connection is over.
    opened: Option<mpsc::Sender<u64>>,
    round_trip: Option<Duration>,
    broken: Option<Broken>,
}

impl State {
    pub fn new(peer: NodeId, side: Side, opened: mpsc::Sender<u64>) -> State {
        State {
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

    /// The connection is over; the first reason stays.
    pub fn break_off(&mut self, why: &str) {
        self.broken.get_or_insert_with(|| why.to_owned());
        self.opened = None;
        self.outbox.wake_all();
        self.inbox.wake_all();
    }

    /// Opens a stream of this end's.
    pub fn open(
        &mut self,
        class: Class,
        permit: OwnedSemaphorePermit,
        now: Instant,
    ) -> Result<u64, Broken> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        if self.outbox.untold() > UNTOLD {
            return Err("it takes nothing".into());
        }
        let id = self.next;
        self.next += 2;
        self.outbox.tell(Kind::Open, id);
        self.outbox.add(id, class);
        self.inbox.add(id, now);
        self.permits.insert(id, permit);
        Ok(id)
    }

    /// What is to be written next.
    pub fn gather(&mut self, into: &mut BytesMut, enough: usize) {
        self.outbox.gather(into, enough);
        // Streams whose end is on its way with this.
        let (outbox, inbox) = (&self.outbox, &self.inbox);
        self.permits
            .retain(|id, _| outbox.has(*id) || inbox.has(*id));
    }

    /// A frame of a stream, or its end.
    pub fn take(
        &mut self,
        id: u64,
        waker: &Waker,
        now: Instant,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        let pace = self.pace(now);
        self.inbox.take(id, waker, pace, &mut self.outbox)
    }

    /// The sending half is dropped before its end.
    pub fn reset(&mut self, id: u64) {
        if self.outbox.remove(id) {
            self.outbox.tell(Kind::Reset, id);
        }
    }

    /// The receiving half is dropped.
    pub fn stop(&mut self, id: u64) {
        if self.inbox.remove(id) {
            self.outbox.tell(Kind::Stop, id);
        }
    }

    fn pace(&self, now: Instant) -> Pace {
        Pace {
            now,
            round_trip: self.round_trip.unwrap_or(ROUND_TRIP),
        }
    }

    /// Does what a piece says. `Err` if it must not say so: there is no going on.
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
        if self.inbox.len() > 4 * STREAMS || self.outbox.untold() > UNTOLD {
            return Err("too many streams".into());
        }
        // Those answered here are small until the service says otherwise.
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
