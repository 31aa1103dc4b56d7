//! The fate of an operation's own writes, from the promises of a quorum.

use std::collections::BTreeSet;

use archipel_base::Stamp;

use super::state::{Kind, Memory, Promise, Start};
use super::{Operation, RowValue};
use crate::register::intent::Intent;
use crate::register::message::{Remembered, Version};
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

/// The fate of a write that is not the newest one of its row any more, as far as replicas tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PastFate {
    /// It took effect: a quorum held it under each of these stamps, in their order. There are
    /// several if another coordinator wrote it on, and its own one did not know. Nothing took
    /// effect between them.
    Chosen(BTreeSet<Stamp>),
    /// It took no effect under a stamp below the version that was read, and never will. A later
    /// attempt may.
    Never,
    /// Nobody that answered knows any more.
    Unknown,
}

impl<V: RowValue> Operation<V> {
    /// Returns true if a quorum has accepted one of the operation's own messages. If the layout has
    /// changed meanwhile, that is not known.
    pub fn has_own_quorum(&self) -> bool {
        let mut attempts = self.attempts.iter();
        self.is_of_one_layout()
            && attempts.any(|(_, acceptors)| self.quorums().is_quorum(*acceptors))
    }

    /// Returns true if all of the operation's own messages went out under the same layout.
    /// Acceptances under different ones may never have been a quorum of one of them.
    fn is_of_one_layout(&self) -> bool {
        self.layouts.len() == 1 && !self.skipped_epochs
    }

    /// Returns what became of the write that an intent names, from what replicas remember of it.
    ///
    /// A quorum has reached a version under the stamp `reached`, which is above that of the intent:
    /// the write is not the newest one any more. Replicas were asked with a `Prepare` of that
    /// ballot, so those that told something accept nothing below it. `epoch` is the current one.
    ///
    /// An attempt above `reached` may be on its way. It says nothing about those below.
    pub fn fate_of_past(
        start: Start,
        intent: &Intent,
        epoch: u64,
        reached: Stamp,
        told: Vec<(usize, Remembered)>,
    ) -> PastFate {
        let kind = Kind::Resolve {
            id: intent.write,
            name: intent.name,
        };
        let mut operation: Operation<V> = Operation::new(start, kind, false);
        operation.attempts = vec![(intent.after, ReplicaSet::EMPTY)];
        operation.skipped_epochs = intent.epoch != epoch;
        let memory = |(from, remembered)| Memory { from, remembered };
        operation.memories = told.into_iter().map(memory).collect();
        // For another layout, nobody knows which acceptances would have been a quorum.
        if operation.skipped_epochs {
            return PastFate::Unknown;
        }
        let held: BTreeSet<Stamp> = operation.held(&operation.memories).collect();
        if !held.is_empty() {
            return PastFate::Chosen(held);
        }
        for memory in &mut operation.memories {
            memory.remembered.accepted.retain(|stamp| *stamp < reached);
        }
        match operation.was_never_held(reached, &operation.memories) {
            true => PastFate::Never,
            false => PastFate::Unknown,
        }
    }

