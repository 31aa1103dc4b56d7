//! Encodings: what is written is read again, sorts as it should, and noise is an error.

use archipel_base::{BlockHash, Id, PartitionId, Stamp, Writer};
use bytes::Bytes;
use proptest::prelude::*;

use crate::checksum::crc32c;
use crate::error::Error;
use crate::row::{BlockRef, Body, MAX_ROW_KEY_BYTES, RowKey, Tally};
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
    fn tally()(group: [u8; 16], objects: u32, bytes: u64) -> Tally {
        Tally { group: Id(group), objects, bytes }
    }
}

prop_compose! {
    fn row()(
        promised in stamp(),
        stamp in stamp(),
        write: [u8; 16],
        head in prop::option::of(bytes(50)),
        tally in prop::option::of(tally()),
        body in stored_body(),
    ) -> StoredRow {
        let live = head.is_some();
        let tally = tally.filter(|_| live);
        let body = if live { body } else { StoredBody::Empty };
        StoredRow { promised, stamp, write: Id(write), head, tally, body }
    }
}

fn stored_body() -> impl Strategy<Value = StoredBody> {
    prop_oneof![
        Just(StoredBody::Empty),
        Just(StoredBody::Apart),
        bytes(513).prop_map(StoredBody::Within),
    ]
}

fn body() -> impl Strategy<Value = Body> {
    let blocks = || {
        let block = (any::<[u8; 32]>(), any::<u32>()).prop_map(|(hash, len)| BlockRef {
            hash: BlockHash(hash),
            len,
        });
        prop::collection::vec(block, 0..=codec::MAX_BODY_BLOCKS)
    };
    prop_oneof![
        Just(Body::Empty),
        bytes(4000).prop_map(Body::Inline),
        blocks().prop_map(Body::Blocks),
        (blocks(), bytes(100)).prop_map(|(blocks, rest)| Body::BlocksAnd(blocks, rest)),
    ]
}

proptest! {
    #[test]
    fn rows_are_read_as_written(row in row()) {
        let bytes = codec::encode_row(&row);
        prop_assert_eq!(&codec::decode_row(&bytes).unwrap(), &row);
        let body = match row.body {
            StoredBody::Apart => StoredBody::Apart,
            _ => StoredBody::Empty,
        };
        prop_assert_eq!(codec::decode_head(&bytes).unwrap(), StoredRow { body, ..row });
    }

    #[test]
    fn only_short_bodies_without_blocks_stand_in_the_row(body in body()) {
        let within = matches!(&body, Body::Inline(bytes) if bytes.len() <= 512);
        prop_assert_eq!(matches!(StoredBody::of(&body), StoredBody::Within(_)), within);
        prop_assert_eq!(StoredBody::of(&body) == StoredBody::Empty, body == Body::Empty);
    }

    #[test]
    fn bodies_are_read_as_written(body in body()) {
        match codec::encode_body(&body) {
            Some(bytes) => prop_assert_eq!(codec::decode_body(&bytes).unwrap(), body),
            None => prop_assert_eq!(body, Body::Empty),
        }
    }

    #[test]
    fn a_bit_that_flipped_is_damage(row in row(), body in body(), bit: prop::sample::Index) {
        let flipped = |mut bytes: Vec<u8>| {
            let bit = bit.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        let bytes = flipped(codec::encode_row(&row));
        prop_assert!(matches!(codec::decode_row(&bytes), Err(Error::Damaged(_))));
        prop_assert!(matches!(codec::decode_head(&bytes), Err(Error::Damaged(_))));
        if let Some(bytes) = codec::encode_body(&body) {
            prop_assert!(matches!(codec::decode_body(&flipped(bytes)), Err(Error::Damaged(_))));
        }
    }

    #[test]
    fn noise_is_an_error_not_a_panic(mut noise: Vec<u8>, version: bool) {
        if let Some(first) = noise.first_mut().filter(|_| version) {
            *first = 1;
        }
        let _ = codec::decode_row(&noise);
        let _ = codec::decode_body(&noise);
        let _ = codec::decode_window(&noise);
        let _ = codec::decode_counter(&noise);
        let _ = codec::decode_work(&noise);
        let _ = codec::split_log_key(&noise);
        let _ = codec::window_number(&noise);
    }

    #[test]
    fn cut_values_are_errors(row in row(), cut in 0usize..50) {
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
    fn the_successor_is_the_lowest_key_above(prefix: Vec<u8>, key: Vec<u8>) {
        match codec::successor(&prefix) {
            Some(above) => {
                prop_assert!(above > prefix);
                prop_assert_eq!(key >= prefix && key < above, key.starts_with(&prefix));
            }
            None => prop_assert!(key < prefix || key.starts_with(&prefix)),
        }
    }
}

/// The bytes of the documentation, `docs/internals/data-format.md`. Stored data rests on them.
#[test]
fn the_format_is_stable() {
    let row = StoredRow {
        promised: Stamp::new(2, 0, Writer(3)),
        stamp: Stamp::new(1, 5, Writer(3)),
        write: Id([9; 16]),
        head: Some(Bytes::from_static(b"head")),
        tally: Some(Tally {
            group: Id([8; 16]),
            objects: 1,
            bytes: 258,
        }),
        body: StoredBody::Apart,
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
        body: StoredBody::Within(Bytes::from_static(b"body")),
        ..row
    };
    let expected = format!("010b{fixed}0004626f6479686561649110f3fa");
    assert_eq!(hex::encode(codec::encode_row(&row)), expected);

    let block = BlockRef {
        hash: BlockHash([7; 32]),
        len: 1 << 20,
    };
    let body = Body::BlocksAnd(vec![block], Bytes::from_static(b"rest"));
    let expected = format!("010301{}00100000726573742bd7dfa8", "07".repeat(32));
    assert_eq!(hex::encode(codec::encode_body(&body).unwrap()), expected);

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
fn keys_have_a_length() {
    let key = |len| RowKey {
        partition: PartitionId(1),
        key: Bytes::from(vec![b'k'; len]),
    };
    assert!(matches!(codec::row_key(&key(0)), Err(Error::Refused(_))));
    assert!(codec::row_key(&key(MAX_ROW_KEY_BYTES)).is_ok());
    let long = codec::row_key(&key(MAX_ROW_KEY_BYTES + 1));
    assert!(matches!(long, Err(Error::Refused(_))));
}
