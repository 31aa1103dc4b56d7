//! Merges pages of several replicas into one.

use std::collections::BTreeSet;
use std::ptr;
use std::sync::Arc;

use archipel_base::Stamp;
use archipel_storage::rows::codec::successor;
use archipel_storage::{ListQuery, ListStart, RowMetadata};
use bytes::Bytes;

use super::source::{Source, union};
use super::{End, Page};
use crate::register::{Quorums, ReplicaSet};

/// The largest number of unproven prefixes of one page.
const MAX_UNPROVEN: usize = 16;

/// An item of a merged page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// A row; a tombstone only if tombstones are listed.
    Row { key: Bytes, metadata: RowMetadata },
    /// A prefix that has a live row.
    Prefix(Bytes),
    /// A prefix for which the pages do not show whether it has a live row. It can have one only
    /// from there on.
    Unproven { prefix: Bytes, from: ListStart },
    /// A prefix without a live row.
    Dead,
    /// The end of the page: the pages do not show whether the prefix has a live row from there on.
    End(ListStart),
}

/// A merged page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Merged {
    pub items: Vec<Item>,
    /// Keys of damaged rows that too few replicas report: their newest version is not known.
    pub damaged: Vec<Bytes>,
    /// Keys of rows whose version too few pages show to make a quorum, in order.
    pub unsettled: Vec<Bytes>,
    pub next: Option<ListStart>,
}

/// Merges pages that a quorum returned for a query for merging. They must be [sound](super::sound).
/// Lists tombstones only if `with_tombstones` is true.
pub(super) fn merge(
    quorums: &Quorums,
    query: &ListQuery,
    pages: &[(usize, Arc<Page>)],
    with_tombstones: bool,
) -> Merged {
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
        with_tombstones,
        sources,
        items: Vec::new(),
        unsettled: Vec::new(),
        unproven: 0,
        silent: Default::default(),
        reports: Vec::new(),
    };
    let end = merge.end();
    let next = merge.run(end.as_ref());
    Merged {
        damaged: merge.unreported(next.as_ref()),
        items: merge.items,
        unsettled: merge.unsettled,
        next,
    }
}

struct Merge<'p> {
    quorums: &'p Quorums,
    query: &'p ListQuery,
    with_tombstones: bool,
    sources: Vec<Source<'p>>,
    items: Vec<Item>,
    unsettled: Vec<Bytes>,
    unproven: usize,
    /// A prefix, and the replicas that showed a live row of it. They show no later rows of it.
    silent: (Bytes, ReplicaSet),
    /// For each page, its version of the key that is judged, its floor, and whether it shows all
    /// that it has of the key.
    reports: Vec<(Option<&'p RowMetadata>, Stamp, bool)>,
}

/// The page is full. Holds the start of the next page.
struct Full(ListStart);

/// The result of the versions of one key.
#[derive(Default)]
struct Judged<'p> {
    newest: Option<&'p RowMetadata>,
    /// The replicas that show it live.
    live_at: ReplicaSet,
    /// The replicas that show the newest version.
    newest_at: ReplicaSet,
}

impl<'p> Merge<'p> {
    /// Returns the key from which too few pages go on to make a quorum, or at which a damaged row
    /// is undecided because other pages end before it. Those go on with the next page.
    fn end(&self) -> Option<End> {
        let (end, undecided) = (self.end_of_pages(), self.undecided());
        let first = |end: &End| undecided.as_ref().is_none_or(|other| end.key < other.key);
        match end {
            Some(end) if first(&end) => Some(end),
            end => undecided.or(end),
        }
    }

    /// Returns the first damaged row that too few pages show because others end before it.
    fn undecided(&self) -> Option<End> {
        let damaged = self
            .sources
            .iter()
            .map(|source| &source.page.listing.damaged);
        let undecided = damaged.flatten().filter(|key| {
            let showing = self.sources.iter().filter(|source| source.covers(key));
            let all_reach = self.sources.iter().all(|source| source.reaches(key));
            !all_reach && !self.quorums.is_quorum(union(showing))
        });
        End::of(&ListStart::At(undecided.min()?.clone()))
    }

    /// Returns the damaged rows on this page that too few replicas report.
    fn unreported(&self, next: Option<&ListStart>) -> Vec<Bytes> {
        let end = next.and_then(End::of);
        let on_page = |key: &&Bytes| end.as_ref().is_none_or(|end| key[..] < end.key[..]);
        let damaged = self.sources.iter();
        let damaged = damaged.flat_map(|source| &source.page.listing.damaged);
        let unreported = damaged.filter(on_page).filter(|key| {
            let telling = self.sources.iter().filter(|source| source.covers(key));
            !self.quorums.is_quorum(union(telling))
        });
        let unreported: BTreeSet<&Bytes> = unreported.collect();
        unreported.into_iter().cloned().collect()
    }

