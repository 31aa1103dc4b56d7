//! Queries and pages on their way.

use archipel_base::{Id, Stamp, Writer};
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowHead, Tally};
use bytes::Bytes;
use proptest::prelude::*;

use super::{HERE, stamp};
use crate::merge::Page;
use crate::merge::wire::{decode_page, decode_query, digest, encode_page, encode_query};

#[test]
fn a_page_arrives_as_it_was_sent_but_for_promises() {
    let head = RowHead {
        promised: stamp(9),
        stamp: stamp(8),
        write: Id([7; 16]),
        head: Some(Bytes::from_static(b"head")),
        tally: Some(Tally {
            group: Id([1; 16]),
            objects: 1,
            bytes: 5,
        }),
    };
    let tombstone = RowHead {
        stamp: Stamp::new(1, 2, Writer(3)),
        ..RowHead::default()
    };
    let listing = |promised| Listing {
        entries: vec![
            ListEntry::Row {
                key: Bytes::from_static(b"a\0\xff"),
                head: RowHead {
                    promised,
                    ..head.clone()
                },
            },
            ListEntry::Row {
                key: Bytes::from_static(b"b"),
                head: tombstone.clone(),
            },
            ListEntry::Prefix(Bytes::from_static(b"c/")),
        ],
        next: Some(ListStart::BehindPrefix(Bytes::from_static(b"c/"))),
    };
    let page = |promised| Page {
        listing: listing(promised),
        agreed: stamp(7),
    };
    let sent = encode_page(&page(stamp(9)));
    assert_eq!(decode_page(&sent), Ok(page(Stamp::ZERO)));
}

/// Whatever differs in a page: its digest does. Only promises are left out, as they are when a page is sent.
#[test]
fn the_digests_of_different_pages_differ() {
    let bytes = Bytes::from_static;
    let head = RowHead {
        stamp: stamp(8),
        head: Some(bytes(b"head")),
        tally: Some(Tally {
            group: Id([1; 16]),
            objects: 1,
            bytes: 5,
        }),
        ..RowHead::default()
    };
    let listing = |key: &'static [u8], head: &RowHead, next: Option<ListStart>| Listing {
        entries: vec![
            ListEntry::Prefix(bytes(b"a/")),
            ListEntry::Row {
                key: bytes(key),
                head: head.clone(),
            },
        ],
        next,
    };
    let page = |key, head: &RowHead, next| Page::from(listing(key, head, next));
    let with = |change: &dyn Fn(&mut RowHead)| {
        let mut changed = head.clone();
        change(&mut changed);
        page(b"b", &changed, None)
    };
    let tally = |change: &dyn Fn(&mut Tally)| with(&|head| head.tally.iter_mut().for_each(change));
    let mut only_prefix = page(b"b", &head, None);
    only_prefix.listing.entries.pop();
    let pages = [
        page(b"b", &head, None),
        page(b"bb", &head, None),
        page(b"b", &head, Some(ListStart::At(bytes(b"b")))),
        page(b"b", &head, Some(ListStart::Behind(bytes(b"b")))),
        page(b"b", &head, Some(ListStart::BehindPrefix(bytes(b"b")))),
        with(&|head| head.stamp = stamp(9)),
        with(&|head| head.write = Id([2; 16])),
        with(&|head| head.head = Some(bytes(b"other"))),
        with(&|head| head.head = Some(bytes(b""))),
        with(&|head| head.head = None),
        with(&|head| head.tally = None),
        tally(&|tally| tally.objects = 2),
        tally(&|tally| tally.bytes = 6),
        tally(&|tally| tally.group = Id([3; 16])),
        only_prefix,
        Page {
            agreed: stamp(1),
            ..page(b"b", &head, None)
        },
        Page::default(),
    ];
    let mut digests: Vec<_> = pages.iter().map(digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), pages.len());
    let promised = with(&|head| head.promised = stamp(9));
    assert_eq!(digest(&promised), digest(&pages[0]));
}

#[test]
fn what_is_too_long_or_too_much_is_refused() {
    let query = ListQuery {
        start: ListStart::Behind(Bytes::from(vec![b'k'; 5000])),
        limit: usize::MAX,
        budget: usize::MAX,
        ..ListQuery::new(HERE, Bytes::from(vec![b'p'; 5000]))
    };
    // An encoder cuts it to what comes to the same.
    let cut = decode_query(&encode_query(&query)).unwrap();
    assert_eq!(cut.prefix.len(), 1153);
    assert!(cut.limit < 1 << 20 && cut.budget < 1 << 20);
    let entries = vec![ListEntry::Prefix(Bytes::from(vec![b'p'; 5000]))];
    let page = Listing {
        entries,
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
    fn a_query_arrives_as_it_was_sent(
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
                1 => ListStart::Behind(start),
                _ => ListStart::BehindPrefix(start),
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
