//! Keys and values of the trees that rows are kept in. `docs/internals/data-format.md` describes
//! them byte by byte; a change here is a change there, and a new version byte.
//!
//! All numbers are big-endian, so that keys sort as what they stand for.

use archipel_base::{BlockHash, Id, PartitionId, Stamp};
use bytes::Bytes;

use super::window::{Fingerprint, Granularity, Window};
use crate::engine::Result;
use crate::error::Error;
use crate::row::{BlockRef, Body, MAX_ROW_KEY_BYTES, RowKey, Tally};

/// The version byte that values are written with.
const VERSION: u8 = 1;

/// The row has a value (is not a tombstone, and not a mere promise).
const FLAG_LIVE: u8 = 1;
/// A tally follows the fixed part.
const FLAG_TALLY: u8 = 2;
/// There is an entry in `Tree::Bodies`.
const FLAG_BODY: u8 = 4;

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
    /// Whether there is a body that is not empty.
    pub has_body: bool,
}

/// `Tree::Rows`, `Tree::Bodies`: partition, key.
pub fn row_key(key: &RowKey) -> Result<Vec<u8>> {
    if key.key.is_empty() || key.key.len() > MAX_ROW_KEY_BYTES {
        return Err(Error::Refused(format!(
            "a row key of {} bytes: 1 to {MAX_ROW_KEY_BYTES} are allowed",
            key.key.len()
        )));
    }
    Ok(in_partition(key.partition, &key.key))
}

/// A partition, and bytes behind it.
pub fn in_partition(partition: PartitionId, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 + rest.len());
    bytes.extend_from_slice(&partition.0.to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

/// The reverse of [`in_partition`].
pub fn split_partition(bytes: &[u8]) -> Result<(PartitionId, &[u8])> {
    let (partition, rest) = bytes.split_first_chunk().ok_or_else(|| short("a key"))?;
    Ok((PartitionId(u16::from_be_bytes(*partition)), rest))
}

/// `Tree::Log`: partition, stamp, key.
pub fn log_key(partition: PartitionId, stamp: Stamp, key: &[u8]) -> Vec<u8> {
    let mut bytes = in_partition(partition, &stamp.to_bytes());
    bytes.extend_from_slice(key);
    bytes
}

/// The reverse of [`log_key`].
pub fn split_log_key(bytes: &[u8]) -> Result<(PartitionId, Stamp, &[u8])> {
    let (partition, rest) = split_partition(bytes)?;
    let (stamp, key) = rest
        .split_first_chunk()
        .ok_or_else(|| short("a key of the log"))?;
    Ok((partition, Stamp::from_bytes(*stamp), key))
}

/// `Tree::Windows`: partition, granularity, window.
pub fn window_key(partition: PartitionId, granularity: Granularity, window: u32) -> Vec<u8> {
    let mut bytes = in_partition(partition, &[granularity as u8]);
    bytes.extend_from_slice(&window.to_be_bytes());
    bytes
}

/// The number of the window that a key of `Tree::Windows` names.
pub fn window_number(key: &[u8]) -> Result<u32> {
    match key.len() {
        7 => Reader::new(&key[3..], "a key of a window").u32(),
        _ => Err(short("a key of a window")),
    }
}

/// `Tree::Counters`: partition, group.
pub fn counter_key(partition: PartitionId, group: Id) -> Vec<u8> {
    in_partition(partition, group.as_bytes())
}

/// The lowest key above all keys that begin with `prefix`; `None` if there is none.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut bytes = prefix[..=end].to_vec();
    bytes[end] += 1;
    Some(bytes)
}

/// Encodes a value of `Tree::Rows`.
pub fn encode_row(row: &StoredRow) -> Vec<u8> {
    let head = row.head.as_deref().unwrap_or_default();
    let mut bytes = Vec::with_capacity(2 + 48 + 28 + head.len());
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    bytes.push(VERSION);
    bytes.push(
        flag(row.head.is_some(), FLAG_LIVE)
            | flag(row.tally.is_some(), FLAG_TALLY)
            | flag(row.has_body, FLAG_BODY),
    );
    bytes.extend_from_slice(&row.promised.to_bytes());
    bytes.extend_from_slice(&row.stamp.to_bytes());
    bytes.extend_from_slice(row.write.as_bytes());
    if let Some(tally) = &row.tally {
        bytes.extend_from_slice(tally.group.as_bytes());
        bytes.extend_from_slice(&tally.objects.to_be_bytes());
        bytes.extend_from_slice(&tally.bytes.to_be_bytes());
    }
    bytes.extend_from_slice(head);
    bytes
}

