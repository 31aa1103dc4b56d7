//! One decision about a version, from what the promises tell.

use archipel_storage::{Value, VersionKind, VersionName};

use super::promised::{Asked, lacked, to_ask};
use super::{VersionDecision, VersionSeen};
use crate::register::versions::{self, Promises, VersionReport};
use crate::register::{Decision, Rules};

/// The result of a decision, beside the value that it writes.
pub(super) struct Considered<E> {
    /// The reason why the version is left as it is.
    pub refusal: Option<E>,
    /// The versions to ask about before the decision can be made.
    pub ask: Option<Asked>,
    /// True if the decision is made again after others were faster.
    pub repeats: bool,
    /// The version that a replica lacks and that the decision would change.
    pub lacking: Option<VersionReport>,
    /// True if the decision changes the version, so that replicas must not lack it.
    changes: bool,
}

impl<E> Considered<E> {
    /// Returns what counts before the first decision.
    pub fn nothing() -> Considered<E> {
        Considered {
            refusal: None,
            ask: None,
            repeats: false,
            lacking: None,
            changes: false,
        }
    }

    /// Returns true if the decision was that there is no version of that name.
    pub fn is_absence(&self) -> bool {
        self.repeats && self.refusal.is_some()
    }

    /// Adds a later decision of the same operation. It counts, but a value that an earlier one
    /// wrote may have taken effect: what made that one repeat stays.
    pub fn follow_with(&mut self, later: Considered<E>) {
        self.refusal = later.refusal;
        self.ask = later.ask;
        self.repeats |= later.repeats;
        if later.changes {
            self.lacking = later.lacking;
        }
    }
}

/// Asks `decide` about the version of this name, and returns what to write. `asked` is what the
/// replicas were asked about beside it. They tell at most `most_dead` dead versions.
pub(super) fn consider<E>(
    promises: &Promises<'_>,
    name: VersionName,
    (asked, most_dead): (Asked, usize),
    decide: &impl Fn(&VersionSeen<'_>) -> VersionDecision<E>,
) -> (Decision<Value>, Considered<E>) {
    let named = promises.state_of(name);
    let current = promises.current.value.as_ref();
    let current = current.filter(|value| value.kind() != VersionKind::Void);
    let is_current = promises.is_current(name);
    let is_only = || (is_current || current.is_none()) && promises.newest_but(name).is_none();
    let seen = VersionSeen {
        named: named.as_ref(),
        is_current,
        last: promises.last_of(name).filter(|_| !is_current),
        current,
        is_alone: !asked.unlisted && is_only(),
    };
    let dead = || versions::kill(Rules::CORRECT, promises, name);
    let mut considered = Considered::nothing();
    let value = match decide(&seen) {
        VersionDecision::Abort(refusal) => {
            considered.refusal = Some(refusal);
            // A death that a replica tells is final before it is answered. Other refusals write
            // nothing.
            let is_told_dead = named.is_none() && promises.know(name);
            is_told_dead.then(dead).flatten()
        }
        VersionDecision::Absent(refusal) => {
            considered.repeats = true;
            considered.refusal = Some(refusal);
            dead()
        }
        VersionDecision::Kill => {
            considered.repeats = true;
            considered.ask = to_ask(promises, name, asked, most_dead);
            considered.ask.is_none().then(dead).flatten()
        }
        VersionDecision::Change(metadata) => {
            considered.changes = true;
            considered.lacking = lacked(promises, name);
            match considered.lacking {
                Some(_) => None,
                None => versions::change(promises, name, |_| metadata).map(Some),
            }
        }
    };
    let decision = value.map_or(Decision::Keep, Decision::Write);
    (decision, considered)
}

#[cfg(test)]
mod tests {
    use archipel_base::{Id, Stamp};

    use super::*;
    use crate::register::Version;
    use crate::register::versions::MOST_DEAD;

    const NAME: VersionName = Some(stamp(100));

    const fn stamp(time: u64) -> Stamp {
        Stamp {
            time,
            ..Stamp::ZERO
        }
    }

    /// Considers the version when no replica knows anything of it, nor of any other.
    fn of_nothing(
        decision: impl Fn() -> VersionDecision<&'static str>,
    ) -> (Decision<Value>, Considered<&'static str>) {
        let promises = Promises {
            current: &Version {
                stamp: Stamp::ZERO,
                write: Id::default(),
                value: None,
            },
            ballot: stamp(200),
            reports: &[(0, Vec::new(), Stamp::ZERO), (1, Vec::new(), Stamp::ZERO)],
        };
        consider(&promises, NAME, (Asked::default(), MOST_DEAD), &|_| {
            decision()
        })
    }

    #[test]
    fn only_an_absence_writes_the_death_of_an_unknown_version() {
        let (decision, considered) = of_nothing(|| VersionDecision::Abort("none"));
        assert_eq!(decision, Decision::Keep);
        assert!(!considered.is_absence());
        assert_eq!(
            (considered.refusal, considered.repeats),
            (Some("none"), false)
        );
        let (decision, considered) = of_nothing(|| VersionDecision::Absent("none"));
        assert!(matches!(decision, Decision::Write(Some(_))), "{decision:?}");
        assert!(considered.is_absence());
        assert_eq!(
            (considered.refusal, considered.repeats),
            (Some("none"), true)
        );
    }

    #[test]
    fn the_last_decision_counts_but_an_earlier_one_may_still_repeat() {
        let (_, mut considered) = of_nothing(|| VersionDecision::Absent("none"));
        considered.follow_with(of_nothing(|| VersionDecision::Abort("protected")).1);
        assert_eq!(
            (considered.refusal, considered.repeats),
            (Some("protected"), true)
        );
    }
}
