//! The check that nothing removes a retained version before its time.
//!
//! Clocks are wrong by seconds, and one of them by minutes. So a version may be gone a little early
//! by the right time, but never by more than clocks that count as right differ.

use std::collections::BTreeMap;

use archipel_model::VersionId;

use super::reference::{Call, Reply};
use crate::nodes::world::World;

/// A clock that is wrong by 5 s is not corrected. A correction may be wrong by half of the longest
/// exchange that counts.
const SLACK_MS: u64 = 8_000;

/// A retention that was acknowledged. Times are right, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Retention {
    acknowledged_ms: u64,
    until_ms: u64,
}

/// The retentions that were acknowledged, by key and version.
#[derive(Debug, Default)]
pub struct Retained(BTreeMap<(&'static str, VersionId), Vec<Retention>>);

impl Retained {
    fn note(&mut self, key: &'static str, id: VersionId, retention: Retention) {
        self.0.entry((key, id)).or_default().push(retention);
    }

    /// Returns a retention that was acknowledged before a request began and lasts beyond its
    /// answer.
    fn lasting(&self, key: &'static str, id: VersionId, began: u64, now: u64) -> Option<u64> {
        let of = self.0.get(&(key, id)).into_iter().flatten();
        let mut lasting = of.filter(|retention| {
            retention.acknowledged_ms < began && now + SLACK_MS < retention.until_ms
        });
        lasting.next().map(|retention| retention.until_ms)
    }
}

/// Returns the right time, in milliseconds since 1970.
pub fn right_millis(world: &World) -> u64 {
    let first = world.machines.first();
    first.map_or(0, |machine| machine.clock.right_millis())
}

/// Judges an answer to a request that began at a time: a deletion that took effect, and a read that
/// found nothing.
pub fn judge(world: &World, key: &'static str, call: Call, reply: Reply, began: u64) {
    let now = right_millis(world);
    let id = match (call, reply) {
        (Call::Retain(id, until_ms), Reply::Done) => {
            let retention = Retention {
                acknowledged_ms: now,
                until_ms,
            };
            return world.record().versions.retained.note(key, id, retention);
        }
        (Call::DeleteVersion(id), Reply::Done) => id,
        (Call::GetVersion(id), Reply::SawVersion(None)) => id,
        _ => return,
    };
    gone(world, key, id, began);
}

/// Judges a listing that began at a time: it shows these versions of a key.
pub fn judge_listing(world: &World, key: &'static str, shown: &[VersionId], began: u64) {
    let record = world.record();
    let all = record.versions.retained.0.keys().copied();
    let missing = all.filter(|(of, id)| *of == key && !shown.contains(id));
    let missing: Vec<VersionId> = missing.map(|(_, id)| id).collect();
    drop(record);
    for id in missing {
        gone(world, key, id, began);
    }
}

fn gone(world: &World, key: &'static str, id: VersionId, began: u64) {
    let now = right_millis(world);
    let lasting = world
        .record()
        .versions
        .retained
        .lasting(key, id, began, now);
    if let Some(until_ms) = lasting {
        let early = until_ms - now;
        world.violation(format!(
            "version {id} of {key} is gone {early} ms before the end of its retention"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_gone_long_before_its_time_is_noticed() {
        let mut retained = Retained::default();
        let until_ms = 100_000;
        let retention = Retention {
            acknowledged_ms: 1_000,
            until_ms,
        };
        retained.note("v", VersionId::Null, retention);
        let gone = |began, now| retained.lasting("v", VersionId::Null, began, now);
        assert_eq!(gone(1_001, until_ms - SLACK_MS - 1), Some(until_ms));
        assert_eq!(gone(1_001, until_ms - SLACK_MS), None, "clocks differ");
        assert_eq!(gone(1_000, 2_000), None, "the deletion may have come first");
        assert_eq!(
            retained.lasting("old/w", VersionId::Null, 2_000, 3_000),
            None
        );
    }
}
