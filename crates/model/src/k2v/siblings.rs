//! The concurrent values of an item: a dotted version vector set whose vector has one entry.
//!
//! Each value has a **dot**: the stamp under which it was written. A context is one stamp, too:
//! that of the version that was read. It covers all values whose dots are at or below it. One entry
//! is enough because the row is a register: its versions are totally ordered, and each one was
//! decided on the one before. So whatever has a dot at or below a version's stamp was in that
//! version, or was replaced before it.
//!
//! # Tombstones that are dropped
//! An item of which only deletions are left is a tombstone of the register. Its stamp serves as the
//! dot of the deletion. A rewrite of the tombstone raises that stamp. So a deletion that was a
//! tombstone, and a token that was given out for it, also name the write. The token covers that
//! deletion under any dot. Once the tombstone is dropped, nothing of the item is left, not even a
//! clock. A context from before must not cover a value that is inserted afterwards. It does not:
//! the dot of that value is the stamp of its write, and replicas refuse stamps at or below the
//! floor under which they dropped the tombstone. All contexts of the item are at or below the
//! tombstone's stamp, and so below that dot. A dropped value cannot come back either: a floor is
//! agreed only when no replica holds anything older than the tombstone.
//!
//! Source of the method: Almeida, Baquero, Gonçalves and others, "Scalable and Accurate Causality
//! Tracking for Eventually Consistent Data Stores" (2014).

use std::collections::BTreeSet;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, Stamp, hash};
use archipel_storage::{UsageDelta, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::token::Token;
use super::{MAX_ITEM_BYTES, MAX_ITEM_VALUES};
use crate::error::{Error, damaged_row};

/// In the counter of items in conflict: the part of the number of objects that counts an item. The
/// lower bits count values.
const ONE_CONFLICT: u32 = 1 << 31;

/// A checked insert: what the client has seen, and the new value. `None` deletes.
pub(super) type Write = (Option<Token>, Option<Bytes>);

/// A value and its dot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Sibling {
    #[serde(rename = "d")]
    pub dot: Stamp,
    /// `None` is a deletion.
    #[serde(rename = "v")]
    pub value: Option<Bytes>,
    /// The write of a deletion that was a tombstone of the row.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Id>,
}

impl Sibling {
    /// Returns a value that is written under a stamp.
    pub fn new(dot: Stamp, value: Option<Bytes>) -> Sibling {
        Sibling {
            dot,
            value,
            write: None,
        }
    }

    fn is_covered_by(&self, seen: &Token) -> bool {
        self.dot <= seen.stamp || (self.write.is_some() && self.write == seen.tombstone)
    }
}

/// The values of an item, in the order of their dots. A value occurs once, with its newest dot.
/// Values that were written at once have one dot.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Siblings(pub Vec<Sibling>);

impl Versioned for Siblings {
    const VERSION: u8 = 1;
}

impl Siblings {
    /// Reads the values of a version of an item's row.
    pub fn of(metadata: Option<&Bytes>, stamp: Stamp, write: Id) -> Result<Siblings, Error> {
        match metadata {
            Some(metadata) => codec::decode(metadata).map_err(damaged_row),
            None if stamp == Stamp::ZERO => Ok(Siblings::default()),
            None => Ok(Siblings(vec![Sibling {
                dot: stamp,
                value: None,
                write: Some(write),
            }])),
        }
    }

    /// Returns the values after writes under one stamp: without those that a token of the writes
    /// covers, and with the new ones. It is as if the writes followed each other, since no token
    /// covers their stamp: the caller checks that.
    pub fn after(&self, writes: &[Write], own: Stamp) -> Siblings {
        let mut values: BTreeSet<&Option<Bytes>> = BTreeSet::new();
        let written = writes.iter().rev().map(|(_, value)| value);
        let last = written.filter(|value| values.insert(*value));
        let mut new: Vec<Sibling> = last.map(|value| Sibling::new(own, value.clone())).collect();
        new.reverse();
        let tokens = || writes.iter().filter_map(|(seen, _)| seen.as_ref());
        // It covers each dot that any token covers. Only a tombstone may need an older one: there
        // may be thousands of values, and of tokens.
        let newest = tokens().max_by_key(|seen| seen.stamp);
        let is_covered = |sibling: &Sibling| {
            let is_tombstone = sibling.write.is_some();
            newest.is_some_and(|seen| sibling.is_covered_by(seen))
                || is_tombstone && tokens().any(|seen| sibling.is_covered_by(seen))
        };
        let is_left = |sibling: &&Sibling| !values.contains(&sibling.value) && !is_covered(sibling);
        let left = self.0.iter().filter(is_left).cloned();
        Siblings(left.chain(new).collect())
    }

