//! Cases one by one.

use std::collections::BTreeMap;

use archipel_base::Stamp;
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowMetadata};
use bytes::Bytes;

use super::{HERE, Replica, Version, drive, stamp};
use crate::merge::{ListMerge, ListOutput, Page};
use crate::register::Quorums;

fn rows(rows: &[(&'static str, Version)]) -> BTreeMap<Bytes, Version> {
    let rows = rows.iter();
    rows.map(|(key, version)| (Bytes::from_static(key.as_bytes()), *version))
        .collect()
}

fn by_folder() -> ListQuery {
    ListQuery {
        delimiter: Some(Bytes::from_static(b"/")),
        ..ListQuery::new(HERE, Bytes::new())
    }
}

/// Lists a page of three replicas of which the first two answer. Returns the names on it, and the
/// number of rounds.
fn listed(query: &ListQuery, states: [BTreeMap<Bytes, Version>; 3]) -> (Vec<String>, u32) {
    let replicas: Vec<_> = states.iter().map(Replica::new).collect();
    let answer = |replica: usize, query: &ListQuery| Some(replicas[replica].list(query));
    let mut turn = 0;
    let in_order = |_| {
        turn += 1;
        // Answers the first of three open requests. Then answers the second, whose place the last
        // took.
        usize::from(turn % 2 == 0)
    };
    let (page, rounds) = drive(&Quorums::majority_of(3), query, answer, in_order);
    let page = page.expect("a quorum answers");
    assert_eq!(page.next, None);
    let names = page.entries.iter().map(|entry| match entry {
        ListEntry::Row { key, .. } => key,
        ListEntry::Prefix(prefix) => prefix,
    });
    let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
    (names.collect(), rounds)
}

/// Each of two replicas has a row that the other one has deleted.
#[test]
fn a_prefix_is_not_shown_if_each_of_its_rows_is_deleted() {
    let a = rows(&[("a/1", (1, true)), ("a/2", (4, false))]);
    let b = rows(&[("a/1", (3, false)), ("a/2", (2, true))]);
    let (names, rounds) = listed(&by_folder(), [a.clone(), b, a]);
    assert_eq!(names, [""; 0]);
    assert!(rounds > 1);
}

#[test]
fn equal_replicas_take_one_round() {
    let all = rows(&[
        ("a/1", (1, false)),
        ("a/2", (2, true)),
        ("b", (3, true)),
        ("c", (4, false)),
        ("d/1", (5, false)),
    ]);
    let (names, rounds) = listed(&by_folder(), [all.clone(), all.clone(), all]);
    assert_eq!(names, ["a/", "b"]);
    assert_eq!(rounds, 1);
}

#[test]
fn a_lagging_replica_costs_no_extra_round() {
    let all = rows(&[
        ("a/1", (5, true)),
        ("a/2", (2, true)),
        ("b/1", (3, true)),
        ("b/2", (4, false)),
    ]);
    let late = rows(&[("a/1", (1, false)), ("a/2", (2, true))]);
    let (names, rounds) = listed(&by_folder(), [all.clone(), late, all]);
    assert_eq!(names, ["a/", "b/"]);
    assert_eq!(rounds, 1);
}

/// The search for a live row far below a prefix ends, and goes on with the next page.
#[test]
fn thousands_of_rows_deleted_elsewhere_are_skipped_page_by_page() {
    let names: Vec<_> = (0..3000)
        .map(|i| Bytes::from(format!("a/{i:05}")))
        .collect();
    let live = names.iter().map(|name| (name.clone(), (1, true)));
    let mut live: BTreeMap<_, _> = live.collect();
    let dead = names.iter().map(|name| (name.clone(), (2, false)));
    let mut dead: BTreeMap<_, _> = dead.collect();
    for all in [&mut live, &mut dead] {
        all.insert(Bytes::from_static(b"a/x"), (3, true));
        all.insert(Bytes::from_static(b"b"), (4, true));
    }
    let replicas = [Replica::new(&live), Replica::new(&dead)];
    let mut query = ListQuery {
        budget: 50,
        ..by_folder()
    };
    let (mut entries, mut pages) = (Vec::new(), 0);
    loop {
        let answer = |replica: usize, query: &ListQuery| Some(replicas[replica].list(query));
        let (page, _) = drive(&Quorums::majority_of(2), &query, answer, |_| 0);
        let page = page.expect("both answer");
        entries.extend(page.entries);
        pages += 1;
        match page.next {
            Some(next) => query.start = next,
            None => break,
        }
    }
    assert_eq!(entries.len(), 2);
    assert!((2..3000 / 50).contains(&pages), "{pages} pages");
}

#[test]
fn a_listing_fails_with_too_few_answers() {
    let (mut merge, asks) = ListMerge::new(Quorums::majority_of(3), by_folder());
    assert_eq!(asks.len(), 3);
    assert_eq!(merge.on_failure(0, 1), []);
    // The same answer again, and an answer of an unknown replica.
    assert_eq!(merge.on_failure(0, 1), []);
    assert_eq!(merge.on_failure(7, 1), []);
    assert_eq!(merge.on_failure(2, 1), [ListOutput::Failed]);
    assert_eq!(merge.on_page(1, 1, Page::default()), []);
}

#[test]
fn a_replica_counts_once_in_a_quorum() {
    let (mut merge, _) = ListMerge::new(Quorums::majority_of(3), by_folder());
    assert_eq!(merge.on_page(1, 1, Page::default()), []);
    assert_eq!(merge.on_page(1, 1, Page::default()), []);
    let done = merge.on_page(0, 1, Page::default());
    assert_eq!(done, [super::super::done(Listing::default())]);
}

#[test]
fn a_listing_without_replicas_fails() {
    let (_, outputs) = ListMerge::new(Quorums::of_versions(Vec::new()), by_folder());
    assert_eq!(outputs, [ListOutput::Failed]);
}

#[test]
fn a_single_replica_gets_the_query_unchanged() {
    let (mut merge, asks) = ListMerge::new(Quorums::majority_of(1), by_folder());
    let [ListOutput::Ask { query, round, .. }] = &asks[..] else {
        panic!("expected one request");
    };
    assert_eq!(query, &by_folder());
    let page = Listing {
        entries: vec![ListEntry::Prefix(Bytes::from_static(b"a/"))],
        damaged: vec![Bytes::from_static(b"b")],
        next: None,
    };
    let done = merge.on_page(0, *round, Page::from(page.clone()));
    assert_eq!(done, [super::super::done(page)]);
}

/// An impossible page, as only a broken peer sends it, counts as no answer.
#[test]
fn impossible_answers_count_as_failures() {
    let row = |key: &'static str, live: bool| ListEntry::Row {
        key: Bytes::from_static(key.as_bytes()),
        metadata: RowMetadata {
            stamp: stamp(1),
            metadata: live.then(Bytes::new),
            ..RowMetadata::default()
        },
    };
    let at = |key: &'static str| ListStart::At(Bytes::from_static(key.as_bytes()));
    let query = ListQuery {
        start: at("pb"),
        ..ListQuery::new(HERE, Bytes::from_static(b"p"))
    };
    let wrong = [
        (vec![row("pc", true), row("pc", true)], None),
        (vec![row("pd", true), row("pc", true)], None),
        (vec![row("pa", true)], None),
        (vec![row("q", true)], None),
        (vec![ListEntry::Prefix(Bytes::from_static(b"pc"))], None),
        (vec![row("pc", true)], Some(at("pc"))),
        (vec![], Some(at("pb"))),
    ];
    for (entries, next) in wrong {
        let (mut merge, _) = ListMerge::new(Quorums::majority_of(2), query.clone());
        let page = Listing {
            entries,
            next,
            ..Listing::default()
        };
        assert_eq!(
            merge.on_page(0, 1, Page::from(page.clone())),
            [ListOutput::Failed],
            "{page:?}"
        );
    }
    let (mut merge, _) = ListMerge::new(Quorums::majority_of(2), query);
    let page = Listing {
        entries: vec![row("pb", true), row("pc", false)],
        damaged: Vec::new(),
        next: Some(at("pd")),
    };
    assert_eq!(merge.on_page(0, 1, Page::from(page)), []);
}

/// One replica listed before it applied a deletion. Then all agreed that its tombstone may be
/// dropped. Then the other one listed. Neither the key nor its prefix is shown. Live rows are
/// shown, even below the floor. The other replica's page says nothing about keys that it did not
/// reach.
#[test]
fn a_row_listed_before_a_floor_is_not_shown() {
    let before = rows(&[
        ("a/gone", (1, true)),
        ("b", (2, true)),
        ("c", (3, true)),
        ("d/e", (4, true)),
        ("d/gone", (5, true)),
    ]);
    let after = rows(&[("b", (2, true)), ("d/e", (4, true))]);
    let agreed = |replica: usize| match replica {
        0 => Stamp::ZERO,
        _ => stamp(9),
    };
    let replicas = [Replica::new(&before), Replica::new(&after)];
    let answer = |replica: usize, query: &ListQuery| {
        let page = replicas[replica].list(query);
        Some(Page {
            agreed: agreed(replica),
            ..page
        })
    };
    let shown = |query: &ListQuery, limit: usize| {
        let limited = |replica: usize, query: &ListQuery| {
            let limit = if replica == 1 { limit } else { query.limit };
            answer(
                replica,
                &ListQuery {
                    limit,
                    ..query.clone()
                },
            )
        };
        let (page, _) = drive(&Quorums::majority_of(2), query, limited, |_| 0);
        let page = page.expect("both answer");
        let names = page.entries.into_iter().map(|entry| match entry {
            ListEntry::Row { key, .. } => key,
            ListEntry::Prefix(prefix) => prefix,
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(shown(&by_folder(), 1000), ["b", "d/"]);
    let all = ListQuery::new(HERE, Bytes::new());
    assert_eq!(shown(&all, 1000), ["b", "d/e"]);
    // The other replica's page ends after "b", so nothing is concluded about later keys.
    assert_eq!(shown(&all, 1), ["b"]);
}

/// Merges the pages of three replicas. `None` fails.
fn listed_from(pages: [Option<Page>; 3]) -> Vec<ListOutput> {
    let (mut merge, _) =
        ListMerge::new(Quorums::majority_of(3), ListQuery::new(HERE, Bytes::new()));
    let mut outputs = Vec::new();
    for (replica, page) in pages.into_iter().enumerate() {
        assert_eq!(outputs, [], "the merge ends before all replicas answered");
        outputs = match page {
            Some(page) => merge.on_page(replica, 1, page),
            None => merge.on_failure(replica, 1),
        };
    }
    outputs
}

/// A replica with a damaged row cannot show that another version of it is gone, so the merge waits
/// for the third replica.
#[test]
fn a_damaged_row_is_listed_from_the_other_replicas() {
    let page = |state: &BTreeMap<Bytes, Version>| {
        Replica::new(state).list(&ListQuery {
            tombstones: true,
            ..ListQuery::new(HERE, Bytes::new())
        })
    };
    let lagging = rows(&[("a", (1, true))]);
    let newest = rows(&[("a", (1, true)), ("b", (2, true))]);
    let damaged = || {
        let mut page = page(&lagging);
        page.listing.damaged = vec![Bytes::from_static(b"b")];
        // All tombstones up to this floor are gone. The damaged row is unknown nevertheless.
        page.agreed = stamp(9);
        page
    };
    let names = |outputs: Vec<ListOutput>| match &outputs[..] {
        [ListOutput::Done { listing, .. }] => listing.entries.len(),
        other => panic!("{other:?}"),
    };
    let complete = listed_from([Some(damaged()), Some(page(&lagging)), Some(page(&newest))]);
    assert_eq!(names(complete), 2);
    // No quorum shows this one key. The newest version shown is listed, and the listing succeeds.
    let one_away = listed_from([Some(damaged()), Some(page(&newest)), None]);
    assert_eq!(names(one_away), 2);
    let not_shown = listed_from([Some(damaged()), None, Some(page(&lagging))]);
    assert_eq!(names(not_shown), 1);
}

/// Two replicas with a damaged row each, of different keys.
#[test]
fn two_damaged_rows_on_two_replicas_hide_nothing() {
    let all = rows(&[("a", (1, true)), ("b/1", (2, true)), ("c", (3, true))]);
    let replicas: Vec<_> = (0..3).map(|_| Replica::new(&all)).collect();
    replicas[0].damage(0b001);
    replicas[1].damage(0b010);
    for query in [by_folder(), ListQuery::new(HERE, Bytes::new())] {
        let answer = |replica: usize, query: &ListQuery| Some(replicas[replica].list(query));
        let (page, _) = drive(&Quorums::majority_of(3), &query, answer, |_| 0);
        assert_eq!(page.map(|page| page.entries.len()), Some(3));
    }
}
