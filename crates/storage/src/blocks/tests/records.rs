//! The bytes of records and index entries.

use proptest::prelude::*;

use super::super::location::Entry;
use super::super::record::{HEADER_BYTES, Header, compress};
use super::*;

fn header() -> Header {
    Header {
        hash: BlockHash::of(b"content"),
        located: LocatedRecord {
            location: DiskLocation {
                disk: 3,
                segment: 5,
                offset: 4096,
            },
            stored: 600,
            len: 1000,
            compressed: true,
        },
    }
}

/// The format is documented: these bytes may not change without a new version.
#[test]
fn header_bytes_match_the_documented_format() {
    let bytes = header().to_bytes();
    assert_eq!(
        hex::encode(&bytes[..16]),
        "a7426c6b01010003000003e800000258"
    );
    assert_eq!(bytes[16..48], *header().hash.as_bytes());
    assert_eq!(hex::encode(&bytes[48..60]), "000000050000000000001000");
    let location = header().located.location;
    assert_eq!(Header::from_bytes(location, &bytes), Some(header()));
}

#[test]
fn index_bytes_match_the_documented_format() {
    let located = header().located;
    let entry = Entry {
        located,
        references: 9,
    };
    assert_eq!(
        hex::encode(entry.to_bytes()),
        "0101000300000005000000000000100000000258000003e80000000000000009"
    );
    assert_eq!(Entry::from_bytes(&entry.to_bytes()).unwrap(), entry);
    let key = located.location.to_key();
    assert_eq!(hex::encode(key), "0003000000050000000000001000");
    let value = located.to_location_entry(&header().hash);
    assert_eq!(hex::encode(&value[..10]), "010100000258000003e8");
    assert_eq!(
        LocatedRecord::from_location_entry(&key, &value).unwrap(),
        (header().hash, located)
    );
}

#[test]
fn a_newer_version_is_refused_and_named() {
    let mut bytes = Entry {
        located: header().located,
        references: 1,
    }
    .to_bytes();
    bytes[0] = 2;
    let error = Entry::from_bytes(&bytes).unwrap_err().to_string();
    assert!(error.contains("version 2"), "{error}");
    assert!(Entry::from_bytes(&bytes[1..]).is_err());
}

#[test]
fn unknown_flags_are_reported_as_damage() {
    let (hash, located) = (header().hash, header().located);
    let mut entry = Entry {
        located,
        references: 1,
    }
    .to_bytes();
    entry[1] |= 2;
    assert!(matches!(Entry::from_bytes(&entry), Err(Error::Damaged(_))));
    let mut placed = located.to_location_entry(&hash);
    placed[1] |= 2;
    let placed = LocatedRecord::from_location_entry(&located.location.to_key(), &placed);
    assert!(matches!(placed, Err(Error::Damaged(_))));
}

#[test]
fn a_header_is_valid_only_at_its_own_location() {
    let bytes = header().to_bytes();
    let elsewhere = DiskLocation {
        offset: 8192,
        ..header().located.location
    };
    assert_eq!(Header::from_bytes(elsewhere, &bytes), None);
}

#[test]
fn compression_is_kept_only_where_it_pays() {
    assert!(compress(&text(1, 100_000), 1).unwrap().len() < 10_000);
    assert!(compress(&text(1, 1000), 1).is_some());
    assert_eq!(compress(&noise(1, 100_000), 1), None);
    assert_eq!(compress(&text(1, 100), 1), None);
    // The samples shrink well, but the whole does not shrink by 12 %.
    let mut mixed = noise(1, 1 << 20).to_vec();
    let middle = (mixed.len() - 4096) / 2;
    let last = mixed.len() - 4096;
    for start in [0, middle, last] {
        mixed[start..start + 4096].fill(0);
    }
    assert_eq!(compress(&mixed, 1), None);
}

#[tokio::test]
async fn compression_can_be_switched_off() {
    let world = World::new(1);
    world.put(&[text(1, 50_000)]).await.unwrap();
    assert!(world.blocks.counters().saved_bytes.get() > 40_000);
    assert!(world.blocks.counters().written_bytes.get() < 10_000);

    let config = DiskConfig::new(1, Arc::new(MemoryDisk::new()));
    let options = BlockOptions {
        compression_level: None,
        ..options()
    };
    let engine = Arc::new(MemoryEngine::new());
    let plain = Blocks::open(engine, vec![config], options, Pool::inline(), Start::Clean).unwrap();
    plain.appender().append(text(1, 50_000)).await.unwrap();
    assert_eq!(plain.counters().saved_bytes.get(), 0);
    assert_eq!(plain.counters().written_bytes.get(), 50_064);
}

proptest! {
    #[test]
    fn any_flipped_bit_of_a_header_is_found(byte in 0..HEADER_BYTES, bit in 0..8u32) {
        let mut bytes = header().to_bytes();
        bytes[byte] ^= 1 << bit;
        prop_assert_eq!(Header::from_bytes(header().located.location, &bytes), None);
    }

    #[test]
    fn random_bytes_are_no_index_entry(bytes: Vec<u8>, key: Vec<u8>) {
        let _ = Entry::from_bytes(&bytes);
        let _ = LocatedRecord::from_location_entry(&key, &bytes);
    }

    #[test]
    fn locations_sort_as_their_keys(a: (u16, u32, u64), b: (u16, u32, u64)) {
        let location = |(disk, segment, offset)| DiskLocation { disk, segment, offset };
        let (a, b) = (location(a), location(b));
        prop_assert_eq!(a.cmp(&b), a.to_key().cmp(&b.to_key()));
        prop_assert_eq!(DiskLocation::from_key(&a.to_key()).unwrap(), a);
    }
}
