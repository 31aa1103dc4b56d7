//! Merges the listings of several replicas into one. Pure: no I/O, no clock.
//!
//! The driver asks all replicas *for merging* ([`ListQuery::tombstones`]). As soon as a quorum has
//! answered, the answers are merged. Every acknowledged version is in one of them. So for every
//! key, the version with the newest stamp among them is the acknowledged version or a newer one. A
//! key whose newest version is a tombstone is not shown. (A version whose write is under way, or
//! whose outcome is unknown, may be shown or not.) Tombstones at or below an agreed floor are
//! missing, but no replica holds anything older than them. A replica may have listed a version
//! before a floor was agreed. If the version is at or below the floor that another replica reports,
//! it counts only if that replica lists it, too.
//!
//! **Common prefixes.** A replica shows all its rows of a prefix up to its first live row there. If
//! among a quorum the version of that row is the newest, the prefix has a live row. This is always
//! so if replicas agree, or if one only lacks rows. Otherwise the replica's later rows are unknown,
//! and the prefix alone is listed from there on, row by row, until a live row is found. That costs
//! rounds, but only where replicas differ in what was deleted.
//!
//! **Damaged rows.** A replica that cannot read a row reports its key, and nothing else about it. A
//! page with damaged rows does not help to make a quorum while other replicas may still answer. So
//! for every key, the version is found among replicas that report it. If too few report a key, the
//! newest reported version is shown: nothing more can be known about that key.
//!
//! # For the author of a driver
//! [`ListMerge::new`] returns the first [`ListOutput`]s. Each answer, given to
//! [`ListMerge::on_page`] or [`ListMerge::on_failure`], returns more, until `Done` or `Failed`.
//! Late and repeated answers are ignored, and so are answers of other nodes.
//!
//! # Invariants
//! - A page covers the keys before its `next`. Nothing is concluded from it about later keys.
//! - The listing's `next` is after the query's start, even if the listing is empty. So listings
//!   end.
//! - A prefix is shown only if a live row with that prefix was found.

mod page;
mod sound;
mod source;
pub mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::Stamp;
use archipel_storage::rows::codec::successor;
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing};
use bytes::Bytes;

use crate::register::{Quorums, ReplicaSet};
use page::{Item, Merged};

/// The largest number of entries in one request.
const MAX_LIMIT: usize = 10_000;
/// The largest number of rows read for one page that are not live.
const MAX_BUDGET: usize = 100_000;
/// The number of rows in the first request for an unproven prefix. Each further request asks for
/// four times as many.
const FIRST_ROWS: usize = 64;
/// The number of requests for one prefix before the page ends there.
const MAX_DEPTH: u32 = 8;

/// A page of one replica.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The listing.
    pub listing: Listing,
    /// The floor that was agreed on that replica. A row at or below it that another replica lists
    /// and this one does not was listed before the agreement, and is gone.
    pub agreed: Stamp,
}

impl From<Listing> for Page {
    /// Returns a page without a floor.
    fn from(listing: Listing) -> Page {
        Page {
            listing,
            agreed: Stamp::ZERO,
        }
    }
}

/// The next action of the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListOutput {
    /// Ask this replica, and return its answer with the same `round`.
    Ask {
        /// The replica's index, as in [`Quorums`].
        replica: usize,
        /// The number of the round.
        round: u32,
        /// The query.
        query: ListQuery,
    },
    /// The page is complete.
    Done {
        /// Live rows, and prefixes that have one.
        listing: Listing,
        /// The keys of the rows whose version the merged pages do not show at a quorum, sorted. The
        /// write of such a version may be under way, or may have failed.
        unsettled: Vec<Bytes>,
    },
    /// Too few replicas answer.
    Failed,
}

/// One page of a listing, in progress.
#[derive(Debug)]
pub struct ListMerge {
    quorums: Quorums,
    /// The open rounds.
    rounds: BTreeMap<u32, Round>,
    last_round: u32,
    /// The result of the first round.
    merged: Merged,
    /// True if tombstones are listed, too.
    with_tombstones: bool,
    over: bool,
}

/// A query to all replicas.
#[derive(Debug)]
struct Round {
    query: ListQuery,
    purpose: Purpose,
    pages: Vec<(usize, Arc<Page>)>,
    failed: ReplicaSet,
}

