//! A reference model of S3's versioning: the promises about the versions of a key.
//!
//! Versions are told apart by their ids, and by what they contain where nobody was told an id.

use std::collections::{BTreeMap, BTreeSet};

use archipel_model::VersionId;

use super::state::{Mode, State, UNSEEN_ID};

/// Stands for all values that nobody ever saw.
pub(super) const UNSEEN: u32 = u32::MAX;

/// The content of a version: a number, or nothing in a delete marker.
pub type Stored = Option<u32>;

/// A client's request for a key, or for the settings of its bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// Writes an object, if the current object is the expected one.
    Put {
        /// The number of its content.
        value: u32,
        /// The condition: the number of the current object, or none.
        expected: Option<Stored>,
    },
    /// Deletes the object: most often, writes a delete marker.
    Delete,
    /// Deletes a version for good.
    DeleteVersion(VersionId),
    /// Sets a legal hold, or lifts it.
    Hold(VersionId, bool),
    /// Retains a version until a time: see [`retained`](super::retained).
    Retain(VersionId, u64),
    /// Reads the current object.
    Get,
    /// Reads a version.
    GetVersion(VersionId),
    /// Enables versioning.
    Enable,
    /// Suspends versioning.
    Suspend,
}

impl Call {
    /// Returns true if it never changes anything. Retentions are judged apart.
    pub fn is_read(self) -> bool {
        matches!(self, Call::Get | Call::GetVersion(_) | Call::Retain(..))
    }
}

/// A client's answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    /// The request took effect, or there was nothing to do.
    Done,
    /// It wrote a version, which has this id.
    Made(VersionId),
    /// It removed the object of a bucket that has no versions.
    Removed,
    /// The current object, if there is one. An answer to a write says that its condition failed.
    Saw(Option<(VersionId, u32)>),
    /// The version, and true if a legal hold protects it; none if there is no such version.
    SawVersion(Option<(Stored, bool)>),
    /// A legal hold or a retention protects the version.
    Refused,
    /// There is no such version that could be held.
    Absent,
}

/// One operation in a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The request.
    pub call: Call,
    /// The time of the call, in any unit.
    pub called: u64,
    /// The time and content of the answer; `None` if nobody knows the result.
    pub reply: Option<(u64, Reply)>,
}

/// Returns true if an operation that was called then may follow older settings: no enabling of
/// versioning was acknowledged before, after all suspensions.
pub(super) fn is_early(history: &[Event], called: u64) -> bool {
    let suspends = history.iter().filter(|event| event.call == Call::Suspend);
    let last = suspends.map(|event| event.reply.map_or(u64::MAX, |(at, _)| at));
    let last = last.max().unwrap_or_default();
    !history.iter().any(|event| {
        let ends = event.reply.map_or(u64::MAX, |(at, _)| at);
        event.call == Call::Enable && ends < called && event.called >= last
    })
}

/// The knowledge of a key that all answers together give.
pub(super) struct Told {
    /// The ids of objects, by their numbers.
    pub ids: BTreeMap<u32, VersionId>,
    /// The ids of delete markers that no known answer to a deletion tells.
    markers: BTreeSet<VersionId>,
    /// Versions that were perhaps retained for a time.
    retained: BTreeSet<VersionId>,
    /// True if lifecycle rules remove versions that are not current.
    expires: bool,
}

