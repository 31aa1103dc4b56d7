//! A page of a replica while it is merged.

use std::iter::Peekable;
use std::slice::Iter;

use archipel_storage::{ListEntry, RowMetadata};
use bytes::Bytes;

use super::{End, Page};
use crate::register::ReplicaSet;

/// The part of a page that was not merged yet. The page is of one replica, or of several whose
/// pages are equal.
pub(super) struct Source<'p> {
    pub replicas: ReplicaSet,
    pub page: &'p Page,
    entries: Peekable<Iter<'p, ListEntry>>,
    pub end: Option<End>,
}

impl<'p> Source<'p> {
    pub fn new(replica: usize, page: &'p Page) -> Source<'p> {
        Source {
            replicas: ReplicaSet::from_iter([replica]),
            page,
            entries: page.listing.entries.iter().peekable(),
            end: page.listing.next.as_ref().and_then(End::of),
        }
    }

    pub fn front(&mut self) -> Option<(&'p Bytes, &'p RowMetadata)> {
        match self.entries.peek()? {
            ListEntry::Row { key, metadata } => Some((key, metadata)),
            ListEntry::Prefix(_) => None,
        }
    }

    /// Removes and returns the replica's version of `key`, if it is next.
    pub fn take(&mut self, key: &Bytes) -> Option<&'p RowMetadata> {
        let (_, metadata) = self.front().filter(|(front, _)| *front == key)?;
        self.entries.next();
        Some(metadata)
    }

    /// Skips all keys with this prefix.
    pub fn pass(&mut self, prefix: &Bytes) {
        while self.front().is_some_and(|(key, _)| key.starts_with(prefix)) {
            self.entries.next();
        }
    }

    /// Returns true if the page shows every version of `key` that the replica has.
    pub fn covers(&self, key: &Bytes) -> bool {
        self.reaches(key) && self.page.listing.damaged.binary_search(key).is_err()
    }

    /// Returns true if the page ends after `key`.
    pub fn reaches(&self, key: &Bytes) -> bool {
        self.end.as_ref().is_none_or(|end| key[..] < end.key[..])
    }

    /// Returns true if a row with this prefix is damaged on the replica.
    pub fn is_damaged_below(&self, prefix: &Bytes) -> bool {
        let damaged = &self.page.listing.damaged;
        let first = damaged.partition_point(|key| key < prefix);
        damaged
            .get(first)
            .is_some_and(|key| key.starts_with(prefix))
    }

    pub fn ends_before(&self, key: Option<&[u8]>) -> bool {
        match (&self.end, key) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(end), Some(key)) => &end.key[..] < key,
        }
    }
}

/// Returns the replicas of all these pages.
pub(super) fn union<'s, 'p: 's>(sources: impl Iterator<Item = &'s Source<'p>>) -> ReplicaSet {
    sources.fold(ReplicaSet::EMPTY, |all, source| all.union(source.replicas))
}
