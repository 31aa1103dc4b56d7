//! Checks that an answer is possible, because data from another machine is not trusted.

use archipel_storage::{ListEntry, ListQuery, Listing};
use bytes::Bytes;

use super::lowest;

/// Returns true if the query can have this page: in order, within its bounds, of the kind asked
/// for, and with a `next` after its entries.
pub(super) fn is_sound(query: &ListQuery, page: &Listing) -> bool {
    let Some(start) = lowest(&query.start) else {
        return page.entries.is_empty() && page.next.is_none();
    };
    let mut last: Option<&[u8]> = None;
    for entry in &page.entries {
        let (name, of_kind) = match entry {
            ListEntry::Row { key, metadata } => (
                key,
                metadata.is_live() || (query.tombstones && metadata.is_written()),
            ),
            ListEntry::Prefix(prefix) => (prefix, !query.tombstones),
        };
        // A prefix may begin before a start that lies within it.
        let early = matches!(entry, ListEntry::Row { .. }) && name[..] < start[..];
        let ordered = last.is_none_or(|last| last < &name[..]);
        if !of_kind || early || !ordered || !name.starts_with(&query.prefix) {
            return false;
        }
        last = Some(name);
    }
    if !are_sound(query, &start, page) {
        return false;
    }
    let Some(next) = page.next.as_ref().and_then(lowest) else {
        return true;
    };
    next > start && last.is_none_or(|last| last < &next[..])
}

/// Returns true if the page's damaged keys are possible: in order, within its bounds, and not shown
/// as rows, too.
fn are_sound(query: &ListQuery, start: &[u8], page: &Listing) -> bool {
    let damaged = &page.damaged;
    let next = page.next.as_ref().and_then(lowest);
    let within = |key: &Bytes| {
        let before_next = next.as_ref().is_none_or(|next| key[..] < next[..]);
        key.starts_with(&query.prefix) && key[..] >= *start && before_next
    };
    let is_shown = |entry: &ListEntry| match entry {
        ListEntry::Row { key, .. } => damaged.binary_search(key).is_ok(),
        ListEntry::Prefix(_) => false,
    };
    let ordered = damaged.windows(2).all(|two| two[0] < two[1]);
    ordered && damaged.iter().all(within) && !page.entries.iter().any(is_shown)
}