impl Told {
    pub fn of(history: &[Event], shown: &[(VersionId, Stored)], expires: bool) -> Told {
        let (mut ids, mut markers, mut claimed) =
            (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let mut see = |id: VersionId, stored: Stored| match stored {
            Some(value) => drop(ids.insert(value, id)),
            None => drop(markers.insert(id)),
        };
        for (id, stored) in shown {
            see(*id, *stored);
        }
        for event in history {
            match (event.call, event.reply) {
                (Call::Put { value, .. }, Some((_, Reply::Made(id)))) => see(id, Some(value)),
                (Call::Delete, Some((_, Reply::Made(id)))) => drop(claimed.insert(id)),
                (_, Some((_, Reply::Saw(Some((id, value)))))) => see(id, Some(value)),
                (Call::GetVersion(id), Some((_, Reply::SawVersion(Some((stored, _)))))) => {
                    see(id, stored);
                }
                _ => {}
            }
        }
        markers.retain(|id| *id != VersionId::Null && !claimed.contains(id));
        let retained = history.iter().filter_map(|event| match event.call {
            Call::Retain(id, _) => Some(id),
            _ => None,
        });
        Told {
            retained: retained.collect(),
            ids,
            markers,
            expires,
        }
    }

    /// Returns the states that an operation may leave. `is_early` is true if it began before
    /// versioning was acknowledged to be enabled.
    ///
    /// A write without an answer may come back where no version is left. Then a listing puts a
    /// delete marker above it: the deletion of a null version may leave the same row as the
    /// deletion of an object by older settings.
    pub fn after(
        &self,
        state: &State,
        call: Call,
        reply: Option<Reply>,
        is_early: bool,
    ) -> Vec<State> {
        let mut all = self.after_one(state, call, reply, is_early);
        let is_lost = reply.is_none() && matches!(call, Call::Put { .. } | Call::Delete);
        if is_lost && state.versions.is_empty() {
            let came_back = all.iter().filter(|next| !next.versions.is_empty());
            let marked = came_back.flat_map(|next| {
                let markers = self.markers.iter();
                markers.filter_map(|id| next.with(*id, None))
            });
            let marked: Vec<State> = marked.collect();
            all.extend(marked);
        }
        all
    }

    fn after_one(
        &self,
        state: &State,
        call: Call,
        reply: Option<Reply>,
        is_early: bool,
    ) -> Vec<State> {
        let same = |is_right: bool| is_right.then(|| state.clone());
        let is_unmet = match call {
            Call::Put { expected, .. } => {
                expected.is_some_and(|it| it != state.current().map(|(_, value)| value))
            }
            _ => false,
        };
        let one = match (call, reply) {
            (_, Some(Reply::Saw(saw))) => {
                let failed = match call {
                    Call::Put { expected, .. } => Some(saw.map(|(_, value)| value)) != expected,
                    _ => true,
                };
                same(saw == state.current() && failed)
            }
            (Call::Put { value, .. }, None) if is_unmet => self.shown_late(state, value),
            (Call::Put { .. }, _) if is_unmet => None,
            (Call::Put { value, .. }, Some(Reply::Made(id))) => state.with(id, Some(value)),
            (Call::Put { value, .. }, None) => return self.after_lost_put(state, value, is_early),
            (Call::Put { .. }, Some(_)) => None,
            (Call::Delete, Some(Reply::Made(id))) => state.with(id, None),
            (Call::Delete, Some(_)) => {
                (state.mode == Mode::Never).then(|| state.without(VersionId::Null))
            }
            (Call::Delete, None) => return self.after_lost_deletion(state),
            (Call::DeleteVersion(id), reply) => match (state.find(id), reply) {
                (Some(version), Some(Reply::Refused)) => {
                    same(version.held || self.retained.contains(&id))
                }
                (None, Some(Reply::Refused)) => None,
                (Some(version), _) if version.held => None,
                (Some(_), _) => return state.deleted(id),
                (None, _) => same(true),
            },
            (Call::Hold(id, on), Some(Reply::Done) | None) => with_hold(state, id, on),
            (Call::Retain(..), Some(Reply::Refused)) => same(true),
            (Call::Retain(id, _), Some(Reply::Done) | None) => {
                same(state.find(id).is_some_and(|v| v.stored.is_some()))
            }
            (Call::Hold(id, _) | Call::Retain(id, _), _) => match state.find(id) {
                Some(version) if version.stored.is_some() => self.expired(state, id),
                _ => same(true),
            },
            (Call::GetVersion(id), Some(Reply::SawVersion(None))) => match state.find(id) {
                Some(_) => self.expired(state, id),
                None => same(true),
            },
            (Call::GetVersion(id), Some(Reply::SawVersion(Some(saw)))) => {
                let version = state.find(id);
                same(version.is_some_and(|version| (version.stored, version.held) == saw))
            }
            (Call::Get | Call::GetVersion(_), _) => same(reply.is_none()),
            (Call::Enable, _) => Some(State {
                mode: Mode::Enabled,
                ..state.clone()
            }),
            (Call::Suspend, _) => Some(State {
                mode: Mode::Suspended,
                ..state.clone()
            }),
        };
        one.into_iter().collect()
    }

    /// Returns the numbers of the puts among these calls whose conditions hold now. Only puts whose versions were seen under
    /// an id of their own can show late.
    pub fn met(&self, state: &State, calls: impl Iterator<Item = Call>) -> BTreeSet<u32> {
        let current = state.current().map(|(_, value)| value);
        let holds = calls.filter_map(|call| match call {
            Call::Put { value, expected } if expected == Some(current) => Some(value),
            _ => None,
        });
        let has_id = |value: &u32| self.ids.get(value).is_some_and(|id| *id != VersionId::Null);
        holds.filter(has_id).collect()
    }

    /// Returns the state after a put without an answer whose condition held only earlier; `None` if it never held.
    fn shown_late(&self, state: &State, value: u32) -> Option<State> {
        let id = self
            .ids
            .get(&value)
            .filter(|_| state.met.contains(&value))?;
        state.with_late(*id, value)
    }

    /// Returns the states that a put without an answer may leave: its version is current, or kept.
    fn after_lost_put(&self, state: &State, value: u32, is_early: bool) -> Vec<State> {
        let (id, value) = match self.ids.get(&value) {
            Some(id) => (*id, value),
            // A version with an id would be seen at the end.
            None => (VersionId::Null, UNSEEN),
        };
        let took_effect = state.with_lost(id, value, is_early);
        let kept = took_effect.clone().map(State::kept_aside);
        took_effect.into_iter().chain(kept).collect()
    }

    /// Returns the states that a deletion without an answer may leave: a delete marker with an id
    /// that was seen later, which need not be the current version, one that replaces the null
    /// version, or nothing at all in a bucket without versions. Lifecycle rules may remove a delete
    /// marker before anybody sees its id.
    fn after_lost_deletion(&self, state: &State) -> Vec<State> {
        let ids = self.markers.iter().copied().chain([VersionId::Null]);
        let ids = ids.chain(self.expires.then_some(UNSEEN_ID));
        let left: Vec<State> = ids.filter_map(|id| state.with(id, None)).collect();
        let kept = left.iter().cloned().map(State::kept_aside);
        let mut all: Vec<State> = kept.chain(left.iter().cloned()).collect();
        if state.mode == Mode::Never {
            all.push(state.without(VersionId::Null));
        }
        all
    }

    /// Returns the state once a lifecycle rule has removed a version, if one may.
    fn expired(&self, state: &State, id: VersionId) -> Option<State> {
        let is_current = state.newest() == Some(id);
        let held = state.find(id).is_some_and(|version| version.held);
        (self.expires && !is_current && !held).then(|| state.without(id))
    }
}

/// Returns the state with a version's legal hold set or removed, if there is such a version.
fn with_hold(state: &State, id: VersionId, on: bool) -> Option<State> {
    let mut next = state.clone();
    let mut versions = next.versions.iter_mut();
    let version = versions.find(|v| v.id == id && v.stored.is_some())?;
    version.held = on;
    Some(next)
}
