//! Moves of blocks: away from a draining or failed disk, and from a damaged copy to a good one.

use std::sync::Arc;

use archipel_base::BlockHash;

use super::append::Content;
use super::location::{DiskLocation, LocatedRecord};
use super::record;
use super::sync::Ticket;
use super::upload::Claim;
use super::volume::DiskState;
use super::{Blocks, Pinned, index};
use crate::engine::{Durability, Edit, Flow, Result};
use crate::error::Error;

/// The largest number of blocks in one step.
const STEP_BLOCKS: usize = 256;

/// The results of one step of draining.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// The start of the next step; `None` when the whole disk has been walked.
    pub next: Option<DiskLocation>,
    /// Blocks that moved.
    pub moved: u64,
    /// Bytes of records that moved.
    pub bytes: u64,
    /// Blocks that could not be read. They stay where they are.
    pub unreadable: u64,
}

/// A move of a block to another location.
struct Move {
    pinned: Pinned,
    from: DiskLocation,
    to: LocatedRecord,
    ticket: Ticket,
}

impl Blocks {
    /// Moves blocks away from a disk that is draining or failed: about `budget_bytes` of the blocks
    /// after `after` (from the first if `None`). When a whole walk moved nothing and found nothing
    /// unreadable, [`is_disk_empty`](Blocks::is_disk_empty) tells if the disk may be removed.
    pub async fn drain_step(
        self: &Arc<Blocks>,
        disk: u16,
        after: Option<DiskLocation>,
        budget_bytes: u64,
    ) -> Result<Drained> {
        let blocks = self.clone();
        let after = after.filter(|location| location.disk == disk);
        let job = move || blocks.drain_blocking(disk, after, budget_bytes);
        self.pool.run(job).await
    }

    /// Returns true if neither the index nor an upload or a reader needs a record on a disk that takes no
    /// new blocks. Then it stays so. Blocks the thread.
    pub fn is_disk_empty(&self, disk: u16) -> Result<bool> {
        // As in a freeing pass: the view of the index first, then the pin table, out of which no other pass
        // takes records meanwhile. A record that a row refers to or releases just now is in one of the two.
        let _only = self.reclaiming.lock();
        self.needs_none_on(disk)
    }

    /// Returns true if [`is_disk_empty`](Blocks::is_disk_empty) is known to be true. It waits for no
    /// freeing pass, which may take long: while one runs, the answer is not known.
    pub fn is_disk_known_empty(&self, disk: u16) -> Result<bool> {
        match self.reclaiming.try_lock() {
            Some(_only) => self.needs_none_on(disk),
            None => Ok(false),
        }
    }

    fn needs_none_on(&self, disk: u16) -> Result<bool> {
        Ok(!self.names_disk(disk)? && !self.pin_table.has_on(disk))
    }

    fn drain_blocking(
        self: &Arc<Blocks>,
        disk: u16,
        after: Option<DiskLocation>,
        budget_bytes: u64,
    ) -> Result<Drained> {
        if self.volume(disk)?.state() == DiskState::Active {
            return Err(Error::Refused(format!("disk {disk} is not draining")));
        }
        let (found, mut drained) = self.locations_of(disk, after, budget_bytes)?;
        let mut moves = Vec::new();
        for (hash, located) in found {
            match self.copy_away(hash, &located) {
                Ok(Some(copied)) => moves.push(copied),
                Ok(None) => {}
                Err(Error::Damaged(_)) => drained.unreadable += 1,
                Err(error) => return Err(error),
            }
        }
        drained.bytes = moves.iter().map(|copied| copied.to.record_bytes()).sum();
        drained.moved = self.commit_moves(moves)?;
        Ok(drained)
    }