/// The purpose of a round.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The page itself.
    Page,
    /// To find out if the prefix of this item of the page has a live row.
    Prefix { item: usize, depth: u32 },
}

impl ListMerge {
    /// Begins a listing with queries to all replicas. A single replica gets the client's query
    /// unchanged. If the query asks for tombstones, they are listed as far as they still exist.
    /// Such a query has no delimiter.
    pub fn new(quorums: Quorums, mut query: ListQuery) -> (ListMerge, Vec<ListOutput>) {
        let with_tombstones = query.tombstones;
        query.tombstones |= quorums.all().len() > 1;
        query.limit = query.limit.min(MAX_LIMIT);
        query.budget = query.budget.min(MAX_BUDGET);
        let nothing = query.limit == 0;
        let mut merge = ListMerge {
            quorums,
            rounds: BTreeMap::new(),
            last_round: 0,
            merged: Merged::default(),
            with_tombstones,
            over: false,
        };
        let outputs = if nothing {
            merge.end(done(Listing::default()))
        } else {
            merge.begin(Purpose::Page, query)
        };
        (merge, outputs)
    }

    /// Handles a replica's answer. An impossible answer counts as a failure. Replicas whose pages
    /// are known to be equal may share one page, which is merged once.
    pub fn on_page(
        &mut self,
        replica: usize,
        round: u32,
        page: impl Into<Arc<Page>>,
    ) -> Vec<ListOutput> {
        let page = page.into();
        let Some(open) = self.open_round(replica, round) else {
            return Vec::new();
        };
        let is_known = open
            .pages
            .iter()
            .any(|(_, other)| Arc::ptr_eq(other, &page));
        if !is_known && !sound::is_sound(&open.query, &page.listing) {
            return self.on_failure(replica, round);
        }
        open.pages.push((replica, page));
        self.advance_if_complete(round)
    }

    /// Notes that this replica will not answer.
    pub fn on_failure(&mut self, replica: usize, round: u32) -> Vec<ListOutput> {
        let Some(open) = self.open_round(replica, round) else {
            return Vec::new();
        };
        open.failed.insert(replica);
        let failed = open.failed;
        if self.quorums.is_blocked_by(failed) {
            self.end(ListOutput::Failed)
        } else {
            self.advance_if_complete(round)
        }
    }

    /// Merges the pages of a round once they suffice: a quorum of pages without damaged rows, or,
    /// when no more answers will come, a quorum of any pages.
    fn advance_if_complete(&mut self, round: u32) -> Vec<ListOutput> {
        let complete = self.rounds.get(&round).is_some_and(|open| {
            let of = |pages: &mut dyn Iterator<Item = &(usize, Arc<Page>)>| -> ReplicaSet {
                pages.map(|(replica, _)| *replica).collect()
            };
            let answered = of(&mut open.pages.iter());
            let whole = |(_, page): &&(usize, Arc<Page>)| page.listing.damaged.is_empty();
            let whole = of(&mut open.pages.iter().filter(whole));
            let all_done = answered.union(open.failed) == self.quorums.all();
            self.quorums.is_quorum(whole) || (all_done && self.quorums.is_quorum(answered))
        });
        match complete.then(|| self.rounds.remove(&round)).flatten() {
            Some(complete) => self.advance(complete),
            None => Vec::new(),
        }
    }

    /// Returns the round if it waits for this replica.
    fn open_round(&mut self, replica: usize, round: u32) -> Option<&mut Round> {
        if self.over || !self.quorums.all().contains(replica) {
            return None;
        }
        let open = self.rounds.get_mut(&round)?;
        let answered = open.pages.iter().any(|(from, _)| *from == replica);
        (!answered && !open.failed.contains(replica)).then_some(open)
    }

    fn begin(&mut self, purpose: Purpose, query: ListQuery) -> Vec<ListOutput> {
        self.last_round += 1;
        let round = self.last_round;
        let ask = |replica| ListOutput::Ask {
            replica,
            round,
            query: query.clone(),
        };
        let outputs: Vec<_> = self.quorums.all().iter().map(ask).collect();
        if self.quorums.is_blocked_by(ReplicaSet::EMPTY) {
            return self.end(ListOutput::Failed);
        }
        let open = Round {
            query,
            purpose,
            pages: Vec::new(),
            failed: ReplicaSet::EMPTY,
        };
        self.rounds.insert(round, open);
        outputs
    }

