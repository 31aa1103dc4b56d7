//! Encoding and decoding of queries and pages.

use archipel_base::{Id, Stamp, Writer};
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowMetadata, UsageDelta};
use bytes::Bytes;
use proptest::prelude::*;

use super::{HERE, stamp};
use crate::merge::Page;
use crate::merge::wire::{decode_page, decode_query, digest, encode_page, encode_query};

#[test]
fn a_page_survives_encoding_except_its_promises() {
    let metadata = RowMetadata {
        promised: stamp(9),
        stamp: stamp(8),
        write: Id([7; 16]),
        metadata: Some(Bytes::from_static(b"metadata")),
        usage: Some(UsageDelta {
            group: Id([1; 16]),
            objects: 1,
            bytes: 5,
        }),
        version: None,
    };
    let tombstone = RowMetadata {
        stamp: Stamp::new(1, 2, Writer(3)),
        ..RowMetadata::default()
    };
    let listing = |promised| Listing {
        damaged: vec![Bytes::from_static(b"aa")],
        entries: vec![
            ListEntry::Row {
                key: Bytes::from_static(b"a\0\xff"),
                metadata: RowMetadata {
                    promised,
                    ..metadata.clone()
                },
            },
            ListEntry::Row {
                key: Bytes::from_static(b"b"),
                metadata: tombstone.clone(),
            },
            ListEntry::Prefix(Bytes::from_static(b"c/")),
        ],
        next: Some(ListStart::AfterPrefix(Bytes::from_static(b"c/"))),
    };
    let page = |promised| Page {
        listing: listing(promised),
        agreed: stamp(7),
    };
    let sent = encode_page(&page(stamp(9)));
    assert_eq!(decode_page(&sent), Ok(page(Stamp::ZERO)));
}

/// Pages that differ in anything have different digests. Promises are left out, as when a page is
/// sent.
#[test]
fn the_digests_of_different_pages_differ() {
    let bytes = Bytes::from_static;
    let metadata = RowMetadata {
        stamp: stamp(8),
        metadata: Some(bytes(b"metadata")),
        usage: Some(UsageDelta {
            group: Id([1; 16]),
            objects: 1,
            bytes: 5,
        }),
        ..RowMetadata::default()
    };
    let listing = |key: &'static [u8], metadata: &RowMetadata, next: Option<ListStart>| Listing {
        damaged: vec![Bytes::from_static(b"aa")],
        entries: vec![
            ListEntry::Prefix(bytes(b"a/")),
            ListEntry::Row {
                key: bytes(key),
                metadata: metadata.clone(),
            },
        ],
        next,
    };
    let page = |key, metadata: &RowMetadata, next| Page::from(listing(key, metadata, next));
    let with = |change: &dyn Fn(&mut RowMetadata)| {
        let mut changed = metadata.clone();
        change(&mut changed);
        page(b"b", &changed, None)
    };
    let usage = |change: &dyn Fn(&mut UsageDelta)| {
        with(&|metadata| metadata.usage.iter_mut().for_each(change))
    };
    let mut only_prefix = page(b"b", &metadata, None);
    only_prefix.listing.entries.pop();
    let pages = [
        page(b"b", &metadata, None),
        page(b"bb", &metadata, None),
        page(b"b", &metadata, Some(ListStart::At(bytes(b"b")))),
        page(b"b", &metadata, Some(ListStart::After(bytes(b"b")))),
        page(b"b", &metadata, Some(ListStart::AfterPrefix(bytes(b"b")))),
        with(&|metadata| metadata.stamp = stamp(9)),
        with(&|metadata| metadata.write = Id([2; 16])),
        with(&|metadata| metadata.metadata = Some(bytes(b"other"))),
        with(&|metadata| metadata.metadata = Some(bytes(b""))),
        with(&|metadata| metadata.metadata = None),
        with(&|metadata| metadata.usage = None),
        usage(&|usage| usage.objects = 2),
        usage(&|usage| usage.bytes = 6),
        usage(&|usage| usage.group = Id([3; 16])),
        only_prefix,
        Page {
            agreed: stamp(1),
            ..page(b"b", &metadata, None)
        },
        Page::default(),
    ];
    let mut digests: Vec<_> = pages.iter().map(digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), pages.len());
    let promised = with(&|metadata| metadata.promised = stamp(9));
    assert_eq!(digest(&promised), digest(&pages[0]));
}

#[test]
fn texts_and_pages_beyond_the_bounds_are_refused() {
    let query = ListQuery {
        start: ListStart::After(Bytes::from(vec![b'k'; 5000])),
        limit: usize::MAX,
        budget: usize::MAX,
        ..ListQuery::new(HERE, Bytes::from(vec![b'p'; 5000]))
    };
    // An encoder cuts it to a text of the same meaning.
    let cut = decode_query(&encode_query(&query)).unwrap();
    assert_eq!(cut.prefix.len(), 1153);
    assert!(cut.limit < 1 << 20 && cut.budget < 1 << 20);
    let entries = vec![ListEntry::Prefix(Bytes::from(vec![b'p'; 5000]))];
    let page = Listing {
        entries,
        damaged: Vec::new(),
        next: None,
    };
    assert!(decode_page(&encode_page(&page.into())).is_err());
}

proptest! {
    #[test]
    fn noise_is_an_error_not_a_panic(bytes: Vec<u8>) {
        let _ = decode_page(&bytes);
        let _ = decode_query(&bytes);
    }

    #[test]
    fn a_query_survives_encoding(
        prefix: Vec<u8>,
        start: Vec<u8>,
        kind in 0..3,
        delimiter in prop::option::of("[/a]{0,3}"),
        limit in 0usize..10_000,
        tombstones: bool,
        budget in 0usize..100_000,
    ) {
        let start = Bytes::from(start);
        let query = ListQuery {
            start: match kind {
                0 => ListStart::At(start),
                1 => ListStart::After(start),
                _ => ListStart::AfterPrefix(start),
            },
            delimiter: delimiter.map(Bytes::from),
            limit,
            tombstones,
            budget,
            ..ListQuery::new(HERE, Bytes::from(prefix))
        };
        prop_assert_eq!(decode_query(&encode_query(&query)), Ok(query));
    }
}
