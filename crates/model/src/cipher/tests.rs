//! Tests of the cipher and of wrapped keys.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;

use super::segments::{Opener, SEGMENT_BYTES, Sealer, Unopened, sealed_size};
use super::wrap::{DataKey, unwrap, wrap};

const SEALED: usize = SEGMENT_BYTES + 16;

fn key(byte: u8) -> DataKey {
    DataKey::new([byte; 32])
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8).collect()
}

fn seal(content: &[u8], pieces: usize) -> Vec<u8> {
    let mut sealer = Sealer::new(&key(1)).unwrap();
    let mut sealed = Vec::new();
    for piece in content.chunks(pieces) {
        sealed.extend(sealer.push(piece).unwrap());
    }
    sealed.extend(sealer.finish().unwrap());
    sealed
}

fn open_by(
    key: &DataKey,
    sealed: &[u8],
    size: usize,
    range: Range<usize>,
    pieces: usize,
) -> Result<Vec<u8>, Unopened> {
    let range = range.start as u64..range.end as u64;
    let (mut opener, needed) = Opener::new(key, size as u64, &range).unwrap();
    let end = (needed.end as usize).min(sealed.len());
    let start = (needed.start as usize).min(end);
    let mut opened = Vec::new();
    for piece in sealed[start..end].chunks(pieces) {
        opened.extend(opener.push(piece)?);
    }
    opener.finish().map(|()| opened)
}

fn open(sealed: &[u8], size: usize, range: Range<usize>) -> Result<Vec<u8>, Unopened> {
    open_by(&key(1), sealed, size, range, SEALED)
}

/// Sizes around the ends of segments.
fn sizes() -> impl Strategy<Value = usize> {
    let around = (0usize..4, -2i64..3)
        .prop_map(|(segments, more)| ((segments * SEGMENT_BYTES) as i64 + more).max(0) as usize);
    prop_oneof![around, 0usize..3 * SEGMENT_BYTES]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_range_of_sealed_content_opens(
        size in sizes(),
        ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        pieces in 1usize..3 * SEGMENT_BYTES,
        reads in 1usize..3 * SEGMENT_BYTES,
    ) {
        let (content, pieces) = (content(size), pieces.max(size / 64));
        let sealed = seal(&content, pieces);
        prop_assert_eq!(sealed.len() as u64, sealed_size(size as u64));
        let (a, b) = (ends.0.index(size + 1), ends.1.index(size + 1));
        let range = a.min(b)..a.max(b);
        let reads = reads.max(size / 64);
        let opened = open_by(&key(1), &sealed, size, range.clone(), reads);
        prop_assert_eq!(opened.unwrap(), &content[range]);
        prop_assert_eq!(open(&sealed, size, 0..usize::MAX).unwrap(), content);
    }

    #[test]
    fn changed_byte_is_found_and_spares_other_segments(
        size in 1usize..3 * SEGMENT_BYTES,
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut sealed = seal(&content(size), SEALED);
        let at = at.index(sealed.len());
        sealed[at] ^= 1 << bit;
        prop_assert_eq!(open(&sealed, size, 0..size), Err(Unopened));
        prop_assert_eq!(open_by(&key(1), &sealed, size, 0..size, sealed.len()), Err(Unopened));
        for segment in 0..size.div_ceil(SEGMENT_BYTES) {
            let start = segment * SEGMENT_BYTES;
            let range = start..(start + SEGMENT_BYTES).min(size);
            prop_assert_eq!(open(&sealed, size, range).is_err(), segment == at / SEALED);
        }
    }

    #[test]
    fn wrapped_key_opens_only_by_its_key_in_its_context(
        at in any::<prop::sample::Index>(),
        context in vec(any::<u8>(), 0..40),
    ) {
        let wrapped = wrap(&[3; 32], &context, [4; 32], &key(5)).unwrap();
        let opened = unwrap(&[3; 32], &context, &wrapped).unwrap();
        prop_assert_eq!(opened.bytes(), &[5; 32]);
        prop_assert!(unwrap(&[2; 32], &context, &wrapped).is_none());
        let mut other = context.clone();
        other.push(0);
        prop_assert!(unwrap(&[3; 32], &other, &wrapped).is_none());
        let mut changed = wrapped.to_vec();
        changed[at.index(wrapped.len())] ^= 1;
        prop_assert!(unwrap(&[3; 32], &context, &changed).is_none());
        prop_assert!(unwrap(&[3; 32], &context, &wrapped[1..]).is_none());
    }
}

