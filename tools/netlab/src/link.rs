//! One directed link: the arrival time of a packet that enters now, or the reason of its loss. No
//! clock, no packets.
//!
//! The steps are: a cut link loses every packet; chance loses some; a limited rate queues packets
//! up to a limit; then the latency applies. The latency varies slowly: it moves in straight lines
//! between points that are drawn evenly within `± jitter` and are four times `jitter` apart. So it
//! never falls faster than time passes, packets keep their order, and dense traffic sees the same
//! variation as sparse traffic. The standard deviation of one direction is 0.47 × jitter.

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Nanoseconds of a monotonic clock.
pub type Nanos = u64;

/// The minimum queue of a limited link: a few packets.
pub const MIN_QUEUE_BYTES: u64 = 16 << 10;
/// Rates above this mean no limit.
pub const MAX_RATE_BITS: u64 = 100_000_000_000;

const SECOND: u128 = 1_000_000_000;

/// The quality of a link.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
pub struct Quality {
    /// The average one-way latency.
    pub latency: Nanos,
    /// The maximum variation of the latency, to either side.
    pub jitter: Nanos,
    /// Bits per second; 0 means no limit.
    pub rate_bits: u64,
    /// The limit of bytes that wait for a limited rate.
    pub queue_bytes: u64,
    /// The share of packets that is lost by chance.
    pub loss: f64,
    /// The share of packets that take half as long again, so that others overtake them.
    pub reorder: f64,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet arrives at this time.
    Arrives(Nanos),
    /// The packet is lost.
    Lost(Why),
}

/// The reason of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The link is cut.
    Cut,
    /// The packet was lost by chance.
    Chance,
    /// The queue is full.
    Queue,
}

/// The traffic so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub struct Counters {
    /// Packets that entered.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets lost to a cut.
    pub cut: u64,
    /// Packets lost by chance.
    pub chance: u64,
    /// Packets lost to a full queue.
    pub queue: u64,
}

/// A link with its state.
#[derive(Clone, Debug)]
pub struct Link {
    /// The quality of the link.
    pub quality: Quality,
    /// True if no packet gets through.
    pub is_cut: bool,
    /// The traffic so far.
    pub counters: Counters,
    seed: u64,
    draws: u64,
    sends_until: Nanos,
    last_arrival: Nanos,
}

impl Link {
    /// Creates a link without traffic. Equal seeds give equal chances.
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

    /// Sends a packet and returns its fate. `now` must not go back.
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

    /// Returns the time at which the last bit has left, or `None` if the queue is full.
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

    /// Returns the latency at a point in time.
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

    /// Returns the variation at a point, from -1 to 1. It is the same at each call.
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

/// Returns the mixing function of SplitMix64: equal inputs give equal outputs without a visible
/// pattern.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps a number to 0 to 1, without 1.
fn share(number: u64) -> f64 {
    (number >> 11) as f64 / (1_u64 << 53) as f64
}
