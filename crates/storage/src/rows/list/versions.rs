//! Pages of the versions of objects: the rows of objects and the kept rows, as one sequence.
//!
//! A replica holds the current version of an object in the object's row, and the others in kept
//! rows (`docs/internals/versions.md`). A replica that lags may hold as current what others keep.
//! So a page shows the object's row as two rows, which merge with those of other replicas one by
//! one:
//! - under the object's key, the **pointer**: stamp, kind and name of the current version;
//! - under the key of that version, the version itself, as if it were kept. If a kept row of it is
//!   newer, that row is shown instead.
//!
//! The key of a version in the page is the object's key, NUL, and the bytes of its name. The rows
//! are read in batches, so a page reads few rows more than it shows.

use std::collections::VecDeque;
use std::ops::Bound;

use archipel_base::{PartitionId, Stamp};
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::{ListQuery, ListStart, Page, Step, without_value};
use crate::engine::{Direction, Flow, ReadTxn, Result, Tree};
use crate::error::Error;
use crate::row::{RowVersion, VersionKind, name_bytes};
use crate::rows::codec;
use crate::rows::metadata::RowMetadata;
use crate::rows::reader::PrefixRange;

/// The number of rows that are read at first. Each further batch is twice as large.
const FIRST_BATCH: usize = 4;
const MAX_BATCH: usize = 256;

/// Where a bucket's objects and their kept versions are. A listing of versions has both. Its keys
/// begin as those of objects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeptKeys {
    /// The beginning of the keys of the objects' rows.
    #[serde(rename = "o")]
    pub objects: Bytes,
    /// The beginning of the keys of the kept rows. The object's key without its beginning, NUL, and
    /// the bytes of the version's name follow.
    #[serde(rename = "k")]
    pub kept: Bytes,
}

impl KeptKeys {
    /// Returns the object's key in a key of the listing.
    pub fn object_of<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let rest = key.get(self.objects.len()..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0);
        let end = end.map_or(key.len(), |end| self.objects.len() + end);
        key.get(..end).unwrap_or(key)
    }
}

/// A row: its key in the listing, and its metadata, or why it cannot be read.
type Found = (Bytes, std::result::Result<RowMetadata, String>);

