//! The keys of the trees.

use archipel_base::{Id, PartitionId, Stamp, Writer};
use bytes::Bytes;

use super::fields::{Reader, short};
use crate::engine::Result;
use crate::error::Error;
use crate::row::{MAX_ROW_KEY_BYTES, RowKey};
use crate::rows::window::Granularity;

/// The parts of `Tree::Derived`, in their order within a partition. They are adjacent, so that a
/// new row changes nearby entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The order of changes. Key: stamp, row key.
    Log = 0,
    /// The windows. Key: granularity, window.
    Windows = 1,
    /// The counters. Key: group.
    Counters = 2,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 3] = [Part::Log, Part::Windows, Part::Counters];

    /// Returns the part that a key of `Tree::Derived` belongs to, if any.
    pub fn of(key: &[u8]) -> Option<Part> {
        let is_of = |part: &Part| key.get(2) == Some(&(*part as u8));
        Part::ALL.into_iter().find(is_of)
    }

    /// Returns the name of the part.
    pub fn name(self) -> &'static str {
        match self {
            Part::Log => "log",
            Part::Windows => "windows",
            Part::Counters => "counters",
        }
    }
}

/// Encodes a key of `Tree::Rows` and `Tree::Payloads`: partition, key.
pub fn row_key(key: &RowKey) -> Result<Vec<u8>> {
    if key.key.is_empty() || key.key.len() > MAX_ROW_KEY_BYTES {
        return Err(Error::Refused(format!(
            "a row key of {} bytes: 1 to {MAX_ROW_KEY_BYTES} are allowed",
            key.key.len()
        )));
    }
    Ok(in_partition(key.partition, &key.key))
}

/// Encodes a partition, followed by `rest`.
pub fn in_partition(partition: PartitionId, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + rest.len());
    bytes.extend_from_slice(&partition.0.to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

/// Decodes a key of `Tree::Rows` or `Tree::Payloads`.
pub fn row_of_key(bytes: &[u8]) -> Result<RowKey> {
    let (partition, key) = split_partition(bytes)?;
    let key = Bytes::copy_from_slice(key);
    Ok(RowKey { partition, key })
}

/// Decodes the partition and returns the rest: the reverse of [`in_partition`].
pub fn split_partition(bytes: &[u8]) -> Result<(PartitionId, &[u8])> {
    let (partition, rest) = bytes.split_first_chunk().ok_or_else(|| short("a key"))?;
    Ok((PartitionId(u16::from_be_bytes(*partition)), rest))
}

/// Encodes the prefix of all keys of a part of `Tree::Derived`, with room for `more` bytes.
fn in_part(partition: PartitionId, part: Part, more: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 + more);
    bytes.extend_from_slice(&partition.0.to_be_bytes());
    bytes.push(part as u8);
    bytes
}

/// Encodes a log key in `Tree::Derived`: partition, 0, stamp, key.
pub fn log_key(partition: PartitionId, stamp: Stamp, key: &[u8]) -> Vec<u8> {
    let mut bytes = in_part(partition, Part::Log, 16 + key.len());
    bytes.extend_from_slice(&stamp.to_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// Returns the first key after a partition's log.
pub fn log_end(partition: PartitionId) -> Vec<u8> {
    in_part(partition, Part::Windows, 0)
}

/// Returns the log key that is above all stamps of earlier milliseconds.
pub fn log_until(partition: PartitionId, before_millis: u64) -> Vec<u8> {
    // A stamp has 48 bits of milliseconds.
    if before_millis < 1 << 48 {
        log_key(partition, Stamp::new(before_millis, 0, Writer(0)), &[])
    } else {
        log_end(partition)
    }
}

/// Decodes a log key: the reverse of [`log_key`].
pub fn split_log_key(bytes: &[u8]) -> Result<(PartitionId, Stamp, &[u8])> {
    let (partition, rest) = split_partition(bytes)?;
    let wrong = || short("a key of the log");
    let stamp_and_key = rest.strip_prefix(&[Part::Log as u8]).ok_or_else(wrong)?;
    let (stamp, key) = stamp_and_key.split_first_chunk().ok_or_else(wrong)?;
    Ok((partition, Stamp::from_bytes(*stamp), key))
}

/// Encodes a window key in `Tree::Derived`: partition, 1, granularity, window.
pub fn window_key(partition: PartitionId, granularity: Granularity, window: u32) -> Vec<u8> {
    let mut bytes = in_part(partition, Part::Windows, 5);
    bytes.push(granularity as u8);
    bytes.extend_from_slice(&window.to_be_bytes());
    bytes
}

/// Returns the number of the window that a [`window_key`] names.
pub fn window_number(key: &[u8]) -> Result<u32> {
    match key.len() {
        8 => Reader::new(&key[4..], "a key of a window").u32(),
        _ => Err(short("a key of a window")),
    }
}

/// Encodes a counter key in `Tree::Derived`: partition, 2, group.
pub fn counter_key(partition: PartitionId, group: Id) -> Vec<u8> {
    let mut bytes = in_part(partition, Part::Counters, 16);
    bytes.extend_from_slice(group.as_bytes());
    bytes
}

/// Returns the lowest key above all keys that begin with `prefix`; `None` if there is none.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut bytes = prefix[..=end].to_vec();
    bytes[end] += 1;
    Some(bytes)
}
