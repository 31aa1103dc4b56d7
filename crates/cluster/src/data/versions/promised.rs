//! What promises tell about the versions that a decision is about.

use archipel_base::Stamp;
use archipel_storage::VersionName;

use crate::register::versions::{NEWEST, Promises, VersionReport};

/// Returns the version that would become current if `name` is deleted, unless the promises tell all
/// about it.
pub(super) fn to_ask(
    promises: &Promises<'_>,
    name: VersionName,
    asked: &[VersionName],
) -> Option<VersionName> {
    if !promises.is_current(name) {
        return None;
    }
    let next = promises.newest_but(name)?.version_name();
    if asked.contains(&next) {
        return None;
    }
    let told = |of: &[VersionReport]| of.len() < NEWEST;
    let is_whole = |of: &[VersionReport]| {
        let mut of = of.iter().filter(|one| one.name == next);
        of.all(|one| one.is_whole || one.value.is_none())
    };
    let is_known = promises
        .reports
        .iter()
        .all(|(_, of, _)| told(of) && is_whole(of));
    (!is_known).then_some(next)
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
