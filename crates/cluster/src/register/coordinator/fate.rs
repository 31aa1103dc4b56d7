//! What became of an operation's own writes, from the promises of a quorum.

use archipel_base::Stamp;

use super::Operation;
use super::state::{Memory, Promise};
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
    /// Returns what became of the operation's own writes. `ballot` is the promised one. Replicas
    /// that refused it tell what they remember, too, because they accept nothing below it either.
    pub(super) fn fate(&self, ballot: Stamp, newest: &Version<V>, promises: &[Promise<V>]) -> Fate {
        if newest.stamp != Stamp::ZERO && Some(newest.write) == self.write_id() {
            return Fate::Newest;
        }
        let memories = self.memories(promises);
        // Acceptances under different layouts may never have been a quorum of one of them.
        let one_layout = self.layouts.len() == 1 && !self.skipped_epochs;
        let one_layout = one_layout || self.rules.breaks(Mutant::CountAcrossLayouts);
        if one_layout && let Some(stamp) = self.once_held(&memories) {
            return Fate::Happened(stamp);
        }
        // For a skipped layout, nobody knows which acceptances would have been a quorum.
        if !self.skipped_epochs && self.was_never_held(ballot, &memories) {
            return Fate::Never;
        }
        Fate::Unknown
    }

    /// Notes whether the answers so far show that no quorum ever held a write of this operation. So
    /// an operation that cannot go on yet keeps what replicas have forgotten when it can.
    pub(super) fn note_fate(&mut self, ballot: Stamp, promises: &[Promise<V>]) {
        let memories = self.memories(promises);
        if !self.attempts.is_empty()
            && !self.skipped_epochs
            && self.was_never_held(ballot, &memories)
        {
            self.never_below = ballot;
        }
    }

    /// Returns what all replicas that answered remember.
    fn memories(&self, promises: &[Promise<V>]) -> Vec<Memory> {
        let promised = promises.iter().map(|promise| Memory {
            from: promise.report.from,
            remembered: promise.remembered.clone(),
        });
        promised.chain(self.memories.iter().cloned()).collect()
    }

    /// Returns a stamp under which a quorum once held a write of this operation.
    fn once_held(&self, memories: &[Memory]) -> Option<Stamp> {
        let stamps = self.stamps(memories);
        if self.rules.breaks(Mutant::CountById) {
            let any = stamps.iter().map(|s| self.acceptors(*s, memories));
            let all = any.fold(ReplicaSet::EMPTY, ReplicaSet::union);
            return stamps
                .first()
                .copied()
                .filter(|_| self.quorums().is_quorum(all));
        }
        let held = |s: &Stamp| self.quorums().is_quorum(self.acceptors(*s, memories));
        stamps.into_iter().find(held)
    }

    /// Returns true if no quorum held a write of this operation under any stamp, and none ever will
    /// below the ballot. Replicas may have accepted it under several stamps, because others wrote it
    /// on.
    fn was_never_held(&self, ballot: Stamp, memories: &[Memory]) -> bool {
        let first = self.attempts.first().map_or(Stamp::ZERO, |(s, _)| *s);
        let from = first.max(self.never_below);
        let remember = |memory: &&Memory| memory.remembered.known_from <= from;
        let remember = memories.iter().filter(remember);
        let remember: ReplicaSet = remember.map(|memory| memory.from).collect();
        let blocked = |by: ReplicaSet| self.layouts.iter().all(|l| l.is_blocked_by(by));
        // Above the ballot, these replicas may accept it yet.
        let is_never = |stamp: Stamp| {
            stamp < self.never_below
                || stamp < ballot && blocked(remember.without(self.acceptors(stamp, memories)))
        };
        blocked(remember) && self.stamps(memories).into_iter().all(is_never)
    }

    /// Returns the stamps under which a write of this operation was sent, or was accepted as far as
    /// replicas tell.
    fn stamps(&self, memories: &[Memory]) -> Vec<Stamp> {
        let accepted = memories
            .iter()
            .flat_map(|memory| &memory.remembered.accepted);
        let sent = self.attempts.iter().map(|(stamp, _)| stamp);
        sent.chain(accepted).copied().collect()
    }

    /// Returns the replicas that report that they accepted a write of this operation under `stamp`.
    fn acceptors(&self, stamp: Stamp, memories: &[Memory]) -> ReplicaSet {
        let has = |memory: &&Memory| memory.remembered.accepted.contains(&stamp);
        let acceptors = memories.iter().filter(has);
        let own = self.attempts.iter().filter(|(s, _)| *s == stamp);
        own.map(|(_, acceptors)| *acceptors).fold(
            acceptors.map(|memory| memory.from).collect(),
            ReplicaSet::union,
        )
    }
}
