//! Keys and values of the trees that rows are kept in. `docs/internals/data-format.md` describes
//! them byte by byte; a change here is a change there, and a new version byte.
//!
//! All numbers are big-endian, so that keys sort as what they stand for.

mod fields;
mod keys;

use archipel_base::{Id, Stamp};
use bytes::Bytes;

use super::window::{Fingerprint, Window};
use crate::engine::Result;
use crate::error::Error;
use crate::row::{BlockRef, Body, Tally};
use fields::{Reader, SUM_BYTES, VERSION, seal};
pub use keys::{
    Part, counter_key, in_partition, log_end, log_key, row_key, row_of_key, split_log_key,
    split_partition, successor, window_key, window_number,
};

/// The row has a value (is not a tombstone, and not a mere promise).
const FLAG_LIVE: u8 = 1;
/// A tally follows the fixed part.
const FLAG_TALLY: u8 = 2;
/// There is an entry in `Tree::Bodies`.
const FLAG_APART: u8 = 4;
/// The body stands before the head.
const FLAG_WITHIN: u8 = 8;

/// The longest body that stands in its row: what stands apart costs each change another page. Listings
/// read past it, so it is short.
const MAX_WITHIN_BYTES: usize = 512;

const KIND_INLINE: u8 = 1;
const KIND_BLOCKS: u8 = 2;
const KIND_BLOCKS_AND: u8 = 3;

/// The most blocks that a body may refer to.
pub const MAX_BODY_BLOCKS: usize = 64;

/// What `Tree::Rows` holds of a row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredRow {
    /// See [`Row`](crate::row::Row).
    pub promised: Stamp,
    /// See [`Row`](crate::row::Row).
    pub stamp: Stamp,
    /// See [`Row`](crate::row::Row).
    pub write: Id,
    /// The head; `None` for a tombstone and for a row never written.
    pub head: Option<Bytes>,
    /// What the row adds to a counter.
    pub tally: Option<Tally>,
    /// Where the body is.
    pub body: StoredBody,
}

/// Where a row's body is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StoredBody {
    /// It is empty.
    #[default]
    Empty,
    /// In the row: short, and without blocks.
    Within(Bytes),
    /// In `Tree::Bodies`.
    Apart,
}

impl StoredBody {
    /// Where a body is put.
    pub fn of(body: &Body) -> StoredBody {
        match body {
            Body::Empty => StoredBody::Empty,
            Body::Inline(short) if short.len() <= MAX_WITHIN_BYTES => {
                StoredBody::Within(short.clone())
            }
            Body::Inline(_) | Body::Blocks(_) | Body::BlocksAnd(..) => StoredBody::Apart,
        }
    }
}

/// Encodes a value of `Tree::Rows`.
pub fn encode_row(row: &StoredRow) -> Vec<u8> {
    let head = row.head.as_deref().unwrap_or_default();
    let within = match &row.body {
        StoredBody::Within(body) => Some(body),
        StoredBody::Empty | StoredBody::Apart => None,
    };
    let length = within.map_or(0, Bytes::len) + head.len();
    let mut bytes = Vec::with_capacity(2 + 48 + 28 + 2 + length + SUM_BYTES);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    bytes.push(VERSION);
    bytes.push(
        flag(row.head.is_some(), FLAG_LIVE)
            | flag(row.tally.is_some(), FLAG_TALLY)
            | flag(row.body == StoredBody::Apart, FLAG_APART)
            | flag(within.is_some(), FLAG_WITHIN),
    );
    bytes.extend_from_slice(&row.promised.to_bytes());
    bytes.extend_from_slice(&row.stamp.to_bytes());
    bytes.extend_from_slice(row.write.as_bytes());
    if let Some(tally) = &row.tally {
        bytes.extend_from_slice(tally.group.as_bytes());
        bytes.extend_from_slice(&tally.objects.to_be_bytes());
        bytes.extend_from_slice(&tally.bytes.to_be_bytes());
    }
    if let Some(body) = within {
        // At most 512.
        bytes.extend_from_slice(&(body.len() as u16).to_be_bytes());
        bytes.extend_from_slice(body);
    }
    bytes.extend_from_slice(head);
    seal(bytes)
}

/// Decodes a value of `Tree::Rows`.
pub fn decode_row(bytes: &[u8]) -> Result<StoredRow> {
    let (row, within) = decode_but_body(bytes)?;
    Ok(match within {
        Some(body) => StoredRow {
            body: StoredBody::Within(Bytes::copy_from_slice(body)),
            ..row
        },
        None => row,
    })
}

/// The same, with [`StoredBody::Empty`] instead of a body in the row: for whoever looks only at the head.
pub fn decode_head(bytes: &[u8]) -> Result<StoredRow> {
    Ok(decode_but_body(bytes)?.0)
}