    /// Returns true if a token does not cover all values.
    pub fn has_news_for(&self, seen: &Token) -> bool {
        self.0.iter().any(|sibling| !sibling.is_covered_by(seen))
    }

    /// Returns true if nothing but deletions is left.
    pub fn is_tombstone(&self) -> bool {
        self.0.iter().all(|sibling| sibling.value.is_none())
    }

    /// Checks the number and the size of the values.
    ///
    /// # Errors
    /// [`Error::TooManyValues`].
    pub fn check_insert(&self) -> Result<(), Error> {
        let values = || self.0.iter().filter_map(|sibling| sibling.value.as_ref());
        check_size(values().count(), values().map(Bytes::len).sum())
    }

    /// Returns the row's value; `None` for a tombstone.
    pub fn to_value(&self, bucket: &Id, pk: &str) -> Option<Value> {
        if self.is_tombstone() {
            return None;
        }
        let values = self.0.iter().filter_map(|sibling| sibling.value.as_ref());
        let (mut count, mut bytes) = (0, 0);
        for value in values {
            count += 1;
            bytes += value.len();
        }
        let [alone, in_conflict] = counters(bucket, pk);
        let (group, objects) = match self.0.len() {
            1 => (alone, 1),
            _ => (in_conflict, ONE_CONFLICT + count),
        };
        Some(Value {
            metadata: codec::encode(self).into(),
            usage: Some(UsageDelta {
                group,
                objects,
                bytes: bytes as u64,
            }),
            ..Value::default()
        })
    }
}

/// Checks the number of the values of an item, and the bytes of all.
pub(super) fn check_size(values: usize, bytes: usize) -> Result<(), Error> {
    match values > MAX_ITEM_VALUES || bytes > MAX_ITEM_BYTES {
        true => Err(Error::TooManyValues),
        false => Ok(()),
    }
}

/// Returns the counters of a partition key: that of items with one value, and that of items in
/// conflict. A row has a share in one of them.
pub(super) fn counters(bucket: &Id, pk: &str) -> [Id; 2] {
    let fields: [&[u8]; 2] = [bucket.as_bytes(), pk.as_bytes()];
    ["archipel k2v items", "archipel k2v conflicts"].map(|use_| hash::derived_id(use_, &fields))
}

/// Returns what the objects of the counter of items in conflict count: items, and their values.
pub(super) fn split_conflicts(objects: u64) -> (u64, u64) {
    let one = u64::from(ONE_CONFLICT);
    (objects / one, objects % one)
}

#[cfg(test)]
mod tests {
    use archipel_base::Writer;
    use proptest::prelude::*;

    use super::*;
    use crate::k2v::MAX_VALUE_BYTES;

    fn stamp(n: u64) -> Stamp {
        Stamp::new(1_000_000 + n, 0, Writer(n % 3))
    }

    fn value(n: u8) -> Bytes {
        vec![n].into()
    }

    /// A reference model: versions of an item as sets of events. Every write is an event; what a
    /// client has seen is a set of events (its causal history). A version is the set of the latest
    /// events: those that no other known event has seen.
    #[derive(Clone, Default, Debug)]
    struct Reference {
        /// Event, its value, and the events that its writer had seen.
        events: Vec<(Option<u8>, Vec<usize>)>,
        /// Events that were forgotten together with a dropped tombstone.
        dropped: usize,
    }

    impl Reference {
        fn current(&self) -> Vec<usize> {
            let known = self.dropped..self.events.len();
            let is_seen = |event: &usize| self.events.iter().any(|(_, seen)| seen.contains(event));
            known.filter(|event| !is_seen(event)).collect()
        }

        fn values(&self) -> Vec<Option<u8>> {
            let mut values: Vec<_> = self.current().iter().map(|e| self.events[*e].0).collect();
            values.sort_unstable();
            values.dedup();
            // Several deletions, and nothing else, are one deletion.
            values
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A client reads, and keeps what it has seen.
        Read(usize),
        /// Clients write at once, each with what it has seen, or without.
        Write(Vec<(usize, bool, Option<u8>)>),
        /// The row is written again under a later stamp.
        Settle,
        /// A tombstone is dropped.
        Drop,
    }

