//! Versions of an object: the object's row decides, and a replica keeps what it displaces.
//!
//! All versions of a key are in one partition. The **object's row** holds the current version. A
//! **kept version** has a row of its own, which no coordinator writes: each replica writes it in
//! the transaction in which it accepts a value of the object's row. `docs/internals/versions.md`
//! gives the protocol and the argument.
//!
//! # Rules at a replica
//! - **Displace.** A value that replaces a version with another name moves that version to its kept
//!   row, under the stamp that it had, and with a note of that stamp. It never replaces a kept row
//!   with a higher stamp.
//! - **Changes.** A value may carry changes of other versions. The replica applies them under the
//!   value's stamp, or refuses the value ([`Lacks`](Kept::Lacks)).
//! - **One place.** A replica holds a version in one row. A version that becomes current leaves its
//!   kept row.
//!
//! # Final
//! A kept row is *final* at a replica if the replica accepted it through the object's row: it
//! displaced the version, or applied a change. A copy that another replica gave is not. The row's
//! `promised` is its stamp if it is final, because kept rows need no promises.

mod decide;

pub use decide::{
    Promises, bury, change, is_decided_again, kill, may_be_refused, order_of, with_changes,
};

use archipel_base::{Id, Stamp};
use archipel_storage::{Value, VersionChange, VersionKind, VersionName, VersionState};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::message::Version;
use super::quorum::{Quorums, ReplicaSet};
use super::replica::{Bounds, Cell};
use super::rules::{Mutant, Rules};

/// The number of kept versions that a replica tells, if a request asks for the newest ones. If it
/// tells fewer, it holds no others.
pub const NEWEST: usize = 32;

/// The largest number of versions that a replica tells, dead ones among them, to find the newest
/// living one. The answer must fit into a message.
pub const MOST_DEAD: usize = 4096;

/// The kept rows that change when a replica accepts a value of the object's row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// These rows change. An empty cell removes the row.
    Changes(Vec<(VersionName, Cell<Value>)>),
    /// The value changes a version that this replica lacks. It must not be accepted.
    Lacks(VersionName),
}

/// Returns what a value's acceptance changes in kept rows. `old` is the object's row before,
/// `kept` reads a kept row.
pub fn keep<E>(
    rules: Rules,
    old: &Cell<Value>,
    new: &Version<Value>,
    mut kept: impl FnMut(VersionName) -> Result<Cell<Value>, E>,
) -> Result<Kept, E> {
    let (from, to) = (name_of(old.value.as_ref()), name_of(new.value.as_ref()));
    let mut changed: Vec<(VersionName, Cell<Value>)> = Vec::new();
    let displaces = old.stamp != Stamp::ZERO && from != to;
    if displaces && !rules.breaks(Mutant::DropDisplaced) {
        let held = kept(from)?;
        if held.stamp <= old.stamp {
            changed.push((from, displaced(old)));
        }
    }
    // A replica that lagged may have got a copy of the version that is current (again), or of an
    // older null version, although its own row never displaced it.
    let held = kept(to)?;
    if held.stamp != Stamp::ZERO && held.stamp <= new.stamp {
        changed.push((to, Cell::default()));
    }
    let changes = new.value.as_ref().map_or(&[][..], Value::changes);
    for change in changes {
        if change.of == to || rules.breaks(Mutant::IgnoreChanges) {
            continue;
        }
        let at = changed.iter().position(|(name, _)| *name == change.of);
        let held = match at.and_then(|at| changed.get(at)) {
            Some((_, cell)) => cell.clone(),
            None => kept(change.of)?,
        };
        if held.stamp >= new.stamp {
            continue;
        }
        let value = match (&change.state, held.value) {
            (VersionState::Dead, _) => None,
            (VersionState::Changed(metadata), Some(value))
                if is_meant(rules, change, &value, held.stamp) =>
            {
                Some(with_metadata(value, metadata, change.last))
            }
            (VersionState::Changed(_), _) if rules.breaks(Mutant::AcceptLacking) => continue,
            (VersionState::Changed(_), _) => return Ok(Kept::Lacks(change.of)),
        };
        let cell = Cell {
            promised: new.stamp,
            stamp: new.stamp,
            write: new.write,
            value,
        };
        match at.and_then(|at| changed.get_mut(at)) {
            Some((_, known)) => *known = cell,
            None => changed.push((change.of, cell)),
        }
    }
    Ok(Kept::Changes(changed))
}

