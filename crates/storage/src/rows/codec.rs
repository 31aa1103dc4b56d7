//! Keys and values of the trees that hold rows. `docs/internals/data-format.md` describes them byte
//! by byte. A change here needs a change there and a new version byte.
//!
//! Each value ends with a checksum of its tree, its key and itself (`fields`).
//!
//! All numbers are big-endian, so that keys sort as the numbers that they encode.

mod fields;
mod keys;
mod version;

use archipel_base::{Id, Stamp};
use bytes::Bytes;

use super::window::{Window, WindowDigest};
use crate::engine::{Result, Tree};
use crate::error::Error;
use crate::row::{Payload, RowVersion, UsageDelta};
use fields::{Reader, SUM_BYTES, Slot, VERSION};
pub use keys::{
    Part, counter_key, in_partition, log_end, log_key, log_until, row_key, row_of_key,
    split_log_key, split_partition, successor, window_key, window_number,
};

/// The row has a value: it is neither a tombstone nor a mere promise.
const FLAG_LIVE: u8 = 1;
/// A usage follows the fixed part.
const FLAG_USAGE: u8 = 2;
/// The payload has an entry in `Tree::Payloads`.
const FLAG_APART: u8 = 4;
/// The payload stands in the row, before the metadata.
const FLAG_WITHIN: u8 = 8;

/// A version of an object follows the usage.
const FLAG_VERSION: u8 = 16;

/// The longest payload that stands in its row, in bytes. A separate payload costs each change another
/// page. Listings read past payloads in rows, so those must be short.
const MAX_WITHIN_BYTES: usize = 512;

const KIND_INLINE: u8 = 1;
const KIND_BLOCKS: u8 = 2;
const KIND_BLOCKS_AND: u8 = 3;

/// The largest number of blocks that a payload may refer to.
pub const MAX_BODY_BLOCKS: usize = 64;

/// A decoded value of `Tree::Rows`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredRow {
    /// See [`Row`](crate::row::Row).
    pub promised: Stamp,
    /// See [`Row`](crate::row::Row).
    pub stamp: Stamp,
    /// See [`Row`](crate::row::Row).
    pub write: Id,
    /// The metadata; `None` for a tombstone and for a row that was never written.
    pub metadata: Option<Bytes>,
    /// The row's share in a counter.
    pub usage: Option<UsageDelta>,
    /// Which version of an object the row holds.
    pub version: Option<Box<RowVersion>>,
    /// The location of the payload.
    pub payload: StoredPayload,
}

/// The location of a row's payload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StoredPayload {
    /// There is no payload.
    #[default]
    Empty,
    /// The payload stands in the row. It is short and has no blocks.
    Within(Bytes),
    /// The payload is in `Tree::Payloads`.
    Apart,
}

impl StoredPayload {
    /// Returns the location at which `payload` is stored.
    pub fn of(payload: &Payload) -> StoredPayload {
        match payload {
            Payload::Empty => StoredPayload::Empty,
            Payload::Inline(short) if short.len() <= MAX_WITHIN_BYTES => {
                StoredPayload::Within(short.clone())
            }
            Payload::Inline(_) | Payload::Blocks(_) | Payload::BlocksAnd(..) => {
                StoredPayload::Apart
            }
        }
    }
}

