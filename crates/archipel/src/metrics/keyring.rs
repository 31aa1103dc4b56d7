//! Metrics of the keyring.

use std::fmt;

use archipel_model::Model;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use super::{counter, gauge};

/// Registers the metrics of the keyring.
pub fn register(registry: &mut Registry, model: Model) {
    registry.register_collector(Box::new(Ring(model)));
}

struct Ring(Model);

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ring")
    }
}

impl Collector for Ring {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let known = self.0.known_keyring();
        let gauges = [
            (
                "archipel_keyring_keys",
                "Keys of the keyring that this node can open",
                known.keys as f64,
            ),
            (
                "archipel_keyring_newest_timestamp_seconds",
                "Time at which the newest key of the keyring was made; 0 if there is none",
                known.newest_made_ms as f64 / 1000.0,
            ),
            (
                "archipel_keyring_closed",
                "1 if no secret of this node opens the keyring",
                f64::from(u8::from(known.is_closed)),
            ),
        ];
        for (name, about, value) in gauges {
            gauge(&mut encoder, name, about, value)?;
        }
        let counts = self.0.sweep_counts();
        let counters = [
            (
                "archipel_keyring_examined",
                "Keys of versions and uploads that this node looked at to take earlier keys out of use",
                counts.examined,
            ),
            (
                "archipel_keyring_rewrapped",
                "Keys and secrets that this node wrapped by the newest key of the keyring",
                counts.rewrapped,
            ),
            (
                "archipel_keyring_failed",
                "Keys and secrets that this node could not wrap again; it comes back to them",
                counts.failed,
            ),
        ];
        for (name, about, value) in counters {
            counter(&mut encoder, name, about, value)?;
        }
        Ok(())
    }
}
