//! Random histories of writes that reached quorums or did not, listed page by page.

use std::collections::{BTreeMap, BTreeSet};

use archipel_storage::{ListEntry, ListQuery, ListStart, Listing};
use bytes::Bytes;
use proptest::prelude::*;

use super::{HERE, Replica, Version, drive, stamp};
use crate::register::{Quorums, ReplicaSet};

/// A write, and the replicas that it reached.
#[derive(Clone, Debug)]
struct Write {
    key: Bytes,
    live: bool,
    reached: ReplicaSet,
}

#[derive(Clone, Debug)]
struct History {
    quorums: Quorums,
    writes: Vec<Write>,
}

impl History {
    /// Returns the rows of a replica: for each key the newest version that reached it.
    fn rows_at(&self, replica: usize) -> BTreeMap<Bytes, Version> {
        let writes = (1..).zip(&self.writes);
        let here = writes.filter(|(_, write)| write.reached.contains(replica));
        here.map(|(time, write)| (write.key.clone(), (time, write.live)))
            .collect()
    }

    /// Returns the newest acknowledged version of each key, and the later versions that may be
    /// shown.
    fn visible(&self) -> BTreeMap<Bytes, (Option<Version>, Vec<Version>)> {
        let mut keys: BTreeMap<Bytes, (Option<Version>, Vec<Version>)> = BTreeMap::new();
        for (time, write) in (1..).zip(&self.writes) {
            let (acknowledged, later) = keys.entry(write.key.clone()).or_default();
            if self.quorums.is_quorum(write.reached) {
                *acknowledged = Some((time, write.live));
                later.clear();
            } else if !write.reached.is_empty() {
                later.push((time, write.live));
            }
        }
        keys
    }
}

fn key() -> impl Strategy<Value = Bytes> {
    let letters = prop::sample::select(vec!["a", "b", "/", "a/", "\u{10ffff}"]);
    prop::collection::vec(letters, 1..4).prop_map(|parts| Bytes::from(parts.concat()))
}

fn quorums() -> impl Strategy<Value = Quorums> {
    prop::sample::select(vec![
        Quorums::majority_of(2),
        Quorums::majority_of(3),
        Quorums::majority_of(3),
        Quorums::majority_of(5),
        // A change of layout.
        Quorums::of_versions(vec![
            ReplicaSet::from_iter([0, 1, 2]),
            ReplicaSet::from_iter([2, 3, 4]),
        ]),
    ])
}

fn history() -> impl Strategy<Value = History> {
    let write = (key(), any::<bool>(), any::<u8>(), 0u8..4);
    (quorums(), prop::collection::vec(write, 0..50)).prop_map(|(quorums, writes)| {
        let writes = writes.into_iter().map(|(key, live, bits, whole)| {
            let reached = match whole {
                0 => quorums.all(),
                _ => (0..5).filter(|r| bits & 1 << r != 0).collect(),
            };
            Write {
                key,
                live,
                reached: reached.intersection(quorums.all()),
            }
        });
        let writes = writes.collect();
        History { quorums, writes }
    })
}

/// Lists all pages. Answers come in random order. Some are missing, or from a replica with damaged
/// rows.
fn list_all(
    history: &History,
    mut query: ListQuery,
    away: Option<usize>,
    damage: Option<u8>,
    order: &[usize],
) -> Result<Vec<ListEntry>, TestCaseError> {
    let replicas: Vec<_> = (0..5).map(|r| Replica::new(&history.rows_at(r))).collect();
    if let (Some(away), Some(damage)) = (away, damage) {
        replicas[away].damage(damage);
    }
    let mut order = order.iter().cycle();
    let mut entries = Vec::new();
    for _ in 0..500 {
        let answer = |replica: usize, query: &ListQuery| {
            (Some(replica) != away || damage.is_some()).then(|| replicas[replica].list(query))
        };
        let pick = |_| *order.next().unwrap();
        let (page, _) = drive(&history.quorums, &query, answer, pick);
        let Listing {
            entries: more,
            next,
            damaged: _,
        } = page.expect("a quorum answers");
        prop_assert!(more.len() <= query.limit);
        entries.extend(more);
        match next {
            Some(next) => query.start = next,
            None => return Ok(entries),
        }
    }
    Err(TestCaseError::fail("the listing does not end"))
}

