//! Encodings: encoded values decode to themselves and sort correctly, and random bytes are errors.

use archipel_base::{BlockHash, Id, PartitionId, Stamp, Writer};
use bytes::Bytes;
use proptest::prelude::*;

use crate::checksum::crc32c;
use crate::error::Error;
use crate::row::{BlockRef, MAX_ROW_KEY_BYTES, Payload, RowKey, UsageDelta};
use crate::rows::codec::{self, StoredBody, StoredRow};
use crate::rows::{Fingerprint, Granularity, Window};

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
    fn row()(
        promised in stamp(),
        stamp in stamp(),
        write: [u8; 16],
        metadata in prop::option::of(bytes(50)),
        usage in prop::option::of(usage()),
        payload in stored_payload(),
    ) -> StoredRow {
        let live = metadata.is_some();
        let usage = usage.filter(|_| live);
        let payload = if live { payload } else { StoredBody::Empty };
        StoredRow { promised, stamp, write: Id(write), metadata, usage, payload }
    }
}

fn stored_payload() -> impl Strategy<Value = StoredBody> {
    prop_oneof![
        Just(StoredBody::Empty),
        Just(StoredBody::Apart),
        bytes(513).prop_map(StoredBody::Within),
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
        let bytes = codec::encode_row(&row);
        prop_assert_eq!(&codec::decode_row(&bytes).unwrap(), &row);
        let payload = match row.payload {
            StoredBody::Apart => StoredBody::Apart,
            _ => StoredBody::Empty,
        };
        prop_assert_eq!(codec::decode_metadata(&bytes).unwrap(), StoredRow { payload, ..row });
    }

    #[test]
    fn only_short_payloads_without_blocks_are_stored_in_the_row(payload in payload()) {
        let within = matches!(&payload, Payload::Inline(bytes) if bytes.len() <= 512);
        prop_assert_eq!(matches!(StoredBody::of(&payload), StoredBody::Within(_)), within);
        prop_assert_eq!(StoredBody::of(&payload) == StoredBody::Empty, payload == Payload::Empty);
    }

    #[test]
    fn encoded_payloads_decode_to_themselves(payload in payload()) {
        match codec::encode_payload(&payload) {
            Some(bytes) => prop_assert_eq!(codec::decode_payload(&bytes).unwrap(), payload),
            None => prop_assert_eq!(payload, Payload::Empty),
        }
    }

    #[test]
    fn a_flipped_bit_is_reported_as_damage(row in row(), payload in payload(), bit: prop::sample::Index) {
        let flipped = |mut bytes: Vec<u8>| {
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        let bytes = flipped(codec::encode_row(&row));
        prop_assert!(matches!(codec::decode_row(&bytes), Err(Error::Damaged(_))));
        prop_assert!(matches!(codec::decode_metadata(&bytes), Err(Error::Damaged(_))));
        if let Some(bytes) = codec::encode_payload(&payload) {
            prop_assert!(matches!(codec::decode_payload(&flipped(bytes)), Err(Error::Damaged(_))));
        }
    }

    #[test]
    fn random_bytes_are_an_error_and_no_panic(mut noise: Vec<u8>, version: bool) {
        if let Some(first) = noise.first_mut().filter(|_| version) {
            *first = 1;
        }
        let _ = codec::decode_row(&noise);
        let _ = codec::decode_payload(&noise);
        let _ = codec::decode_window(&noise);
        let _ = codec::decode_counter(&noise);
        let _ = codec::decode_work(&noise);
        let _ = codec::split_log_key(&noise);
        let _ = codec::window_number(&noise);
    }

    #[test]
    fn truncated_values_are_errors(row in row(), cut in 0usize..50) {
        let bytes = codec::encode_row(&row);
        prop_assert!(matches!(codec::decode_row(&bytes[..cut]), Err(Error::Damaged(_))));
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
        payload: StoredBody::Apart,
    };
    let fixed = concat!(
        "00000000000200000000000000000003",
        "00000000000100050000000000000003",
        "09090909090909090909090909090909",
        "08080808080808080808080808080808",
        "00000001",
        "0000000000000102",
    );
    let expected = format!("0107{fixed}68656164e899c97d");
    assert_eq!(hex::encode(codec::encode_row(&row)), expected);
    let row = StoredRow {
        payload: StoredBody::Within(Bytes::from_static(b"body")),
        ..row
    };
    let expected = format!("010b{fixed}0004626f6479686561649110f3fa");
    assert_eq!(hex::encode(codec::encode_row(&row)), expected);

    let block = BlockRef {
        hash: BlockHash([7; 32]),
        len: 1 << 20,
    };
    let payload = Payload::BlocksAnd(vec![block], Bytes::from_static(b"rest"));
    let expected = format!("010301{}00100000726573742bd7dfa8", "07".repeat(32));
    assert_eq!(
        hex::encode(codec::encode_payload(&payload).unwrap()),
        expected
    );

    let window = Window {
        rows: 3,
        fingerprint: Fingerprint([6; 32]),
    };
    let expected = format!("010000000000000003{}", "06".repeat(32));
    assert_eq!(hex::encode(codec::encode_window(&window)), expected);
    let key = codec::window_key(PartitionId(258), Granularity::Month, 5);
    assert_eq!(hex::encode(key), "0102010200000005");
    let key = codec::log_key(PartitionId(258), Stamp::new(1, 5, Writer(3)), b"key");
    let expected = "01020000000000000100050000000000000003".to_owned() + "6b6579";
    assert_eq!(hex::encode(key), expected);
    let key = codec::counter_key(PartitionId(258), Id([8; 16]));
    assert_eq!(hex::encode(key), "010202".to_owned() + &"08".repeat(16));
}

#[test]
fn later_versions_and_unknown_flags_are_refused() {
    let mut row = codec::encode_row(&StoredRow::default());
    row[0] = 2;
    assert!(matches!(codec::decode_row(&row), Err(Error::Damaged(_))));
    row[0] = 1;
    for flags in [8, 128, 2, 4, 16 | 1, 8 | 4 | 1] {
        row[1] = flags;
        let end = row.len() - 4;
        let sum = crc32c(&row[..end]);
        row[end..].copy_from_slice(&sum.to_be_bytes());
        assert!(matches!(codec::decode_row(&row), Err(Error::Damaged(_))));
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
