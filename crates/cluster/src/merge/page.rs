//! Pages of several replicas as one page.

use std::iter::Peekable;
use std::ptr;
use std::slice::Iter;
use std::sync::Arc;

use archipel_base::Stamp;
use archipel_storage::rows::codec::successor;
use archipel_storage::{ListEntry, ListQuery, ListStart, RowHead};
use bytes::Bytes;

use super::{Page, lowest};
use crate::register::{Quorums, ReplicaSet};

/// How many prefixes of one page may be open questions.
const MAX_UNPROVEN: usize = 16;

/// What a merged page consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// A live row.
    Row { key: Bytes, head: RowHead },
    /// A prefix that has a live row.
    Prefix(Bytes),
    /// Whether the prefix has a live row, and then only from there on, the pages do not say.
    Unproven { prefix: Bytes, from: ListStart },
    /// It has none.
    Dead,
    /// The page ends here: whether the prefix has a live row from there on is not known.
    End(ListStart),
}

/// A merged page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Merged {
    pub items: Vec<Item>,
    pub next: Option<ListStart>,
}

/// Merges pages, which a quorum gave to a query for merging. They are [sound](super::sound).
pub(super) fn merge(quorums: &Quorums, query: &ListQuery, pages: &[(usize, Arc<Page>)]) -> Merged {
    let mut sources: Vec<Source<'_>> = Vec::with_capacity(pages.len());
    for (replica, page) in pages {
        match sources
            .iter_mut()
            .find(|known| ptr::eq(known.page, &**page))
        {
            Some(known) => known.replicas.insert(*replica),
            None => sources.push(Source::new(*replica, page)),
        }
    }
    let mut merge = Merge {
        quorums,
        query,
        delimiter: query.delimiter.as_deref().filter(|d| !d.is_empty()),
        sources,
        items: Vec::new(),
        unproven: 0,
        silent: Default::default(),
        told: Vec::new(),
    };
    let end = merge.end();
    let next = merge.run(end.as_ref());
    Merged {
        items: merge.items,
        next,
    }
}

/// Where a page ends: it tells nothing of this key and those behind.
struct End {
    key: Vec<u8>,
    next: ListStart,
}

impl End {
    /// `None` if nothing is behind it anyway.
    fn of(next: &ListStart) -> Option<End> {
        let key = lowest(next)?;
        Some(End {
            key,
            next: next.clone(),
        })
    }
}

/// The page of a replica, or of several that have the same, as far as it was not merged yet.
struct Source<'p> {
    replicas: ReplicaSet,
    page: &'p Page,
    entries: Peekable<Iter<'p, ListEntry>>,
    end: Option<End>,
}

impl<'p> Source<'p> {
    fn new(replica: usize, page: &'p Page) -> Source<'p> {
        Source {
            replicas: ReplicaSet::from_iter([replica]),
            page,
            entries: page.listing.entries.iter().peekable(),
            end: page.listing.next.as_ref().and_then(End::of),
        }
    }

    fn front(&mut self) -> Option<(&'p Bytes, &'p RowHead)> {
        match self.entries.peek()? {
            ListEntry::Row { key, head } => Some((key, head)),
            ListEntry::Prefix(_) => None,
        }
    }

    /// Takes the version of `key`, if the replica told one.
    fn take(&mut self, key: &Bytes) -> Option<&'p RowHead> {
        let (_, head) = self.front().filter(|(front, _)| *front == key)?;
        self.entries.next();
        Some(head)
    }

    /// Passes all keys that begin so.
    fn pass(&mut self, prefix: &Bytes) {
        while self.front().is_some_and(|(key, _)| key.starts_with(prefix)) {
            self.entries.next();
        }
    }

    /// Whether it shows all versions of `key` that it has.
    fn covers(&self, key: &Bytes) -> bool {
        self.end.as_ref().is_none_or(|end| key[..] < end.key[..])
    }

    fn ends_before(&self, key: Option<&[u8]>) -> bool {
        match (&self.end, key) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(end), Some(key)) => &end.key[..] < key,
        }
    }
}

struct Merge<'p> {
    quorums: &'p Quorums,
    query: &'p ListQuery,
    delimiter: Option<&'p [u8]>,
    sources: Vec<Source<'p>>,
    items: Vec<Item>,
    unproven: usize,
    /// A prefix, and who showed a live row of it and so tells nothing of those behind.
    silent: (Bytes, ReplicaSet),
    /// What each page tells of the key that is judged: a version, the floor, and whether it shows all that it has of it.
    told: Vec<(Option<&'p RowHead>, Stamp, bool)>,
}

/// All replicas whose pages these are.
fn union<'s, 'p: 's>(sources: impl Iterator<Item = &'s Source<'p>>) -> ReplicaSet {
    sources.fold(ReplicaSet::EMPTY, |all, source| all.union(source.replicas))
}

/// The page has no more room; where to go on instead.
struct Full(ListStart);

/// What the versions of one key come to.
#[derive(Default)]
struct Verdict<'p> {
    newest: Option<&'p RowHead>,
    /// Who shows it live.
    live_at: ReplicaSet,
}

impl<'p> Merge<'p> {
    /// Where too few pages go on to make a quorum.
    fn end(&self) -> Option<End> {
        let mut ends: Vec<_> = self
            .sources
            .iter()
            .filter_map(|source| Some((source.replicas, source.end.as_ref()?)))
            .collect();
        ends.sort_by(|(_, a), (_, b)| a.key.cmp(&b.key));
        let mut left = union(self.sources.iter());
        let last = ends.into_iter().find(|(replicas, _)| {
            left = left.without(*replicas);
            !self.quorums.is_quorum(left)
        });
        last.and_then(|(_, end)| End::of(&end.next))
    }

