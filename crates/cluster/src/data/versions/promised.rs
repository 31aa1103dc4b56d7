//! What promises tell about the versions that a decision is about.

use archipel_base::Stamp;
use archipel_storage::VersionName;

use crate::register::versions::{MOST_DEAD, NEWEST, Promises, VersionReport, order_of};

/// What a decision asks the replicas about, besides the version in question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Asked {
    /// This version, with its payload.
    pub other: Option<VersionName>,
    /// So many of the newest versions at least.
    pub least: usize,
}

/// Returns what must be asked before `name` is deleted and the newest other version becomes
/// current, unless the promises tell all about it.
pub(super) fn to_ask(promises: &Promises<'_>, name: VersionName, asked: Asked) -> Option<Asked> {
    if !promises.is_current(name) {
        return None;
    }
    let next = promises.newest_but(name);
    let told = promises.reports.iter().map(|(_, of, _)| of.as_slice());
    // A replica that lags may tell so many versions which are dead by now that a living one is
    // not among them.
    let lowest = |of: &[VersionReport]| {
        let named = of.iter().filter(|one| Some(one.name) != asked.other);
        named.filter_map(|one| one.name).min()
    };
    let hides = |of: &[VersionReport]| match &next {
        None => of.len() >= MOST_DEAD.max(asked.least),
        Some(next) => {
            of.len() >= NEWEST.max(asked.least) && lowest(of).is_some_and(|at| at > order_of(next))
        }
    };
    if let Some(of) = told.clone().find(|of| hides(of)) {
        return Some(Asked {
            least: 4 * of.len(),
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

/// Returns the newest living report of a kept version if a replica of the quorum lacks it.
pub(super) fn lacked(promises: &Promises<'_>, name: VersionName) -> Option<VersionReport> {
    if promises.is_current(name) {
        return None;
    }
    promises.state_of(name)?;
    let of = |(_, of, _): &(usize, Vec<VersionReport>, Stamp)| {
        of.iter().find(|one| one.name == name).cloned()
    };
    let reports: Vec<Option<VersionReport>> = promises.reports.iter().map(of).collect();
    let lacks = |one: &Option<VersionReport>| one.as_ref().is_none_or(|one| one.value.is_none());
    let newest = reports.iter().flatten().filter(|one| one.value.is_some());
    let newest = newest.max_by_key(|one| one.stamp).cloned();
    reports.iter().any(lacks).then_some(newest).flatten()
}