    /// Returns what became of the operation's own writes. `ballot` is the promised one. Replicas
    /// that refused it tell what they remember, too, because they accept nothing below it either.
    pub(super) fn fate(&self, ballot: Stamp, newest: &Version<V>, promises: &[Promise<V>]) -> Fate {
        if newest.stamp != Stamp::ZERO && Some(newest.write) == self.write_id() {
            return Fate::Newest;
        }
        let memories = self.memories(promises);
        let one_layout = self.is_of_one_layout() || self.rules.breaks(Mutant::CountAcrossLayouts);
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
    pub(super) fn memories(&self, promises: &[Promise<V>]) -> Vec<Memory> {
        let promised = promises.iter().map(|promise| Memory {
            from: promise.report.from,
            remembered: promise.remembered.clone(),
        });
        promised.chain(self.memories.iter().cloned()).collect()
    }

    /// Returns the stamps under which a quorum once held a write of this operation.
    fn held(&self, memories: &[Memory]) -> impl Iterator<Item = Stamp> {
        let is_held = |s: &Stamp| self.quorums().is_quorum(self.acceptors(*s, memories));
        self.stamps(memories).into_iter().filter(is_held)
    }

    /// Returns a stamp under which a quorum once held a write of this operation.
    fn once_held(&self, memories: &[Memory]) -> Option<Stamp> {
        if self.rules.breaks(Mutant::CountById) {
            let stamps = self.stamps(memories);
            let any = stamps.iter().map(|s| self.acceptors(*s, memories));
            let all = any.fold(ReplicaSet::EMPTY, ReplicaSet::union);
            return stamps
                .first()
                .copied()
                .filter(|_| self.quorums().is_quorum(all));
        }
        self.held(memories).next()
    }

    /// Returns true if no quorum held a write of this operation under any stamp, and none ever will
    /// below the ballot. Replicas may have accepted it under several stamps, because others wrote
    /// it on.
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

#[cfg(test)]
mod tests {
    use archipel_base::{Id, Writer};

    use super::*;
    use crate::register::quorum::Quorums;
    use crate::register::rules::Rules;

    fn at(millis: u64) -> Stamp {
        Stamp::new(millis, 0, Writer(1))
    }

    /// Returns the fate if three replicas tell under which stamps they accepted the write, and from
    /// when on they remember; `None` does not answer.
    fn fate(told: [Option<(&[u64], u64)>; 3], epoch: u64) -> PastFate {
        let intent = Intent {
            write: Id([1; 16]),
            after: at(10),
            epoch: 4,
            name: None,
        };
        let told = told.into_iter().enumerate().filter_map(|(from, told)| {
            let (accepted, known_from) = told?;
            let remembered = Remembered {
                accepted: accepted.iter().map(|millis| at(*millis)).collect(),
                known_from: at(known_from),
            };
            Some((from, remembered))
        });
        let start = Start {
            rules: Rules::CORRECT,
            quorums: Quorums::of_versions(vec![(0..3).collect()]),
        };
        Operation::<u32>::fate_of_past(start, &intent, epoch, at(20), told.collect())
    }

    /// Two replicas accepted an attempt as a minority of five. After a layout change they would be
    /// two of three.
    #[test]
    fn acceptances_of_another_layout_are_no_own_quorum() {
        let quorums = |members| Quorums::of_versions(vec![(0..members).collect()]);
        let start = Start {
            rules: Rules::CORRECT,
            quorums: quorums(5),
        };
        let kind = Kind::Write {
            id: Id([1; 16]),
            value: Some(1),
        };
        let mut operation = Operation::<u32>::new(start, kind, false);
        operation.attempts = vec![(at(10), (0..2).collect())];
        assert!(!operation.has_own_quorum());
        operation.layouts.push(quorums(3));
        assert!(!operation.has_own_quorum());
        operation.layouts.remove(0);
        assert!(operation.has_own_quorum());
    }

    #[test]
    fn replicas_tell_what_became_of_a_past_write() {
        use PastFate::{Never, Unknown};
        let chosen = |millis: &[u64]| PastFate::Chosen(millis.iter().map(|n| at(*n)).collect());
        let accepted = Some((&[10][..], 5));
        let refused = Some((&[][..], 5));
        let forgot = Some((&[][..], 15));
        for (told, expected) in [
            ([accepted, accepted, None], chosen(&[10])),
            ([accepted, accepted, forgot], chosen(&[10])),
            ([accepted, refused, refused], Never),
            // The one that does not answer may have accepted it.
            ([accepted, refused, None], Unknown),
            ([refused, refused, None], Never),
            ([accepted, refused, forgot], Unknown),
            ([forgot, forgot, forgot], Unknown),
            ([None, None, None], Unknown),
            // Another coordinator wrote it on, under a higher stamp.
            (
                [Some((&[10, 12], 5)), Some((&[12], 5)), None],
                chosen(&[12]),
            ),
            ([Some((&[10], 5)), Some((&[12], 5)), refused], Never),
            // It took effect twice: its own coordinator sent on what another one had completed.
            (
                [Some((&[10, 12], 5)), accepted, Some((&[12], 5))],
                chosen(&[10, 12]),
            ),
            // The next attempt is on its way, or took effect.
            ([Some((&[10, 30], 5)), refused, refused], Never),
            ([Some((&[10, 30], 5)), refused, None], Unknown),
            (
                [Some((&[10, 30], 5)), Some((&[30], 5)), refused],
                chosen(&[30]),
            ),
        ] {
            assert_eq!(fate(told, 4), expected, "{told:?}");
        }
        // Under another layout, other replicas may have been the quorum.
        assert_eq!(fate([accepted, accepted, None], 5), Unknown);
        assert_eq!(fate([refused, refused, refused], 5), Unknown);
    }
}
