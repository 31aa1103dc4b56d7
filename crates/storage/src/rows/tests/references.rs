//! Sums of references, by ranges of hashes.

use archipel_base::BlockHash;
use proptest::prelude::*;

use crate::rows::references::Ranges;

/// Returns a hash of the range `range`, the `number`th of it.
fn hash(range: u16, number: u8) -> BlockHash {
    let mut bytes = *BlockHash::of(&[number]).as_bytes();
    bytes[..2].copy_from_slice(&range.to_be_bytes());
    BlockHash(bytes)
}

#[test]
fn equal_counts_leave_nothing_to_compare() {
    let mut ranges = Ranges::new();
    for (range, number, times) in [(0, 1, 1), (0, 2, 3), (700, 1, 2), (u16::MAX, 9, 1)] {
        for _ in 0..times {
            ranges.add_mention(&hash(range, number));
        }
        ranges.subtract_counted(&hash(range, number), times);
    }
    assert_eq!(ranges.differing(u64::MAX), []);
}

#[test]
fn counts_that_are_swapped_between_two_hashes_differ() {
    let mut ranges = Ranges::new();
    ranges.add_mention(&hash(5, 1));
    for number in [2, 2] {
        ranges.add_mention(&hash(5, number));
    }
    ranges.subtract_counted(&hash(5, 1), 2);
    ranges.subtract_counted(&hash(5, 2), 1);
    assert_eq!(ranges.differing(u64::MAX), [5..=5]);
}

#[test]
fn block_without_references_differs() {
    let mut ranges = Ranges::new();
    ranges.subtract_counted(&hash(u16::MAX, 1), 0);
    assert_eq!(ranges.differing(u64::MAX), [u16::MAX..=u16::MAX]);
}

#[test]
fn parts_are_joined_up_to_the_limit() {
    let mut ranges = Ranges::new();
    for range in [0, 1, 2, 3] {
        ranges.add_mention(&hash(range, 1));
    }
    // Range 3 agrees, but lies between two that differ.
    ranges.subtract_counted(&hash(3, 1), 1);
    ranges.add_mention(&hash(4, 1));
    assert_eq!(ranges.differing(1), [0..=0, 1..=1, 2..=2, 4..=4]);
    assert_eq!(ranges.differing(3), [0..=2, 4..=4]);
    assert_eq!(ranges.differing(6), [0..=4]);
}

proptest! {
    #[test]
    fn exactly_the_ranges_with_a_difference_are_found(
        counts in prop::collection::vec((0u16..20, 0u8..4, 0u64..4, 0u64..4), 0..60)
    ) {
        let mut ranges = Ranges::new();
        let mut wanted = std::collections::BTreeMap::new();
        for (range, number, mentions, counted) in counts {
            // The index has a block once.
            if wanted.contains_key(&(range, number)) {
                continue;
            }
            for _ in 0..mentions {
                ranges.add_mention(&hash(range, number));
            }
            let is_known = counted > 0 || mentions == 0;
            if is_known {
                ranges.subtract_counted(&hash(range, number), counted);
            }
            wanted.insert((range, number), mentions != counted || (is_known && counted == 0));
        }
        let mut expected: Vec<u16> = wanted
            .iter()
            .filter(|(_, differs)| **differs)
            .map(|((range, _), _)| *range)
            .collect();
        expected.dedup();
        let found: Vec<u16> = ranges.differing(0).into_iter().map(|part| *part.start()).collect();
        prop_assert_eq!(found, expected);
    }
}
