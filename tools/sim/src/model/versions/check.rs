//! Whether an order of the operations on a key explains all answers.

use std::collections::{BTreeMap, HashSet};

use archipel_base::Stamp;
use archipel_storage::VersionName;

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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Event {
    /// The client.
    pub client: usize,
    /// The request.
    pub call: Call,
    /// Of a put: the names of its attempts.
    pub attempts: Vec<Stamp>,
    /// The time of the call.
    pub called: u64,
    /// The time and content of the answer; `None` if there was none or nothing is known.
    pub reply: Option<(u64, Reply)>,
}

/// The versions, the current one, and whether the null version is protected.
type State = (BTreeMap<VersionName, Numbers>, Option<VersionName>, bool);

/// Returns true if the history is linearizable, with two relaxations: a put without an answer may
/// show as an older version, and a listing may show a put that is in progress or was not answered.
pub fn is_linearizable(history: &[Event]) -> bool {
    let listings = history.iter().filter_map(|event| match &event.reply {
        Some((_, Reply::Listed(shown))) => Some((event, shown)),
        _ => None,
    });
    for (listing, shown) in listings {
        let replied = listing.reply.as_ref().map_or(0, |(at, _)| *at);
        if !is_right(history, listing.called, replied, shown) {
            return false;
        }
    }
    let nothing = (BTreeMap::new(), None, false);
    search(history, 0, nothing, &mut HashSet::new())
}

/// Returns true if a listing has all versions that certainly lived, and none that certainly did
/// not.
fn is_right(history: &[Event], called: u64, replied: u64, shown: &[VersionName]) -> bool {
    let before = |event: &Event| event.reply.as_ref().is_some_and(|(at, _)| *at < called);
    history
        .iter()
        .all(|event| match (&event.call, &event.reply) {
            (Call::Kill(Some(name)), Some((_, Reply::Done(_)))) if before(event) => {
                !shown.contains(&Some(*name))
            }
            (Call::Put(_) | Call::Create(_), Some((_, Reply::Done(Some(name))))) => {
                let others = event.attempts.iter().filter(|other| *other != name);
                let ghosts = others
                    .map(|other| Some(*other))
                    .filter(|o| shown.contains(o));
                let killed = history
                    .iter()
                    .any(|other| other.call == Call::Kill(Some(*name)) && other.called < replied);
                !before(event) || (ghosts.count() == 0 && (killed || shown.contains(&Some(*name))))
            }
            (Call::Create(_), Some((_, Reply::Failed))) if before(event) => event
                .attempts
                .iter()
                .all(|name| !shown.contains(&Some(*name))),
            _ => true,
        })
}

fn search(history: &[Event], placed: u64, state: State, tried: &mut HashSet<(u64, State)>) -> bool {
    let unplaced = (0..history.len()).filter(|i| placed & 1 << i == 0);
    let replies = unplaced.clone().filter_map(|i| history[i].reply.as_ref());
    let Some(first) = replies.map(|(at, _)| *at).min() else {
        return true;
    };
    if !tried.insert((placed, state.clone())) {
        return false;
    }
    let mut open = unplaced.filter(|i| history[*i].called < first);
    open.any(|i| {
        if comes_too_late(history, &history[i]) {
            return false;
        }
        let mut next = after(&history[i], &state).into_iter();
        next.any(|state| search(history, placed | 1 << i, state, tried))
    })
}

/// Returns true for a write of the null version that began after versions had been enabled.
fn comes_too_late(history: &[Event], event: &Event) -> bool {
    let is_earlier = |enabling: &Event| {
        let reply = enabling.reply.as_ref();
        enabling.call == Call::Enable && reply.is_some_and(|(at, _)| *at < event.called)
    };
    matches!(event.call, Call::PutNull(_)) && history.iter().any(is_earlier)
}

/// Returns the states after an operation, if its answer is right.
fn after(event: &Event, state: &State) -> Vec<State> {
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
            let attempts = event.attempts.iter();
            attempts
                .flat_map(|at| [true, false].map(|now| with(Some(*at), number, now)))
                .collect()
        }
        (Call::Create(number), None) => {
            let attempts = event.attempts.iter();
            attempts
                .flat_map(|at| [current.is_none(), false].map(|now| with(Some(*at), number, now)))
                .collect()
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
        (Call::Change(name, number), None | Some(Reply::Done(_))) => {
            changed(state, name, number).into_iter().collect()
        }
        (Call::Hold(number), None | Some(Reply::Done(_))) => {
            let held = changed(state, None, number).into_iter();
            held.map(|(versions, current, _)| (versions, current, true))
                .collect()
        }
        (Call::Hold(_), Some(Reply::Failed)) => when(!versions.contains_key(&None), same()),
        (Call::Change(name, _), Some(Reply::Gone)) => when(!versions.contains_key(&name), same()),
        (Call::List, _) => same(),
        _ => Vec::new(),
    }
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
