//! Listings of several replicas as one: pure, without I/O or clock.
//!
//! All replicas are asked *for merging* ([`ListQuery::tombstones`]); as soon as a quorum has answered, the
//! answers are merged. Whatever was acknowledged before stands in one of them, so for every key
//! the version with the newest stamp among them is that version or a newer one. If that is a tombstone, nothing is shown.
//! (Of a write that is under way, or of which it is not known whether it took effect, the version may be shown
//! or not.) Tombstones that went below an agreed floor are missing, but nothing that is older than them is left anywhere; what was listed
//! before that, and is at or below the floor that another tells, counts only if that one lists it, too.
//!
//! **Common prefixes.** A replica shows all that it knows of a prefix up to the first row that
//! lives with it. If among a quorum the version of that row is the newest, the prefix has a live
//! row: so it is whenever replicas agree, or one only lacks something. Otherwise what is behind that row
//! is not known of this replica, and the prefix alone is listed from there on, row by row,
//! until a live one is found. That costs rounds, but only where replicas differ in what was deleted.
//!
//! # For the author of a driver
//! [`ListMerge::new`] gives the first [`ListOutput`]s; each answer, brought by [`ListMerge::on_page`] or
//! [`ListMerge::on_failure`], gives more, until `Done` or `Failed`. What comes late, twice or from a
//! stranger is ignored.
//!
//! # Invariants
//! - A page covers what lies before its `next`; of what lies behind nothing is concluded from it.
//! - The listing's `next` lies behind the query's start, even if the listing is empty: pages end.
//! - A prefix is shown only if a live row was found that begins so.

mod page;
mod sound;
pub mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::Stamp;
use archipel_storage::rows::codec::successor;
use archipel_storage::{ListEntry, ListQuery, ListStart, Listing};

use crate::register::{Quorums, ReplicaSet};
use page::{Item, Merged};

/// The most entries that are asked for at once.
const MAX_LIMIT: usize = 10_000;
/// The most rows that are not live that may be read for one page.
const MAX_BUDGET: usize = 100_000;
/// How many rows of a prefix are asked for first when it is not proven; four times as many each time.
const FIRST_ROWS: usize = 64;
/// How often more rows of a prefix are asked for before the page ends there.
const MAX_DEPTH: u32 = 8;

/// A page of one replica.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// What it lists.
    pub listing: Listing,
    /// The floor that was agreed there: up to it, what another replica listed and this one does not was listed before, and is gone.
    pub agreed: Stamp,
}

impl From<Listing> for Page {
    /// Without a floor.
    fn from(listing: Listing) -> Page {
        Page {
            listing,
            agreed: Stamp::ZERO,
        }
    }
}

/// What the driver is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListOutput {
    /// Ask this replica, and bring what comes with the same `round`.
    Ask {
        /// By index, as in [`Quorums`].
        replica: usize,
        /// Which of the merge's questions this is.
        round: u32,
        /// The question.
        query: ListQuery,
    },
    /// The page: live rows, and prefixes below which there is one.
    Done(Listing),
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
    /// What the first round gave.
    merged: Merged,
    over: bool,
}

/// A question to all replicas.
#[derive(Debug)]
struct Round {
    query: ListQuery,
    about: About,
    pages: Vec<(usize, Arc<Page>)>,
    failed: ReplicaSet,
}

/// What a round is for.
#[derive(Clone, Copy, Debug)]
enum About {
    /// The page itself.
    Page,
    /// Whether the prefix at this place of the page has a live row.
    Prefix { item: usize, depth: u32 },
}

impl ListMerge {
    /// Begins: asks all replicas. A replica that is alone is asked for just what is wanted.
    pub fn new(quorums: Quorums, mut query: ListQuery) -> (ListMerge, Vec<ListOutput>) {
        query.tombstones = quorums.all().len() > 1;
        query.limit = query.limit.min(MAX_LIMIT);
        query.budget = query.budget.min(MAX_BUDGET);
        let nothing = query.limit == 0;
        let mut merge = ListMerge {
            quorums,
            rounds: BTreeMap::new(),
            last_round: 0,
            merged: Merged::default(),
            over: false,
        };
        let outputs = match nothing {
            true => merge.end(ListOutput::Done(Listing::default())),
            false => merge.begin(About::Page, query),
        };
        (merge, outputs)
    }

