//! Encodings: encoded values decode to themselves and sort correctly, and random bytes are errors.

use archipel_base::{BlockHash, Id, PartitionId, Stamp, Writer};
use bytes::Bytes;
use proptest::prelude::*;

use crate::checksum::crc32c_of;
use crate::engine::Tree;
use crate::error::Error;
use crate::row::{
    BlockRef, MAX_ROW_KEY_BYTES, Payload, RowKey, RowVersion, UsageDelta, VersionChange,
    VersionKind, VersionState,
};
use crate::rows::codec::{self, StoredPayload, StoredRow};
use crate::rows::{Granularity, Window, WindowDigest};

/// The key of the tests.
const KEY: &[u8] = b"\x01\x02key";

fn stamp() -> impl Strategy<Value = Stamp> {
    (any::<u64>(), any::<u64>()).prop_map(|(time, writer)| Stamp {
        time,
        writer: Writer(writer),
    })
}

fn bytes(most: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..most).prop_map(Bytes::from)
}

prop_compose! {
    fn usage()(group: [u8; 16], objects: u32, bytes: u64) -> UsageDelta {
        UsageDelta { group: Id(group), objects, bytes }
    }
}

prop_compose! {
    fn version()(
        at in prop::option::of(stamp()),
        kind in prop::sample::select(vec![
            VersionKind::Object,
            VersionKind::Marker,
            VersionKind::Void,
        ]),
        of in prop::option::of(stamp()),
        changed in prop::option::of(bytes(20)),
        since in prop::option::of(stamp()),
        last in prop::option::of(stamp()),
    ) -> RowVersion {
        let state = changed.map_or(VersionState::Dead, VersionState::Changed);
        let changes = vec![VersionChange {
            of,
            state,
            since: None,
            last: None,
        }];
        RowVersion { at, kind, changes, since, last }
    }
}

prop_compose! {
    fn row()(
        promised in stamp(),
        stamp in stamp(),
        write: [u8; 16],
        metadata in prop::option::of(bytes(50)),
        usage in prop::option::of(usage()),
        payload in stored_payload(),
        version in prop::option::of(version()),
    ) -> StoredRow {
        let live = metadata.is_some();
        let version = version.filter(|_| live).map(Box::new);
        let usage = usage.filter(|_| live);
        let payload = if live { payload } else { StoredPayload::Empty };
        StoredRow { promised, stamp, write: Id(write), metadata, usage, payload, version }
    }
}

fn stored_payload() -> impl Strategy<Value = StoredPayload> {
    prop_oneof![
        Just(StoredPayload::Empty),
        Just(StoredPayload::Apart),
        bytes(513).prop_map(StoredPayload::Within),
    ]
}

fn payload() -> impl Strategy<Value = Payload> {
    let blocks = || {
        let block = (any::<[u8; 32]>(), any::<u32>()).prop_map(|(hash, len)| BlockRef {
            hash: BlockHash(hash),
            len,
        });
        prop::collection::vec(block, 0..=codec::MAX_BODY_BLOCKS)
    };
    prop_oneof![
        Just(Payload::Empty),
        bytes(4000).prop_map(Payload::Inline),
        blocks().prop_map(Payload::Blocks),
        (blocks(), bytes(100)).prop_map(|(blocks, rest)| Payload::BlocksAnd(blocks, rest)),
    ]
}