/// Fills a page with versions.
pub(super) fn fill(txn: &dyn ReadTxn, keys: &KeptKeys, page: &mut Page<'_>) -> Result<()> {
    let query = page.query;
    let mut start = lowest(&query.start);
    while let Some(from) = start.take() {
        let from = from.max(query.prefix.to_vec());
        if !from.starts_with(&query.prefix) || !query.prefix.starts_with(&keys.objects) {
            return Ok(());
        }
        let mut rows = Rows::new(keys, query, from);
        while let Some((key, row)) = rows.next(txn)? {
            let step = match row {
                Ok(row) => page.add(&key, row),
                Err(why) => page.add_damaged(&key, &why),
            };
            match step {
                Step::Continue => {}
                Step::End => return Ok(()),
                Step::Seek(to) => {
                    start = lowest(&to);
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Returns the lowest key that a start lets through; `None` if there is none.
fn lowest(start: &ListStart) -> Option<Vec<u8>> {
    match start {
        ListStart::At(key) => Some(key.to_vec()),
        ListStart::After(key) => Some([key, &[0][..]].concat()),
        ListStart::AfterPrefix(prefix) => codec::successor(prefix),
    }
}

/// The rows of a listing from a key on.
struct Rows {
    from: Vec<u8>,
    objects: Side,
    kept: Side,
    /// The version in the object's row that was read last.
    current: Option<Found>,
}

impl Rows {
    fn new(keys: &KeptKeys, query: &ListQuery, from: Vec<u8>) -> Rows {
        let kept = |key: &[u8]| {
            let rest = key.get(keys.objects.len()..).unwrap_or_default();
            [&keys.kept, rest].concat()
        };
        let side = |own: &Bytes, prefix: Vec<u8>, from: Vec<u8>| Side {
            partition: query.partition,
            prefix,
            own: own.len(),
            shown: keys.objects.clone(),
            next: Some(Bound::Included(from)),
            batch: FIRST_BATCH,
            read: VecDeque::new(),
        };
        // A page that begins with a version may have to show the one in the object's row, too.
        let object = keys.object_of(&from).to_vec();
        Rows {
            objects: side(&keys.objects, query.prefix.to_vec(), object),
            kept: side(&keys.kept, kept(&query.prefix), kept(&from)),
            from,
            current: None,
        }
    }

    fn next(&mut self, txn: &dyn ReadTxn) -> Result<Option<Found>> {
        loop {
            let kept = self.kept.front(txn)?;
            let object = match self.current {
                Some(_) => None,
                None => self.objects.front(txn)?,
            };
            let front = self.current.as_ref().map(|(key, _)| key).or(object);
            let found = match (front, kept) {
                (None, None) => return Ok(None),
                (None, Some(_)) => self.kept.read.pop_front(),
                (Some(own), Some(kept)) if kept < own => self.kept.read.pop_front(),
                (Some(own), kept) => {
                    let same = kept.is_some_and(|kept| kept == own);
                    let kept = same.then(|| self.kept.read.pop_front()).flatten();
                    match self.current.take() {
                        Some(current) => Some(newer(current, kept)),
                        None => self.objects.read.pop_front().and_then(|row| self.open(row)),
                    }
                }
            };
            if let Some(found) = found.filter(|(key, _)| key[..] >= self.from[..]) {
                return Ok(Some(found));
            }
        }
    }

    /// Returns the pointer that an object's row shows, and notes the version.
    fn open(&mut self, (key, row): Found) -> Option<Found> {
        let row = match row {
            Ok(row) if !row.is_written() => return None,
            Ok(row) => row,
            damaged => return Some((key, damaged)),
        };
        let version = row.version.as_deref().cloned().unwrap_or_default();
        let is_version = row.is_live() && version.kind != VersionKind::Void;
        let named = RowVersion {
            changes: Vec::new(),
            ..version
        };
        let name = named.at.filter(|_| is_version);
        let row = RowMetadata {
            usage: None,
            version: Some(Box::new(named)),
            ..row
        };
        let (row, pointer) = match is_version {
            true => {
                let metadata = Some(Bytes::new());
                (row.clone(), RowMetadata { metadata, ..row })
            }
            // A value without a version is the end of the null version.
            false => (without_value(row.clone()), without_value(row)),
        };
        let mut of = BytesMut::with_capacity(key.len() + 17);
        of.put_slice(&key);
        of.put_u8(0);
        of.put_slice(&name_bytes(name));
        self.current = Some((of.freeze(), Ok(row)));
        Some((key, Ok(pointer)))
    }
}

/// Returns the newer one of the version in the object's row and its kept row.
fn newer(current: Found, kept: Option<Found>) -> Found {
    let stamp = |found: &Found| found.1.as_ref().map_or(Stamp::ZERO, |row| row.stamp);
    match kept {
        Some(kept) if stamp(&kept) >= stamp(&current) => kept,
        _ => current,
    }
}

/// The rows of objects, or the kept rows, which are read in batches.
struct Side {
    partition: PartitionId,
    prefix: Vec<u8>,
    /// The length of the beginning of the rows' keys, and what the listing shows instead.
    own: usize,
    shown: Bytes,
    /// Where the next batch begins.
    next: Option<Bound<Vec<u8>>>,
    batch: usize,
    read: VecDeque<Found>,
}

impl Side {
    /// Returns the key of the next row in the listing.
    fn front(&mut self, txn: &dyn ReadTxn) -> Result<Option<&Bytes>> {
        if self.read.is_empty()
            && let Some(next) = self.next.take()
        {
            self.fill(txn, next.as_ref().map(Vec::as_slice))?;
        }
        Ok(self.read.front().map(|(key, _)| key))
    }

    fn fill(&mut self, txn: &dyn ReadTxn, next: Bound<&[u8]>) -> Result<()> {
        let range = PrefixRange::new(self.partition, &self.prefix, next);
        let (bounds, direction) = (range.bounds(), Direction::Ascending);
        txn.scan(Tree::Rows, bounds, direction, &mut |stored, value| {
            let (_, key) = codec::split_partition(stored)?;
            let row = match codec::decode_metadata(stored, value) {
                Ok(row) => Ok(row.into()),
                Err(Error::Damaged(why)) => Err(why),
                Err(error) => return Err(error),
            };
            let shown = [&self.shown, key.get(self.own..).unwrap_or_default()].concat();
            self.read.push_back((shown.into(), row));
            if self.read.len() < self.batch {
                return Ok(Flow::Continue);
            }
            self.next = Some(Bound::Excluded(key.to_vec()));
            Ok(Flow::Stop)
        })?;
        self.batch = MAX_BATCH.min(self.batch * 2);
        Ok(())
    }
}
