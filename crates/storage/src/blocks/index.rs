//! The two indexes in the metadata engine: blocks and locations. They change together.

use std::ops::{Bound, RangeInclusive};

use archipel_base::BlockHash;

use super::location::{DiskLocation, Entry, LocatedRecord};
use crate::engine::{Direction, Edit, Flow, ReadTxn, Result, Tree, Visitor};
use crate::error::Error;

/// Returns the index entry of a block.
pub(super) fn entry(txn: &(impl ReadTxn + ?Sized), hash: &BlockHash) -> Result<Option<Entry>> {
    let value = txn.get(Tree::Blocks, hash.as_bytes())?;
    value.map(|value| Entry::from_bytes(&value)).transpose()
}

/// Sets a block's location and references, in both indexes.
pub(super) fn insert(edit: &mut dyn Edit, hash: &BlockHash, entry: &Entry) -> Result<()> {
    let located = entry.located;
    edit.put(Tree::Blocks, hash.as_bytes(), &entry.to_bytes())?;
    edit.put(
        Tree::Places,
        &located.location.to_key(),
        &located.to_location_entry(hash),
    )
}

/// Sets only the number of references.
pub(super) fn set_references(edit: &mut dyn Edit, hash: &BlockHash, entry: &Entry) -> Result<()> {
    edit.put(Tree::Blocks, hash.as_bytes(), &entry.to_bytes())
}

/// Removes a block and its location.
pub(super) fn remove(edit: &mut dyn Edit, hash: &BlockHash, location: DiskLocation) -> Result<()> {
    edit.delete(Tree::Blocks, hash.as_bytes())?;
    edit.delete(Tree::Places, &location.to_key())?;
    Ok(())
}

/// Changes the location of a block.
pub(super) fn relocate(
    edit: &mut dyn Edit,
    hash: &BlockHash,
    old: &Entry,
    new: LocatedRecord,
) -> Result<()> {
    edit.delete(Tree::Places, &old.located.location.to_key())?;
    let entry = Entry {
        located: new,
        references: old.references,
    };
    insert(edit, hash, &entry)
}

/// Visits the locations after `after` (from the first if `None`) in order, until the visitor stops.
pub(super) fn locations(
    txn: &(impl ReadTxn + ?Sized),
    after: Option<DiskLocation>,
    mut visit: impl FnMut(BlockHash, LocatedRecord) -> Result<Flow>,
) -> Result<()> {
    scan_after(txn, after, &mut |key, value| {
        let (hash, located) = LocatedRecord::from_location_entry(key, value)?;
        visit(hash, located)
    })
}

/// Does the same as [`locations`], and passes over entries that are damaged. Returns their disks.
/// They must not keep the rest from being scrubbed or moved. They are not for those who free space: what a
/// damaged entry names may be alive.
pub(super) fn readable_locations(
    txn: &(impl ReadTxn + ?Sized),
    after: Option<DiskLocation>,
    mut visit: impl FnMut(BlockHash, LocatedRecord) -> Result<Flow>,
) -> Result<Vec<u16>> {
    let mut damaged = Vec::new();
    scan_after(
        txn,
        after,
        &mut |key, value| match LocatedRecord::from_location_entry(key, value) {
            Ok((hash, located)) => visit(hash, located),
            Err(error) => {
                tracing::error!(%error, "the block index is damaged; fix: archipel metadata rebuild-blocks");
                damaged.extend(DiskLocation::from_key(key).map(|location| location.disk));
                Ok(Flow::Continue)
            }
        },
    )?;
    Ok(damaged)
}

/// Visits the entries of `Tree::Places` after `after` in order.
fn scan_after(
    txn: &(impl ReadTxn + ?Sized),
    after: Option<DiskLocation>,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    let key = after.map(DiskLocation::to_key);
    let lower = key
        .as_ref()
        .map_or(Bound::Unbounded, |key| Bound::Excluded(key.as_slice()));
    let range = (lower, Bound::Unbounded);
    txn.scan(Tree::Places, range, Direction::Ascending, visit)
}

/// Returns true if the index names blocks on the disk, and none of them has a reference.
pub(super) fn has_only_unreferenced(txn: &(impl ReadTxn + ?Sized), disk: u16) -> Result<bool> {
    let (mut is_named, mut is_referenced) = (false, false);
    let first = DiskLocation::first_of(disk, 0);
    locations(txn, Some(first), |hash, located| {
        if located.location.disk != disk {
            return Ok(Flow::Stop);
        }
        is_named = true;
        is_referenced = references(txn, &hash)? > 0;
        Ok(match is_referenced {
            true => Flow::Stop,
            false => Flow::Continue,
        })
    })?;
    Ok(is_named && !is_referenced)
}

