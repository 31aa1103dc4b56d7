//! What a file says of links, and what that means for one direction.

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::link::{MAX_RATE_BITS, MIN_QUEUE_BYTES, Quality};

/// What may be said of links; what is absent is left as it was.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The round trip, without waiting for room; each direction takes half.
    pub rtt_ms: Option<f64>,
    /// How far the round trip strays to either side; each direction strays by half.
    pub jitter_ms: Option<f64>,
    /// Megabits a second, each direction; 0: no limit.
    pub rate_mbit: Option<f64>,
    /// What may wait for a limited link, KiB; without it what the rate sends in 100 ms.
    pub queue_kib: Option<f64>,
    /// The share of packets that is lost by chance, 0 to 1.
    pub loss: Option<f64>,
    /// The share of packets that others may overtake, 0 to 1.
    pub reorder: Option<f64>,
}

impl LinkSpec {
    /// This, with all that `other` says put over it.
    pub fn or(&self, other: &Self) -> Self {
        Self {
            rtt_ms: other.rtt_ms.or(self.rtt_ms),
            jitter_ms: other.jitter_ms.or(self.jitter_ms),
            rate_mbit: other.rate_mbit.or(self.rate_mbit),
            queue_kib: other.queue_kib.or(self.queue_kib),
            loss: other.loss.or(self.loss),
            reorder: other.reorder.or(self.reorder),
        }
    }

    /// One direction, in the model's units.
    pub fn quality(&self) -> Quality {
        self.over(&Quality::default())
    }

    /// What this says, put over how a link is.
    pub fn over(&self, old: &Quality) -> Quality {
        let half = |ms: f64| (ms * 1e6 / 2.0) as u64;
        let rate_bits = self
            .rate_mbit
            .map_or(old.rate_bits, |mbit| (mbit * 1e6) as u64);
        let usual = match self.rate_mbit {
            Some(_) => rate_bits / 80,
            None => old.queue_bytes,
        };
        let queue_bytes = self.queue_kib.map_or(usual, |kib| (kib * 1024.0) as u64);
        Quality {
            latency: self.rtt_ms.map_or(old.latency, half),
            jitter: self.jitter_ms.map_or(old.jitter, half),
            rate_bits,
            queue_bytes: queue_bytes.max(MIN_QUEUE_BYTES),
            loss: self.loss.unwrap_or(old.loss),
            reorder: self.reorder.unwrap_or(old.reorder),
        }
    }

    /// Whether the values are possible.
    pub fn validate(&self) -> Outcome<()> {
        let hour_ms = 3_600_000.0;
        let limits = [
            ("rtt_ms", self.rtt_ms, hour_ms),
            ("jitter_ms", self.jitter_ms, self.rtt_ms.unwrap_or(hour_ms)),
            ("rate_mbit", self.rate_mbit, MAX_RATE_BITS as f64 / 1e6),
            ("queue_kib", self.queue_kib, 1048576.0),
            ("loss", self.loss, 1.0),
            ("reorder", self.reorder, 1.0),
        ];
        for (name, value, most) in limits {
            if value.is_some_and(|value| !(0.0..=most).contains(&value)) {
                return Err(format!("{name}: 0 to {most} is possible").into());
            }
        }
        Ok(())
    }

    /// Whether it asks for nothing that a plain wire does not do.
    pub fn is_plain(&self) -> bool {
        let said = [
            self.rtt_ms,
            self.jitter_ms,
            self.rate_mbit,
            self.loss,
            self.reorder,
        ];
        said.iter().all(|value| value.unwrap_or(0.0) == 0.0)
    }
}
