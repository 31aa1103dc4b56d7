//! The check of listings of versions.
//!
//! A page shows each version that was certainly there all the while: its write was acknowledged
//! before the page was requested, and nothing that may have come earlier than the page's end
//! removes it. It shows no version whose deletion was acknowledged before, and none that nobody
//! wrote. A version that is being written may show.

use std::collections::BTreeSet;

use archipel_model::VersionId;

use super::reference::{Call, Event, Reply, Stored};

/// A version in a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Its id.
    pub id: VersionId,
    /// Its content.
    pub stored: Stored,
    /// True if a legal hold protects it.
    pub held: bool,
    /// True if it is said to be the current one.
    pub is_latest: bool,
}

/// The versions of a key in a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The times of its request and answer.
    pub between: (u64, u64),
    /// The versions, as they were listed.
    pub shown: Vec<Shown>,
}

/// Returns true if an operation may have written a version.
fn wrote(event: &Event, shown: &Shown) -> bool {
    match (event.call, shown.stored) {
        (Call::Put { value, .. }, Some(stored)) => value == stored,
        (Call::Delete, None) => true,
        _ => false,
    }
}

/// Returns the errors of a page. `expires` is true if lifecycle rules remove versions that are not
/// current.
pub fn fault(page: &Page, history: &[Event], expires: bool) -> Option<String> {
    let (from, to) = page.between;
    let ids: BTreeSet<VersionId> = page.shown.iter().map(|shown| shown.id).collect();
    if ids.len() != page.shown.len() {
        return Some("a version is shown twice".into());
    }
    // A lost write may have become a version in front of the latest one. See
    // docs/internals/versions.md.
    let latest = page.shown.iter().position(|shown| shown.is_latest);
    let acknowledged = |shown: &Shown| {
        history.iter().any(|event| {
            let is_made = matches!(event.reply, Some((_, Reply::Made(id))) if id == shown.id);
            // There are many null versions, one after another.
            is_made && (shown.id != VersionId::Null || wrote(event, shown))
        })
    };
    let mut in_front = page.shown.iter().take(latest.unwrap_or(usize::MAX));
    if let Some(shown) = in_front.find(|shown| acknowledged(shown)) {
        return Some(format!("{shown:?} is newer than the latest one"));
    }
    if page.shown.iter().filter(|shown| shown.is_latest).count() > 1 {
        return Some("two versions are the latest".into());
    }
    let by_end = || history.iter().filter(|event| event.called < to);
    let was_before = |event: &&Event| event.reply.is_some_and(|(ended, _)| ended < from);
    for shown in &page.shown {
        if !by_end().any(|event| wrote(event, shown)) {
            return Some(format!("nobody wrote {shown:?}"));
        }
        let is_deletion = |event: &Event| {
            let done = event.reply.is_some_and(|(_, reply)| reply == Reply::Done);
            event.call == Call::DeleteVersion(shown.id) && done
        };
        let is_named = shown.id != VersionId::Null;
        if is_named && history.iter().filter(was_before).any(is_deletion) {
            return Some(format!("{shown:?} was deleted before"));
        }
    }
    let may_remove = |id: VersionId| {
        by_end().any(|event| match event.call {
            Call::DeleteVersion(deleted) => deleted == id,
            Call::Delete => id == VersionId::Null,
            _ => false,
        })
    };
    let made = |event: &Event| match event.reply {
        Some((_, Reply::Made(id))) => Some(id),
        _ => None,
    };
    let made = history.iter().filter(was_before).filter_map(made);
    let mut missing = made.filter(|id| !expires && !ids.contains(id) && !may_remove(*id));
    missing.next().map(|id| format!("{id} is missing"))
}