    fn step() -> impl Strategy<Value = Step> {
        let client = 0..4usize;
        let value = proptest::option::weighted(0.7, 0..6u8);
        let write = (client.clone(), any::<bool>(), value);
        prop_oneof![
            3 => client.prop_map(Step::Read),
            3 => write.clone().prop_map(|write| Step::Write(vec![write])),
            2 => proptest::collection::vec(write, 1..5).prop_map(Step::Write),
            1 => Just(Step::Settle),
            1 => Just(Step::Drop),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// An item keeps exactly the values that no later write has seen, however tokens are used,
        /// also old ones, and ones from before a tombstone was dropped.
        #[test]
        fn values_are_those_of_the_reference(steps in proptest::collection::vec(step(), 1..60)) {
            let mut now = 0;
            let (mut row, mut version) = (Siblings::default(), Stamp::ZERO);
            let mut reference = Reference::default();
            let mut seen: [Option<(Token, Vec<usize>)>; 4] = Default::default();
            // The write of the version, which a rewrite keeps.
            let mut write = Id::default();
            for step in steps {
                now += 1;
                match step {
                    Step::Read(client) if version != Stamp::ZERO => {
                        let history = (0..reference.events.len()).collect();
                        let tombstone = row.is_tombstone().then_some(write);
                        let token = Token { stamp: version, tombstone };
                        seen[client] = Some((token, history));
                    }
                    Step::Write(at_once) => {
                        let mut writes: Vec<Write> = Vec::new();
                        for (client, with, new) in at_once {
                            let known = seen[client].clone().filter(|_| with);
                            let (token, history) = known.unzip();
                            writes.push((token, new.map(value)));
                            reference.events.push((new, history.unwrap_or_default()));
                        }
                        version = stamp(now);
                        row = row.after(&writes, version);
                        write = Id([now as u8; 16]);
                    }
                    Step::Settle if version != Stamp::ZERO => version = stamp(now),
                    Step::Drop if row.is_tombstone() => {
                        (row, version) = (Siblings::default(), Stamp::ZERO);
                        reference.dropped = reference.events.len();
                    }
                    _ => {}
                }
                // A tombstone keeps its stamp alone.
                if row.is_tombstone() && version != Stamp::ZERO {
                    row = Siblings::of(None, version, write).unwrap();
                }
                let mut values: Vec<Option<u8>> =
                    row.0.iter().map(|s| s.value.as_ref().map(|v| v[0])).collect();
                values.sort_unstable();
                prop_assert_eq!(values, reference.values());
                prop_assert!(row.0.iter().all(|s| s.dot <= version));
            }
        }
    }

    #[test]
    fn an_item_has_a_limited_number_of_values() {
        let short = |n: usize| {
            let value = Bytes::from(n.to_string());
            Sibling::new(stamp(n as u64), Some(value))
        };
        let mut siblings = Siblings((0..MAX_ITEM_VALUES).map(short).collect());
        assert_eq!(siblings.check_insert(), Ok(()));
        let one_more = short(MAX_ITEM_VALUES);
        siblings = siblings.after(&[(None, one_more.value)], one_more.dot);
        assert_eq!(siblings.check_insert(), Err(Error::TooManyValues));
    }

    #[test]
    fn an_item_is_bounded_and_counted() {
        let bucket = Id([1; 16]);
        let large = |n: u8| Some(Bytes::from(vec![n; MAX_VALUE_BYTES]));
        let mut siblings = Siblings::default();
        for n in 1..=2 {
            siblings = siblings.after(&[(None, large(n))], stamp(n.into()));
        }
        assert_eq!(siblings.check_insert(), Ok(()));
        let value = siblings.to_value(&bucket, "pk").unwrap();
        let usage = value.usage.unwrap();
        let [alone, in_conflict] = counters(&bucket, "pk");
        assert_eq!(usage.group, in_conflict);
        assert_eq!(split_conflicts(2 * u64::from(usage.objects)), (2, 4));
        assert_eq!(usage.bytes, 2 * MAX_VALUE_BYTES as u64);
        assert_eq!(
            codec::decode::<Siblings>(&value.metadata).unwrap(),
            siblings
        );
        let third = siblings.after(&[(None, large(3))], stamp(3));
        assert_eq!(third.check_insert(), Err(Error::TooManyValues));
        let seen = Token {
            stamp: stamp(2),
            tombstone: None,
        };
        let resolved = siblings.after(&[(Some(seen), large(3))], stamp(3));
        let usage = resolved.to_value(&bucket, "pk").unwrap().usage.unwrap();
        assert_eq!(
            (usage.group, usage.objects, usage.bytes),
            (alone, 1, MAX_VALUE_BYTES as u64)
        );
    }
}