/// Returns true if a change of metadata is meant for this kept value. A replica that missed a null
/// version may still hold the one before it, with another payload.
fn is_meant(rules: Rules, change: &VersionChange, value: &Value, stamp: Stamp) -> bool {
    change.since.is_none()
        || since_of(value, stamp) == change.since
        || rules.breaks(Mutant::MixNullVersions)
}

/// Returns a kept version with new metadata. A replica that lagged may have displaced the version
/// under an earlier stamp than others. `last` is the stamp that counts, so that all hold the same.
fn with_metadata(value: Value, metadata: &Bytes, last: Option<Stamp>) -> Value {
    let value = Value {
        metadata: metadata.clone(),
        ..value
    };
    match last {
        Some(last) => last_current(value, last),
        None => value,
    }
}

/// Returns a version with a note of the stamp under which it was last current.
fn last_current(mut value: Value, last: Stamp) -> Value {
    value.version.get_or_insert_default().last = Some(last);
    value
}

/// Returns the stamp under which a version that is not current was last current. `stamp` is the one
/// under which it is held. The row of an older build has no note: the version was not current after
/// that stamp.
pub fn last_of(value: &Value, stamp: Stamp) -> Stamp {
    let version = value.version.as_ref();
    version.and_then(|version| version.last).unwrap_or(stamp)
}

/// Returns what tells a null version from others; `None` for a version with a name. `stamp` is the
/// one under which it is held.
pub fn since_of(value: &Value, stamp: Stamp) -> Option<Stamp> {
    let since = value.version.as_ref().and_then(|version| version.since);
    value
        .version_name()
        .is_none()
        .then(|| since.unwrap_or(stamp))
}

/// Returns a version's value as its kept row holds it. `stamp` is the one under which it is held.
pub fn as_kept(mut value: Value, stamp: Stamp) -> Value {
    let version = value.version.get_or_insert_default();
    version.changes.clear();
    version.since = version.since.or(version.at.is_none().then_some(stamp));
    value
}

/// Returns the kept row of a version as another replica may [copy] it.
pub fn copy_of(report: &VersionReport) -> Version<Value> {
    let value = report.value.clone();
    Version {
        stamp: report.stamp,
        write: report.write,
        value: value.map(|value| as_kept(value, report.stamp)),
    }
}

/// Returns the name of the version that an object's row holds. A tombstone is of the null version.
pub fn name_of(value: Option<&Value>) -> VersionName {
    value.and_then(Value::version_name)
}

/// Returns the kept row of a version that was current.
fn displaced(old: &Cell<Value>) -> Cell<Value> {
    let value = old.value.clone().filter(|v| v.kind() != VersionKind::Void);
    let value = value.map(|value| as_kept(last_current(value, old.stamp), old.stamp));
    Cell {
        promised: old.stamp,
        stamp: old.stamp,
        write: old.write,
        value,
    }
}

/// A version as one replica holds it, in the object's row or in its kept row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct VersionReport {
    /// Its name.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub name: VersionName,
    /// The stamp under which it is held; [`Stamp::ZERO`] if nothing is known of it.
    #[serde(rename = "s")]
    pub stamp: Stamp,
    /// The write that made this state.
    #[serde(rename = "w")]
    pub write: Id,
    /// The value; `None` if the version is deleted or absent.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// True if the replica accepted this state through the object's row.
    #[serde(rename = "f", default)]
    pub is_final: bool,
    /// True if the value has its payload.
    #[serde(rename = "p", default)]
    pub is_whole: bool,
}

/// Returns a version as a replica holds it: the newer one of the object's row, if it holds that
/// version, and the kept row.
pub fn view(
    name: VersionName,
    current: &Cell<Value>,
    kept: &Cell<Value>,
    bounds: &Bounds,
) -> VersionReport {
    let is_current = current.stamp != Stamp::ZERO && name_of(current.value.as_ref()) == name;
    let (cell, value, is_final) = if is_current && current.stamp > kept.stamp {
        let value = current.value.clone();
        let value = value.map(|value| last_current(value, current.stamp));
        (current, value, true)
    } else {
        let is_final = kept.promised == kept.stamp;
        (kept, kept.value.clone(), is_final)
    };
    let value = value.filter(|value| value.kind() != VersionKind::Void);
    let is_gone = value.is_none() && cell.stamp <= bounds.gone;
    if is_gone || cell.stamp == Stamp::ZERO {
        return VersionReport {
            name,
            stamp: Stamp::ZERO,
            write: Id::default(),
            value: None,
            is_final: false,
            is_whole: true,
        };
    }
    VersionReport {
        name,
        stamp: cell.stamp,
        write: cell.write,
        value,
        is_final,
        is_whole: true,
    }
}

