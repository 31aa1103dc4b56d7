use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

/// Every shape of value.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct All {
    truth: bool,
    small: u8,
    large: u64,
    signed: i64,
    fraction: f64,
    letter: char,
    text: String,
    bytes: Bytes,
    maybe: Option<u16>,
    kinds: Vec<Kind>,
    map: BTreeMap<i32, String>,
    pair: (i8, u32),
    four: [u8; 4],
    unit: (),
    nothing: Nothing,
    wrapped: Wrapped,
    time: Duration,
    address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inner: Option<Box<All>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Nothing;

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Wrapped(u32);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
enum Kind {
    Alone,
    One(u32),
    Two(u8, String),
    Named { x: i16, y: Option<bool> },
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Alone),
        any::<u32>().prop_map(Kind::One),
        (any::<u8>(), ".{0,40}").prop_map(|(n, text)| Kind::Two(n, text)),
        any::<(i16, Option<bool>)>().prop_map(|(x, y)| Kind::Named { x, y }),
    ]
}

/// Numbers of every length.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(number, bits)| number >> bits)
}

fn one() -> impl Strategy<Value = All> {
    let numbers = (number(), number(), any::<(bool, u8, f64, char)>());
    let texts = (".{0,300}", vec(any::<u8>(), 0..300), vec(kind(), 0..20));
    let others = (
        any::<Option<u16>>(),
        btree_map(any::<i32>(), ".{0,3}", 0..20),
        any::<(i8, u32)>(),
        any::<[u8; 4]>(),
        any::<Option<IpAddr>>(),
    );
    (numbers, texts, others).prop_map(|(numbers, texts, others)| {
        let (large, signed, (truth, small, fraction, letter)) = numbers;
        let (text, bytes, kinds) = texts;
        let (maybe, map, pair, four, address) = others;
        All {
            truth,
            small,
            large,
            signed: (signed as i64).wrapping_neg(),
            fraction,
            letter,
            text,
            bytes: bytes.into(),
            maybe,
            kinds,
            map,
            pair,
            four,
            wrapped: Wrapped(large as u32),
            time: Duration::from_millis(large >> 16),
            address,
            ..All::default()
        }
    })
}

fn all() -> impl Strategy<Value = All> {
    (one(), proptest::option::of(one())).prop_map(|(all, inner)| All {
        inner: inner.map(Box::new),
        ..all
    })
}

fn decode<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let value = T::deserialize(&mut decoder)?;
    assert_eq!(decoder.depth, 0);
    Ok(value)
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap()
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(all in all()) {
        let bytes = encode(&all);
        let mut decoder = Decoder::new(&bytes);
        prop_assert_eq!(All::deserialize(&mut decoder).unwrap(), all);
        prop_assert!(decoder.is_at_end());
        // It can be passed over, too.
        let mut decoder = Decoder::new(&bytes);
        decoder.skip().unwrap();
        prop_assert!(decoder.is_at_end());
    }

    /// If damaged bytes are decoded, `rmp_serde` decodes them to the same value.
    #[test]
    fn damaged_bytes_are_refused_or_mean_the_same(
        all in all(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        let whole = encode(&all);
        let cut = &whole[..end.index(whole.len())];
        prop_assert!(decode::<All>(cut).is_err());
        let mut bytes = whole.clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(value) = decode::<All>(&bytes) {
            let other: All = rmp_serde::from_slice(&bytes).unwrap();
            // A fraction may be no number, which equals nothing.
            prop_assert_eq!(encode(&value), encode(&other));
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode::<All>(&bytes);
        let _ = decode::<Vec<Kind>>(&bytes);
        let _ = Decoder::new(&bytes).skip();
    }
}

/// A later release may add fields.
#[test]
fn unknown_fields_are_passed_over() {
    #[derive(Serialize)]
    struct Newer {
        x: i16,
        added: (All, Vec<Kind>, BTreeMap<u8, Option<f32>>),
        y: bool,
    }
    #[derive(PartialEq, Debug, Deserialize)]
    struct Older {
        x: i16,
        y: bool,
    }
    let newer = Newer {
        x: -300,
        added: (
            All::default(),
            vec![Kind::Alone, Kind::One(70_000)],
            [(1, None), (2, Some(0.5))].into(),
        ),
        y: true,
    };
    let older: Older = decode(&encode(&newer)).unwrap();
    assert_eq!(older, Older { x: -300, y: true });
}

#[test]
fn values_out_of_range_are_refused() {
    assert_eq!(decode::<u8>(&encode(&255_u64)).unwrap(), 255);
    assert!(decode::<u8>(&encode(&256_u64)).is_err());
    assert!(decode::<u64>(&encode(&-1)).is_err());
    assert!(decode::<i32>(&encode(&(1_i64 << 31))).is_err());
    assert!(decode::<String>(&encode(&Bytes::from_static(b"x"))).is_err());
    assert!(decode::<(u8, u8)>(&encode(&[1, 2, 3])).is_err());
    assert!(decode::<Kind>(&encode(&"Other")).is_err());
    assert!(decode::<Kind>(&[0x80]).is_err());
}

/// Neither the length of a list nor nesting takes memory that the message does not.
#[test]
fn absurd_lengths_and_depths_are_refused() {
    for huge in [
        &[0xdd, 0xff, 0xff, 0xff, 0xff][..],
        &[0xdf, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert!(decode::<Vec<()>>(huge).is_err());
        assert!(decode::<BTreeMap<u8, u8>>(huge).is_err());
        assert!(Decoder::new(huge).skip().is_err());
    }
    #[derive(Debug, Deserialize)]
    struct Nested(#[allow(dead_code)] Vec<Nested>);
    let nested = |depth: usize| [vec![0x91; depth], vec![0x90]].concat();
    assert!(decode::<Nested>(&nested(100)).is_ok());
    assert!(decode::<Nested>(&nested(1_000_000)).is_err());
    Decoder::new(&nested(1_000_000)).skip().unwrap();
}
