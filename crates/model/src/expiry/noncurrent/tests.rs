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
        Seen::Noncurrent {
            head,
            since_ms,
            newer,
            ..
        } => (head.modified_ms, since_ms, newer),
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

/// Writes without an answer, in front of a version that a decision made current again at 8.
#[test]
fn what_is_newer_than_the_current_version_is_noncurrent_since_its_row_was_written() {
    let current = RowMetadata {
        stamp: stamp(8),
        ..row(5, false, true, VersionKind::Object)
    };
    let kept = [9, 7, 3].map(|made| row(made, false, false, VersionKind::Object));
    assert_eq!(
        line(Some(&current), &kept),
        [(9, 9, 0), (7, 8, 1), (3, 5, 2)]
    );
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