proptest! {
    #[test]
    fn encoded_rows_decode_to_themselves(row in row()) {
        let bytes = codec::encode_row(KEY, &row);
        prop_assert_eq!(&codec::decode_row(KEY, &bytes).unwrap(), &row);
        let payload = match row.payload {
            StoredPayload::Apart => StoredPayload::Apart,
            _ => StoredPayload::Empty,
        };
        prop_assert_eq!(codec::decode_metadata(KEY, &bytes).unwrap(), StoredRow { payload, ..row });
    }

    #[test]
    fn only_short_payloads_without_blocks_are_stored_in_the_row(payload in payload()) {
        let within = matches!(&payload, Payload::Inline(bytes) if bytes.len() <= 512);
        prop_assert_eq!(matches!(StoredPayload::of(&payload), StoredPayload::Within(_)), within);
        prop_assert_eq!(StoredPayload::of(&payload) == StoredPayload::Empty, payload == Payload::Empty);
    }

    #[test]
    fn encoded_payloads_decode_to_themselves(payload in payload(), stamp in stamp()) {
        match codec::encode_payload(KEY, stamp, &payload) {
            Some(bytes) => {
                prop_assert_eq!(codec::decode_payload_of(KEY, stamp, &bytes).unwrap(), payload.clone());
                prop_assert_eq!(codec::decode_payload(KEY, &bytes).unwrap(), (stamp, payload));
            }
            None => prop_assert_eq!(payload, Payload::Empty),
        }
    }

    #[test]
    fn a_value_under_another_key_or_in_another_tree_is_damaged(
        row in row(),
        payload in payload(),
        key: Vec<u8>,
        other: Vec<u8>,
        split in 0usize..4,
    ) {
        prop_assume!(key != other);
        let damaged = |bytes: &[u8], key: &[u8]| {
            matches!(codec::decode_row(key, bytes), Err(Error::Damaged(_)))
                && matches!(codec::decode_metadata(key, bytes), Err(Error::Damaged(_)))
        };
        let bytes = codec::encode_row(&key, &row);
        prop_assert!(damaged(&bytes, &other));
        prop_assert!(matches!(codec::decode_payload(&key, &bytes), Err(Error::Damaged(_))));
        // The end of a key does not pass for the beginning of a value.
        let split = split.min(key.len());
        let moved = [&key[key.len() - split..], &bytes].concat();
        prop_assert!(split == 0 || damaged(&moved, &key[..key.len() - split]));
        if let Some(bytes) = codec::encode_payload(&key, Stamp::ZERO, &payload) {
            prop_assert!(matches!(codec::decode_payload(&other, &bytes), Err(Error::Damaged(_))));
            prop_assert!(damaged(&bytes, &key));
        }
        let bytes = codec::encode_window(&key, &Window::default());
        prop_assert!(matches!(codec::decode_window(&other, &bytes), Err(Error::Damaged(_))));
        let bytes = codec::encode_counter(&key, &codec::Counter::default());
        prop_assert!(matches!(codec::decode_counter(&other, &bytes), Err(Error::Damaged(_))));
        let bytes = codec::encode_work(&key, b"work");
        prop_assert!(matches!(codec::decode_work(&other, &bytes), Err(Error::Damaged(_))));
    }

    #[test]
    fn a_payload_of_another_stamp_is_damaged(payload in payload(), a in stamp(), b in stamp()) {
        prop_assume!(a != b);
        if let Some(bytes) = codec::encode_payload(KEY, a, &payload) {
            prop_assert!(matches!(codec::decode_payload_of(KEY, b, &bytes), Err(Error::Damaged(_))));
        }
    }

    #[test]
    fn a_flipped_bit_is_reported_as_damage(row in row(), payload in payload(), bit: prop::sample::Index) {
        let flipped = |mut bytes: Vec<u8>| {
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        let bytes = flipped(codec::encode_row(KEY, &row));
        prop_assert!(matches!(codec::decode_row(KEY, &bytes), Err(Error::Damaged(_))));
        prop_assert!(matches!(codec::decode_metadata(KEY, &bytes), Err(Error::Damaged(_))));
        if let Some(bytes) = codec::encode_payload(KEY, Stamp::ZERO, &payload) {
            let decoded = codec::decode_payload(KEY, &flipped(bytes));
            prop_assert!(matches!(decoded, Err(Error::Damaged(_))));
        }
    }

    #[test]
    fn random_bytes_are_an_error_and_no_panic(mut noise: Vec<u8>, version: bool, sum: bool) {
        if let Some(first) = noise.first_mut().filter(|_| version) {
            *first = 1;
        }
        for tree in [Tree::Rows, Tree::Payloads, Tree::Derived, Tree::Queue] {
            let noise = match sum {
                true => with_sum(tree, &noise),
                false => noise.clone(),
            };
            let _ = codec::decode_row(KEY, &noise);
            let _ = codec::decode_payload(KEY, &noise);
            let _ = codec::decode_window(KEY, &noise);
            let _ = codec::decode_counter(KEY, &noise);
            let _ = codec::decode_work(KEY, &noise);
        }
        let _ = codec::split_log_key(&noise);
        let _ = codec::window_number(&noise);
    }

    #[test]
    fn truncated_values_are_errors(row in row(), cut in 0usize..50) {
        let bytes = codec::encode_row(KEY, &row);
        prop_assert!(matches!(codec::decode_row(KEY, &bytes[..cut]), Err(Error::Damaged(_))));
    }

    #[test]
    fn log_keys_sort_by_stamp_then_key(a in (stamp(), bytes(9)), b in (stamp(), bytes(9))) {
        let key = |(stamp, key): &(Stamp, Bytes)| codec::log_key(PartitionId(7), *stamp, key);
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
        let bytes = key(&a);
        let split = codec::split_log_key(&bytes).unwrap();
        prop_assert_eq!(split, (PartitionId(7), a.0, &a.1[..]));
    }

    #[test]
    fn successor_is_the_lowest_key_above_a_prefix(prefix: Vec<u8>, key: Vec<u8>) {
        match codec::successor(&prefix) {
            Some(above) => {
                prop_assert!(above > prefix);
                prop_assert_eq!(key >= prefix && key < above, key.starts_with(&prefix));
            }
            None => prop_assert!(key < prefix || key.starts_with(&prefix)),
        }
    }
}

/// Stored data depend on these bytes. `docs/internals/data-format.md` documents them.
#[test]
fn encoded_bytes_match_the_documented_format() {
    let row = StoredRow {
        promised: Stamp::new(2, 0, Writer(3)),
        stamp: Stamp::new(1, 5, Writer(3)),
        write: Id([9; 16]),
        metadata: Some(Bytes::from_static(b"head")),
        usage: Some(UsageDelta {
            group: Id([8; 16]),
            objects: 1,
            bytes: 258,
        }),
        payload: StoredPayload::Apart,
        version: None,
    };
    let fixed = concat!(
        "00000000000200000000000000000003",
        "00000000000100050000000000000003",
        "09090909090909090909090909090909",
        "08080808080808080808080808080808",
        "00000001",
        "0000000000000102",
    );
    let expected = format!("0107{fixed}68656164c495a176");
    assert_eq!(hex::encode(codec::encode_row(KEY, &row)), expected);
    let row = StoredRow {
        payload: StoredPayload::Within(Bytes::from_static(b"body")),
        ..row
    };
    let expected = format!("010b{fixed}0004626f647968656164e699c789");
    assert_eq!(hex::encode(codec::encode_row(KEY, &row)), expected);

    let block = BlockRef {
        hash: BlockHash([7; 32]),
        len: 1 << 20,
    };
    let payload = Payload::BlocksAnd(vec![block], Bytes::from_static(b"rest"));
    let bytes = codec::encode_payload(KEY, row.stamp, &payload).unwrap();
    let (stamp, hash) = ("00000000000100050000000000000003", "07".repeat(32));
    let expected = format!("0103{stamp}01{hash}0010000072657374dd601c34");
    assert_eq!(hex::encode(bytes), expected);

    let window = Window {
        rows: 3,
        digest: WindowDigest([6; 32]),
    };
    let expected = format!("010000000000000003{}657f0912", "06".repeat(32));
    assert_eq!(hex::encode(codec::encode_window(KEY, &window)), expected);
    let counter = codec::Counter {
        objects: 3,
        bytes: 258,
    };
    let expected = "01000000000000000300000000000001028dd73b42";
    assert_eq!(hex::encode(codec::encode_counter(KEY, &counter)), expected);
    let expected = "01776f726bb753f6c2";
    assert_eq!(hex::encode(codec::encode_work(KEY, b"work")), expected);
    let key = codec::window_key(PartitionId(258), Granularity::Month, 5);
    assert_eq!(hex::encode(key), "0102010200000005");
    let key = codec::log_key(PartitionId(258), Stamp::new(1, 5, Writer(3)), b"key");
    let expected = "01020000000000000100050000000000000003".to_owned() + "6b6579";
    assert_eq!(hex::encode(key), expected);
    let key = codec::counter_key(PartitionId(258), Id([8; 16]));
    assert_eq!(hex::encode(key), "010202".to_owned() + &"08".repeat(16));
}

/// Appends the checksum that the value would have under [`KEY`].
fn with_sum(tree: Tree, value: &[u8]) -> Vec<u8> {
    let sum = crc32c_of(&[&[tree as u8], &[0, KEY.len() as u8], KEY, value]);
    [value, &sum.to_be_bytes()].concat()
}

/// The error names both versions. A version byte that does not fit the checksum is damage.
#[test]
fn values_of_a_later_release_are_no_damage() {
    let row = codec::encode_row(KEY, &StoredRow::default());
    let row = &row[..row.len() - 4];
    let later = |value: &[u8], tree, what: &str, decode: &dyn Fn(&[u8]) -> Option<Error>| {
        let mut value = value.to_vec();
        value[0] = 3;
        assert!(matches!(decode(&value), Some(Error::Damaged(_))), "{what}");
        let error = decode(&with_sum(tree, &value)).unwrap();
        assert!(matches!(error, Error::Newer(_)), "{error}");
        assert_eq!(
            error.to_string(),
            format!(
                "a newer Archipel wrote this: {what} of version 3; this release reads version 1"
            )
        );
        value[0] = 0;
        let error = decode(&with_sum(tree, &value)).unwrap();
        assert!(matches!(error, Error::Damaged(_)), "{error}");
    };
    later(row, Tree::Rows, "a row", &|row| {
        codec::decode_row(KEY, row).err()
    });
    later(&[1; 30], Tree::Payloads, "a payload", &|payload| {
        codec::decode_payload(KEY, payload).err()
    });
    later(&[1; 41], Tree::Derived, "a window", &|window| {
        codec::decode_window(KEY, window).err()
    });
    later(&[1; 17], Tree::Derived, "a counter", &|counter| {
        codec::decode_counter(KEY, counter).err()
    });
    later(&[1; 17], Tree::Queue, "an entry of the queue", &|work| {
        codec::decode_work(KEY, work).err()
    });
    let kind = with_sum(Tree::Payloads, &[1, 4, 0, 0]);
    assert!(matches!(
        codec::decode_payload(KEY, &kind),
        Err(Error::Newer(_))
    ));
    let kind = with_sum(Tree::Payloads, &[[1, 0].as_slice(), &[0; 17]].concat());
    assert!(matches!(
        codec::decode_payload(KEY, &kind),
        Err(Error::Damaged(_))
    ));
}

#[test]
fn unknown_flags_are_of_a_later_release_and_impossible_ones_are_damage() {
    let row = codec::encode_row(KEY, &StoredRow::default());
    let mut row = row[..row.len() - 4].to_vec();
    for flags in [32, 128, 32 | 1, 64 | 2] {
        row[1] = flags;
        let decoded = codec::decode_row(KEY, &with_sum(Tree::Rows, &row));
        assert!(matches!(decoded, Err(Error::Newer(_))), "{flags}");
    }
    for flags in [8, 2, 4, 16, 8 | 4 | 1] {
        row[1] = flags;
        let decoded = codec::decode_row(KEY, &with_sum(Tree::Rows, &row));
        assert!(matches!(decoded, Err(Error::Damaged(_))), "{flags}");
    }
}

#[test]
fn row_keys_have_a_minimum_and_a_maximum_length() {
    let key = |len| RowKey {
        partition: PartitionId(1),
        key: Bytes::from(vec![b'k'; len]),
    };
    assert!(matches!(codec::row_key(&key(0)), Err(Error::Refused(_))));
    assert!(codec::row_key(&key(MAX_ROW_KEY_BYTES)).is_ok());
    let long = codec::row_key(&key(MAX_ROW_KEY_BYTES + 1));
    assert!(matches!(long, Err(Error::Refused(_))));
}