    /// A replica's answer came in. One that cannot be right counts as a failure. Replicas whose pages are known to be the same may
    /// bring one and the same: it is merged once.
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
        let answered = open.pages.iter().map(|(replica, _)| *replica).collect();
        if !self.quorums.is_quorum(answered) {
            return Vec::new();
        }
        match self.rounds.remove(&round) {
            Some(complete) => self.advance(complete),
            None => Vec::new(),
        }
    }

    /// No answer of this replica will come.
    pub fn on_failure(&mut self, replica: usize, round: u32) -> Vec<ListOutput> {
        let Some(open) = self.open_round(replica, round) else {
            return Vec::new();
        };
        open.failed.insert(replica);
        let failed = open.failed;
        match self.quorums.is_blocked_by(failed) {
            true => self.end(ListOutput::Failed),
            false => Vec::new(),
        }
    }

    /// The round, if it waits for this replica.
    fn open_round(&mut self, replica: usize, round: u32) -> Option<&mut Round> {
        if self.over || !self.quorums.all().contains(replica) {
            return None;
        }
        let open = self.rounds.get_mut(&round)?;
        let answered = open.pages.iter().any(|(from, _)| *from == replica);
        (!answered && !open.failed.contains(replica)).then_some(open)
    }

    fn begin(&mut self, about: About, query: ListQuery) -> Vec<ListOutput> {
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
            about,
            pages: Vec::new(),
            failed: ReplicaSet::EMPTY,
        };
        self.rounds.insert(round, open);
        outputs
    }

    /// A quorum has answered a round.
    fn advance(&mut self, mut complete: Round) -> Vec<ListOutput> {
        if !complete.query.tombstones {
            let page = complete.pages.pop().map(|(_, page)| page);
            let page = page.map(Arc::unwrap_or_clone).unwrap_or_default();
            return self.end(ListOutput::Done(page.listing));
        }
        let merged = page::merge(&self.quorums, &complete.query, &complete.pages);
        let mut outputs = match complete.about {
            About::Page => self.on_merged(merged, &complete.query),
            About::Prefix { item, depth } => {
                self.on_prefix_listed(item, depth, merged, complete.query)
            }
        };
        if self.rounds.is_empty() && !self.over {
            outputs.extend(self.finish());
        }
        outputs
    }

    /// The page is there; what it does not prove is asked for.
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
            self.begin(About::Prefix { item, depth: 1 }, rows)
        };
        open.into_iter().flat_map(ask).collect()
    }

    /// Some rows below an unproven prefix are there.
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
                return self.begin(About::Prefix { item, depth }, query);
            }
        };
        if let Some(place) = self.merged.items.get_mut(item) {
            *place = resolved;
        }
        Vec::new()
    }

    /// All is proven.
    fn finish(&mut self) -> Vec<ListOutput> {
        let merged = std::mem::take(&mut self.merged);
        let mut listing = Listing {
            entries: Vec::with_capacity(merged.items.len()),
            next: merged.next,
        };
        for item in merged.items {
            match item {
                Item::Row { key, head } => listing.entries.push(ListEntry::Row { key, head }),
                Item::Prefix(prefix) => listing.entries.push(ListEntry::Prefix(prefix)),
                Item::Dead => {}
                Item::Unproven { from: next, .. } | Item::End(next) => {
                    listing.next = Some(next);
                    break;
                }
            }
        }
        self.end(ListOutput::Done(listing))
    }

    fn end(&mut self, output: ListOutput) -> Vec<ListOutput> {
        self.over = true;
        self.rounds.clear();
        vec![output]
    }
}

/// The lowest key that a start lets through; `None` if there is none.
fn lowest(start: &ListStart) -> Option<Vec<u8>> {
    match start {
        ListStart::At(key) => Some(key.to_vec()),
        ListStart::Behind(key) => Some([key, &[0][..]].concat()),
        ListStart::BehindPrefix(prefix) => successor(prefix),
    }
}
