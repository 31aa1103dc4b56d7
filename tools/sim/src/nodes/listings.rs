//! Whether listings were right.
//!
//! A page must show every key of which it is certain that it lived all the while: a write was acknowledged before
//! the page was asked for, and nothing that may have come later deletes it. It may only show what may have lived
//! at some moment meanwhile, and no version that had certainly been replaced before. What a client was told nothing certain of
//! may have taken effect at any time since it began. What certainly took no effect may be seen only while it ran.

use std::collections::BTreeMap;

use super::history::{Happened, History, Page};
use crate::linear::{Call, Reply};

/// What is wrong with the listings, if anything.
pub fn fault(history: &History) -> Option<String> {
    history.pages.iter().find_map(|page| {
        let why = page_fault(history, page)?;
        Some(format!("{why}: {page:?}"))
    })
}

/// What an operation would do to its key.
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

/// Whether all of `first` was over when `second` began.
fn precedes(first: &Happened, second: &Happened) -> bool {
    first.ended.is_some_and(|ended| ended < second.called)
}

/// The writes of a key, as a page may see them.
struct Seen<'h> {
    /// Those that may have had an effect by the end of the page.
    possible: Vec<(&'h Happened, Option<u32>)>,
    /// Those that certainly had one before it was asked for.
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

    /// It lived all the while.
    fn must_live(&self) -> bool {
        let lives = |(write, value): &&(&Happened, Option<u32>)| {
            let mut deletions = self.possible.iter().filter(|(_, value)| value.is_none());
            value.is_some() && deletions.all(|(deletion, _)| precedes(deletion, write))
        };
        self.certain.iter().any(|write| lives(&write))
    }

    /// It may have lived at some moment.
    fn may_live(&self) -> bool {
        let mut lives = self.possible.iter().filter(|(_, value)| value.is_some());
        let mut deletions = self.certain.iter().filter(|(_, value)| value.is_none());
        lives.any(|(write, _)| deletions.all(|(deletion, _)| !precedes(write, deletion)))
    }

    /// This version may have been the newest at some moment.
    fn may_show(&self, value: u32) -> bool {
        let mut writes = self.possible.iter().filter(|(_, v)| *v == Some(value));
        let replaced = |write: &Happened| self.certain.iter().any(|(w, _)| precedes(write, w));
        writes.any(|(write, _)| !replaced(write))
    }
}

/// The name under which a page shows a key.
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
            return Some(format!("{name} is not behind the entry before it"));
        }
        last = Some(name);
        let Some(keys) = names.remove(&name[..]) else {
            return Some(format!("{name} does not belong there"));
        };
        let right = keys.iter().any(|(key, seen)| match value {
            None => seen.may_live() && is_prefix(name, page),
            Some(value) => seen.may_show(*value) && key == name,
        });
        if !right {
            return Some(format!("{name} cannot be so"));
        }
    }
    let missing = names
        .iter()
        .find(|(_, keys)| keys.iter().any(|(_, seen)| seen.must_live()))?;
    Some(format!("{} is missing", missing.0))
}

#[cfg(test)]
mod tests;
