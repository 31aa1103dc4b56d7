//! How many incoming calls are served at once, and of whom.
//!
//! Peers that the service knows and strangers have permits of their own: a stranger with the cluster's
//! secret can connect under any number of names, and must not use up what members need.

use std::collections::HashMap;
use std::sync::Arc;

use archipel_base::NodeId;
use parking_lot::Mutex;

/// The number of incoming calls of known peers that are served at once.
const KNOWN: usize = 16_384;
/// The number of those of one peer. It exceeds the streams of the peer's connections, so that a call
/// that could wait is not refused.
const OF_ONE_KNOWN: usize = 4096;
/// The number of incoming calls of strangers that are served at once.
pub(super) const STRANGERS: usize = 1024;
/// The number of those of one stranger.
pub(super) const OF_ONE_STRANGER: usize = 64;

/// Counts the calls that are served.
#[derive(Default)]
pub(super) struct Serving(Mutex<State>);

#[derive(Default)]
struct State {
    known: usize,
    strangers: usize,
    of: HashMap<NodeId, usize>,
}

impl State {
    fn all(&mut self, is_known: bool) -> &mut usize {
        match is_known {
            true => &mut self.known,
            false => &mut self.strangers,
        }
    }
}

/// The permission to serve one call. The room is free again once it is dropped.
pub(super) struct Permit {
    serving: Arc<Serving>,
    from: NodeId,
    is_known: bool,
}

impl Serving {
    /// Returns the permission to serve one call of `from`, or `None` if too many are in progress.
    pub fn permit(self: &Arc<Serving>, from: NodeId, is_known: bool) -> Option<Permit> {
        let (most, most_of_one) = match is_known {
            true => (KNOWN, OF_ONE_KNOWN),
            false => (STRANGERS, OF_ONE_STRANGER),
        };
        let mut state = self.0.lock();
        let of_one = state.of.get(&from).copied().unwrap_or_default();
        if *state.all(is_known) >= most || of_one >= most_of_one {
            return None;
        }
        *state.all(is_known) += 1;
        state.of.insert(from, of_one + 1);
        Some(Permit {
            serving: self.clone(),
            from,
            is_known,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.serving.0.lock();
        *state.all(self.is_known) -= 1;
        if let Some(of_one) = state.of.get_mut(&self.from) {
            *of_one -= 1;
            if *of_one == 0 {
                state.of.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: usize) -> NodeId {
        let mut id = NodeId::default();
        id.0[..8].copy_from_slice(&n.to_be_bytes());
        id
    }

    #[test]
    fn strangers_do_not_use_up_the_permits_of_members() {
        let serving = Arc::new(Serving::default());
        let mut held = Vec::new();
        for n in 1..=4 * KNOWN {
            held.extend(serving.permit(peer(n), false));
            held.extend(serving.permit(peer(1), false));
        }
        assert_eq!(held.len(), STRANGERS);
        let of_one = held.iter().filter(|permit| permit.from == peer(1));
        assert_eq!(of_one.count(), OF_ONE_STRANGER);
        assert!(serving.permit(peer(0), true).is_some());
        held.clear();
        assert!(serving.permit(peer(9), false).is_some());
        assert!(serving.0.lock().of.is_empty(), "nothing is kept of them");
    }

    #[test]
    fn one_peer_does_not_use_up_the_permits_of_the_others() {
        let serving = Arc::new(Serving::default());
        let all = (0..KNOWN).filter_map(|_| serving.permit(peer(1), true));
        let held: Vec<Permit> = all.collect();
        assert_eq!(held.len(), OF_ONE_KNOWN);
        assert!(serving.permit(peer(2), true).is_some());
    }
}
