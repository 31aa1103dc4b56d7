//! Versions that a replica keeps, and what it tells of them.

use std::collections::BTreeMap;
use std::convert::Infallible;

use archipel_base::{Id, Stamp};
use archipel_storage::{
    Payload, RowVersion, Value, VersionChange, VersionKind, VersionName, VersionState,
};
use bytes::Bytes;

use crate::register::versions::{Kept, as_kept, keep};
use crate::register::{Cell, Rules, Version};

fn stamp(number: u64) -> Stamp {
    Stamp::new(number, 0, Default::default())
}

/// Returns a value with this content, of the null version or another one.
fn value(content: &'static str, at: VersionName) -> Value {
    Value {
        metadata: Bytes::from_static(content.as_bytes()),
        payload: Payload::Inline(Bytes::from_static(content.as_bytes())),
        version: at.is_some().then(|| {
            Box::new(RowVersion {
                at,
                ..RowVersion::default()
            })
        }),
        ..Value::default()
    }
}

fn cell(number: u64, value: Value) -> Cell<Value> {
    Cell {
        promised: stamp(number),
        stamp: stamp(number),
        write: Id([number as u8; 16]),
        value: Some(value),
    }
}

/// Returns an acceptance of a version's value, which changes the null version's metadata.
fn changing(number: u64, since: u64) -> Version<Value> {
    let change = VersionChange {
        of: None,
        state: VersionState::Changed(Bytes::from_static(b"new")),
        since: Some(stamp(since)),
        last: None,
    };
    let mut current = value("current", Some(stamp(5)));
    if let Some(version) = &mut current.version {
        version.changes.push(change);
    }
    Version {
        stamp: stamp(number),
        write: Id([number as u8; 16]),
        value: Some(current),
    }
}

/// Returns the kept row of a null version.
fn kept_null(number: u64, content: &'static str) -> Cell<Value> {
    cell(number, as_kept(value(content, None), stamp(number)))
}

fn kept_in(
    old: &Cell<Value>,
    new: &Version<Value>,
    kept: &BTreeMap<VersionName, Cell<Value>>,
) -> Kept {
    let read = |name| Ok::<_, Infallible>(kept.get(&name).cloned().unwrap_or_default());
    let Ok(kept) = keep(Rules::CORRECT, old, new, read);
    kept
}

#[test]
fn new_metadata_is_for_one_null_version_only() {
    let current = cell(5, value("current", Some(stamp(5))));
    let kept = BTreeMap::from([(None, kept_null(3, "second"))]);
    let Kept::Changes(changes) = kept_in(&current, &changing(7, 3), &kept) else {
        panic!("the version that is meant is kept here");
    };
    let changed = changes[0].1.value.clone().unwrap();
    assert_eq!(changed.metadata, "new");
    assert_eq!(changed.payload, value("second", None).payload);
    assert_eq!(changed.kind(), VersionKind::Object);

    // This replica keeps the null version before it.
    let kept = BTreeMap::from([(None, kept_null(2, "first"))]);
    assert_eq!(kept_in(&current, &changing(7, 3), &kept), Kept::Lacks(None));
    // This one still holds it as the current version.
    let current = cell(2, value("first", None));
    let kept = BTreeMap::new();
    assert_eq!(kept_in(&current, &changing(7, 3), &kept), Kept::Lacks(None));
}

#[test]
fn a_replica_without_a_row_drops_the_copy_of_an_older_null_version() {
    let kept = BTreeMap::from([(None, cell(2, value("first", None)))]);
    let new = Version {
        stamp: stamp(3),
        write: Id([3; 16]),
        value: Some(value("second", None)),
    };
    let changes = kept_in(&Cell::default(), &new, &kept);
    assert_eq!(changes, Kept::Changes(vec![(None, Cell::default())]));
}

/// A replica that lagged got a copy of a version after the other replicas had displaced it. Then it
/// learns that the version is current again. The copy would count its blocks twice.
#[test]
fn a_version_that_is_current_again_leaves_no_copy() {
    let name = Some(stamp(10));
    let current = cell(10, value("before", name));
    let kept = BTreeMap::from([(name, cell(12, value("after", name)))]);
    let new = Version {
        stamp: stamp(15),
        write: Id([15; 16]),
        value: Some(value("after", name)),
    };
    let changes = kept_in(&current, &new, &kept);
    assert_eq!(changes, Kept::Changes(vec![(name, Cell::default())]));
    // A layout change copies a version that is current as it is (seed 71374 of the nodes).
    let kept = BTreeMap::from([(name, cell(15, value("after", name)))]);
    let changes = kept_in(&current, &new, &kept);
    assert_eq!(changes, Kept::Changes(vec![(name, Cell::default())]));
}

/// One replica held the version as the current one until 8, the other one missed that.
#[test]
fn new_metadata_comes_with_the_stamp_under_which_the_version_was_last_current() {
    let name = Some(stamp(1));
    let mut current = value("current", Some(stamp(10)));
    if let Some(version) = &mut current.version {
        version.changes.push(VersionChange {
            of: name,
            state: VersionState::Changed(Bytes::from_static(b"new")),
            since: None,
            last: Some(stamp(8)),
        });
    }
    let new = Version {
        stamp: stamp(20),
        write: Id([20; 16]),
        value: Some(current),
    };
    let changed = [1, 8].map(|last| {
        // The version is displaced first.
        let first = cell(last, value("first", name));
        let second = Version {
            stamp: stamp(10),
            write: Id([10; 16]),
            value: Some(value("current", Some(stamp(10)))),
        };
        let Kept::Changes(kept) = kept_in(&first, &second, &BTreeMap::new()) else {
            panic!("nothing is lacking");
        };
        let held = kept[0].1.value.clone().unwrap();
        assert_eq!(held.version.unwrap().last, Some(stamp(last)));
        let second = cell(10, value("current", Some(stamp(10))));
        kept_in(&second, &new, &kept.into_iter().collect())
    });
    assert_eq!(changed[0], changed[1]);
    let Kept::Changes(changes) = &changed[0] else {
        panic!("the version is kept here");
    };
    let kept = changes[0].1.value.clone().unwrap();
    assert_eq!(kept.version.unwrap().last, Some(stamp(8)));
}