/// Encodes the value of `Tree::Rows` under `key`.
pub fn encode_row(key: &[u8], row: &StoredRow) -> Vec<u8> {
    let metadata = row.metadata.as_deref().unwrap_or_default();
    let within = match &row.payload {
        StoredPayload::Within(payload) => Some(payload),
        StoredPayload::Empty | StoredPayload::Apart => None,
    };
    let version = row.version.as_deref().map(version::encode);
    let length = within.map_or(0, Bytes::len) + metadata.len();
    let length = length + version.as_ref().map_or(0, |version| 4 + version.len());
    let mut bytes = Vec::with_capacity(2 + 48 + 28 + 2 + length + SUM_BYTES);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    bytes.push(VERSION);
    bytes.push(
        flag(row.metadata.is_some(), FLAG_LIVE)
            | flag(row.usage.is_some(), FLAG_USAGE)
            | flag(row.payload == StoredPayload::Apart, FLAG_APART)
            | flag(within.is_some(), FLAG_WITHIN)
            | flag(version.is_some(), FLAG_VERSION),
    );
    bytes.extend_from_slice(&row.promised.to_bytes());
    bytes.extend_from_slice(&row.stamp.to_bytes());
    bytes.extend_from_slice(row.write.as_bytes());
    if let Some(usage) = &row.usage {
        bytes.extend_from_slice(usage.group.as_bytes());
        bytes.extend_from_slice(&usage.objects.to_be_bytes());
        bytes.extend_from_slice(&usage.bytes.to_be_bytes());
    }
    if let Some(version) = version {
        // The cast is lossless: changes are bounded.
        bytes.extend_from_slice(&(version.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&version);
    }
    if let Some(payload) = within {
        // The cast is lossless: the length is at most 512.
        bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        bytes.extend_from_slice(payload);
    }
    bytes.extend_from_slice(metadata);
    Slot(Tree::Rows, key).seal(bytes)
}

/// Decodes the value of `Tree::Rows` under `key`.
pub fn decode_row(key: &[u8], bytes: &[u8]) -> Result<StoredRow> {
    let (row, within) = decode_but_payload(key, bytes)?;
    Ok(match within {
        Some(payload) => StoredRow {
            payload: StoredPayload::Within(Bytes::copy_from_slice(payload)),
            ..row
        },
        None => row,
    })
}

/// Decodes the value of `Tree::Rows` under `key` without the payload: a payload in the row becomes
/// [`StoredPayload::Empty`].
pub fn decode_metadata(key: &[u8], bytes: &[u8]) -> Result<StoredRow> {
    Ok(decode_but_payload(key, bytes)?.0)
}

/// Decodes a row. Also returns the payload if it stands in the row.
fn decode_but_payload<'b>(key: &[u8], bytes: &'b [u8]) -> Result<(StoredRow, Option<&'b [u8]>)> {
    let mut reader = Reader::sealed(Slot(Tree::Rows, key), bytes, "a row")?;
    let flags = reader.u8()?;
    let known = FLAG_LIVE | FLAG_USAGE | FLAG_APART | FLAG_WITHIN | FLAG_VERSION;
    let live = flags & FLAG_LIVE != 0;
    let both = FLAG_APART | FLAG_WITHIN;
    if flags & !known != 0 {
        return Err(Error::Newer(format!(
            "a row with the flags {flags:#x}; this release knows {known:#x}"
        )));
    }
    if (!live && flags != 0) || flags & both == both {
        return Err(Error::Damaged(format!("a row with the flags {flags:#x}")));
    }
    let (promised, stamp) = (reader.stamp()?, reader.stamp()?);
    let write = reader.id()?;
    let usage = match flags & FLAG_USAGE {
        0 => None,
        _ => Some(reader.usage()?),
    };
    let version = match flags & FLAG_VERSION {
        0 => None,
        _ => Some(Box::new(version::decode(reader.long()?)?)),
    };
    let within = match flags & FLAG_WITHIN {
        0 => None,
        _ => Some(reader.short()?),
    };
    let metadata = reader.rest();
    if !live && !metadata.is_empty() {
        return Err(Error::Damaged("a tombstone with metadata".into()));
    }
    let row = StoredRow {
        promised,
        stamp,
        write,
        metadata: live.then(|| Bytes::copy_from_slice(metadata)),
        usage,
        version,
        payload: match flags & FLAG_APART {
            0 => StoredPayload::Empty,
            _ => StoredPayload::Apart,
        },
    };
    Ok((row, within))
}

/// Encodes the value of `Tree::Payloads` under `key`, for a row with this stamp. Returns `None` for an
/// empty payload, which has no entry.
pub fn encode_payload(key: &[u8], stamp: Stamp, payload: &Payload) -> Option<Vec<u8>> {
    let (kind, inline): (u8, &[u8]) = match payload {
        Payload::Empty => return None,
        Payload::Inline(inline) => (KIND_INLINE, inline),
        Payload::Blocks(_) => (KIND_BLOCKS, &[]),
        Payload::BlocksAnd(_, inline) => (KIND_BLOCKS_AND, inline),
    };
    let blocks = payload.blocks();
    let mut bytes = Vec::with_capacity(19 + blocks.len() * 36 + inline.len() + SUM_BYTES);
    bytes.extend_from_slice(&[VERSION, kind]);
    bytes.extend_from_slice(&stamp.to_bytes());
    if kind != KIND_INLINE {
        bytes.push(blocks.len() as u8);
        for block in blocks {
            bytes.extend_from_slice(block.hash.as_bytes());
            bytes.extend_from_slice(&block.len.to_be_bytes());
        }
    }
    bytes.extend_from_slice(inline);
    Some(Slot(Tree::Payloads, key).seal(bytes))
}

