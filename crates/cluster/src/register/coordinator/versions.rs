//! Operations on versions of an object: looks at one, and attempts that replicas keep.

use archipel_base::{Id, Stamp};
use archipel_storage::{Value, VersionName};

use super::state::{Kind, Memory, Phase, Promise, Purpose, Report, Start, Told, Values};
use super::{Operation, Outcome, Output, Repeat};
use crate::register::message::Version;
use crate::register::quorum::{Quorums, ReplicaSet};
use crate::register::rules::Mutant;
use crate::register::versions::{From, Verdict, VersionReport, judge};

/// A value of a register: it may be a version of an object, and may change other versions.
pub trait RowValue: Clone + Eq {
    /// Returns the name of the version that the value is.
    fn name(&self) -> VersionName {
        None
    }

    /// Returns true if the value changes other versions, too.
    fn changes_others(&self) -> bool {
        false
    }
}

impl RowValue for Value {
    fn name(&self) -> VersionName {
        self.version_name()
    }

    fn changes_others(&self) -> bool {
        !self.changes().is_empty()
    }
}

/// Checkers use numbers as values.
impl RowValue for u32 {}

/// The state that an operation needs because an object has versions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct OfVersions {
    /// True if replicas keep the operation's value when another one replaces it.
    pub is_kept: bool,
    /// True if all replicas must promise before it writes.
    pub by_all: bool,
    /// The replicas that refused in this round what the operation would take from a version.
    pub held: ReplicaSet,
    /// The writes whose versions the operation wrote with the death of its attempt. Such a death
    /// has the id of the version that it came with.
    pub buried_with: Vec<Id>,
    /// The versions that its attempts were.
    sent: Vec<VersionName>,
    /// True if an attempt changed other versions, too.
    sent_changes: bool,
}

impl OfVersions {
    /// Notes what an attempt writes. A tombstone is of the null version.
    pub fn note_sent<V: RowValue>(&mut self, value: Option<&V>) {
        let name = value.and_then(V::name);
        if !self.sent.contains(&name) {
            self.sent.push(name);
        }
        self.sent_changes |= value.is_some_and(V::changes_others);
    }
}

impl<V: RowValue> Operation<V> {
    /// Returns the operation. If `is_kept` is true, it writes a version with the name of the stamp
    /// of its attempt, and replicas keep what was accepted. Such an operation sends one attempt.
    /// If the attempt took no effect, the operation ends only after the attempt is dead.
    #[must_use]
    pub fn keeping(self, is_kept: bool) -> Operation<V> {
        let repeat = if is_kept { Repeat::Never } else { self.repeat };
        let of_versions = OfVersions {
            is_kept,
            ..self.of_versions
        };
        Operation {
            repeat,
            of_versions,
            ..self
        }
    }

    /// Returns the operation. If `by_all` is true, an update writes only after all replicas have
    /// promised, and ends without effect if one does not. So no replica can accept a write from
    /// before its guard moved above the stamp of this one.
    #[must_use]
    pub fn promised_by_all(self, by_all: bool) -> Operation<V> {
        let of_versions = OfVersions {
            by_all,
            ..self.of_versions
        };
        Operation {
            of_versions,
            ..self
        }
    }

    /// Reads a version of an object: [`Outcome::Seen`] or [`Outcome::Open`]. The driver asks each
    /// replica about the version.
    pub fn look(start: Start, name: VersionName) -> (Operation<V>, Vec<Output<V>>) {
        let mut operation = Operation::new(start, Kind::Look { name }, false);
        let outputs = operation.begin_reading(Values::OfAll);
        (operation, outputs)
    }

    /// Returns what the quorum told of versions, while a decision is awaited.
    pub fn told(&self) -> &[Told] {
        match &self.phase {
            Phase::Deciding { versions, .. } => versions,
            _ => &[],
        }
    }

    /// Goes on with the value that `Bury` asked for. `None` says that there is none, so that the
    /// fate of the attempt stays unknown.
    pub fn buried(&mut self, value: Option<V>) -> Vec<Output<V>> {
        let Phase::Burying {
            ballot,
            newest,
            outcome,
        } = self.phase.clone()
        else {
            return Vec::new();
        };
        if value.is_none() {
            return self.end(Outcome::Unknown);
        }
        self.of_versions.buried_with.push(newest.write);
        let version = Version {
            stamp: ballot,
            value,
            ..newest
        };
        self.write_version(version, Purpose::End(outcome), ReplicaSet::EMPTY)
    }

    /// Ends a look at a version once the answers allow it.
    pub(super) fn seen(
        &mut self,
        name: VersionName,
        found: &[Report<V>],
        timeout: bool,
    ) -> Vec<Output<V>> {
        let told = found.iter().flat_map(|report| {
            let of = report.versions.iter().filter(|one| one.name == name);
            of.map(|one| (report.from, one, report.agreed))
        });
        let told: Vec<From<'_>> = told.collect();
        let from: ReplicaSet = told.iter().map(|(from, ..)| *from).collect();
        if !self.quorums().is_quorum(from) {
            return Vec::new();
        }
        match judge(self.rules, self.quorums(), &told) {
            Verdict::Final(report) => self.end(Outcome::Seen(report)),
            // Another replica may show that the state is final.
            Verdict::Open(_) if !timeout && self.unanswered() != ReplicaSet::EMPTY => Vec::new(),
            Verdict::Open(report) => self.end(Outcome::Open(report)),
        }
    }

