//! A reference model of K2V items: which values a client may see.
//!
//! Every value is unique, so that it names its write. A write covers the values that its token was
//! given out with. The rules say what dotted version vectors promise, as clients can observe it:
//!
//! - A value that was acknowledged before a read began is in it, unless a write that covers the
//!   value began before the read ended: no lost update, and nobody is replaced unseen.
//! - A value is not in a read that began after the acknowledgement of a write that covers it, nor
//!   after a read without it: nothing comes back, and what was seen is replaced.

use std::collections::BTreeSet;

use archipel_model::k2v::Item;
use tokio::time::Instant;

/// The values of an item that a client sees, or has seen.
pub type Values = BTreeSet<u32>;

/// Returns the values of an item. Deletions have no number.
pub fn values(item: &Item) -> Values {
    let values = item.values.iter().flatten();
    values
        .filter_map(|value| std::str::from_utf8(value).ok()?.parse().ok())
        .collect()
}

/// A write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its value; `None` for a deletion.
    pub value: Option<u32>,
    /// The values that its token was given out with.
    pub covers: Values,
    /// Those of them that certainly were there. A range may show a value whose insert is not
    /// acknowledged, and which then happens later than the token.
    pub surely: Values,
    /// The moment at which it began.
    pub called: u64,
    /// The moment at which it was acknowledged.
    pub ended: Option<u64>,
    /// The time of the acknowledgement.
    pub ended_at: Option<Instant>,
}

/// A read, or a poll that ended.
#[derive(Clone, Debug)]
pub struct Read {
    /// The moment at which it began.
    pub called: u64,
    /// The moment of its answer.
    pub ended: u64,
    /// The values that it showed.
    pub values: Values,
    /// True if it was a range's, which may show a value that is not acknowledged and that another
    /// read does not show.
    pub in_range: bool,
}

/// All that clients did with an item.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Writes, as they began.
    pub writes: Vec<Write>,
    /// Reads, as they ended.
    pub reads: Vec<Read>,
}

impl History {
    /// Returns the first contradiction.
    pub fn fault(&self) -> Option<String> {
        let broken = |read: &Read| {
            let why = self.lost(read).or_else(|| self.back(read))?;
            Some(format!("{why}, by {read:?} of {self:#?}"))
        };
        self.reads.iter().find_map(broken)
    }

    /// Returns the news that a poll should have told: a write that began after `seen`, and was
    /// acknowledged before `until`.
    pub fn missed(&self, seen: u64, until: Instant) -> Option<&Write> {
        let mut writes = self.writes.iter();
        writes.find(|write| write.called > seen && write.ended_at.is_some_and(|at| at <= until))
    }

    fn of_value(&self, value: u32) -> Option<&Write> {
        self.writes.iter().find(|write| write.value == Some(value))
    }

    /// Returns true if a value certainly was there before a moment.
    pub fn was_there(&self, value: u32, before: u64) -> bool {
        let write = self.of_value(value).and_then(|write| write.ended);
        let shows =
            |read: &Read| !read.in_range && read.ended < before && read.values.contains(&value);
        write.is_some_and(|ended| ended < before) || self.reads.iter().any(shows)
    }

    /// Returns an acknowledged value that a read should have shown.
    fn lost(&self, read: &Read) -> Option<String> {
        let before = |write: &&Write| write.ended.is_some_and(|ended| ended < read.called);
        let mut acknowledged = self.writes.iter().filter(before);
        acknowledged.find_map(|write| {
            let value = write.value.filter(|value| !read.values.contains(value))?;
            let replaces = |by: &Write| by.covers.contains(&value) && by.called < read.ended;
            let is_replaced = self.writes.iter().any(replaces);
            (!is_replaced).then(|| format!("the value {value} is lost"))
        })
    }

    /// Returns a value that a read should not have shown.
    fn back(&self, read: &Read) -> Option<String> {
        let mut values = read.values.iter();
        values.find_map(|value| {
            let write = self.of_value(*value);
            if write.is_none_or(|write| write.called > read.ended) {
                return Some(format!("the value {value} was not written yet"));
            }
            let replaces = |by: &Write| {
                by.surely.contains(value) && by.ended.is_some_and(|ended| ended < read.called)
            };
            let lacks = |other: &Read| other.ended < read.called && self.is_gone(*value, other);
            let is_back = self.writes.iter().any(replaces) || self.reads.iter().any(lacks);
            is_back.then(|| format!("the value {value} is back"))
        })
    }

    /// Returns true if a read shows that a value, which certainly was there before, is replaced.
    fn is_gone(&self, value: u32, read: &Read) -> bool {
        !read.in_range && !read.values.contains(&value) && self.was_there(value, read.called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(value: u32, covers: &[u32], called: u64, ended: Option<u64>) -> Write {
        Write {
            value: Some(value),
            covers: covers.iter().copied().collect(),
            surely: covers.iter().copied().collect(),
            called,
            ended,
            ended_at: None,
        }
    }

    fn read(values: &[u32], called: u64, ended: u64) -> Read {
        Read {
            called,
            ended,
            values: values.iter().copied().collect(),
            in_range: false,
        }
    }

    fn fault(writes: &[Write], reads: &[Read]) -> bool {
        let history = History {
            writes: writes.to_vec(),
            reads: reads.to_vec(),
        };
        history.fault().is_some()
    }

    #[test]
    fn concurrent_values_stay_until_a_client_has_seen_them() {
        let first = [write(1, &[], 0, Some(1)), write(2, &[], 0, Some(2))];
        assert!(!fault(&first, &[read(&[1, 2], 3, 4)]));
        assert!(fault(&first, &[read(&[2], 3, 4)]), "1 is lost");
        let merged = [&first[..], &[write(3, &[1, 2], 5, Some(6))]].concat();
        assert!(!fault(&merged, &[read(&[3], 7, 8)]));
        assert!(fault(&merged, &[read(&[2, 3], 7, 8)]), "2 is back");
        assert!(fault(&merged, &[read(&[1, 3], 7, 8)]), "1 is back");
        // 2 came after the reader of 1 had read.
        let blind = [&first[..], &[write(3, &[1], 5, Some(6))]].concat();
        assert!(!fault(&blind, &[read(&[2, 3], 7, 8)]));
        assert!(fault(&blind, &[read(&[3], 7, 8)]), "2 is lost");
    }

    #[test]
    fn an_unknown_write_may_have_happened_or_not_but_only_once() {
        let writes = [write(1, &[], 0, Some(1)), write(2, &[1], 2, None)];
        let (before, after) = (read(&[1], 3, 4), read(&[2], 5, 6));
        assert!(!fault(&writes, &[before.clone(), after.clone()]));
        let again = read(&[1], 7, 8);
        assert!(fault(&writes, &[before, after, again]), "1 is back");
    }
}
