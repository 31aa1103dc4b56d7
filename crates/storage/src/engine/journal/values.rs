//! Long values in files of their own. The engine below holds their locations.
//!
//! A long value is appended to a **segment**, and the engine gets its [`ValueLocation`]. So the engine
//! stays small, and a value is never written over. The engine also holds how much of each segment is
//! live.
//!
//! # Invariants
//! - A value is on stable storage before the engine has its location.
//! - A segment is removed when the engine, durably, has no location in it, and no reader began
//!   before that.
//! - The changes of a transaction of the engine and of the counts of segments are one.

mod appends;
mod entry;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

pub(super) use self::appends::Appends;
use self::entry::{ENTRY_HEADER_BYTES, Window, find_entry, read_entry};
use super::log::FILES;
use crate::checksum::crc32c_of;
use crate::disk::Disk;
use crate::engine::{Direction, Flow, ReadTxn, Result, Tree};
use crate::error::{Error, is_damage};

/// The tree whose long values stand in segments.
pub(super) const SEPARATED: Tree = Tree::Payloads;
/// The length from which a value stands in a segment, in bytes.
const MIN_VALUE_BYTES: usize = 512;
/// The prefix of the keys, in the engine below, of what is known of each segment.
const SEGMENT_KEY: &[u8] = b"\0values";
/// The key, in the engine below, of the number of the next segment.
const NEXT_KEY: &[u8] = b"\0segment";
/// The bytes that are read at once from a segment.
const CHUNK_BYTES: usize = 1 << 20;

/// The location of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ValueLocation {
    pub segment: u32,
    /// The offset where the entry begins.
    pub offset: u32,
    /// The length of the value.
    pub len: u32,
}

impl ValueLocation {
    fn numbers(&self) -> [[u8; 4]; 3] {
        [self.segment, self.offset, self.len].map(u32::to_be_bytes)
    }

    fn checksum(&self, key: &[u8]) -> u32 {
        crc32c_of(&[self.numbers().as_flattened(), key])
    }

    /// Returns the bytes that the entry under `key` takes.
    pub fn entry_bytes(&self, key: &[u8]) -> u64 {
        (ENTRY_HEADER_BYTES + key.len()) as u64 + u64::from(self.len)
    }
}

/// The counts of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Segment {
    /// The end of its last entry.
    pub end: u64,
    /// The bytes of entries whose location the engine has.
    pub live: u64,
}

/// All segments, by number.
#[derive(Clone, Default)]
pub(super) struct Table {
    pub segments: BTreeMap<u32, Segment>,
    /// Removed segments that the engine below still counts.
    gone: BTreeSet<u32>,
    /// The number of the next segment. Numbers are never used again.
    next: u32,
    /// True if the engine below has the counts on stable storage.
    is_durable: bool,
    /// True if a transaction of this run is on stable storage. One whose outcome an earlier run did
    /// not know cannot show up any more then.
    is_settled: bool,
}

impl Table {
    fn totals(&self) -> (u64, u64) {
        let segments = self.segments.values();
        segments.fold((0, 0), |(end, live), segment| {
            (end + segment.end, live + segment.live)
        })
    }
}

/// The callback of a visit of entries. It gets the location, the key and the value of each.
type EntryVisitor<'v> = dyn FnMut(ValueLocation, &[u8], &[u8]) -> Result<()> + 'v;

/// The segments of a journal's engine.
pub(super) struct Values {
    disk: Arc<dyn Disk>,
    name: [u8; 16],
    segment_bytes: u64,
    table: Mutex<Table>,
    /// The token that readers hold that begin now.
    readers: Mutex<Arc<()>>,
    /// Empty segments that readers from before may need, the oldest first, with what those hold.
    waiting: Mutex<VecDeque<(Arc<()>, Vec<u32>)>>,
    /// Segments that cannot be emptied. They are left as they are until the next start.
    unmovable: Mutex<BTreeSet<u32>>,
}

