//! A checker of linearizability for the history of a versioned key.

use std::collections::{BTreeMap, HashSet};

use archipel_base::Stamp;
use archipel_storage::VersionName;

use crate::linear;

/// A client's request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Call {
    /// Puts a version with this metadata.
    Put(u32),
    /// Puts it if there is no object.
    Create(u32),
    /// Puts the null version with this metadata.
    PutNull(u32),
    /// Reads the object.
    Get,
    /// Reads a version.
    Look(VersionName),
    /// Deletes a version.
    Kill(VersionName),
    /// Deletes a version, if there is one.
    Remove(VersionName),
    /// Gives a version this metadata.
    Change(VersionName, u32),
    /// Lists the versions.
    List,
    /// Enables versions. No later put replaces the null version.
    Enable,
    /// Protects the null version for good, and gives it this metadata.
    Hold(u32),
    /// Makes a tombstone of the object's row, if it still has this stamp and no version.
    Retire(Stamp),
}

/// A client's answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reply {
    /// It is done. Of a put: the name of the version.
    Done(VersionName),
    /// The condition failed. Nothing was done.
    Failed,
    /// There is no such version.
    Gone,
    /// The metadata and the payload.
    Saw(Option<Numbers>),
    /// The versions.
    Listed(Vec<VersionName>),
}

/// The number of the request that gave a version its metadata, and of the put that gave it its
/// payload.
pub type Numbers = (u32, u32);

/// One operation in a history.
pub type Event = linear::Event<Call, Reply>;

/// An attempt of a put.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attempt {
    /// The name of the version.
    pub name: Stamp,
    /// The time of the call that it belongs to. No other call has it.
    pub called: u64,
}

/// The versions, the current one, and whether the null version is protected.
type State = (BTreeMap<VersionName, Numbers>, Option<VersionName>, bool);

/// A history with the attempts of its puts.
#[derive(Clone, Copy)]
pub struct History<'a> {
    /// The operations.
    pub events: &'a [Event],
    /// All attempts that were sent.
    pub sent: &'a [Attempt],
}

