//! The check of listings.
//!
//! A page must show every key that was certainly live all the while: a write was acknowledged
//! before the page was requested, and no operation that may have come later deletes it. It may show
//! only keys that may have been live at some moment meanwhile, and no version that had certainly
//! been replaced before. A write whose result the client does not know may have taken effect at any
//! time since it began. A write that certainly took no effect may be visible only while it ran.

use std::collections::BTreeMap;

use super::history::{Happened, History, Page};
use crate::linear::{Call, Reply};

/// Returns the first fault of the listings, if there is one.
pub fn fault(history: &History) -> Option<String> {
    history.pages.iter().find_map(|page| {
        let why = page_fault(history, page)?;
        Some(format!("{why}: {page:?}"))
    })
}

/// Returns the value that an operation would write to its key.
fn written(happened: &Happened) -> Option<Option<u32>> {
    match happened.call {
        Call::Read => None,
        Call::Write(value) | Call::Swap(_, value) => Some(value),
    }
}

fn is_void(happened: &Happened) -> bool {
    happened.void || matches!(happened.reply, Some(Reply::Saw(_)))
}

fn is_certain(happened: &Happened) -> bool {
    happened.reply == Some(Reply::Done)
}

/// Returns true if `first` ended before `second` began.
fn precedes(first: &Happened, second: &Happened) -> bool {
    first.ended.is_some_and(|ended| ended < second.called)
}

/// The writes of a key that a page may reflect.
struct Seen<'h> {
    /// The writes that may have taken effect by the end of the page.
    possible: Vec<(&'h Happened, Option<u32>)>,
    /// The writes that certainly took effect before the page was requested.
    certain: Vec<(&'h Happened, Option<u32>)>,
}

impl<'h> Seen<'h> {
    fn of(writes: &'h [Happened], page: &Page) -> Seen<'h> {
        let (from, to) = page.between;
        let all = writes.iter().filter_map(|w| Some((w, written(w)?)));
        let running = |w: &Happened| w.ended.is_none_or(|ended| ended > from);
        let possible = all
            .clone()
            .filter(|(w, _)| w.called < to && (!is_void(w) || running(w)));
        let certain = all.filter(|(w, _)| is_certain(w) && !running(w));
        Seen {
            possible: possible.collect(),
            certain: certain.collect(),
        }
    }

    /// Returns true if the key was live all the while.
    fn must_live(&self) -> bool {
        let lives = |(write, value): &&(&Happened, Option<u32>)| {
            let mut deletions = self.possible.iter().filter(|(_, value)| value.is_none());
            value.is_some() && deletions.all(|(deletion, _)| precedes(deletion, write))
        };
        self.certain.iter().any(|write| lives(&write))
    }

    /// Returns true if the key may have been live at some moment.
    fn may_live(&self) -> bool {
        let mut lives = self.possible.iter().filter(|(_, value)| value.is_some());
        let mut deletions = self.certain.iter().filter(|(_, value)| value.is_none());
        lives.any(|(write, _)| deletions.all(|(deletion, _)| !precedes(write, deletion)))
    }

    /// Returns true if this version may have been the newest at some moment.
    fn may_show(&self, value: u32) -> bool {
        let mut writes = self.possible.iter().filter(|(_, v)| *v == Some(value));
        let replaced = |write: &Happened| self.certain.iter().any(|(w, _)| precedes(write, w));
        writes.any(|(write, _)| !replaced(write))
    }
}

/// Returns the name under which a page shows a key.
fn shown_as<'k>(key: &'k str, page: &Page) -> Option<&'k str> {
    let rest = key.strip_prefix(&page.prefix[..])?;
    let delimiter = page.delimiter.as_deref().filter(|d| !d.is_empty());
    let group = delimiter.and_then(|d| Some(rest.find(d)? + d.len()));
    let name = group.map_or(key, |end| &key[..page.prefix.len() + end]);
    let after = page.after.as_deref().is_none_or(|after| name > after);
    let last = page.entries.last().filter(|_| page.truncated);
    let before = last.is_none_or(|(last, _)| name <= &last[..]);
    (after && before).then_some(name)
}

fn is_prefix(name: &str, page: &Page) -> bool {
    let delimiter = page.delimiter.as_deref();
    delimiter.is_some_and(|delimiter| name.ends_with(delimiter))
}

fn page_fault(history: &History, page: &Page) -> Option<String> {
    let mut names: BTreeMap<&str, Vec<(&str, Seen<'_>)>> = BTreeMap::new();
    for (key, writes) in &history.keys {
        if let Some(name) = shown_as(key, page) {
            let seen = Seen::of(writes, page);
            names.entry(name).or_default().push((key, seen));
        }
    }
    let mut last = None;
    for (name, value) in &page.entries {
        if last.is_some_and(|last| last >= name) {
            return Some(format!("{name} is not after the previous entry"));
        }
        last = Some(name);
        let Some(keys) = names.remove(&name[..]) else {
            return Some(format!("{name} does not belong on the page"));
        };
        let right = keys.iter().any(|(key, seen)| match value {
            None => seen.may_live() && is_prefix(name, page),
            Some(value) => seen.may_show(*value) && key == name,
        });
        if !right {
            return Some(format!("{name} has an impossible version"));
        }
    }
    let missing = names
        .iter()
        .find(|(_, keys)| keys.iter().any(|(_, seen)| seen.must_live()))?;
    Some(format!("{} is missing", missing.0))
}

#[cfg(test)]
mod tests;
