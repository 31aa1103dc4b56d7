//! The versions that a decision is about, as promises report them.

use archipel_base::Stamp;
use archipel_storage::VersionName;

use crate::register::versions::{NEWEST, Promises, VersionReport, order_of, since_of};

/// The versions that a decision asks the replicas about, besides the one that it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Asked {
    /// This version, with its payload.
    pub other: Option<VersionName>,
    /// Only those older than this one: the newer ones are dead.
    pub below: VersionName,
    /// The object's row when that was so. A newer row may come with other versions.
    pub at: Stamp,
    /// True if replicas tell no versions but those that are named.
    pub unlisted: bool,
}

/// Returns what must be asked before `name` is deleted and the newest other version becomes
/// current, unless the promises tell all about it.
///
/// A list holds at most `most_dead` dead versions. If they are more, the replicas are asked for the
/// older ones.
pub(super) fn to_ask(
    promises: &Promises<'_>,
    name: VersionName,
    asked: Asked,
    most_dead: usize,
) -> Option<Asked> {
    if !promises.is_current(name) {
        return None;
    }
    let at = promises.current.stamp;
    if asked.unlisted || asked.below.is_some() && asked.at != at {
        return Some(Asked::default());
    }
    let next = promises.newest_but(name);
    let told = promises.reports.iter().map(|(_, of, _)| of.as_slice());
    // Versions that were asked for by name say nothing about how far a list goes.
    let listed = |one: &&VersionReport| {
        one.name != name && Some(one.name) != asked.other && one.name.is_some()
    };
    let lowest = |of: &[VersionReport]| of.iter().filter(listed).filter_map(|one| one.name).min();
    // A replica that lags may tell so many versions which are dead by now that a living one is
    // not among them.
    let hides = |of: &[VersionReport]| match &next {
        // A replica tells few versions if one of them lives in its own view.
        None if of.iter().filter(listed).any(|one| one.value.is_some()) => of.len() >= NEWEST,
        None => of.len() >= most_dead,
        Some(next) => of.len() >= NEWEST && lowest(of).is_some_and(|at| at > order_of(next)),
    };
    let hiding = told.clone().filter(|of| hides(of));
    if let Some(below) = hiding.map(lowest).max() {
        return Some(Asked {
            // Each list goes at least as far, and so far none shows one that lives.
            below: below.or(asked.below),
            at,
            ..asked
        });
    }
    let next = next?.version_name();
    if asked.other == Some(next) {
        return None;
    }
    let is_whole = |of: &[VersionReport]| {
        let mut of = of.iter().filter(|one| one.name == next);
        of.all(|one| one.is_whole || one.value.is_none())
    };
    let is_known = told.clone().all(|of| of.len() < NEWEST && is_whole(of));
    (!is_known).then_some(Asked {
        other: Some(next),
        ..asked
    })
}

/// Returns the newest living report of a kept version if a replica of the quorum lacks it, or holds
/// another null version.
pub(super) fn lacked(promises: &Promises<'_>, name: VersionName) -> Option<VersionReport> {
    if promises.is_current(name) {
        return None;
    }
    promises.state_of(name)?;
    let meant = |one: &VersionReport| {
        let value = one.value.as_ref()?;
        Some(since_of(value, one.stamp))
    };
    let of = |(_, of, _): &(usize, Vec<VersionReport>, Stamp)| {
        of.iter().find(|one| one.name == name).cloned()
    };
    let reports: Vec<Option<VersionReport>> = promises.reports.iter().map(of).collect();
    let newest = reports.iter().flatten().filter(|one| one.value.is_some());
    let newest = newest.max_by_key(|one| one.stamp).cloned()?;
    let has = |one: &Option<VersionReport>| one.as_ref().and_then(meant) == meant(&newest);
    (!reports.iter().all(has)).then_some(newest)
}

#[cfg(test)]
mod tests {
    use archipel_base::Id;
    use archipel_storage::{RowVersion, Value};

    use super::*;
    use crate::register::Version;
    use crate::register::versions::MOST_DEAD;

    fn stamp(number: u64) -> Stamp {
        Stamp::new(number, 0, Default::default())
    }

    fn named(number: u64) -> Value {
        Value {
            version: Some(Box::new(RowVersion {
                at: Some(stamp(number)),
                ..RowVersion::default()
            })),
            ..Value::default()
        }
    }

    fn report(number: u64, held: u64, lives: bool) -> VersionReport {
        VersionReport {
            name: Some(stamp(number)),
            stamp: stamp(held),
            write: Id([1; 16]),
            value: lives.then(|| named(number)),
            is_final: true,
            is_whole: true,
        }
    }

    /// One replica knows that all others are dead. The other one lags, and tells only as many as it
    /// takes to tell a living one.
    #[test]
    fn a_list_of_versions_that_are_dead_by_now_may_hide_a_living_one() {
        let current = Version {
            stamp: stamp(1000),
            write: Id([2; 16]),
            value: Some(named(1000)),
        };
        let numbers = 100..100 + NEWEST as u64;
        let dead = numbers.clone().map(|at| report(at, 500 + at, false));
        let lagging = numbers.map(|at| report(at, at, true));
        let reports = [
            (0, dead.collect::<Vec<_>>(), Stamp::ZERO),
            (1, lagging.collect(), Stamp::ZERO),
        ];
        let promises = Promises {
            current: &current,
            ballot: stamp(2000),
            reports: &reports,
        };
        let asked = to_ask(&promises, Some(stamp(1000)), Asked::default(), MOST_DEAD);
        let more = Asked {
            below: Some(stamp(100)),
            at: stamp(1000),
            ..Asked::default()
        };
        assert_eq!(asked, Some(more));
        // Another row came meanwhile, and versions with it.
        let newer = Version {
            stamp: stamp(1500),
            ..current.clone()
        };
        let over = Promises {
            current: &newer,
            ballot: stamp(2000),
            reports: &reports,
        };
        let again = to_ask(&over, Some(stamp(1000)), more, MOST_DEAD);
        assert_eq!(again, Some(Asked::default()));
        // Few older ones are all.
        let older = [(0, vec![report(90, 590, false)], Stamp::ZERO)];
        let promises = Promises {
            current: &current,
            ballot: stamp(2000),
            reports: &older,
        };
        assert_eq!(to_ask(&promises, Some(stamp(1000)), more, MOST_DEAD), None);
    }

    /// However many versions are dead, a list has a limit, and the next one goes on after it.
    #[test]
    fn lists_of_dead_versions_do_not_grow_without_limit() {
        let current = Version {
            stamp: stamp(1_000_000),
            write: Id([2; 16]),
            value: Some(named(1_000_000)),
        };
        let numbers = 10_000..10_000 + MOST_DEAD as u64;
        let dead: Vec<_> = numbers.map(|at| report(at, 500_000 + at, false)).collect();
        let reports = [(0, dead.clone(), Stamp::ZERO), (1, dead, Stamp::ZERO)];
        let promises = Promises {
            current: &current,
            ballot: stamp(2_000_000),
            reports: &reports,
        };
        let asked = to_ask(
            &promises,
            Some(stamp(1_000_000)),
            Asked::default(),
            MOST_DEAD,
        );
        let asked = asked.unwrap();
        assert_eq!(asked.below, Some(stamp(10_000)));
    }
}
