//! Stamps: the total order of writes, and the hybrid logical clock that issues them.
//!
//! A stamp is both the version of a row and the ballot of the register protocol. No stamp is issued
//! twice: each run of a node has a writer of its own, 48 random bits and the run's number, so that
//! a node that restarts with its clock set back cannot repeat a stamp. A node whose stamps go back
//! while it runs gets another writer, too.
//!
//! Source of the clock: Kulkarni et al., "Logical Physical Clocks" (2014).

use std::fmt;
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clock::WallClock;
use crate::random::Random;

/// An issuer of stamps: 48 random bits of a node's run and the low 16 bits of the run's number.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Writer(pub u64);

impl Writer {
    /// Returns the writer of a node's `boot`-th run, with the run's random token. The token is
    /// needed because metadata that was rolled back repeats the numbers of runs.
    pub fn new(token: [u8; 6], boot: u64) -> Writer {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&token);
        bytes[6..].copy_from_slice(&(boot as u16).to_be_bytes());
        Writer(u64::from_be_bytes(bytes))
    }
}

/// A point in the total order of writes: milliseconds since 1970, a counter within the
/// millisecond, and the writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    /// Milliseconds since 1970 in the high 48 bits, a counter in the low 16.
    pub time: u64,
    /// The issuer. It orders stamps of the same time.
    pub writer: Writer,
}

impl Stamp {
    /// The stamp of a row that was never written. It precedes every issued stamp.
    pub const ZERO: Stamp = Stamp {
        time: 0,
        writer: Writer(0),
    };

    /// Creates a stamp from its parts. `millis` is cut to 48 bits.
    pub fn new(millis: u64, counter: u16, writer: Writer) -> Stamp {
        Stamp {
            time: millis << 16 | u64::from(counter),
            writer,
        }
    }

    /// Returns the milliseconds since 1970.
    pub fn millis(&self) -> u64 {
        self.time >> 16
    }

    /// Returns sixteen bytes that sort like the stamps.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.time.to_be_bytes());
        bytes[8..].copy_from_slice(&self.writer.0.to_be_bytes());
        bytes
    }

    /// Returns the stamp of bytes from [`to_bytes`](Stamp::to_bytes).
    pub fn from_bytes(bytes: [u8; 16]) -> Stamp {
        let number = u128::from_be_bytes(bytes);
        Stamp {
            time: (number >> 64) as u64,
            writer: Writer(number as u64),
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counter = self.time & 0xffff;
        write!(f, "{}.{counter}@{:x}", self.millis(), self.writer.0)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.to_bytes())
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Stamp, D::Error> {
        let bytes = serde_bytes::ByteArray::<16>::deserialize(deserializer)?;
        Ok(Stamp::from_bytes(*bytes))
    }
}

/// A hybrid logical clock. It issues increasing stamps that follow the wall clock.
pub struct StampClock(Mutex<State>);

struct State {
    writer: Writer,
    last: u64,
}

impl StampClock {
    /// Creates a clock for one writer. Each run of a node must use its own [`Writer`].
    pub fn new(writer: Writer) -> StampClock {
        StampClock(Mutex::new(State { writer, last: 0 }))
    }

    /// Returns the writer of this clock's stamps.
    pub fn writer(&self) -> Writer {
        self.state().writer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Issues the next stamp: at the wall clock's time, or just after the last stamp issued or
    /// observed.
    pub fn next(&self, wall: &dyn WallClock) -> Stamp {
        let now = wall.now_millis() << 16;
        let mut state = self.state();
        state.last = now.max(state.last + 1);
        Stamp {
            time: state.last,
            writer: state.writer,
        }
    }

    /// Goes back to the wall clock's time if the last stamp is later than `latest_millis`, as
    /// another writer, so that no stamp is issued twice. Returns true if it did so.
    ///
    /// The wall clock was wrong by then, and replicas would refuse all stamps until the time is
    /// right again.
    pub fn step_back(&self, latest_millis: u64, random: &dyn Random) -> bool {
        let mut state = self.state();
        if state.last >> 16 <= latest_millis {
            return false;
        }
        let boot = state.writer.0 & 0xffff;
        *state = State {
            writer: Writer(random.next_u64() << 16 | boot),
            last: 0,
        };
        true
    }

    /// Moves the clock past `stamp`, so that the next stamp is later.
    ///
    /// The caller has checked that `stamp` is not too far ahead (see the register protocol).
    pub fn observe(&self, stamp: Stamp) {
        let mut state = self.state();
        state.last = stamp.time.max(state.last);
    }
}