/// The right to read values of segments that become empty meanwhile.
pub(super) struct Pin(#[expect(dead_code, reason = "its copies are counted")] Arc<()>);

impl Values {
    pub fn new(disk: Arc<dyn Disk>, name: [u8; 16], segment_bytes: u64) -> Values {
        Values {
            disk,
            name,
            segment_bytes,
            table: Mutex::default(),
            readers: Mutex::default(),
            waiting: Mutex::default(),
            unmovable: Mutex::default(),
        }
    }

    /// Returns true if the disk has any segment of values.
    pub fn has_segments(&self) -> Result<bool> {
        let files = self.disk.segments().map_err(|e| fail(&e))?;
        Ok(files.iter().any(|file| u64::from(*file) >= FILES))
    }

    /// Reads what the engine knows of segments. Segments that it does not know are empty: an
    /// interrupted checkpoint made them.
    ///
    /// # Errors
    /// [`Error::Failed`] if values are missing.
    pub fn load(&self, below: &dyn ReadTxn) -> Result<()> {
        let mut segments = BTreeMap::new();
        let from = Bound::Included(SEGMENT_KEY);
        let (tree, upwards) = (Tree::Meta, Direction::Ascending);
        below.scan(
            tree,
            (from, Bound::Unbounded),
            upwards,
            &mut |key, value| {
                let Some(number) = key.strip_prefix(SEGMENT_KEY) else {
                    return Ok(Flow::Stop);
                };
                let (number, segment) = decode_segment(number, value)
                    .ok_or_else(|| Error::Damaged("the counts of a segment of values".into()))?;
                segments.insert(number, segment);
                Ok(Flow::Continue)
            },
        )?;
        let files = self.disk.segments().map_err(|e| fail(&e))?;
        for (number, segment) in &segments {
            let length = match files.binary_search(number) {
                Ok(_) => self.disk.length(*number).map_err(|e| fail(&e))?,
                Err(_) => 0,
            };
            if segment.live > 0 && length < segment.end {
                return Err(Error::Failed(format!(
                    "the metadata has {} bytes in segment {number} of the folder \"journal\", which has {length}: restore the folder beside the metadata, or restore a snapshot",
                    segment.end
                )));
            }
        }
        for file in files {
            if u64::from(file) >= FILES {
                segments.entry(file).or_default();
            }
        }
        let last = segments.keys().next_back().copied();
        let after = last.map_or(FILES as u32, |last| last + 1);
        let next = below.get(Tree::Meta, NEXT_KEY)?;
        let next = next.and_then(|next| Some(u32::from_be_bytes((*next).try_into().ok()?)));
        let mut table = self.table.lock();
        table.next = next.unwrap_or_default().max(after);
        table.segments = segments;
        Ok(())
    }

    /// Returns the bytes of all segments, and those that are live.
    pub fn totals(&self) -> (u64, u64) {
        self.table.lock().totals()
    }

    /// Returns a copy of what is known of all segments.
    pub fn table(&self) -> Table {
        self.table.lock().clone()
    }

    /// Returns the location that `stored` is, if it is one. It was found under `key` in the engine below.
    pub fn location(&self, key: &[u8], stored: &[u8]) -> Option<ValueLocation> {
        let fields = stored.strip_prefix(&self.name)?.as_chunks::<4>();
        match fields {
            ([segment, offset, len, checksum], []) => {
                let location = ValueLocation {
                    segment: u32::from_be_bytes(*segment),
                    offset: u32::from_be_bytes(*offset),
                    len: u32::from_be_bytes(*len),
                };
                (location.checksum(key) == u32::from_be_bytes(*checksum)).then_some(location)
            }
            _ => None,
        }
    }

    /// Returns true if `value` must stand in a segment: it is long, or readers would take it for a
    /// location.
    pub fn must_hold(&self, key: &[u8], value: &[u8]) -> bool {
        value.len() >= MIN_VALUE_BYTES || self.location(key, value).is_some()
    }

    fn encode(&self, key: &[u8], location: ValueLocation) -> Vec<u8> {
        let checksum = location.checksum(key).to_be_bytes();
        [&self.name[..], location.numbers().as_flattened(), &checksum].concat()
    }

    /// Returns the value that `stored`, found under `key` in the engine below, stands for. A value
    /// that the disk cannot read is empty: its own checksum tells the reader that it is damaged.
    pub fn resolve<'v>(&self, key: &[u8], stored: Cow<'v, [u8]>) -> Result<Cow<'v, [u8]>> {
        let Some(location) = self.location(key, &stored) else {
            return Ok(stored);
        };
        let mut value = vec![0; location.len as usize];
        let offset = u64::from(location.offset) + (ENTRY_HEADER_BYTES + key.len()) as u64;
        match self.disk.read_at(location.segment, offset, &mut value) {
            Ok(()) => Ok(Cow::Owned(value)),
            Err(error) if is_damage(&error) => {
                tracing::warn!(segment = location.segment, offset, %error, "a value cannot be read");
                Ok(Cow::Borrowed(&[]))
            }
            Err(error) => Err(fail(&error)),
        }
    }

    /// Returns the segment that is best to empty, if dead values take more than `times` the space that
    /// they may, and emptying it would free space.
    pub fn to_empty(&self, times: u64) -> Option<u32> {
        let unmovable = self.unmovable.lock();
        let table = self.table.lock();
        let (mut dead, mut live, mut empty) = (0, 0, 0);
        let mut least: Option<(u32, Segment)> = None;
        for (number, segment) in &table.segments {
            if segment.live == 0 {
                empty += segment.end;
            } else if !unmovable.contains(number) {
                dead += segment.end - segment.live;
                live += segment.live;
                // Compares live / end, the share that must be moved.
                let is_less = |least: Segment| segment.live * least.end < least.live * segment.end;
                if least.is_none_or(|(_, least)| is_less(least)) {
                    least = Some((*number, *segment));
                }
            }
        }
        let bound = (live / 4).max(self.segment_bytes);
        // While readers keep what is empty, emptying more would only take more space.
        let is_due = dead > times * bound && empty <= bound;
        least.filter(|_| is_due).map(|(number, _)| number)
    }

    /// Leaves a segment as it is until the next start. Its values can still be read.
    pub fn pass_over(&self, segment: u32, why: &str) {
        tracing::warn!(segment, why, "a segment of values cannot be emptied");
        self.unmovable.lock().insert(segment);
    }

    /// Visits the entries of a segment in their order, and passes over those whose header is damaged.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a part of the segment cannot be read.
    pub fn visit(&self, segment: u32, visit: &mut EntryVisitor<'_>) -> Result<()> {
        let end = self
            .table
            .lock()
            .segments
            .get(&segment)
            .map_or(0, |s| s.end);
        let seal = self.seal(segment);
        let mut window = Window::default();
        while window.offset() < end {
            if let Some(entry) = read_entry(window.rest(), seal) {
                let location = ValueLocation {
                    segment,
                    offset: window.offset() as u32,
                    len: entry.value.len() as u32,
                };
                visit(location, entry.key, entry.value)?;
                window.at += entry.bytes();
            } else if window.next() < end {
                let (disk, next) = (&*self.disk, window.next());
                let chunk = CHUNK_BYTES.min((end - next) as usize);
                let read = |buffer: &mut [u8]| disk.read_at(segment, next, buffer);
                let read = window.extend(chunk, read);
                read.map_err(|e| Error::Damaged(format!("it cannot be read: {e}")))?;
            } else {
                // Damaged. The next entry begins at a later byte.
                let found = find_entry(&window.rest()[1..], seal);
                window.at = found.map_or(window.bytes.len(), |at| window.at + 1 + at);
            }
        }
        Ok(())
    }

    fn seal(&self, segment: u32) -> u32 {
        crc32c_of(&[&self.name, &segment.to_be_bytes()])
    }

    /// Returns the right to read values of this moment. Take it before the reader's view of the
    /// engine begins, and keep it longer.
    pub fn pin(&self) -> Pin {
        Pin(self.readers.lock().clone())
    }

    /// Removes segments in which nothing is live, and that no reader may need.
    pub fn remove_empty(&self) {
        let table = self.table();
        if !table.is_durable {
            return;
        }
        let mut waiting = self.waiting.lock();
        let empty = table.segments.iter().filter(|(_, s)| s.live == 0);
        let mut empty: Vec<u32> = empty.map(|(number, _)| *number).collect();
        empty.retain(|number| {
            !waiting
                .iter()
                .any(|(_, segments)| segments.contains(number))
        });
        if !empty.is_empty() {
            let readers = std::mem::take(&mut *self.readers.lock());
            waiting.push_back((readers, empty));
        }
        while let Some((readers, segments)) = waiting.front_mut() {
            if Arc::strong_count(readers) > 1 {
                return;
            }
            segments.retain(|number| !self.remove(*number));
            if !segments.is_empty() {
                return;
            }
            waiting.pop_front();
        }
    }

    /// Removes a segment. Returns false if that failed: it is repeated.
    fn remove(&self, number: u32) -> bool {
        match self.disk.unlink(number) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(segment = number, %error, "a segment of values cannot be removed");
                return false;
            }
            _ => {}
        }
        let mut table = self.table.lock();
        table.segments.remove(&number);
        table.gone.insert(number);
        true
    }
}

fn fail(error: &io::Error) -> Error {
    Error::from_io("a segment of values", error)
}

fn decode_segment(number: &[u8], counts: &[u8]) -> Option<(u32, Segment)> {
    let number = u32::from_be_bytes(number.try_into().ok()?);
    let (end, live) = counts.split_first_chunk()?;
    let segment = Segment {
        end: u64::from_be_bytes(*end),
        live: u64::from_be_bytes(live.try_into().ok()?),
    };
    let is_possible = u64::from(number) >= FILES && segment.live <= segment.end;
    is_possible.then_some((number, segment))
}