/// Returns the last location of the same segment before `location`.
pub(super) fn last_before(
    txn: &(impl ReadTxn + ?Sized),
    location: DiskLocation,
) -> Result<Option<LocatedRecord>> {
    if location.offset == 0 {
        return Ok(None);
    }
    let first = DiskLocation::first_of(location.disk, location.segment).to_key();
    let upper = location.to_key();
    let range = (
        Bound::Included(first.as_slice()),
        Bound::Excluded(upper.as_slice()),
    );
    one(txn, range, Direction::Descending)
}

/// Returns the last location of a disk.
pub(super) fn last_of(txn: &(impl ReadTxn + ?Sized), disk: u16) -> Result<Option<LocatedRecord>> {
    let first = DiskLocation::first_of(disk, 0).to_key();
    let last = DiskLocation {
        disk,
        segment: u32::MAX,
        offset: u64::MAX,
    };
    let upper = last.to_key();
    let range = (
        Bound::Included(first.as_slice()),
        Bound::Included(upper.as_slice()),
    );
    one(txn, range, Direction::Descending)
}

/// Returns the first location of the same segment at or after `location`.
pub(super) fn first_from(
    txn: &(impl ReadTxn + ?Sized),
    location: DiskLocation,
) -> Result<Option<LocatedRecord>> {
    let lower = location.to_key();
    let last = DiskLocation {
        offset: u64::MAX,
        ..location
    };
    let upper = last.to_key();
    let range = (
        Bound::Included(lower.as_slice()),
        Bound::Included(upper.as_slice()),
    );
    one(txn, range, Direction::Ascending)
}

type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

fn one(
    txn: &(impl ReadTxn + ?Sized),
    range: Range<'_>,
    direction: Direction,
) -> Result<Option<LocatedRecord>> {
    let mut found = None;
    scan(txn, range, direction, &mut |_, located| {
        found = Some(located);
        Ok(Flow::Stop)
    })?;
    Ok(found)
}

fn scan(
    txn: &(impl ReadTxn + ?Sized),
    range: Range<'_>,
    direction: Direction,
    visit: &mut dyn FnMut(BlockHash, LocatedRecord) -> Result<Flow>,
) -> Result<()> {
    txn.scan(Tree::Places, range, direction, &mut |key, value| {
        let (hash, located) = LocatedRecord::from_location_entry(key, value)?;
        visit(hash, located)
    })
}

/// Returns the number of references of a block; 0 if it is not in the index.
pub(crate) fn references(txn: &(impl ReadTxn + ?Sized), hash: &BlockHash) -> Result<u64> {
    Ok(entry(txn, hash)?.map_or(0, |entry| entry.references))
}

/// A block with its number of references, or the error if its entry is damaged.
pub(crate) type Counted = Result<(BlockHash, u64)>;

/// Visits each entry of the index of blocks: its key, and the block with its number of references, or the error if
/// the entry is damaged. It is for the visitor to go on behind a damaged one.
pub(crate) fn scan_references(
    txn: &dyn ReadTxn,
    first_bytes: &RangeInclusive<u16>,
    visit: &mut dyn FnMut(&[u8], Counted) -> Result<Flow>,
) -> Result<()> {
    let from = first_bytes.start().to_be_bytes();
    let end = first_bytes.end().checked_add(1).map(u16::to_be_bytes);
    let end = end
        .as_ref()
        .map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
    txn.scan(
        Tree::Blocks,
        (Bound::Included(&from[..]), end),
        Direction::Ascending,
        &mut |key, value| visit(key, counted(key, value)),
    )
}

/// Decodes an entry of the index of blocks.
fn counted(key: &[u8], value: &[u8]) -> Counted {
    let hash = <[u8; 32]>::try_from(key)
        .map_err(|_| Error::Damaged(format!("a block's key of {} bytes", key.len())))?;
    Ok((BlockHash(hash), Entry::from_bytes(value)?.references))
}

/// Compares the two indexes and describes each difference. The first index has `blocks` entries.
pub(crate) fn check_locations(
    txn: &dyn ReadTxn,
    blocks: u64,
    tell: &mut dyn FnMut(String),
) -> Result<()> {
    let mut found = 0;
    let all = (Bound::Unbounded, Bound::Unbounded);
    txn.scan(
        Tree::Places,
        all,
        Direction::Ascending,
        &mut |key, value| {
            found += 1;
            match LocatedRecord::from_location_entry(key, value) {
                Err(error) => tell(error.to_string()),
                Ok((hash, located)) => match entry(txn, &hash) {
                    // The scan of the references tells of it.
                    Err(Error::Damaged(_)) => {}
                    known => {
                        if known?.map(|entry| entry.located) != Some(located) {
                            tell(format!("block {hash}: the index names another location"));
                        }
                    }
                },
            }
            Ok(Flow::Continue)
        },
    )?;
    if found != blocks {
        tell(format!("{found} locations, {blocks} blocks"));
    }
    Ok(())
}
