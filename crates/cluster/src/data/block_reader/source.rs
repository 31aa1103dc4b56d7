//! The replica that a stream of blocks comes from, and the replicas that are known to be slow.

use std::collections::BTreeMap;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_net::{Class, ReceiveFrames};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::layout::MAX_NODES;

/// The time limit for a frame of a stream before another replica is asked.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// A replica that sends nothing for this many times its distance or its pace is asked for a sign of
/// life. A replica is slow if this many frames at its pace take [`PATIENCE`] or longer.
pub(super) const SEVERAL: u32 = 3;
/// The time for which a slow replica comes after the others, if no client waits: longer than it takes
/// for a block. For as long, a slow one goes on if the others were no better.
pub(super) const AVOIDED: Duration = Duration::from_secs(600);
/// The most slow replicas that are known: one for each node and kind of blocks.
const KNOWN: usize = 2 * MAX_NODES;

/// A stream of blocks from a replica.
pub(crate) struct Source {
    pub(super) node: NodeId,
    pub(super) receive: Box<dyn ReceiveFrames>,
    /// The time that its last frames took, once there is one. On a slow link a frame takes long,
    /// and so does a sign of life, which waits behind frames.
    pub(super) pace: Option<Duration>,
    /// True if it was asked because all replicas are slow.
    pub(super) is_last_resort: bool,
    /// Until then it is not left for being slow: the others were tried, and were no better.
    pub(super) stays_until: Option<Instant>,
}

impl Source {
    pub(super) fn new(node: NodeId, receive: Box<dyn ReceiveFrames>) -> Source {
        Source {
            node,
            receive,
            pace: None,
            is_last_resort: false,
            stays_until: None,
        }
    }

    /// Returns true if its next frame may take long: all replicas are slow, or it has begun to send
    /// and no client waits (`class`). Clients may use the link then, and from another replica a block
    /// that is not in pieces would begin again.
    pub(super) fn may_be_slow(&self, class: Option<Class>) -> bool {
        self.is_last_resort || (class.is_some() && self.pace.is_some())
    }

    /// Notes how long a frame took. The lengths of frames differ, up to twice from one to the next.
    pub(super) fn took(&mut self, time: Duration) {
        self.pace = Some(time.max(self.pace.unwrap_or_default() / 2));
    }

    /// Returns true if its frames take so long that another replica should be tried.
    pub(super) fn is_slow(&self) -> bool {
        SEVERAL * self.pace.unwrap_or_default() >= PATIENCE
    }

    /// Returns true if it goes on although it is slow.
    pub(super) fn stays(&self, now: Instant) -> bool {
        self.stays_until.is_some_and(|until| now < until)
    }
}

/// The replicas that sent blocks slowly although no client waited for them, and until when others
/// come first. A row may be as short as a block, so the next row must not begin with them again.
///
/// Blocks in the background are sent behind those that a rebalance moves. So a replica that is slow
/// in the background may be fast with moved blocks.
#[derive(Default)]
pub(crate) struct SlowSources(Mutex<BTreeMap<Key, Instant>>);

/// A node, and true for blocks in the background.
type Key = (NodeId, bool);

fn key(node: &NodeId, class: Option<Class>) -> Key {
    (*node, class == Some(Class::Background))
}

impl SlowSources {
    /// Notes that a replica is slow now with blocks of a traffic class.
    pub(super) fn note(&self, node: &NodeId, class: Option<Class>, now: Instant) {
        let mut all = self.0.lock();
        all.insert(key(node, class), now + AVOIDED);
        if all.len() > KNOWN {
            all.pop_first();
        }
    }

    /// Notes that a replica is fast.
    pub(super) fn forget(&self, node: &NodeId, class: Option<Class>) {
        self.0.lock().remove(&key(node, class));
    }

    /// Returns true if others come before a replica.
    pub(super) fn is_avoided(&self, node: &NodeId, class: Option<Class>, now: Instant) -> bool {
        let all = self.0.lock();
        all.get(&key(node, class)).is_some_and(|until| now < *until)
    }

    /// Notes that a replica is asked. If it was slow until now, only one stream finds out how it is:
    /// for all others it stays slow.
    pub(super) fn begin(&self, node: &NodeId, class: Option<Class>, now: Instant) {
        if let Some(until) = self.0.lock().get_mut(&key(node, class)) {
            *until = (*until).max(now + AVOIDED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::MOVED;

    const CLASS: Option<Class> = Some(MOVED);

    #[test]
    fn one_stream_finds_out_how_a_slow_replica_is_now() {
        let (slow, node, now) = (SlowSources::default(), NodeId([1; 32]), Instant::now());
        let is_avoided = |now| slow.is_avoided(&node, CLASS, now);
        assert!(!is_avoided(now));
        slow.begin(&node, CLASS, now);
        assert!(!is_avoided(now), "it is not known to be slow");
        slow.note(&node, CLASS, now);
        assert!(is_avoided(now));
        let later = now + AVOIDED;
        assert!(!is_avoided(later));
        slow.begin(&node, CLASS, later);
        assert!(is_avoided(later), "the next stream asks others");
        slow.forget(&node, CLASS);
        assert!(!is_avoided(later));
    }

    #[test]
    fn slow_and_fast_in_the_background_say_nothing_about_moved_blocks() {
        let (slow, node, now) = (SlowSources::default(), NodeId([1; 32]), Instant::now());
        let background = Some(Class::Background);
        slow.note(&node, background, now);
        assert!(slow.is_avoided(&node, background, now));
        assert!(!slow.is_avoided(&node, CLASS, now));
        slow.note(&node, CLASS, now);
        slow.forget(&node, background);
        assert!(slow.is_avoided(&node, CLASS, now));
    }

    #[test]
    fn known_slow_replicas_are_bounded() {
        let (slow, now) = (SlowSources::default(), Instant::now());
        for n in 0..2 * KNOWN as u64 {
            let mut node = NodeId::default();
            node.0[..8].copy_from_slice(&n.to_be_bytes());
            slow.note(&node, CLASS, now);
        }
        assert_eq!(slow.0.lock().len(), KNOWN);
    }
}
