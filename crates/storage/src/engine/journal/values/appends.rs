//! Values that are appended, and what is counted of segments, for one transaction of the engine.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};

use super::entry::push_entry;
use super::{NEXT_KEY, SEGMENT_KEY, Table, ValueLocation, Values};
use crate::engine::Durability;

/// Values that become part of the engine with its next transaction, and the counts after it.
pub struct Appends<'v> {
    values: &'v Values,
    table: Table,
    changed: BTreeSet<u32>,
    /// The segment that is appended to, and the bytes to append.
    segment: u32,
    bytes: Vec<u8>,
}

impl<'v> Appends<'v> {
    /// Begins to append. A segment in `but` gets nothing more.
    pub fn begin(values: &'v Values, but: Option<u32>) -> Appends<'v> {
        let mut table = values.table();
        let found = table.segments.iter().find(|(number, segment)| {
            // An unknown transaction of the run before may need values after the end of a segment
            // of that run. An empty one may be removed.
            let is_safe = table.is_settled && segment.live > 0;
            is_safe && segment.end < values.segment_bytes && Some(**number) != but
        });
        let segment = found.map_or(table.next, |(number, _)| *number);
        table.next = table.next.max(segment + 1);
        Appends {
            values,
            table,
            changed: BTreeSet::new(),
            segment,
            bytes: Vec::new(),
        }
    }

    /// Appends a value. Returns what the engine below is to store for it.
    pub fn append(&mut self, key: &[u8], value: &[u8]) -> Vec<u8> {
        let segment = self.table.segments.entry(self.segment).or_default();
        let location = ValueLocation {
            segment: self.segment,
            offset: segment.end as u32,
            len: value.len() as u32,
        };
        push_entry(&mut self.bytes, self.values.seal(self.segment), key, value);
        segment.end += location.entry_bytes(key);
        segment.live += location.entry_bytes(key);
        self.changed.insert(self.segment);
        self.values.encode(key, location)
    }

    /// Counts the value that `stored` stands for as dead.
    pub fn release(&mut self, key: &[u8], stored: &[u8]) {
        let Some(location) = self.values.location(key, stored) else {
            return;
        };
        let segment = self.table.segments.get_mut(&location.segment);
        let left = segment.map(|s| (s.live.checked_sub(location.entry_bytes(key)), s));
        match left {
            Some((Some(live), segment)) => {
                segment.live = live;
                self.changed.insert(location.segment);
            }
            _ => self
                .values
                .pass_over(location.segment, "its counts are wrong"),
        }
    }

    /// Puts the values on stable storage.
    pub fn write(&self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let disk = &self.values.disk;
        let end = self.table.segments.get(&self.segment).map_or(0, |s| s.end);
        let start = end - self.bytes.len() as u64;
        if start == 0 {
            match disk.create(self.segment) {
                // It remains of a transaction that failed, and its name may be lost with the power.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    disk.unlink(self.segment)?;
                    disk.create(self.segment)?;
                }
                other => other?,
            }
        }
        // Lack of space shows now, and not when the values are synced.
        disk.preallocate(self.segment, start, self.bytes.len() as u64)?;
        disk.write_at(self.segment, start, &[&self.bytes])
    }

    /// Returns the segment to sync after [`write`](Appends::write), if any.
    pub fn to_sync(&self) -> Option<u32> {
        (!self.bytes.is_empty()).then_some(self.segment)
    }

    /// Returns the changed counts, as keys and values of [`Tree::Meta`]; `None` for a segment that
    /// is gone.
    pub fn counts(&self) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
        let key = |number: &u32| [SEGMENT_KEY, &number.to_be_bytes()].concat();
        let counts = self.changed.iter().filter_map(move |number| {
            let segment = self.table.segments.get(number)?;
            let numbers = [segment.end, segment.live].map(u64::to_be_bytes);
            Some((key(number), Some(numbers.as_flattened().to_vec())))
        });
        let gone = self.table.gone.iter();
        let gone = gone.map(move |number| (key(number), None));
        let next = self.table.next.to_be_bytes().to_vec();
        let next = self.to_sync().map(|_| (NEXT_KEY.to_vec(), Some(next)));
        counts.chain(gone).chain(next)
    }

    /// Notes that the transaction was committed.
    pub fn committed(mut self, durability: Durability) {
        self.table.gone.clear();
        self.table.is_durable = durability == Durability::Fsync;
        self.table.is_settled |= self.table.is_durable;
        *self.values.table.lock() = self.table;
    }
}