    /// Goes on after a quorum has answered a round.
    fn advance(&mut self, mut complete: Round) -> Vec<ListOutput> {
        if !complete.query.tombstones {
            let page = complete.pages.pop().map(|(_, page)| page);
            let page = page.map(Arc::unwrap_or_clone).unwrap_or_default();
            return self.end(done(page.listing));
        }
        let merged = page::merge(
            &self.quorums,
            &complete.query,
            &complete.pages,
            self.with_tombstones,
        );
        let mut outputs = match complete.purpose {
            Purpose::Page => self.on_merged(merged, &complete.query),
            Purpose::Prefix { item, depth } => {
                self.on_prefix_listed(item, depth, merged, complete.query)
            }
        };
        if self.rounds.is_empty() && !self.over {
            outputs.extend(self.finish());
        }
        outputs
    }

    /// Takes the merged page, and asks for the rows that prove its open prefixes.
    fn on_merged(&mut self, merged: Merged, query: &ListQuery) -> Vec<ListOutput> {
        self.merged = merged;
        let open = self.merged.items.iter().enumerate();
        let open: Vec<_> = open
            .filter_map(|(item, what)| match what {
                Item::Unproven { prefix, from } => Some((item, prefix.clone(), from.clone())),
                _ => None,
            })
            .collect();
        let ask = |(item, prefix, start)| {
            let rows = ListQuery {
                prefix,
                start,
                delimiter: None,
                limit: FIRST_ROWS,
                ..query.clone()
            };
            self.begin(Purpose::Prefix { item, depth: 1 }, rows)
        };
        open.into_iter().flat_map(ask).collect()
    }

    /// Handles some rows below an unproven prefix.
    fn on_prefix_listed(
        &mut self,
        item: usize,
        depth: u32,
        rows: Merged,
        mut query: ListQuery,
    ) -> Vec<ListOutput> {
        let resolved = match (rows.items.is_empty(), rows.next) {
            (false, _) => Item::Prefix(query.prefix),
            (true, None) => Item::Dead,
            (true, Some(next)) if depth == MAX_DEPTH => Item::End(next),
            (true, Some(next)) => {
                query.start = next;
                query.limit = MAX_LIMIT.min(query.limit * 4);
                let depth = depth + 1;
                return self.begin(Purpose::Prefix { item, depth }, query);
            }
        };
        if let Some(unproven) = self.merged.items.get_mut(item) {
            *unproven = resolved;
        }
        Vec::new()
    }

    /// Ends with the listing when nothing is left to prove.
    fn finish(&mut self) -> Vec<ListOutput> {
        let merged = std::mem::take(&mut self.merged);
        let mut listing = Listing {
            entries: Vec::with_capacity(merged.items.len()),
            damaged: merged.damaged,
            next: merged.next,
        };
        let unsettled = merged.unsettled;
        for item in merged.items {
            match item {
                Item::Row { key, metadata } => {
                    listing.entries.push(ListEntry::Row { key, metadata })
                }
                Item::Prefix(prefix) => listing.entries.push(ListEntry::Prefix(prefix)),
                Item::Dead => {}
                Item::Unproven { from: next, .. } | Item::End(next) => {
                    listing.next = Some(next);
                    break;
                }
            }
        }
        self.end(ListOutput::Done { listing, unsettled })
    }

    fn end(&mut self, output: ListOutput) -> Vec<ListOutput> {
        self.over = true;
        self.rounds.clear();
        vec![output]
    }
}

/// Ends with a listing that a quorum holds.
fn done(listing: Listing) -> ListOutput {
    ListOutput::Done {
        listing,
        unsettled: Vec::new(),
    }
}

/// The end of a page. The page shows nothing of this key and later ones.
struct End {
    key: Vec<u8>,
    next: ListStart,
}

impl End {
    /// Returns `None` if no key can follow.
    fn of(next: &ListStart) -> Option<End> {
        let key = lowest(next)?;
        Some(End {
            key,
            next: next.clone(),
        })
    }
}

/// Returns the lowest key that a start lets through, or `None` if there is none.
pub(crate) fn lowest(start: &ListStart) -> Option<Vec<u8>> {
    match start {
        ListStart::At(key) => Some(key.to_vec()),
        ListStart::After(key) => Some([key, &[0][..]].concat()),
        ListStart::AfterPrefix(prefix) => successor(prefix),
    }
}