    /// Returns the locations of a disk after `after`, the position after them, and how many cannot be read.
    fn locations_of(
        &self,
        disk: u16,
        after: Option<DiskLocation>,
        budget_bytes: u64,
    ) -> Result<(Vec<(BlockHash, LocatedRecord)>, Drained)> {
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut drained = Drained::default();
        let txn = self.engine.read()?;
        let damaged = index::readable_locations(
            &*txn,
            Some(after.unwrap_or(DiskLocation::first_of(disk, 0))),
            |hash, located| {
                if located.location.disk != disk {
                    return Ok(Flow::Stop);
                }
                found.push((hash, located));
                bytes += located.record_bytes();
                if found.len() < STEP_BLOCKS && bytes < budget_bytes {
                    return Ok(Flow::Continue);
                }
                drained.next = Some(located.location);
                Ok(Flow::Stop)
            },
        )?;
        drained.unreadable = damaged.iter().filter(|of| **of == disk).count() as u64;
        Ok((found, drained))
    }

    /// Copies a record, as it is stored, to another disk. Returns `None` if the block is gone by
    /// now.
    fn copy_away(
        self: &Arc<Blocks>,
        hash: BlockHash,
        located: &LocatedRecord,
    ) -> Result<Option<Move>> {
        let pinned = Pinned::new(self, hash);
        let claim = Claim::new(&pinned);
        if self.locate(&hash)? != Some(*located) {
            return Ok(None);
        }
        let stored = self.fetch_stored(&hash, located)?;
        let verified = record::open(&hash, located, stored.clone());
        verified.inspect_err(|error| self.note_damaged(&hash, error))?;
        let content = Content {
            stored: &stored,
            len: located.len,
            compressed: located.compressed,
        };
        let (to, ticket) = self.write_record(&hash, content)?;
        // Do not publish the copy yet: it is not durable.
        self.pin_table.discard(&hash, to);
        drop(claim);
        Ok(Some(Move {
            pinned,
            from: located.location,
            to,
            ticket,
        }))
    }

    /// Writes a good copy of a block whose copy here is damaged, and makes the index name it. The
    /// caller holds the claim on the block.
    pub(super) fn repair_copy(
        self: &Arc<Blocks>,
        pinned: &Pinned,
        content: &[u8],
    ) -> Result<LocatedRecord> {
        let hash = pinned.hash;
        let (to, ticket) = self.write_anywhere(&hash, content)?;
        self.pin_table.discard(&hash, to);
        let indexed = index::entry(&*self.engine.read()?, &hash)?;
        if let Some(entry) = indexed {
            let pinned = Pinned::new(self, hash);
            let from = entry.located.location;
            self.commit_moves(vec![Move {
                pinned,
                from,
                to,
                ticket,
            }])?;
        } else {
            ticket.run()?;
        }
        // Publish the copy as well: if the block leaves the index, this is the copy to use.
        self.pin_table.publish(&hash, to, None);
        self.counters.repaired.add(1);
        self.damaged.lock().remove(&hash);
        Ok(to)
    }

    /// Syncs the copies, then makes the index name them, all in one transaction.
    fn commit_moves(&self, moves: Vec<Move>) -> Result<u64> {
        if moves.is_empty() {
            return Ok(0);
        }
        moves.iter().try_for_each(|one| one.ticket.run())?;
        let mut txn = self.engine.write()?;
        let mut moved = 0;
        for one in &moves {
            moved += u64::from(self.edit_move(&mut *txn, one)?);
        }
        let committed = txn.commit(Durability::Fsync);
        if let Err(Error::Failed(_)) = &committed {
            // It is unknown which copy the index will name after the next start.
            moves.iter().for_each(|one| one.pinned.leak());
        }
        committed?;
        Ok(moved)
    }

    fn edit_move(&self, edit: &mut dyn Edit, one: &Move) -> Result<bool> {
        let hash = &one.pinned.hash;
        let entry = index::entry(edit, hash)?.filter(|entry| entry.located.location == one.from);
        let Some(entry) = entry else {
            return Ok(false);
        };
        // A reader may have looked in the index before the block came into it, and look in the pin
        // table next. So the table names the copy, which is durable, before it loses the original.
        self.pin_table.publish(hash, one.to, None);
        self.pin_table.discard(hash, entry.located);
        index::relocate(edit, hash, &entry, one.to)?;
        Ok(true)
    }
}
