//! Cases one by one.

use std::collections::BTreeMap;

use archipel_base::Stamp;
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing, RowHead};
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

/// A page of three replicas of which the first two answer; the names on it, and how many rounds it took.
fn listed(query: &ListQuery, states: [BTreeMap<Bytes, Version>; 3]) -> (Vec<String>, u32) {
    let replicas: Vec<_> = states.iter().map(Replica::new).collect();
    let answer = |replica: usize, query: &ListQuery| Some(replicas[replica].list(query));
    let mut turn = 0;
    let in_order = |_| {
        turn += 1;
        // Of three open questions the first, and then, as the last took its place, the second.
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

/// Each of two replicas has a row that was deleted at the other.
#[test]
fn a_prefix_of_rows_each_deleted_elsewhere_is_not_shown() {
    let a = rows(&[("a/1", (1, true)), ("a/2", (4, false))]);
    let b = rows(&[("a/1", (3, false)), ("a/2", (2, true))]);
    let (names, rounds) = listed(&by_folder(), [a.clone(), b, a]);
    assert_eq!(names, [""; 0]);
    assert!(rounds > 1);
}

#[test]
fn equal_replicas_need_one_round() {
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
fn a_replica_that_lags_behind_costs_no_round() {
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

/// Looking for a live row far below a prefix has an end, and goes on with the next page.
#[test]
fn what_is_deleted_elsewhere_by_the_thousands_is_passed_page_by_page() {
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
fn too_few_answers_are_a_failure() {
    let (mut merge, asks) = ListMerge::new(Quorums::majority_of(3), by_folder());
    assert_eq!(asks.len(), 3);
    assert_eq!(merge.on_failure(0, 1), []);
    // The same one again, and a stranger.
    assert_eq!(merge.on_failure(0, 1), []);
    assert_eq!(merge.on_failure(7, 1), []);
    assert_eq!(merge.on_failure(2, 1), [ListOutput::Failed]);
    assert_eq!(merge.on_page(1, 1, Page::default()), []);
}

#[test]
fn one_replica_counts_once() {
    let (mut merge, _) = ListMerge::new(Quorums::majority_of(3), by_folder());
    assert_eq!(merge.on_page(1, 1, Page::default()), []);
    assert_eq!(merge.on_page(1, 1, Page::default()), []);
    let done = merge.on_page(0, 1, Page::default());
    assert_eq!(done, [ListOutput::Done(Listing::default())]);
}

#[test]
fn without_replicas_there_is_no_listing() {
    let (_, outputs) = ListMerge::new(Quorums::of_versions(Vec::new()), by_folder());
    assert_eq!(outputs, [ListOutput::Failed]);
}

#[test]
fn a_replica_alone_is_asked_for_what_is_wanted() {
    let (mut merge, asks) = ListMerge::new(Quorums::majority_of(1), by_folder());
    let [ListOutput::Ask { query, round, .. }] = &asks[..] else {
        panic!("one question");
    };
    assert_eq!(query, &by_folder());
    let page = Listing {
        entries: vec![ListEntry::Prefix(Bytes::from_static(b"a/"))],
        next: None,
    };
    let done = merge.on_page(0, *round, Page::from(page.clone()));
    assert_eq!(done, [ListOutput::Done(page)]);
}

/// A page that cannot be, as only a broken peer sends it, counts as none.
#[test]
fn answers_that_cannot_be_are_failures() {
    let row = |key: &'static str, live: bool| ListEntry::Row {
        key: Bytes::from_static(key.as_bytes()),
        head: RowHead {
            stamp: stamp(1),
            head: live.then(Bytes::new),
            ..RowHead::default()
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
        let page = Listing { entries, next };
        assert_eq!(
            merge.on_page(0, 1, Page::from(page.clone())),
            [ListOutput::Failed],
            "{page:?}"
        );
    }
    let (mut merge, _) = ListMerge::new(Quorums::majority_of(2), query);
    let page = Listing {
        entries: vec![row("pb", true), row("pc", false)],
        next: Some(at("pd")),
    };
    assert_eq!(merge.on_page(0, 1, Page::from(page)), []);
}

/// One replica listed before it took a deletion; then all agreed that its tombstone may go; then the other listed. Neither the key nor its
/// prefix is shown. What lives is, also if the floor lies above it; and of what the other did not come to it says nothing.
#[test]
fn what_was_listed_before_a_floor_is_not_shown() {
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
    // The page of the other ends behind "b": nothing is concluded of what follows.
    assert_eq!(shown(&all, 1), ["b"]);
}
