//! Decisions about versions, on the promises of a quorum.

use archipel_base::Stamp;
use archipel_storage::row::MAX_VERSION_CHANGES;
use archipel_storage::{RowVersion, Value, VersionChange, VersionKind, VersionName, VersionState};

use super::{From, VersionReport, last_of, name_of, since_of};
use crate::register::message::Version;
use crate::register::rules::{Mutant, Rules};

/// The promises of a quorum, as a decision about versions sees them.
#[derive(Clone, Debug)]
pub struct Promises<'a> {
    /// The current version. A quorum holds it.
    pub current: &'a Version<Value>,
    /// The ballot: what is written gets this stamp.
    pub ballot: Stamp,
    /// The reports of each replica of the quorum on versions, with the floor that it agreed.
    pub reports: &'a [(usize, Vec<VersionReport>, Stamp)],
}

impl Promises<'_> {
    /// Returns the newest state of a version that the quorum knows. The current version is known
    /// to be chosen, so it lives.
    pub fn state_of(&self, name: VersionName) -> Option<Value> {
        let current = self.current.value.as_ref();
        if self.current.stamp != Stamp::ZERO && name_of(current) == name {
            return current
                .cloned()
                .filter(|value| value.kind() != VersionKind::Void);
        }
        self.report_of(name).and_then(|report| report.value.clone())
    }

    /// Returns the newest report of a version.
    pub fn report_of(&self, name: VersionName) -> Option<&VersionReport> {
        let all = self.reports.iter().flat_map(|(from, of, agreed)| {
            let of = of.iter().filter(|report| report.name == name);
            of.map(|report| (*from, report, *agreed))
        });
        let all: Vec<From<'_>> = all.collect();
        let counted = all.iter().filter(|(_, one, _)| {
            let past =
                |(_, other, agreed): &From<'_>| one.stamp <= *agreed && other.stamp < one.stamp;
            !all.iter().any(past)
        });
        let newest = counted.max_by_key(|(_, one, _)| one.stamp);
        newest.map(|(_, report, _)| *report)
    }

    /// Returns the stamp under which a version that is not current was last current, as the quorum
    /// knows.
    pub fn last_of(&self, name: VersionName) -> Option<Stamp> {
        let report = self.report_of(name)?;
        let value = report.value.as_ref()?;
        Some(last_of(value, report.stamp))
    }

    /// Returns true if a replica knows anything of the version, such as its deletion.
    pub fn know(&self, name: VersionName) -> bool {
        let mut all = self.reports.iter().flat_map(|(_, of, _)| of);
        all.any(|report| report.name == name && report.stamp != Stamp::ZERO)
    }

    /// Returns true if the version is the current one.
    pub fn is_current(&self, name: VersionName) -> bool {
        let current = self.current.value.as_ref();
        current.is_some_and(|value| value.kind() != VersionKind::Void) && name_of(current) == name
    }

    /// Returns the newest living version other than `name` that the replicas report.
    pub fn newest_but(&self, name: VersionName) -> Option<Value> {
        let names = self.reports.iter().flat_map(|(_, of, _)| of);
        let names = names
            .map(|report| report.name)
            .filter(|other| *other != name);
        let mut living: Vec<Value> = names.filter_map(|name| self.state_of(name)).collect();
        living.sort_by_key(order_of);
        living.pop()
    }
}

/// Returns the place of a kept version among the versions of its key: later versions are higher.
pub fn order_of(value: &Value) -> Stamp {
    let since = value.version.as_ref().and_then(|version| version.since);
    value.version_name().or(since).unwrap_or(Stamp::ZERO)
}

/// Returns a value with these changes of other versions, and no others. Without a value the result
/// only carries the changes.
pub fn with_changes(value: Option<Value>, changes: Vec<VersionChange>) -> Value {
    let is_void = value.is_none();
    let value = value.unwrap_or_default();
    let version = value.version.as_deref().cloned().unwrap_or_default();
    let kind = if is_void {
        VersionKind::Void
    } else {
        version.kind
    };
    Value {
        version: Some(Box::new(RowVersion {
            kind,
            changes,
            last: None,
            ..version
        })),
        ..value
    }
}

