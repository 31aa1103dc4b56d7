//! Moving blocks: away from a disk that drains or failed, and to a good copy from a damaged one.

use std::sync::Arc;

use archipel_base::BlockHash;

use super::append::Content;
use super::place::{Located, Place};
use super::record;
use super::sync::Ticket;
use super::upload::Claim;
use super::volume::DiskState;
use super::{Blocks, Pinned, index};
use crate::engine::{Durability, Edit, Flow, Result};
use crate::error::Error;

/// Blocks that one step looks at, at most.
const STEP_BLOCKS: usize = 256;

/// What a step of draining did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// Where the next step begins; `None` when the disk has been walked to its end.
    pub next: Option<Place>,
    /// Blocks that moved.
    pub moved: u64,
    /// Bytes of records that moved.
    pub bytes: u64,
    /// Blocks that could not be read, and stay where they are.
    pub unreadable: u64,
}

/// A block and where it goes.
struct Move {
    pinned: Pinned,
    from: Place,
    to: Located,
}

impl Blocks {
    /// Moves blocks away from a disk that is draining or failed: those after `after` (from the
    /// first if `None`), about `budget_bytes` of them. A disk is empty when a whole walk moved
    /// nothing and found nothing unreadable.
    pub async fn drain_step(
        self: &Arc<Blocks>,
        disk: u16,
        after: Option<Place>,
        budget_bytes: u64,
    ) -> Result<Drained> {
        let blocks = self.clone();
        let after = after.filter(|place| place.disk == disk);
        let job = move || blocks.drain_blocking(disk, after, budget_bytes);
        self.pool.run(job).await
    }

    fn drain_blocking(
        self: &Arc<Blocks>,
        disk: u16,
        after: Option<Place>,
        budget_bytes: u64,
    ) -> Result<Drained> {
        if self.volume(disk)?.state() == DiskState::Active {
            return Err(Error::Refused(format!("disk {disk} is not draining")));
        }
        let (found, next) = self.places_of(disk, after, budget_bytes)?;
        let mut drained = Drained {
            next,
            ..Drained::default()
        };
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

    /// The places of a disk after `after`, and where to go on.
    #[allow(clippy::type_complexity, reason = "a list and a cursor, used once")]
    fn places_of(
        &self,
        disk: u16,
        after: Option<Place>,
        budget_bytes: u64,
    ) -> Result<(Vec<(BlockHash, Located)>, Option<Place>)> {
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut next = None;
        let txn = self.engine.read()?;
        index::places(
            &*txn,
            Some(after.unwrap_or(Place::first_of(disk, 0))),
            |hash, located| {
                if located.place.disk != disk {
                    return Ok(Flow::Stop);
                }
                found.push((hash, located));
                bytes += located.record_bytes();
                if found.len() < STEP_BLOCKS && bytes < budget_bytes {
                    return Ok(Flow::Continue);
                }
                next = Some(located.place);
                Ok(Flow::Stop)
            },
        )?;
        Ok((found, next))
    }

    /// Copies a record, as it is stored, to another disk; `None` if the block is gone meanwhile.
    fn copy_away(self: &Arc<Blocks>, hash: BlockHash, located: &Located) -> Result<Option<Move>> {
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
        let to = self.write_record(&hash, content)?;
        // Not published: the index knows a good place until the move is committed.
        self.table.discard(&hash, to);
        drop(claim);
        Ok(Some(Move {
            pinned,
            from: located.place,
            to,
        }))
    }

    /// Writes a good copy of a block whose copy here is bad, and makes the index name it. The
    /// claim on the block is held.
    pub(super) fn heal(self: &Arc<Blocks>, pinned: &Pinned, content: &[u8]) -> Result<Located> {
        let hash = pinned.hash;
        let to = self.write_anywhere(&hash, content)?;
        self.table.discard(&hash, to);
        let indexed = index::entry(&*self.engine.read()?, &hash)?;
        if let Some(entry) = indexed {
            let pinned = Pinned::new(self, hash);
            let from = entry.located.place;
            self.commit_moves(vec![Move { pinned, from, to }])?;
        } else {
            self.sync_moves(&[to])?;
        }
        // Also for the index's sake: should the block leave it, this is the copy to use.
        self.table.publish(&hash, to);
        self.counters.healed.add(1);
        self.damaged_names().remove(&hash);
        Ok(to)
    }

    fn sync_moves(&self, places: &[Located]) -> Result<()> {
        for located in places {
            let volume = self.volume(located.place.disk)?;
            if let Some(ticket) = Ticket::of(volume, located.place.segment) {
                ticket.run()?;
            }
        }
        Ok(())
    }

    /// Syncs what can be; a disk that fails at it is marked.
    fn sync_all_blocking(&self) {
        for volume in self.volumes.values() {
            for segment in volume.dirty() {
                let synced = Ticket::of(volume, segment).map_or(Ok(()), |ticket| ticket.run());
                if let Err(error) = synced {
                    tracing::warn!(disk = volume.id, segment, "{error}");
                }
            }
        }
    }

    /// Syncs the copies, then makes the index name them: all in one transaction.
    fn commit_moves(&self, moves: Vec<Move>) -> Result<u64> {
        let places: Vec<Located> = moves.iter().map(|moved| moved.to).collect();
        if moves.is_empty() {
            return Ok(0);
        }
        self.sync_moves(&places)?;
        let mut txn = self.engine.write()?;
        // This commit makes buffered ones before it durable: so their blocks must be, first.
        self.sync_all_blocking();
        let mut moved = 0;
        for one in &moves {
            moved += u64::from(self.edit_move(&mut *txn, one)?);
        }
        let committed = txn.commit(Durability::Fsync);
        if let Err(Error::Failed(_)) = &committed {
            // It is not known which copy the index names after the next start.
            moves.iter().for_each(|one| one.pinned.leak());
        }
        committed?;
        Ok(moved)
    }

    fn edit_move(&self, edit: &mut dyn Edit, one: &Move) -> Result<bool> {
        let hash = &one.pinned.hash;
        let entry = index::entry(edit, hash)?.filter(|entry| entry.located.place == one.from);
        let Some(entry) = entry else {
            return Ok(false);
        };
        self.table.discard(hash, entry.located);
        index::relocate(edit, hash, &entry, one.to)?;
        Ok(true)
    }
}