    /// Merges all that a quorum covers; gives where to go on.
    fn run(&mut self, end: Option<&End>) -> Option<ListStart> {
        while let Some(key) = self.lowest_key() {
            if end.is_some_and(|end| key[..] >= end.key[..]) {
                break;
            }
            let full = match self.group_of(&key) {
                None => self.row(key),
                Some(prefix) => self.row_of_group(key, prefix),
            };
            if let Err(Full(next)) = full {
                return Some(next);
            }
        }
        self.behind_last_prefix(end?)
    }

    fn lowest_key(&mut self) -> Option<Bytes> {
        let fronts = self.sources.iter_mut().filter_map(Source::front);
        fronts.map(|(key, _)| key).min().cloned()
    }

    /// The common prefix that `key` belongs to.
    fn group_of(&self, key: &Bytes) -> Option<Bytes> {
        let delimiter = self.delimiter?;
        let rest = key.get(self.query.prefix.len()..)?;
        let mut windows = rest.windows(delimiter.len());
        let at = windows.position(|window| window == delimiter)?;
        Some(key.slice(..self.query.prefix.len() + at + delimiter.len()))
    }

    fn row(&mut self, key: Bytes) -> Result<(), Full> {
        let verdict = self.judge(&key, ReplicaSet::EMPTY);
        let Some(head) = verdict.newest.filter(|head| head.is_live()) else {
            return Ok(());
        };
        let head = head.clone();
        self.push(
            Item::Row {
                key: key.clone(),
                head,
            },
            ListStart::At(key),
        )
    }

    fn row_of_group(&mut self, key: Bytes, prefix: Bytes) -> Result<(), Full> {
        let silent = match self.silent.0 == prefix {
            true => self.silent.1,
            false => ReplicaSet::EMPTY,
        };
        let verdict = self.judge(&key, silent);
        if verdict.newest.is_some_and(RowHead::is_live) {
            self.push(Item::Prefix(prefix.clone()), ListStart::At(key))?;
            self.pass(&prefix);
            return Ok(());
        }
        if self.is_known_behind(&prefix, verdict.live_at) {
            return Ok(());
        }
        let from = ListStart::Behind(key);
        if self.unproven == MAX_UNPROVEN {
            return Err(Full(from));
        }
        self.unproven += 1;
        let (prefix, item) = (
            prefix.clone(),
            Item::Unproven {
                prefix,
                from: from.clone(),
            },
        );
        self.push(item, from)?;
        self.pass(&prefix);
        Ok(())
    }

    /// Takes what the pages tell of a key: the newest version wins, unless it is of the past. Those of `silent` do not tell all that they have.
    fn judge(&mut self, key: &Bytes, silent: ReplicaSet) -> Verdict<'p> {
        let mut verdict = Verdict::default();
        self.told.clear();
        for source in &mut self.sources {
            // Who has the same page is silent of the same.
            let covers = source.covers(key) && silent.intersection(source.replicas).is_empty();
            let head = source.take(key);
            if head.is_some_and(RowHead::is_live) {
                verdict.live_at = verdict.live_at.union(source.replicas);
            }
            self.told.push((head, source.page.agreed, covers));
        }
        let told = &self.told;
        let stamp = |head: Option<&RowHead>| head.map_or(Stamp::ZERO, |head| head.stamp);
        let is_past = |head: &RowHead| {
            told.iter().any(|(other, agreed, covers)| {
                *covers && head.stamp <= *agreed && stamp(*other) < head.stamp
            })
        };
        let heads = told.iter().filter_map(|(head, ..)| *head);
        verdict.newest = heads
            .filter(|head| !is_past(head))
            .max_by_key(|head| head.stamp);
        verdict
    }

    /// Whether a quorum tells all of the rest of a prefix, when those of `live_at` tell nothing more of it.
    fn is_known_behind(&mut self, prefix: &Bytes, live_at: ReplicaSet) -> bool {
        if self.silent.0 != *prefix {
            self.silent = (prefix.clone(), ReplicaSet::EMPTY);
        }
        if live_at.is_empty() {
            return true;
        }
        self.silent.1 = self.silent.1.union(live_at);
        let behind = successor(prefix);
        let telling = self.sources.iter();
        let telling = telling.filter(|source| !source.ends_before(behind.as_deref()));
        self.quorums
            .is_quorum(union(telling).without(self.silent.1))
    }

    fn push(&mut self, item: Item, instead: ListStart) -> Result<(), Full> {
        if self.items.len() == self.query.limit {
            return Err(Full(instead));
        }
        self.items.push(item);
        Ok(())
    }

    fn pass(&mut self, prefix: &Bytes) {
        self.sources
            .iter_mut()
            .for_each(|source| source.pass(prefix));
    }

    /// Where to go on, if the pages end there: a prefix that is on this page is not shown on the next, too.
    fn behind_last_prefix(&self, end: &End) -> Option<ListStart> {
        let (Some(Item::Prefix(prefix)) | Some(Item::Unproven { prefix, .. })) = self.items.last()
        else {
            return Some(end.next.clone());
        };
        match successor(prefix) {
            None => None,
            Some(behind) if end.key < behind => Some(ListStart::BehindPrefix(prefix.clone())),
            Some(_) => Some(end.next.clone()),
        }
    }
}
