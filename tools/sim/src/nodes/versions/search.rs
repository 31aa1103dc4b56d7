//! A search for an order of operations that agrees with the [promises](super::reference). It is
//! that of [`linear`](crate::linear), for the whole list of versions instead of one value.

use std::collections::HashSet;

use archipel_model::VersionId;

use super::reference::{Call, Event, Reply, Stored, Told, UNSEEN, is_early};
use super::state::State;

/// The most operations in a history.
pub const MAX_EVENTS: usize = 256;
/// The number of states after which a search gives up.
const MAX_STATES: usize = 3_000_000;

/// The result of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Some order of its operations explains all answers.
    Possible,
    /// None does.
    Impossible,
    /// The search was cut off, so nobody knows.
    CutOff,
}

/// Searches for an order that explains a history of one key, which has no versions at first.
/// `shown` are versions that listings showed. `expires` is true if lifecycle rules remove versions
/// that are not current. Refuses histories longer than [`MAX_EVENTS`].
pub fn explain(history: &[Event], shown: &[(VersionId, Stored)], expires: bool) -> Answer {
    assert!(history.len() <= MAX_EVENTS, "the history is too long");
    let told = Told::of(history, shown, expires);
    let canonical = |event: &Event| match (event.call, event.reply) {
        (Call::Put { value, expected }, None) if !told.ids.contains_key(&value) => Event {
            call: Call::Put {
                value: UNSEEN,
                expected,
            },
            ..*event
        },
        _ => *event,
    };
    let counted = history
        .iter()
        .filter(|event| event.reply.is_some() || !event.call.is_read());
    let mut search = Search {
        early: counted
            .clone()
            .map(|event| is_early(history, event.called))
            .collect(),
        history: counted.map(canonical).collect(),
        told,
        tried: HashSet::new(),
    };
    match search.go_on(Placed::default(), State::first()) {
        true => Answer::Possible,
        false if search.tried.len() >= MAX_STATES => Answer::CutOff,
        false => Answer::Impossible,
    }
}

/// The operations that have a place in the order already.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Placed([u64; MAX_EVENTS / 64]);

impl Placed {
    fn has(&self, event: usize) -> bool {
        self.0[event / 64] & 1 << (event % 64) != 0
    }

    fn and(mut self, event: usize) -> Placed {
        self.0[event / 64] |= 1 << (event % 64);
        self
    }
}

struct Search {
    history: Vec<Event>,
    /// True for each operation that began before versioning was acknowledged to be enabled.
    early: Vec<bool>,
    told: Told,
    tried: HashSet<(Placed, State)>,
}

impl Search {
    /// Returns true if the rest can be placed.
    fn go_on(&mut self, mut placed: Placed, mut state: State) -> bool {
        let available = loop {
            let Some(available) = self.available(&placed) else {
                return true;
            };
            // A read whose answer is right is placed at once: that only takes limits from the rest.
            match available
                .iter()
                .find(|event| self.is_plain(**event, &state))
            {
                Some(event) => placed = placed.and(*event),
                None => break available,
            }
        };
        let lost = available.iter().map(|event| self.history[*event]);
        let lost = lost.filter(|event| event.reply.is_none());
        let met = self.told.met(&state, lost.map(|event| event.call));
        state.met.extend(met);
        let seen = self.canonical(&placed, &state);
        if self.tried.len() >= MAX_STATES || !self.tried.insert((placed, seen)) {
            return false;
        }
        for (at, event) in available.iter().enumerate() {
            let Event { call, reply, .. } = self.history[*event];
            let early = self.early[*event];
            // Lost operations with the same request are interchangeable.
            let is_same = |other: &usize| {
                let (other, is_early) = (&self.history[*other], self.early[*other]);
                other.reply.is_none() && other.call == call && is_early == early
            };
            if reply.is_none() && available[..at].iter().any(is_same) {
                continue;
            }
            let reply = reply.map(|(_, reply)| reply);
            for next in self.told.after(&state, call, reply, early) {
                // A lost operation without an effect need not be placed at all.
                if (reply.is_some() || next != state) && self.go_on(placed.and(*event), next) {
                    return true;
                }
            }
        }
        false
    }

    /// Returns one state for all that nothing can tell apart any more.
    fn canonical(&self, placed: &Placed, state: &State) -> State {
        let mut open = (0..self.history.len()).filter(|event| !placed.has(*event));
        let deletes = open.any(|event| matches!(self.history[event].call, Call::DeleteVersion(_)));
        if deletes {
            state.clone()
        } else {
            state.without_places()
        }
    }

    /// Returns the operations that may come next; `None` if all answered ones are placed.
    fn available(&self, placed: &Placed) -> Option<Vec<usize>> {
        let open = (0..self.history.len()).filter(|event| !placed.has(*event));
        let ends = open.clone().filter_map(|event| self.history[event].reply);
        let first = ends.map(|(at, _)| at).min()?;
        Some(
            open.filter(|event| self.history[*event].called < first)
                .collect(),
        )
    }

    /// Returns true if an operation never changes anything, and its answer is right.
    fn is_plain(&self, event: usize, state: &State) -> bool {
        let Event { call, reply, .. } = self.history[event];
        let Some((_, reply)) = reply else {
            return false;
        };
        let reads =
            call.is_read() || matches!(reply, Reply::Saw(_) | Reply::Refused | Reply::Absent);
        let early = self.early[event];
        reads && self.told.after(state, call, Some(reply), early) == [state.clone()]
    }
}

#[cfg(test)]
mod tests;