fn group_of(key: &Bytes, query: &ListQuery) -> Option<Bytes> {
    let delimiter = query.delimiter.as_deref().filter(|d| !d.is_empty())?;
    let rest = &key[query.prefix.len()..];
    let at = (0..rest.len()).find(|i| rest[*i..].starts_with(delimiter))?;
    Some(key.slice(..query.prefix.len() + at + delimiter.len()))
}

fn is_behind(start: &ListStart, key: &Bytes) -> bool {
    match start {
        ListStart::At(at) => key >= at,
        ListStart::After(at) => key > at,
        ListStart::AfterPrefix(prefix) => key > prefix && !key.starts_with(prefix),
    }
}

/// The names that must be listed, and the names that may be.
#[derive(Default)]
struct Expected {
    must: BTreeSet<Bytes>,
    may: BTreeSet<Bytes>,
}

fn expected(history: &History, query: &ListQuery) -> Expected {
    let mut expected = Expected::default();
    for (key, (acknowledged, later)) in history.visible() {
        if !key.starts_with(&query.prefix) || !is_behind(&query.start, &key) {
            continue;
        }
        let live = |version: &Version| version.1;
        let name = group_of(&key, query).unwrap_or(key);
        if acknowledged.as_ref().is_some_and(live) && later.iter().all(live) {
            expected.must.insert(name.clone());
        }
        if acknowledged.iter().chain(&later).any(live) {
            expected.may.insert(name);
        }
    }
    expected
}

fn check(history: &History, query: &ListQuery, entries: &[ListEntry]) -> Result<(), TestCaseError> {
    let visible = history.visible();
    let Expected { must, may } = expected(history, query);
    let mut last: Option<Bytes> = None;
    let mut missing = must;
    for entry in entries {
        let name = match entry {
            ListEntry::Prefix(prefix) => prefix,
            ListEntry::Row { key, metadata } => {
                prop_assert_eq!(group_of(key, query), None);
                let (acknowledged, later) = &visible[key];
                let shown = acknowledged
                    .iter()
                    .chain(later)
                    .any(|(time, live)| *live && stamp(*time) == metadata.stamp);
                prop_assert!(
                    shown,
                    "{:?} is shown with the stamp {:?}",
                    key,
                    metadata.stamp
                );
                prop_assert_eq!(
                    metadata.metadata.as_ref().map(|metadata| metadata.len()),
                    Some(8)
                );
                key
            }
        };
        prop_assert!(last.as_ref() < Some(name), "{:?} after {:?}", name, last);
        prop_assert!(may.contains(name), "{:?} has no live row", name);
        missing.remove(name);
        last = Some(name.clone());
    }
    prop_assert!(missing.is_empty(), "missing: {:?}", missing);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn exactly_the_acknowledged_rows_are_listed(
        history in history(),
        prefix in prop_oneof![Just(Bytes::new()), key()],
        start in prop_oneof![
            Just(ListStart::At(Bytes::new())),
            key().prop_map(ListStart::At),
            key().prop_map(ListStart::After),
            key().prop_map(ListStart::AfterPrefix),
        ],
        delimiter in prop::sample::select(vec![None, Some(""), Some("/"), Some("a")]),
        limit in 1usize..7,
        budget in 0usize..7,
        away in prop::option::of(0usize..5),
        damage in prop::option::of(any::<u8>()),
        order in prop::collection::vec(0usize..100, 1..20),
    ) {
        let query = ListQuery {
            start,
            delimiter: delimiter.map(|d| Bytes::from_static(d.as_bytes())),
            limit,
            budget,
            ..ListQuery::new(HERE, prefix)
        };
        let away = away.filter(|away| {
            let away = ReplicaSet::from_iter([*away]);
            !history.quorums.is_blocked_by(away)
        });
        let entries = list_all(&history, query.clone(), away, damage, &order)?;
        check(&history, &query, &entries)?;
    }
}
