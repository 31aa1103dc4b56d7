//! Pages of three replicas that all answered: which of them are silent about a prefix.

use std::sync::Arc;

use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowMetadata};
use bytes::Bytes;

use super::{HERE, stamp};
use crate::merge::Page;
use crate::merge::page::{Item, merge};
use crate::register::Quorums;

fn name(name: &'static str) -> Bytes {
    Bytes::from_static(name.as_bytes())
}

/// Returns a page of keys, their times, and whether they are live.
fn page(rows: &[(&'static str, u64, bool)], next: Option<ListStart>) -> Listing {
    let entry = |(key, time, live): &(&'static str, u64, bool)| ListEntry::Row {
        key: name(key),
        metadata: RowMetadata {
            stamp: stamp(*time),
            metadata: live.then(Bytes::new),
            ..RowMetadata::default()
        },
    };
    Listing {
        entries: rows.iter().map(entry).collect(),
        damaged: Vec::new(),
        next,
    }
}

fn merged(pages: [Listing; 3]) -> (Vec<Item>, Option<ListStart>) {
    let query = ListQuery {
        delimiter: Some(name("/")),
        tombstones: true,
        ..ListQuery::new(HERE, Bytes::new())
    };
    let pages = pages.into_iter().map(|page| Arc::new(Page::from(page)));
    let pages: Vec<_> = pages.enumerate().collect();
    let merged = merge(&Quorums::majority_of(3), &query, &pages, false);
    (merged.items, merged.next)
}

fn unproven(prefix: &'static str, behind: &'static str) -> Item {
    Item::Unproven {
        prefix: name(prefix),
        from: ListStart::After(name(behind)),
    }
}

#[test]
fn one_silent_replica_of_three_leaves_a_quorum() {
    let items = merged([
        page(&[("a/1", 1, true)], None),
        page(&[("a/1", 5, false)], None),
        page(&[("a/1", 5, false)], None),
    ]);
    assert_eq!(items, (vec![], None));
}

#[test]
fn a_replica_stays_silent_to_the_end_of_a_prefix() {
    let items = merged([
        page(&[("a/1", 1, true)], None),
        page(&[("a/1", 5, false), ("a/2", 2, true)], None),
        page(&[("a/1", 5, false), ("a/2", 6, false)], None),
    ]);
    assert_eq!(items, (vec![unproven("a/", "a/2")], None));
}

#[test]
fn a_replica_that_was_silent_about_one_prefix_shows_the_next() {
    let items = merged([
        page(&[("a/1", 1, true), ("b/1", 5, false)], None),
        page(&[("a/1", 5, false), ("b/1", 1, true)], None),
        page(&[("a/1", 5, false), ("b/1", 5, false)], None),
    ]);
    assert_eq!(items, (vec![], None));
}

#[test]
fn a_page_that_ends_within_a_prefix_proves_nothing_about_its_end() {
    let next = Some(ListStart::After(name("a/3")));
    let items = merged([
        page(&[("a/1", 1, true)], None),
        page(&[("a/1", 5, false)], None),
        page(&[("a/1", 5, false), ("a/3", 6, false)], next),
    ]);
    assert_eq!(items, (vec![unproven("a/", "a/1")], None));
}