    fn end_of_pages(&self) -> Option<End> {
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

    /// Merges all keys that a quorum covers. Returns the start of the next page.
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

    /// Returns the common prefix of `key`.
    fn group_of(&self, key: &Bytes) -> Option<Bytes> {
        Some(key.slice(..self.query.group_of(key)?))
    }

    fn row(&mut self, key: Bytes) -> Result<(), Full> {
        let judged = self.judge(&key, ReplicaSet::EMPTY);
        let shown = |metadata: &&RowMetadata| metadata.is_live() || self.with_tombstones;
        let Some(metadata) = judged.newest.filter(shown) else {
            return Ok(());
        };
        let metadata = metadata.clone();
        let item = Item::Row {
            key: key.clone(),
            metadata,
        };
        self.push(item, ListStart::At(key.clone()))?;
        if !self.quorums.is_quorum(judged.newest_at) {
            self.unsettled.push(key);
        }
        Ok(())
    }

    fn row_of_group(&mut self, key: Bytes, prefix: Bytes) -> Result<(), Full> {
        let silent = if self.silent.0 == prefix {
            self.silent.1
        } else {
            ReplicaSet::EMPTY
        };
        let judged = self.judge(&key, silent);
        if judged.newest.is_some_and(RowMetadata::is_live) {
            self.push(Item::Prefix(prefix.clone()), ListStart::At(key))?;
            self.pass(&prefix);
            return Ok(());
        }
        if self.is_known_behind(&prefix, judged.live_at) {
            return Ok(());
        }
        let from = ListStart::After(key);
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

    /// Judges the pages' versions of a key. The newest version wins, unless a floor shows that it
    /// is gone. The pages of `silent` replicas do not show all versions.
    fn judge(&mut self, key: &Bytes, silent: ReplicaSet) -> Judged<'p> {
        let mut judged = Judged::default();
        self.reports.clear();
        for source in &mut self.sources {
            // Replicas with equal pages are silent about the same rows.
            let covers = source.covers(key) && silent.intersection(source.replicas).is_empty();
            let metadata = source.take(key);
            if metadata.is_some_and(RowMetadata::is_live) {
                judged.live_at = judged.live_at.union(source.replicas);
            }
            self.reports.push((metadata, source.page.agreed, covers));
        }
        let reports = &self.reports;
        let stamp = |metadata: Option<&RowMetadata>| {
            metadata.map_or(Stamp::ZERO, |metadata| metadata.stamp)
        };
        let is_past = |metadata: &RowMetadata| {
            reports.iter().any(|(other, agreed, covers)| {
                *covers && metadata.stamp <= *agreed && stamp(*other) < metadata.stamp
            })
        };
        let metadata = reports.iter().filter_map(|(metadata, ..)| *metadata);
        judged.newest = metadata
            .filter(|metadata| !is_past(metadata))
            .max_by_key(|metadata| metadata.stamp);
        let newest = stamp(judged.newest);
        let shows_it = |(_, (metadata, ..)): &(&Source<'_>, &(Option<&RowMetadata>, _, _))| {
            metadata.is_some_and(|metadata| metadata.stamp == newest)
        };
        let showing = self.sources.iter().zip(reports).filter(shows_it);
        judged.newest_at = union(showing.map(|(source, _)| source));
        judged
    }

    /// Returns true if a quorum shows all later rows of a prefix, although the replicas in
    /// `live_at` show none of them.
    fn is_known_behind(&mut self, prefix: &Bytes, live_at: ReplicaSet) -> bool {
        if self.silent.0 != *prefix {
            self.silent = (prefix.clone(), ReplicaSet::EMPTY);
        }
        if live_at.is_empty() {
            return true;
        }
        self.silent.1 = self.silent.1.union(live_at);
        let behind = successor(prefix);
        let showing = self.sources.iter();
        let showing = showing.filter(|source| {
            !source.ends_before(behind.as_deref()) && !source.is_damaged_below(prefix)
        });
        self.quorums
            .is_quorum(union(showing).without(self.silent.1))
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

    /// Returns the start of the next page if the pages end there. A prefix on this page is not
    /// shown again on the next.
    fn behind_last_prefix(&self, end: &End) -> Option<ListStart> {
        let (Some(Item::Prefix(prefix)) | Some(Item::Unproven { prefix, .. })) = self.items.last()
        else {
            return Some(end.next.clone());
        };
        match successor(prefix) {
            None => None,
            Some(behind) if end.key < behind => Some(ListStart::AfterPrefix(prefix.clone())),
            Some(_) => Some(end.next.clone()),
        }
    }
}