    /// Returns the stamp of the first attempt, if one was sent. It is the name of the version that
    /// the operation writes. The driver asks about it in a `Prepare`.
    pub fn attempt(&self) -> Option<Stamp> {
        match self.kind {
            Kind::Resolve { name, .. } => name,
            _ => self.attempts.first().map(|(stamp, _)| *stamp),
        }
    }

    /// Returns true if replicas keep the operation's value when another one replaces it.
    pub fn is_keeping(&self) -> bool {
        self.of_versions.is_kept || matches!(self.kind, Kind::Resolve { name: Some(_), .. })
    }

    /// Returns true if the promises show that another operation decided about the operation's
    /// attempt as a version.
    ///
    /// The operation's own burial is no such decision. It may have reached a minority, and others
    /// may have written it on, with the version that it came with.
    pub(super) fn is_touched(&self, promises: &[Promise<V>]) -> bool {
        let attempt = self.attempt();
        let own = self.write_id();
        let is_own = |one: &VersionReport| {
            let is_buried =
                one.value.is_none() && self.of_versions.buried_with.contains(&one.write);
            Some(one.write) == own || is_buried
        };
        self.is_keeping()
            && promises.iter().any(|promise| {
                let mut versions = promise.report.versions.iter();
                versions.any(|one| one.name == attempt && one.stamp != Stamp::ZERO && !is_own(one))
            })
    }

    /// Returns true if replicas of every quorum refused what the operation would take. One of them
    /// has heard of each end of a protection that was acknowledged.
    pub(super) fn is_surely_held(&self) -> bool {
        self.quorums().is_blocked_by(self.of_versions.held)
    }

    /// Returns true if a replica refused what the operation would take, and those that have not
    /// answered may show that it is refused for sure.
    pub(super) fn may_be_held(&self) -> bool {
        let held = self.of_versions.held;
        !held.is_empty() && !self.is_surely_held() && !self.unanswered().is_empty()
    }

    /// Returns true if an attempt that the guard refused may take effect later, although no quorum
    /// held it: a replica whose guard lags may hold it, and keeps it when another version replaces
    /// it. Attempts with names of their own are buried instead.
    pub(super) fn may_surface(&self, newest: &Version<V>, promises: &[Promise<V>]) -> bool {
        self.guard_refused
            && !self.is_keeping()
            && !self.is_replaced_by(newest)
            && !self.was_never_accepted(promises)
            && !self.rules.breaks(Mutant::RetryRefused)
    }

    /// Returns true if the version found, written again under the ballot, replaces whatever the
    /// attempts changed. If it is newer than the first attempt, another operation may have decided
    /// on that as a version.
    fn is_replaced_by(&self, newest: &Version<V>) -> bool {
        let found = newest.value.as_ref().and_then(V::name);
        let same = |name: &VersionName| *name == found;
        let mut attempts = self.attempts.iter();
        self.of_versions.sent.iter().all(same)
            && !self.of_versions.sent_changes
            && attempts.all(|(stamp, _)| newest.stamp < *stamp)
    }

    /// Returns true if all replicas since the first attempt remember that they accepted no attempt.
    /// Below the ballot they accept none any more, so nobody can find one.
    fn was_never_accepted(&self, promises: &[Promise<V>]) -> bool {
        let first = self.attempts.first().map_or(Stamp::ZERO, |(s, _)| *s);
        let memories = self.memories(promises).into_iter();
        let never = memories.filter(|memory: &Memory| {
            memory.remembered.accepted.is_empty() && memory.remembered.known_from <= first
        });
        let never: ReplicaSet = never.map(|memory| memory.from).collect();
        let is_told = |layout: &Quorums| layout.all().without(never).is_empty();
        !self.skipped_epochs && self.layouts.iter().all(is_told)
    }

    /// Returns true if all replicas promised, and none holds the attempt as a version: then none
    /// ever will.
    pub(super) fn is_nowhere(&self, attempt: Stamp, promises: &[Promise<V>]) -> bool {
        let without = promises.iter().filter(|promise| {
            let mut versions = promise.report.versions.iter();
            versions.any(|one| one.name == Some(attempt) && one.stamp == Stamp::ZERO)
        });
        let without: ReplicaSet = without.map(|promise| promise.report.from).collect();
        self.quorums().all().without(without).is_empty()
    }
}

/// Returns true if a promise shows that a version lives.
pub(super) fn is_living<V>(name: Stamp, promises: &[Promise<V>]) -> bool {
    let mut all = promises.iter().flat_map(|promise| &promise.report.versions);
    all.any(|one| one.name == Some(name) && one.value.is_some())
}

/// Returns what the promises tell of versions.
pub(super) fn told<V>(promises: &[Promise<V>]) -> Vec<Told> {
    let told = promises.iter().map(|promise| {
        let report = &promise.report;
        (report.from, report.versions.clone(), report.agreed)
    });
    told.collect()
}
