use archipel_base::stamp::Writer;
use archipel_base::{Stamp, codec};
use archipel_storage::{RowVersion, VersionKind};
use proptest::prelude::*;

use super::*;

fn stamp(millis: u64) -> Stamp {
    Stamp::new(millis, 0, Writer(7))
}

/// Returns the row of a version that was made at this time.
fn row(made: u64, is_null: bool, is_current: bool, kind: VersionKind) -> RowMetadata {
    let head = ObjectHead::for_tests(&made.to_string(), made);
    RowMetadata {
        stamp: stamp(made),
        metadata: Some(codec::encode(&head).into()),
        version: Some(Box::new(RowVersion {
            at: (!is_null).then(|| stamp(made)),
            since: (is_null && !is_current).then(|| stamp(made)),
            last: (!is_current).then(|| stamp(made)),
            kind,
            ..RowVersion::default()
        })),
        ..RowMetadata::default()
    }
}

/// Returns the time, the time of the successor and the count of newer ones of what a line finds.
fn line(current: Option<&RowMetadata>, kept: &[RowMetadata]) -> Vec<(u64, u64, u32)> {
    let object = RowKey {
        partition: archipel_base::PartitionId(0),
        key: Bytes::new(),
    };
    let mut line = Line::new(object, "k".into(), current);
    let mut found = Vec::new();
    for row in kept {
        line.add(row);
        found.extend(line.take());
    }
    found.extend(line.end());
    let told = found.into_iter().map(|one| match one {
        Seen::Noncurrent(one) => (one.head.modified_ms, one.since_ms, one.newer),
        _ => panic!("only noncurrent versions are expected"),
    });
    told.collect()
}

#[test]
fn nothing_is_noncurrent_without_a_current_version() {
    let kept = [row(2, false, false, VersionKind::Object)];
    assert_eq!(line(None, &kept), []);
    let void = row(3, false, true, VersionKind::Void);
    assert_eq!(line(Some(&void), &kept), []);
}

/// A write without an answer, in front of a version that a decision made current again at 8.
#[test]
fn what_is_newer_than_the_current_version_is_noncurrent_since_its_row_was_written() {
    let current = RowMetadata {
        stamp: stamp(8),
        ..row(5, false, true, VersionKind::Object)
    };
    let kept = [7, 3].map(|made| row(made, false, false, VersionKind::Object));
    assert_eq!(line(Some(&current), &kept), [(7, 8, 0), (3, 5, 1)]);
}

/// The replica was away, and gets what it missed: kept rows first. These versions were current
/// elsewhere after this replica's row was written, and one of them is the version that is still
/// current here.
#[test]
fn a_replica_whose_object_row_lags_tells_of_no_version_that_was_current_later() {
    let current = row(5, false, true, VersionKind::Object);
    let kept = [
        row(9, false, false, VersionKind::Object),
        row(7, false, false, VersionKind::Object),
        kept_since(5, 8),
        kept_since(4, 6),
        row(3, false, false, VersionKind::Object),
    ];
    assert_eq!(line(Some(&current), &kept), [(3, 4, 3)]);
}

/// Returns the row of a version with a name that was current again at `last`.
fn kept_since(made: u64, last: u64) -> RowMetadata {
    let mut row = row(made, false, false, VersionKind::Object);
    row.stamp = stamp(last);
    if let Some(version) = &mut row.version {
        version.last = Some(stamp(last));
    }
    row
}

/// The versions of 4 and 5 are writes without an answer. The version of 2 was the current one until 9.
#[test]
fn a_write_without_an_answer_is_no_successor_of_a_version_that_was_current_after_it() {
    let current = row(12, false, true, VersionKind::Object);
    let mut kept = [9, 5, 4, 2, 1].map(|made| row(made, false, false, VersionKind::Object));
    kept[3] = kept_since(2, 7);
    let expected = [(9, 12, 0), (5, 9, 1), (4, 5, 2), (2, 9, 3), (1, 2, 4)];
    assert_eq!(line(Some(&current), &kept), expected);
    // New metadata after that change nothing.
    kept[3].stamp = stamp(12);
    assert_eq!(line(Some(&current), &kept), expected);
    // Without a note it is not known that the version was not current then.
    if let Some(version) = &mut kept[3].version {
        version.last = None;
    }
    assert_eq!(line(Some(&current), &kept)[3], (2, 12, 3));
}

/// No version has a name above the stamp under which a version was last current: newer ones were
/// deleted, or there are too many to look for it.
#[test]
fn a_version_without_a_known_successor_is_noncurrent_since_the_current_one_was_written() {
    let current = RowMetadata {
        stamp: stamp(500),
        ..row(300, false, true, VersionKind::Object)
    };
    let kept = [kept_since(2, 400)];
    assert_eq!(line(Some(&current), &kept), [(2, 500, 0)]);

    let many = (100..200).rev();
    let many = many.map(|made| row(made, false, false, VersionKind::Object));
    let kept: Vec<_> = many.chain([kept_since(2, 180)]).collect();
    assert_eq!(line(Some(&current), &kept).last(), Some(&(2, 500, 100)));
    let kept = [
        row(250, false, false, VersionKind::Object),
        kept_since(2, 180),
    ];
    assert_eq!(line(Some(&current), &kept).last(), Some(&(2, 250, 1)));
}

proptest! {
    /// In any order of writes, each version is noncurrent since the next one was made.
    #[test]
    fn a_version_is_noncurrent_since_its_successor_was_made(
        gaps in proptest::collection::vec(1..9u64, 1..20),
        null in proptest::option::of(0..20usize),
        markers: u32,
    ) {
        // The times of the versions, oldest first.
        let mut time = 100;
        let made: Vec<u64> = gaps.iter().map(|gap| { time += gap; time }).collect();
        let last = made.len() - 1;
        let kind = |n: usize| match markers >> n & 1 {
            0 => VersionKind::Object,
            _ => VersionKind::Marker,
        };
        let of = |n: usize| row(made[n], null == Some(n), n == last, kind(n));
        // Kept rows are sorted: the null version first, then newest first.
        let nulls = null.into_iter().filter(|n| *n < last);
        let named = (0..last).rev().filter(|n| null != Some(*n));
        let kept: Vec<_> = nulls.chain(named).map(of).collect();
        let expected: Vec<_> = (0..last)
            .rev()
            .map(|n| (made[n], made[n + 1], (last - 1 - n) as u32))
            .collect();
        prop_assert_eq!(line(Some(&of(last)), &kept), expected);
    }
}