/// The memory of the result used to be that of the sealed bytes, with the tags and with what waits
/// for the rest of its segment.
#[test]
fn memory_for_content_is_known_before_it_is_opened() {
    let (segment, mib) = (SEGMENT_BYTES, 1 << 20);
    for size in [
        0,
        1,
        100,
        segment,
        segment + 1,
        3 * segment,
        20 * segment + 5,
    ] {
        let sealed = seal(&content(size), SEALED);
        for pieces in [7 * segment / 5, SEALED - 1, SEALED, 4 * SEALED, mib] {
            let all = 0..size as u64;
            let (mut opener, _) = Opener::new(&key(1), size as u64, &all).unwrap();
            for piece in sealed.chunks(pieces) {
                let opens = opener.opens(piece.len());
                let opened = opener.push(piece).unwrap();
                let (length, capacity) = (opened.len(), opened.capacity());
                assert_eq!([length, capacity], [opens; 2], "{size} by {pieces}");
            }
            assert_eq!(opener.finish(), Ok(()));
        }
    }
}

#[test]
fn segments_that_are_lacking_open_together() {
    let size = 5 * SEGMENT_BYTES;
    let sealed = seal(&content(size), SEALED);
    for held in [0, 1, SEALED - 17, SEALED - 16, SEALED - 15, SEALED - 1] {
        let all = 0..size as u64;
        let (mut opener, _) = Opener::new(&key(1), size as u64, &all).unwrap();
        assert!(opener.push(&sealed[..held]).unwrap().is_empty());
        let end = held + opener.lacks_for(4);
        assert_eq!(end, 4 * SEALED);
        let opened = opener.push(&sealed[held..end]).unwrap();
        assert_eq!(opened, content(size)[..4 * SEGMENT_BYTES], "{held}");
        assert_eq!(opener.lacks(), SEALED);
    }
}

#[test]
fn every_changed_byte_of_a_short_content_is_found() {
    let sealed = seal(&content(100), 100);
    for at in 0..sealed.len() {
        for bit in 0..8 {
            let mut changed = sealed.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(open(&changed, 100, 0..100), Err(Unopened), "{at}.{bit}");
        }
    }
}

#[test]
fn moved_repeated_and_missing_segments_are_found() {
    let size = 3 * SEGMENT_BYTES;
    let sealed = seal(&content(size), SEALED);
    let segment = |number: usize| &sealed[number * SEALED..(number + 1) * SEALED];
    for order in [[1, 0, 2], [0, 0, 2], [0, 2, 1], [2, 1, 0], [0, 1, 1]] {
        let other = order.map(segment).concat();
        assert_eq!(open(&other, size, 0..size), Err(Unopened), "{order:?}");
    }
    // Without its last segment, also if the row said that it is shorter.
    let cut = [segment(0), segment(1)].concat();
    assert_eq!(open(&cut, size, 0..size), Err(Unopened));
    assert_eq!(open(&cut, 2 * SEGMENT_BYTES, 0..size), Err(Unopened));
    // With more behind its end.
    let shorter = seal(&content(SEGMENT_BYTES), SEALED);
    let longer = [&shorter[..], segment(1)].concat();
    assert_eq!(open(&longer, 2 * SEGMENT_BYTES, 0..size), Err(Unopened));
}

#[test]
fn other_key_opens_nothing_and_equal_content_looks_different() {
    let sealed = seal(&content(10), 10);
    assert_eq!(open_by(&key(2), &sealed, 10, 0..10, 100), Err(Unopened));
    let same = seal(&[7; 2 * SEGMENT_BYTES], SEALED);
    assert_ne!(same[..SEGMENT_BYTES], same[SEALED..SEALED + SEGMENT_BYTES]);
}

#[test]
fn sizes_beyond_reason_do_not_overflow() {
    assert!(sealed_size(u64::MAX) >= u64::MAX - 16);
    let all = 0..u64::MAX;
    assert!(Opener::new(&key(1), u64::MAX, &all).is_some());
    assert_eq!(sealed_size(0), 16);
}