impl History<'_> {
    /// Returns true if the history is linearizable, with two relaxations: a put without an answer
    /// may show as an older version, and a listing may show a put that is in progress or was not
    /// answered.
    pub fn is_linearizable(self) -> bool {
        let listings = self.events.iter().filter_map(|event| match &event.reply {
            Some((_, Reply::Listed(shown))) => Some((event, shown)),
            _ => None,
        });
        for (listing, shown) in listings {
            let replied = listing.reply.as_ref().map_or(0, |(at, _)| *at);
            if !self.is_right(listing.called, replied, shown) {
                return false;
            }
        }
        let nothing = (BTreeMap::new(), None, false);
        self.search(0, nothing, &mut HashSet::new())
    }

    /// Returns the names of the attempts of a put.
    fn attempts(&self, event: &Event) -> impl Iterator<Item = Stamp> {
        let own = self.sent.iter().filter(|one| one.called == event.called);
        own.map(|one| one.name)
    }

    /// Returns true if a listing has all versions that certainly lived, and none that certainly did
    /// not.
    fn is_right(self, called: u64, replied: u64, shown: &[VersionName]) -> bool {
        let before = |event: &Event| event.reply.as_ref().is_some_and(|(at, _)| *at < called);
        let is_shown = |name: Stamp| shown.contains(&Some(name));
        let is_told_right = |event: &Event| match (&event.call, &event.reply) {
            (Call::Kill(Some(name)) | Call::Remove(Some(name)), Some((_, Reply::Done(_)))) => {
                !is_shown(*name)
            }
            (Call::Put(_) | Call::Create(_), Some((_, Reply::Done(Some(name))))) => {
                let mut others = self.attempts(event).filter(|other| other != name);
                let is_killed = |other: &Event| {
                    let kills = [Call::Kill(Some(*name)), Call::Remove(Some(*name))];
                    kills.contains(&other.call) && other.called < replied
                };
                let is_accounted_for = || is_shown(*name) || self.events.iter().any(is_killed);
                !others.any(is_shown) && is_accounted_for()
            }
            (Call::Create(_), Some((_, Reply::Failed))) => !self.attempts(event).any(is_shown),
            _ => true,
        };
        let mut earlier = self.events.iter().filter(|event| before(event));
        earlier.all(is_told_right)
    }

    fn search(self, placed: u64, state: State, tried: &mut HashSet<(u64, State)>) -> bool {
        let events = self.events;
        let unplaced = (0..events.len()).filter(|i| placed & 1 << i == 0);
        let replies = unplaced.clone().filter_map(|i| events[i].reply.as_ref());
        let Some(first) = replies.map(|(at, _)| *at).min() else {
            return true;
        };
        if !tried.insert((placed, state.clone())) {
            return false;
        }
        let mut open = unplaced.filter(|i| events[*i].called < first);
        open.any(|i| {
            if comes_too_late(events, &events[i]) {
                return false;
            }
            let mut next = self.after(&events[i], &state).into_iter();
            next.any(|state| self.search(placed | 1 << i, state, tried))
        })
    }

    /// Returns the states after an operation, if its answer is right.
    fn after(self, event: &Event, state: &State) -> Vec<State> {
        let (versions, current, is_held) = state;
        let with = |name: VersionName, number: u32, is_current: bool| {
            let mut versions = versions.clone();
            versions.insert(name, (number, number));
            let current = if is_current { Some(name) } else { *current };
            (versions, current, *is_held)
        };
        let reply = event.reply.as_ref().map(|(_, reply)| reply);
        let when = |holds: bool, states: Vec<State>| if holds { states } else { Vec::new() };
        let same = || vec![state.clone()];
        match (event.call, reply) {
            (Call::Put(number), Some(Reply::Done(name))) => vec![with(*name, number, true)],
            (Call::Create(number), Some(Reply::Done(name))) => {
                when(current.is_none(), vec![with(*name, number, true)])
            }
            (Call::Put(number), None) => {
                let either = |at| [true, false].map(|now| with(Some(at), number, now));
                self.attempts(event).flat_map(either).collect()
            }
            (Call::Create(number), None) => {
                let either = |at| [current.is_none(), false].map(|now| with(Some(at), number, now));
                self.attempts(event).flat_map(either).collect()
            }
            (Call::Create(_), Some(Reply::Failed)) => when(current.is_some(), same()),
            (Call::Enable | Call::Retire(_), _) => same(),
            (Call::PutNull(_), _) if *is_held => Vec::new(),
            (Call::PutNull(number), Some(Reply::Done(_))) => vec![with(None, number, true)],
            (Call::PutNull(number), None) => {
                vec![with(None, number, true), with(None, number, false)]
            }
            (Call::Get, Some(Reply::Saw(saw))) => {
                let number = current.and_then(|name| versions.get(&name).copied());
                when(number == *saw, same())
            }
            (Call::Look(name), Some(Reply::Saw(saw))) => {
                when(versions.get(&name).copied() == *saw, same())
            }
            (Call::Kill(None), _) if *is_held => Vec::new(),
            (Call::Kill(name), None | Some(Reply::Done(_))) => without(state, name),
            (Call::Remove(name), None | Some(Reply::Done(_))) => {
                when(versions.contains_key(&name), without(state, name))
            }
            (Call::Change(name, number), None | Some(Reply::Done(_))) => {
                changed(state, name, number).into_iter().collect()
            }
            (Call::Hold(number), None | Some(Reply::Done(_))) => {
                let held = changed(state, None, number).into_iter();
                held.map(|(versions, current, _)| (versions, current, true))
                    .collect()
            }
            (Call::Hold(_), Some(Reply::Failed)) => when(!versions.contains_key(&None), same()),
            (Call::Change(name, _) | Call::Remove(name), Some(Reply::Gone)) => {
                when(!versions.contains_key(&name), same())
            }
            (Call::List, _) => same(),
            _ => Vec::new(),
        }
    }
}

/// Returns true for a write of the null version that began after versions had been enabled.
fn comes_too_late(history: &[Event], event: &Event) -> bool {
    let is_earlier = |enabling: &Event| {
        let reply = enabling.reply.as_ref();
        enabling.call == Call::Enable && reply.is_some_and(|(at, _)| *at < event.called)
    };
    matches!(event.call, Call::PutNull(_)) && history.iter().any(is_earlier)
}

/// Returns the state after a change of a version's metadata, if there is such a version.
fn changed(state: &State, name: VersionName, number: u32) -> Option<State> {
    let (mut versions, current, is_held) = state.clone();
    let numbers = versions.get_mut(&name)?;
    numbers.0 = number;
    Some((versions, current, is_held))
}

/// Returns the states after a deletion. The place of the null version among the others depends on
/// times that the history does not show, so it may be the next one or not.
fn without((versions, current, is_held): &State, name: VersionName) -> Vec<State> {
    let mut left = versions.clone();
    left.remove(&name);
    if *current != Some(name) {
        return vec![(left, *current, *is_held)];
    }
    let newest = left.keys().rev().find(|name| name.is_some()).copied();
    let null = left.contains_key(&None).then_some(None);
    let mut next: Vec<Option<VersionName>> = newest.into_iter().chain(null).map(Some).collect();
    if next.is_empty() {
        next.push(None);
    }
    let states = next.into_iter();
    states.map(|next| (left.clone(), next, *is_held)).collect()
}
