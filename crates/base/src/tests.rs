use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::clock::ManualClock;
use crate::codec::{self, DecodeError, Versioned};
use crate::hash::{partition_of, placement_hash};
use crate::random::{Random, SeededRandom};
use crate::stamp::{Stamp, StampClock, Writer};
use crate::{BlockHash, Id};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    id: Id,
    stamp: Stamp,
    hash: BlockHash,
}

impl Versioned for Sample {
    const VERSION: u8 = 3;
}

fn sample() -> Sample {
    Sample {
        id: Id::random(&SeededRandom::new(1)),
        stamp: Stamp::new(1_700_000_000_000, 7, Writer::new([1; 6], 9)),
        hash: BlockHash::of(b"content"),
    }
}

#[test]
fn codec_reads_what_it_wrote_and_refuses_malformed_bytes() {
    let bytes = codec::encode(&sample());
    assert_eq!(codec::decode::<Sample>(&bytes), Ok(sample()));
    assert_eq!(codec::decode::<Sample>(&[]), Err(DecodeError::Empty));
    let mut other = bytes.clone();
    other[0] = 4;
    assert_eq!(
        codec::decode::<Sample>(&other),
        Err(DecodeError::Version { found: 4, known: 3 })
    );
    // A value, a string without its length, and a byte that begins no value.
    for more in [0, 0xd9, 0xc1] {
        let long = [&bytes[..], &[more]].concat();
        let trailing = DecodeError::Malformed("trailing bytes".into());
        assert_eq!(codec::decode::<Sample>(&long), Err(trailing), "{more}");
    }
    let short = &bytes[..bytes.len() - 1];
    assert!(codec::decode::<Sample>(short).is_err());
}

#[test]
fn ids_parse_from_their_text_form() {
    let id = Id::random(&SeededRandom::new(2));
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!("zz".parse::<Id>().is_err());
    assert!("00".repeat(17).parse::<Id>().is_err());
}

#[test]
fn stamps_increase_even_if_the_wall_clock_goes_back() {
    let wall = ManualClock::at(1000);
    let clock = StampClock::new(Writer::new([1; 6], 1));
    let first = clock.next(&wall);
    wall.set(10);
    let second = clock.next(&wall);
    assert!(second > first);
    clock.observe(Stamp::new(5000, 0, Writer(1)));
    assert_eq!(clock.next(&wall).millis(), 5000);
    wall.set(9000);
    assert_eq!(clock.next(&wall).millis(), 9000);
}

#[test]
fn stamps_that_go_back_have_another_writer() {
    let wall = ManualClock::at(400_000);
    let clock = StampClock::new(Writer::new([1; 6], 7));
    let ahead = clock.next(&wall);
    wall.set(1000);
    let random = SeededRandom::new(1);
    assert!(!clock.step_back(400_000, &random));
    assert_eq!(clock.next(&wall).writer, ahead.writer);
    assert!(clock.step_back(61_000, &random));
    let back = clock.next(&wall);
    assert_eq!(back.millis(), 1000);
    assert_ne!(back.writer, ahead.writer);
    assert_eq!(back.writer.0 & 0xffff, 7, "the boot");
}

#[test]
fn each_boot_has_a_new_writer() {
    assert_ne!(Writer::new([1; 6], 1), Writer::new([1; 6], 2));
}

#[test]
fn same_seed_gives_the_same_bytes() {
    let (a, b) = (SeededRandom::new(5), SeededRandom::new(5));
    assert_eq!(a.next_u64(), b.next_u64());
    assert_ne!(a.next_u64(), SeededRandom::new(6).next_u64());
}

/// These values must never change, because stored data is found by them.
#[test]
fn placement_is_stable() {
    assert_eq!(placement_hash(&[b"bucket", b"key"]), PLACED);
    assert_ne!(
        placement_hash(&[b"bucketk", b"ey"]),
        placement_hash(&[b"bucket", b"key"])
    );
    assert_eq!(partition_of(u64::MAX, 1024).0, 1023);
}

const PLACED: u64 = 3283096158412506187;

proptest! {
    #[test]
    fn stamp_bytes_sort_like_stamps(a: (u64, u64), b: (u64, u64)) {
        let (a, b) = (
            Stamp { time: a.0, writer: Writer(a.1) },
            Stamp { time: b.0, writer: Writer(b.1) },
        );
        prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
        prop_assert_eq!(Stamp::from_bytes(a.to_bytes()), a);
    }

    #[test]
    fn decoding_noise_does_not_panic(bytes: Vec<u8>) {
        let _ = codec::decode::<Sample>(&bytes);
    }
}