/// Decodes a value of `Tree::Rows`.
pub fn decode_row(bytes: &[u8]) -> Result<StoredRow> {
    let mut reader = Reader::versioned(bytes, "a row")?;
    let flags = reader.u8()?;
    let known = FLAG_LIVE | FLAG_TALLY | FLAG_BODY;
    let live = flags & FLAG_LIVE != 0;
    if flags & !known != 0 || (!live && flags != 0) {
        return Err(Error::Damaged(format!("a row with the flags {flags:#x}")));
    }
    let (promised, stamp) = (reader.stamp()?, reader.stamp()?);
    let write = reader.id()?;
    let tally = match flags & FLAG_TALLY {
        0 => None,
        _ => Some(reader.tally()?),
    };
    let head = reader.rest();
    if !live && !head.is_empty() {
        return Err(Error::Damaged("a tombstone with a head".into()));
    }
    Ok(StoredRow {
        promised,
        stamp,
        write,
        head: live.then(|| Bytes::copy_from_slice(head)),
        tally,
        has_body: flags & FLAG_BODY != 0,
    })
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
    let mut bytes = Vec::with_capacity(3 + blocks.len() * 36 + inline.len());
    bytes.extend_from_slice(&[VERSION, kind]);
    if kind != KIND_INLINE {
        bytes.push(blocks.len() as u8);
        for block in blocks {
            bytes.extend_from_slice(block.hash.as_bytes());
            bytes.extend_from_slice(&block.len.to_be_bytes());
        }
    }
    bytes.extend_from_slice(inline);
    Some(bytes)
}

/// Decodes a value of `Tree::Bodies`.
pub fn decode_body(bytes: &[u8]) -> Result<Body> {
    let mut reader = Reader::versioned(bytes, "a body")?;
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

/// Encodes a value of `Tree::Windows`.
pub fn encode_window(window: &Window) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&window.rows.to_be_bytes());
    bytes.extend_from_slice(&window.fingerprint.0);
    bytes
}

/// Decodes a value of `Tree::Windows`.
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

/// Encodes a value of `Tree::Counters`.
pub fn encode_counter(counter: &Counter) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&counter.objects.to_be_bytes());
    bytes.extend_from_slice(&counter.bytes.to_be_bytes());
    bytes
}

/// Decodes a value of `Tree::Counters`.
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

fn short(what: &str) -> Error {
    Error::Damaged(format!("{what} of the wrong length"))
}

/// Takes fields off the front; whatever is missing is damage.
struct Reader<'a> {
    bytes: &'a [u8],
    what: &'a str,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], what: &'a str) -> Reader<'a> {
        Reader { bytes, what }
    }

    /// Checks the version byte.
    fn versioned(bytes: &'a [u8], what: &'a str) -> Result<Reader<'a>> {
        let mut reader = Reader::new(bytes, what);
        match reader.u8()? {
            VERSION => Ok(reader),
            found => Err(Error::Damaged(format!(
                "{what} of version {found}: this release reads {VERSION}"
            ))),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or_else(|| short(self.what))?;
        self.bytes = rest;
        Ok(*first)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn id(&mut self) -> Result<Id> {
        Ok(Id(self.array()?))
    }

    fn stamp(&mut self) -> Result<Stamp> {
        Ok(Stamp::from_bytes(self.array()?))
    }

    fn tally(&mut self) -> Result<Tally> {
        Ok(Tally {
            group: self.id()?,
            objects: self.u32()?,
            bytes: self.u64()?,
        })
    }

    fn blocks(&mut self) -> Result<Vec<BlockRef>> {
        let count = usize::from(self.u8()?);
        if count > MAX_BODY_BLOCKS {
            return Err(Error::Damaged(format!("a body of {count} blocks")));
        }
        (0..count).map(|_| self.block()).collect()
    }

    fn block(&mut self) -> Result<BlockRef> {
        Ok(BlockRef {
            hash: BlockHash(self.array()?),
            len: self.u32()?,
        })
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn end(&self) -> Result<()> {
        match self.bytes.is_empty() {
            true => Ok(()),
            false => Err(short(self.what)),
        }
    }
}