/// A replica's reaction to a kept row that another replica holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Copied {
    /// The row's new state: a copy, which is not final.
    Taken(Cell<Value>),
    /// The replica holds the version in this state or a newer one, or its death was dropped for
    /// good.
    Known,
    /// The replica lacks the version, and takes nothing below its floor.
    Frozen,
}

/// Applies a kept row that another replica holds.
pub fn copy(
    rules: Rules,
    bounds: &Bounds,
    current: &Cell<Value>,
    kept: &Cell<Value>,
    name: VersionName,
    version: &Version<Value>,
) -> Copied {
    let held = view(name, current, kept, bounds);
    let dropped = version.value.is_none() && version.stamp <= bounds.gone;
    if version.stamp <= held.stamp.max(kept.stamp) || dropped {
        return Copied::Known;
    }
    if version.stamp <= bounds.frozen {
        return Copied::Frozen;
    }
    let promised = if rules.breaks(Mutant::CopiesAreFinal) {
        version.stamp
    } else {
        Stamp::ZERO
    };
    Copied::Taken(Cell {
        promised,
        stamp: version.stamp,
        write: version.write,
        value: version.value.clone(),
    })
}

/// The verdict of several replicas' reports on a version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// This is the state of the version, for good or until an operation changes it. Without a value
    /// there is no such version.
    Final(VersionReport),
    /// A decision must settle the version. This is the newest state among the reports.
    Open(VersionReport),
}

/// A replica's report, with the floor that the replica agreed.
pub type From<'a> = (usize, &'a VersionReport, Stamp);

/// Judges the reports of a quorum on one version.
pub fn judge(rules: Rules, quorums: &Quorums, reports: &[From<'_>]) -> Verdict {
    let counted = |(_, one, _): &&From<'_>| {
        let is_past =
            |(_, other, agreed): &From<'_>| one.stamp <= *agreed && other.stamp < one.stamp;
        one.stamp != Stamp::ZERO && !reports.iter().any(is_past)
    };
    let counted: Vec<_> = reports.iter().filter(counted).collect();
    let newest = counted.iter().max_by_key(|(_, one, _)| one.stamp);
    let Some((_, newest, _)) = newest else {
        return Verdict::Final(VersionReport {
            name: reports.first().and_then(|(_, one, _)| one.name),
            stamp: Stamp::ZERO,
            write: Id::default(),
            value: None,
            is_final: true,
            is_whole: true,
        });
    };
    let same = counted.iter().filter(|(_, one, _)| {
        one.stamp == newest.stamp && (one.is_final || rules.breaks(Mutant::CopiesAreFinal))
    });
    let same: ReplicaSet = same.map(|(from, ..)| *from).collect();
    let newest = VersionReport::clone(newest);
    if quorums.is_quorum(same) || rules.breaks(Mutant::TrustMinority) {
        Verdict::Final(newest)
    } else {
        Verdict::Open(newest)
    }
}

/// Returns true if a row of an object holds no version, and may become a tombstone if it stays so:
/// all replicas have accepted it, and with it the deletions that it carries. `agreed` is the agreed
/// floor.
pub fn may_retire(kind: VersionKind, stamp: Stamp, agreed: Stamp) -> bool {
    kind == VersionKind::Void && stamp <= agreed
}

/// Returns true if the row that had this stamp when it [might retire](may_retire) is unchanged.
pub fn retires(rules: Rules, current: Option<&Value>, is_same_stamp: bool) -> bool {
    let is_void = current.is_some_and(|value| value.kind() == VersionKind::Void);
    is_void && is_same_stamp || rules.breaks(Mutant::RetireWritten)
}

/// Returns true if a layout change has to move the version that was listed in an object's row apart
/// from that row.
///
/// A new replica gets the row's newest value, and so displaces no older one. If the row holds
/// another version by now, replicas of the older layout version alone may hold the listed one.
pub fn moves_apart(rules: Rules, listed: VersionName, newest: VersionName) -> bool {
    listed != newest && !rules.breaks(Mutant::MoveRowsAlone)
}