/// Decodes the value of `Tree::Payloads` under `key`. Also returns the stamp of its row.
pub fn decode_payload(key: &[u8], bytes: &[u8]) -> Result<(Stamp, Payload)> {
    let mut reader = Reader::sealed(Slot(Tree::Payloads, key), bytes, "a payload")?;
    let kind = reader.u8()?;
    if kind > KIND_BLOCKS_AND {
        return Err(Error::Newer(format!(
            "a payload of kind {kind}; this release knows 1 to {KIND_BLOCKS_AND}"
        )));
    }
    let stamp = reader.stamp()?;
    let blocks = match kind {
        KIND_INLINE => Vec::new(),
        _ => reader.blocks()?,
    };
    let inline = Bytes::copy_from_slice(reader.rest());
    let payload = match kind {
        KIND_INLINE => Payload::Inline(inline),
        KIND_BLOCKS if inline.is_empty() => Payload::Blocks(blocks),
        KIND_BLOCKS => return Err(Error::Damaged("a payload with trailing bytes".into())),
        KIND_BLOCKS_AND => Payload::BlocksAnd(blocks, inline),
        _ => return Err(Error::Damaged(format!("a payload of kind {kind}"))),
    };
    Ok((stamp, payload))
}

/// Decodes the payload of the row that has this stamp. A payload of any other version of the row is
/// damage: the engine lost a write of one of the two.
pub fn decode_payload_of(key: &[u8], stamp: Stamp, bytes: &[u8]) -> Result<Payload> {
    let (found, payload) = decode_payload(key, bytes)?;
    if found == stamp {
        Ok(payload)
    } else {
        Err(Error::Damaged(format!(
            "a payload of the stamp {found}; its row has {stamp}"
        )))
    }
}

/// Returns true if a value of `Tree::Payloads` is inline and so mentions no blocks. Nothing else of
/// it is verified, because its bytes may be damaged.
pub fn is_inline(bytes: &[u8]) -> bool {
    matches!(bytes, [VERSION, KIND_INLINE, ..])
}

/// Encodes the window under `key`.
pub fn encode_window(key: &[u8], window: &Window) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&window.rows.to_be_bytes());
    bytes.extend_from_slice(&window.digest.0);
    Slot(Tree::Derived, key).seal(bytes)
}

/// Decodes the window under `key`.
pub fn decode_window(key: &[u8], bytes: &[u8]) -> Result<Window> {
    let mut reader = Reader::sealed(Slot(Tree::Derived, key), bytes, "a window")?;
    let window = Window {
        rows: reader.u64()?,
        digest: WindowDigest(reader.array()?),
    };
    reader.end()?;
    Ok(window)
}

/// The value of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counter {
    /// The number of objects.
    pub objects: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// Encodes the counter under `key`.
pub fn encode_counter(key: &[u8], counter: &Counter) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&counter.objects.to_be_bytes());
    bytes.extend_from_slice(&counter.bytes.to_be_bytes());
    Slot(Tree::Derived, key).seal(bytes)
}

/// Decodes the counter under `key`.
pub fn decode_counter(key: &[u8], bytes: &[u8]) -> Result<Counter> {
    let mut reader = Reader::sealed(Slot(Tree::Derived, key), bytes, "a counter")?;
    let counter = Counter {
        objects: reader.u64()?,
        bytes: reader.u64()?,
    };
    reader.end()?;
    Ok(counter)
}

/// Encodes the value of `Tree::Queue` under `key`.
pub fn encode_work(key: &[u8], work: &[u8]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(work);
    Slot(Tree::Queue, key).seal(bytes)
}

/// Decodes the value of `Tree::Queue` under `key`.
pub fn decode_work(key: &[u8], bytes: &[u8]) -> Result<Bytes> {
    let slot = Slot(Tree::Queue, key);
    let mut reader = Reader::sealed(slot, bytes, "an entry of the queue")?;
    Ok(Bytes::copy_from_slice(reader.rest()))
}

/// Decodes a number in a key of the queue or a value of `Tree::Meta`.
pub fn decode_number(bytes: &[u8], what: &str) -> Result<u64> {
    let mut reader = Reader::new(bytes, what);
    let number = reader.u64()?;
    reader.end()?;
    Ok(number)
}
