//! One directed link: when a packet that enters now will arrive, or why it never will. No clock, no packets.
//!
//! In this order: a cut link loses all; chance loses some; a limited rate makes packets wait for one another, up to
//! a queue's length; then the way takes its time. The way's length strays slowly: it goes in straight lines
//! between points that are drawn evenly within `± jitter`, four times `jitter` apart. So it never shortens faster than
//! time goes by, packets keep their order by themselves, and dense traffic strays no further than sparse.
//! The standard deviation of one direction is 0.47 × jitter.

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Nanoseconds of some clock that never goes back.
pub type Nanos = u64;

/// A limited link holds at least this: a few packets.
pub const MIN_QUEUE_BYTES: u64 = 16 << 10;
/// More is no limit.
pub const MAX_RATE_BITS: u64 = 100_000_000_000;

const SECOND: u128 = 1_000_000_000;

/// How a link is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
pub struct Quality {
    /// One way, on average.
    pub latency: Nanos,
    /// The most it strays, to either side.
    pub jitter: Nanos,
    /// Bits a second; 0: no limit.
    pub rate_bits: u64,
    /// What may wait for a limited rate.
    pub queue_bytes: u64,
    /// Share of the packets that is lost by chance.
    pub loss: f64,
    /// Share of the packets that take half as long again, so that others overtake them.
    pub reorder: f64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives then.
    Arrives(Nanos),
    /// It does not.
    Lost(Why),
}

/// Why a packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The link is cut.
    Cut,
    /// Chance.
    Chance,
    /// The queue is full.
    Queue,
}

/// What went through so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub struct Counters {
    /// Packets that entered.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that a cut took.
    pub cut: u64,
    /// Packets that chance took.
    pub chance: u64,
    /// Packets that found the queue full.
    pub queue: u64,
}

/// A link's state.
#[derive(Clone, Debug)]
pub struct Link {
    /// How it is.
    pub quality: Quality,
    /// Nothing gets through.
    pub is_cut: bool,
    /// What went through so far.
    pub counters: Counters,
    seed: u64,
    draws: u64,
    sends_until: Nanos,
    last_arrival: Nanos,
}

impl Link {
    /// A link that nothing has passed yet; equal seeds bring equal chances.
    pub fn new(quality: Quality, seed: u64) -> Self {
        Self {
            quality,
            is_cut: false,
            counters: Counters::default(),
            seed,
            draws: 0,
            sends_until: 0,
            last_arrival: 0,
        }
    }

    /// A packet enters. `now` must not go back.
    pub fn send(&mut self, now: Nanos, bytes: u64) -> Fate {
        self.counters.packets += 1;
        self.counters.bytes += bytes;
        if self.is_cut {
            self.counters.cut += 1;
            return Fate::Lost(Why::Cut);
        }
        if self.happens(self.quality.loss) {
            self.counters.chance += 1;
            return Fate::Lost(Why::Chance);
        }
        let Some(sent) = self.through_queue(now, bytes) else {
            self.counters.queue += 1;
            return Fate::Lost(Why::Queue);
        };
        Fate::Arrives(self.arrival(sent))
    }

    /// When the last bit has left, if there is room to wait.
    fn through_queue(&mut self, now: Nanos, bytes: u64) -> Option<Nanos> {
        let rate = u128::from(self.quality.rate_bits);
        if rate == 0 {
            return Some(now);
        }
        let waits = u128::from(self.sends_until.saturating_sub(now));
        let waiting_bytes = waits * rate / 8 / SECOND;
        if waiting_bytes + u128::from(bytes) > u128::from(self.quality.queue_bytes) && waits > 0 {
            return None;
        }
        let takes = (u128::from(bytes) * 8 * SECOND / rate) as Nanos;
        self.sends_until = self.sends_until.max(now) + takes;
        Some(self.sends_until)
    }

    fn arrival(&mut self, sent: Nanos) -> Nanos {
        let way = self.way(sent);
        if self.happens(self.quality.reorder) {
            return sent + way + way / 2;
        }
        self.last_arrival = self.last_arrival.max(sent + way);
        self.last_arrival
    }

    /// How long the way is at a point in time.
    fn way(&self, at: Nanos) -> Nanos {
        let Quality {
            latency, jitter, ..
        } = self.quality;
        if jitter == 0 {
            return latency;
        }
        let spacing = jitter.saturating_mul(4);
        let (point, within) = (at / spacing, (at % spacing) as f64 / spacing as f64);
        let (before, after) = (self.stray(point), self.stray(point + 1));
        let stray = (before + (after - before) * within) * jitter as f64;
        latency.saturating_add_signed(stray as i64)
    }

    /// The stray at a point: -1 to 1, always the same.
    fn stray(&self, point: u64) -> f64 {
        share(mix(self.seed ^ mix(point))) * 2.0 - 1.0
    }

    fn happens(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        self.draws += 1;
        share(mix(self.seed.rotate_left(32) ^ self.draws)) < probability
    }
}

/// The mixing function of SplitMix64: equal numbers in, equal numbers out, no pattern between.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// 0 to 1, without 1.
fn share(number: u64) -> f64 {
    (number >> 11) as f64 / (1_u64 << 53) as f64
}
