//! What became of an operation's own writes, from the promises of a quorum.

use archipel_base::Stamp;

use super::Operation;
use super::state::Promise;
use crate::register::message::Version;
use crate::register::quorum::ReplicaSet;
use crate::register::rules::Mutant;

/// The fate of the operation's own earlier writes.
pub(super) enum Fate {
    /// One of them is the newest version.
    Newest,
    /// A quorum held one under this stamp. It was overwritten since.
    Happened(Stamp),
    /// No quorum ever held one. A minority's copy cannot take effect any more unless the operation
    /// writes again.
    Never,
    /// It cannot be known.
    Unknown,
}

impl<V: Clone + Eq> Operation<V> {
    pub(super) fn fate(&self, newest: &Version<V>, promises: &[Promise<V>]) -> Fate {
        if newest.stamp != Stamp::ZERO && Some(newest.write) == self.write_id() {
            return Fate::Newest;
        }
        // Acceptances under different layouts may never have been a quorum of one of them.
        let one_layout = self.layouts.len() == 1 && !self.skipped_epochs;
        let one_layout = one_layout || self.rules.breaks(Mutant::CountAcrossLayouts);
        if one_layout && let Some(stamp) = self.once_held(promises) {
            return Fate::Happened(stamp);
        }
        let never = self.never_accepted(promises);
        // For a skipped layout, nobody knows which acceptances would have been a quorum.
        if !self.skipped_epochs && self.layouts.iter().all(|l| l.is_blocked_by(never)) {
            return Fate::Never;
        }
        Fate::Unknown
    }

    /// Returns a stamp under which a quorum once held a write of this operation.
    fn once_held(&self, promises: &[Promise<V>]) -> Option<Stamp> {
        let reported = promises.iter().flat_map(|p| p.accepted.iter().copied());
        let mut stamps: Vec<Stamp> = self.attempts.iter().map(|(s, _)| *s).collect();
        stamps.extend(reported);
        if self.rules.breaks(Mutant::CountById) {
            let any = stamps.iter().map(|s| self.acceptors(*s, promises));
            let all = any.fold(ReplicaSet::EMPTY, ReplicaSet::union);
            return stamps
                .first()
                .copied()
                .filter(|_| self.quorums().is_quorum(all));
        }
        let held = |s: &Stamp| self.quorums().is_quorum(self.acceptors(*s, promises));
        stamps.into_iter().find(held)
    }

    /// Returns the replicas that report that they accepted a write of this operation under `stamp`.
    fn acceptors(&self, stamp: Stamp, promises: &[Promise<V>]) -> ReplicaSet {
        let acceptors = promises.iter().filter(|p| p.accepted.contains(&stamp));
        let own = self.attempts.iter().filter(|(s, _)| *s == stamp);
        own.map(|(_, acceptors)| *acceptors).fold(
            acceptors.map(|p| p.report.from).collect(),
            ReplicaSet::union,
        )
    }

    /// Returns the replicas that certainly never accepted a write of this operation.
    fn never_accepted(&self, promises: &[Promise<V>]) -> ReplicaSet {
        let first = self.attempts.first().map_or(Stamp::ZERO, |(s, _)| *s);
        let never = |p: &&Promise<V>| {
            p.accepted.is_empty()
                && p.known_from <= first
                && self
                    .attempts
                    .iter()
                    .all(|(_, a)| !a.contains(p.report.from))
        };
        promises
            .iter()
            .filter(never)
            .map(|p| p.report.from)
            .collect()
    }
}
