//! Whether an answer can be right: what comes from another machine is not believed unseen.

use archipel_storage::{ListEntry, ListQuery, Listing};

use super::lowest;

/// Whether the page is one that the query can have: in order, within its bounds, of the kind asked for,
/// and going on somewhere behind itself.
pub(super) fn is_sound(query: &ListQuery, page: &Listing) -> bool {
    let Some(start) = lowest(&query.start) else {
        return page.entries.is_empty() && page.next.is_none();
    };
    let mut last: Option<&[u8]> = None;
    for entry in &page.entries {
        let (name, of_kind) = match entry {
            ListEntry::Row { key, head } => (
                key,
                head.is_live() || (query.tombstones && head.is_written()),
            ),
            ListEntry::Prefix(prefix) => (prefix, !query.tombstones),
        };
        // A prefix may begin before the start, which lies within it.
        let early = matches!(entry, ListEntry::Row { .. }) && name[..] < start[..];
        let ordered = last.is_none_or(|last| last < &name[..]);
        if !of_kind || early || !ordered || !name.starts_with(&query.prefix) {
            return false;
        }
        last = Some(name);
    }
    let Some(next) = page.next.as_ref().and_then(lowest) else {
        return true;
    };
    next > start && last.is_none_or(|last| last < &next[..])
}