/// Returns the object's row as it is, with the death of an attempt that took no effect. `is_chosen`
/// says whether a quorum holds `newest`; otherwise its changes go on. `None` if there are too many
/// changes, or if one of them brings the attempt to life.
pub fn bury(
    rules: Rules,
    newest: &Version<Value>,
    is_chosen: bool,
    attempt: VersionName,
) -> Option<Value> {
    let mut changes = match (&newest.value, is_chosen) {
        (Some(value), false) if !rules.breaks(Mutant::ForgetChanges) => value.changes().to_vec(),
        _ => Vec::new(),
    };
    let known = changes.iter().find(|change| change.of == attempt);
    match known.map(|change| &change.state) {
        // An earlier burial that did not reach a quorum.
        Some(VersionState::Dead) => {}
        Some(VersionState::Changed(_)) => return None,
        None if changes.len() >= MAX_VERSION_CHANGES => return None,
        None => changes.push(VersionChange {
            of: attempt,
            state: VersionState::Dead,
            since: None,
            last: None,
        }),
    }
    Some(with_changes(newest.value.clone(), changes))
}

/// Returns the new state of the object's row that deletes a version, or `None` if there can be no
/// such version. A deletion that a replica knows is made final.
///
/// A replica that did not promise may hold a version that no promise shows: the attempt of a write
/// that was not answered. So its death is written, too. The name of a version is the stamp of its
/// attempt, so it must be below the ballot. A null version has no such name. If one shows later, it
/// was written later.
pub fn kill(rules: Rules, promises: &Promises<'_>, name: VersionName) -> Option<Option<Value>> {
    let is_known = promises.state_of(name).is_some() || promises.know(name);
    let may_be_held = name.is_some_and(|at| at < promises.ballot);
    if !is_known && (!may_be_held || rules.breaks(Mutant::KillKnown)) {
        return None;
    }
    let dead = vec![VersionChange {
        of: name,
        state: VersionState::Dead,
        since: None,
        last: None,
    }];
    if !promises.is_current(name) {
        return Some(Some(with_changes(promises.current.value.clone(), dead)));
    }
    let next = match rules.breaks(Mutant::NoPromotion) {
        true => None,
        false => promises.newest_but(name),
    };
    // A tombstone is the death of the null version.
    Some((next.is_some() || name.is_some()).then(|| with_changes(next, dead)))
}

/// Returns the value of the object's row that gives a version new metadata, or `None` if there is
/// no such version. With the metadata that the version has, it settles its state.
pub fn change(
    promises: &Promises<'_>,
    name: VersionName,
    metadata: impl FnOnce(&Value) -> bytes::Bytes,
) -> Option<Value> {
    let value = promises.state_of(name)?;
    let metadata = metadata(&value);
    if promises.is_current(name) {
        return Some(with_changes(Some(Value { metadata, ..value }), Vec::new()));
    }
    let changes = vec![VersionChange {
        of: name,
        state: VersionState::Changed(metadata),
        since: promises.report_of(name).and_then(|report| {
            let value = report.value.as_ref()?;
            since_of(value, report.stamp)
        }),
        last: promises.last_of(name),
    }];
    Some(with_changes(promises.current.value.clone(), changes))
}

/// Returns true if a deletion of the version is decided again after another write overtook its
/// attempt.
///
/// A replica may hold the death that the attempt sent, and a reader may settle it at any time. A
/// version with a name does not come back, so a second deletion of it changes nothing more. All
/// null versions have one name: the second deletion could delete a null version that was put after
/// the first one took effect.
pub fn is_decided_again(rules: Rules, name: VersionName) -> bool {
    name.is_some() || rules.breaks(Mutant::KillNullTwice)
}

/// Returns true if a deletion may still end as refused, which says that it deleted nothing.
/// `is_overtaken` is true if another write overtook an earlier attempt of it, whose death a replica
/// may hold.
pub fn may_be_refused(rules: Rules, is_overtaken: bool) -> bool {
    !is_overtaken || rules.breaks(Mutant::RefuseOvertaken)
}
