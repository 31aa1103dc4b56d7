//! The bytes of records and index entries.

use proptest::prelude::*;

use super::super::place::Entry;
use super::super::record::{HEADER_BYTES, Header, compress};
use super::*;

fn header() -> Header {
    Header {
        hash: BlockHash::of(b"content"),
        located: Located {
            place: Place {
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
fn the_bytes_of_a_header() {
    let bytes = header().to_bytes();
    assert_eq!(
        hex::encode(&bytes[..16]),
        "a7426c6b01010003000003e800000258"
    );
    assert_eq!(bytes[16..48], *header().hash.as_bytes());
    assert_eq!(hex::encode(&bytes[48..60]), "000000050000000000001000");
    let place = header().located.place;
    assert_eq!(Header::from_bytes(place, &bytes), Some(header()));
}

#[test]
fn the_bytes_of_the_index() {
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
    let key = located.place.to_key();
    assert_eq!(hex::encode(key), "0003000000050000000000001000");
    let value = located.to_placed(&header().hash);
    assert_eq!(hex::encode(&value[..10]), "010100000258000003e8");
    assert_eq!(
        Located::from_placed(&key, &value).unwrap(),
        (header().hash, located)
    );
}

#[test]
fn a_newer_version_is_refused_by_name() {
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
fn unknown_flags_are_damage() {
    let (hash, located) = (header().hash, header().located);
    let mut entry = Entry {
        located,
        references: 1,
    }
    .to_bytes();
    entry[1] |= 2;
    assert!(matches!(Entry::from_bytes(&entry), Err(Error::Damaged(_))));
    let mut placed = located.to_placed(&hash);
    placed[1] |= 2;
    let placed = Located::from_placed(&located.place.to_key(), &placed);
    assert!(matches!(placed, Err(Error::Damaged(_))));
}

#[test]
fn a_header_is_good_for_its_own_place_only() {
    let bytes = header().to_bytes();
    let elsewhere = Place {
        offset: 8192,
        ..header().located.place
    };
    assert_eq!(Header::from_bytes(elsewhere, &bytes), None);
}

#[test]
fn compression_is_kept_only_where_it_pays() {
    assert!(compress(&text(1, 100_000), 1).unwrap().len() < 10_000);
    assert!(compress(&text(1, 1000), 1).is_some());
    assert_eq!(compress(&noise(1, 100_000), 1), None);
    assert_eq!(compress(&text(1, 100), 1), None);
    // The samples look well, the rest does not: 12 % of the whole is not reached.
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

    let config = DiskConfig {
        id: 1,
        disk: Arc::new(MemoryDisk::new()),
        draining: false,
        capacity_bytes: None,
    };
    let options = BlockOptions {
        compression_level: None,
        ..options()
    };
    let engine = Arc::new(MemoryEngine::new());
    let plain = Blocks::open(engine, vec![config], options, Pool::inline(), Start::Clean).unwrap();
    plain.upload().append(text(1, 50_000)).await.unwrap();
    assert_eq!(plain.counters().saved_bytes.get(), 0);
    assert_eq!(plain.counters().written_bytes.get(), 50_064);
}

proptest! {
    #[test]
    fn any_flipped_bit_of_a_header_is_found(byte in 0..HEADER_BYTES, bit in 0..8u32) {
        let mut bytes = header().to_bytes();
        bytes[byte] ^= 1 << bit;
        prop_assert_eq!(Header::from_bytes(header().located.place, &bytes), None);
    }

    #[test]
    fn noise_is_no_entry(bytes: Vec<u8>, key: Vec<u8>) {
        let _ = Entry::from_bytes(&bytes);
        let _ = Located::from_placed(&key, &bytes);
    }

    #[test]
    fn places_sort_as_their_keys(a: (u16, u32, u64), b: (u16, u32, u64)) {
        let place = |(disk, segment, offset)| Place { disk, segment, offset };
        let (a, b) = (place(a), place(b));
        prop_assert_eq!(a.cmp(&b), a.to_key().cmp(&b.to_key()));
        prop_assert_eq!(Place::from_key(&a.to_key()).unwrap(), a);
    }
}