/// A row, and the body that stands in it.
fn decode_but_body(bytes: &[u8]) -> Result<(StoredRow, Option<&[u8]>)> {
    let mut reader = Reader::sealed(bytes, "a row")?;
    let flags = reader.u8()?;
    let known = FLAG_LIVE | FLAG_TALLY | FLAG_APART | FLAG_WITHIN;
    let live = flags & FLAG_LIVE != 0;
    let both = FLAG_APART | FLAG_WITHIN;
    if flags & !known != 0 || (!live && flags != 0) || flags & both == both {
        return Err(Error::Damaged(format!("a row with the flags {flags:#x}")));
    }
    let (promised, stamp) = (reader.stamp()?, reader.stamp()?);
    let write = reader.id()?;
    let tally = match flags & FLAG_TALLY {
        0 => None,
        _ => Some(reader.tally()?),
    };
    let within = match flags & FLAG_WITHIN {
        0 => None,
        _ => Some(reader.short()?),
    };
    let head = reader.rest();
    if !live && !head.is_empty() {
        return Err(Error::Damaged("a tombstone with a head".into()));
    }
    let row = StoredRow {
        promised,
        stamp,
        write,
        head: live.then(|| Bytes::copy_from_slice(head)),
        tally,
        body: match flags & FLAG_APART {
            0 => StoredBody::Empty,
            _ => StoredBody::Apart,
        },
    };
    Ok((row, within))
}

/// Encodes a value of `Tree::Bodies`; `None` for an empty body, which has no entry.
pub fn encode_body(body: &Body) -> Option<Vec<u8>> {
    let (kind, inline): (u8, &[u8]) = match body {
        Body::Empty => return None,
        Body::Inline(inline) => (KIND_INLINE, inline),
        Body::Blocks(_) => (KIND_BLOCKS, &[]),
        Body::BlocksAnd(_, inline) => (KIND_BLOCKS_AND, inline),
    };
    let blocks = body.blocks();
    let mut bytes = Vec::with_capacity(3 + blocks.len() * 36 + inline.len() + SUM_BYTES);
    bytes.extend_from_slice(&[VERSION, kind]);
    if kind != KIND_INLINE {
        bytes.push(blocks.len() as u8);
        for block in blocks {
            bytes.extend_from_slice(block.hash.as_bytes());
            bytes.extend_from_slice(&block.len.to_be_bytes());
        }
    }
    bytes.extend_from_slice(inline);
    Some(seal(bytes))
}

/// Decodes a value of `Tree::Bodies`.
pub fn decode_body(bytes: &[u8]) -> Result<Body> {
    let mut reader = Reader::sealed(bytes, "a body")?;
    let kind = reader.u8()?;
    let blocks = match kind {
        KIND_INLINE => Vec::new(),
        KIND_BLOCKS | KIND_BLOCKS_AND => reader.blocks()?,
        kind => return Err(Error::Damaged(format!("a body of kind {kind}"))),
    };
    let inline = Bytes::copy_from_slice(reader.rest());
    match kind {
        KIND_INLINE => Ok(Body::Inline(inline)),
        KIND_BLOCKS if inline.is_empty() => Ok(Body::Blocks(blocks)),
        KIND_BLOCKS => Err(Error::Damaged("a body with trailing bytes".into())),
        _ => Ok(Body::BlocksAnd(blocks, inline)),
    }
}

/// The blocks that a value of `Tree::Bodies` mentions. What stands inline is not looked at: it may be damaged.
pub fn decode_blocks(bytes: &[u8]) -> Result<Vec<BlockRef>> {
    match bytes {
        [VERSION, KIND_INLINE, ..] => Ok(Vec::new()),
        _ => Ok(decode_body(bytes)?.blocks().to_vec()),
    }
}

/// Encodes a window.
pub fn encode_window(window: &Window) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&window.rows.to_be_bytes());
    bytes.extend_from_slice(&window.fingerprint.0);
    bytes
}

/// Decodes a window.
pub fn decode_window(bytes: &[u8]) -> Result<Window> {
    let mut reader = Reader::versioned(bytes, "a window")?;
    let window = Window {
        rows: reader.u64()?,
        fingerprint: Fingerprint(reader.array()?),
    };
    reader.end()?;
    Ok(window)
}

/// What a counter holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counter {
    /// Objects.
    pub objects: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Encodes a counter.
pub fn encode_counter(counter: &Counter) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&counter.objects.to_be_bytes());
    bytes.extend_from_slice(&counter.bytes.to_be_bytes());
    bytes
}

/// Decodes a counter.
pub fn decode_counter(bytes: &[u8]) -> Result<Counter> {
    let mut reader = Reader::versioned(bytes, "a counter")?;
    let counter = Counter {
        objects: reader.u64()?,
        bytes: reader.u64()?,
    };
    reader.end()?;
    Ok(counter)
}

/// Encodes a value of `Tree::Queue`.
pub fn encode_work(work: &[u8]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(work);
    bytes
}

/// Decodes a value of `Tree::Queue`.
pub fn decode_work(bytes: &[u8]) -> Result<Bytes> {
    let mut reader = Reader::versioned(bytes, "an entry of the queue")?;
    Ok(Bytes::copy_from_slice(reader.rest()))
}

/// A number as it stands in keys of the queue and in `Tree::Meta`.
pub fn decode_number(bytes: &[u8], what: &str) -> Result<u64> {
    let mut reader = Reader::new(bytes, what);
    let number = reader.u64()?;
    reader.end()?;
    Ok(number)
}
