//! The link properties in a file, and their meaning for one direction.

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::link::{MAX_RATE_BITS, MIN_QUEUE_BYTES, Quality};

/// Properties of links. A missing property keeps its value.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The round trip without queueing; each direction takes half.
    pub rtt_ms: Option<f64>,
    /// The variation of the round trip to either side; each direction varies by half.
    pub jitter_ms: Option<f64>,
    /// Megabits per second in each direction; 0 means no limit.
    pub rate_mbit: Option<f64>,
    /// The queue of a limited link in KiB. Default: what the rate sends in 100 ms.
    pub queue_kib: Option<f64>,
    /// The share of packets that is lost by chance, 0 to 1.
    pub loss: Option<f64>,
    /// The share of packets that others may overtake, 0 to 1.
    pub reorder: Option<f64>,
}

impl LinkSpec {
    /// Returns these properties, overridden by those of `other`.
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

    /// Returns the quality of one direction in the model's units.
    pub fn quality(&self) -> Quality {
        self.over(&Quality::default())
    }

    /// Returns the quality `old`, overridden by these properties.
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

    /// Checks the values.
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
                return Err(format!("{name}: use 0 to {most}").into());
            }
        }
        Ok(())
    }

    /// Returns true if a plain wire has these properties.
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
