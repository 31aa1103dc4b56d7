//! Operations on versions of an object: looks at one, and attempts that replicas keep.

use archipel_base::Stamp;
use archipel_storage::VersionName;

use super::state::{Kind, Phase, Promise, Purpose, Report, Start, Told};
use super::{Operation, Outcome, Output, Repeat};
use crate::register::message::Version;
use crate::register::quorum::ReplicaSet;
use crate::register::versions::{From, Verdict, VersionReport, judge};

impl<V: Clone + Eq> Operation<V> {
    /// Returns the operation. If `is_kept` is true, it writes a version with the name of the stamp
    /// of its attempt, and replicas keep what was accepted. Such an operation sends one attempt.
    /// If the attempt took no effect, the operation ends only after the attempt is dead.
    #[must_use]
    pub fn keeping(self, is_kept: bool) -> Operation<V> {
        let repeat = if is_kept { Repeat::Never } else { self.repeat };
        Operation {
            is_kept,
            repeat,
            ..self
        }
    }

    /// Returns the operation. If `by_all` is true, an update writes only after all replicas have
    /// promised, and ends without effect if one does not. So no replica can accept a write from before
    /// its guard moved above the stamp of this one.
    #[must_use]
    pub fn promised_by_all(self, by_all: bool) -> Operation<V> {
        Operation { by_all, ..self }
    }

    /// Reads a version of an object: [`Outcome::Seen`] or [`Outcome::Open`]. The driver asks each
    /// replica about the version.
    pub fn look(start: Start, name: VersionName) -> (Operation<V>, Vec<Output<V>>) {
        let mut operation = Operation::new(start, Kind::Look { name }, false);
        let outputs = operation.begin_reading(true);
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
        self.buried_with.push(newest.write);
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
        self.is_kept || matches!(self.kind, Kind::Resolve { name: Some(_), .. })
    }

    /// Returns true if the promises show that another operation decided about the operation's attempt
    /// as a version.
    ///
    /// The operation's own burial is no such decision. It may have reached a minority, and others
    /// may have written it on, with the version that it came with.
    pub(super) fn is_touched(&self, promises: &[Promise<V>]) -> bool {
        let attempt = self.attempt();
        let own = self.write_id();
        let is_own = |one: &VersionReport| {
            let is_buried = one.value.is_none() && self.buried_with.contains(&one.write);
            Some(one.write) == own || is_buried
        };
        self.is_keeping()
            && promises.iter().any(|promise| {
                let mut versions = promise.report.versions.iter();
                versions.any(|one| one.name == attempt && one.stamp != Stamp::ZERO && !is_own(one))
            })
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
