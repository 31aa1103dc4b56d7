//! Uploads of blocks, and pins for readers.

use std::sync::Arc;

use archipel_base::BlockHash;
use bytes::Bytes;
use parking_lot::Mutex;

use super::append::Content;
use super::location::LocatedRecord;
use super::sync::{Ticket, finished};
use super::volume::{DiskState, Volume};
use super::{Blocks, MAX_BLOCK_BYTES, Pinned, record};
use crate::engine::Result;
use crate::error::Error;
use crate::row::BlockRef;

/// An upload of blocks. It pins each of them. When it is dropped, blocks that no committed row
/// refers to are freed.
pub struct BlockAppender {
    blocks: Arc<Blocks>,
    stored: Mutex<Vec<Stored>>,
}

/// A pin that keeps blocks readable while it lives, whatever happens to the rows that referred to
/// them.
pub struct Pin(#[allow(dead_code, reason = "held for its drop")] Vec<Pinned>);

/// A stored block, pinned.
struct Stored {
    block: BlockRef,
    _pinned: Pinned,
    /// The ticket that makes the block durable; `None` if it is durable.
    ticket: Option<Ticket>,
    deduplicated: bool,
}

/// The exclusive right to decide if and where a block is written.
pub(super) struct Claim<'a>(&'a Pinned);

impl<'a> Claim<'a> {
    pub fn new(pinned: &'a Pinned) -> Claim<'a> {
        pinned.blocks.pin_table.claim(&pinned.hash);
        Claim(pinned)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.blocks.pin_table.unclaim(&self.0.hash);
    }
}

impl Pin {
    pub(super) fn new(blocks: &Arc<Blocks>, names: &[BlockRef]) -> Pin {
        let pins = names.iter().map(|block| Pinned::new(blocks, block.hash));
        Pin(pins.collect())
    }
}

impl BlockAppender {
    pub(super) fn new(blocks: Arc<Blocks>) -> BlockAppender {
        BlockAppender {
            blocks,
            stored: Mutex::default(),
        }
    }

    /// Appends a block, or pins the existing copy. Several calls may run at once.
    ///
    /// Returns [`Error::Refused`] if the content is empty or longer than [`MAX_BLOCK_BYTES`], and
    /// [`Error::Full`] if no disk has room. A damaged copy is replaced.
    pub async fn append(&self, content: Bytes) -> Result<BlockRef> {
        if content.is_empty() || content.len() > MAX_BLOCK_BYTES {
            let len = content.len();
            return Err(Error::Refused(format!("a block of {len} bytes")));
        }
        let blocks = self.blocks.clone();
        let stored = self.blocks.pool.run(move || blocks.store(&content)).await?;
        let block = stored.block;
        self.stored.lock().push(stored);
        Ok(block)
    }

    /// Puts all blocks that were appended so far on stable storage.
    pub async fn sync(&self) -> Result<()> {
        let begun: Vec<_> = self
            .tickets()
            .into_iter()
            .map(|t| t.begin(&self.blocks.pool))
            .collect();
        for answer in begun {
            finished(answer).await?;
        }
        Ok(())
    }

    /// Returns the number of blocks that existed already.
    pub fn deduplicated(&self) -> usize {
        self.stored
            .lock()
            .iter()
            .filter(|stored| stored.deduplicated)
            .count()
    }

    /// Returns one ticket for each segment.
    fn tickets(&self) -> Vec<Ticket> {
        let mut tickets: Vec<Ticket> = Vec::new();
        let stored = self.stored.lock();
        let all = stored.iter().filter_map(|stored| stored.ticket.as_ref());
        for ticket in all.filter(|ticket| !ticket.is_done()) {
            if !tickets.iter().any(|known| known.covers(ticket)) {
                tickets.retain(|known| !ticket.covers(known));
                tickets.push(ticket.clone());
            }
        }
        tickets
    }
}

/// The copy that was found under a block's name.
enum Found {
    Good(LocatedRecord),
    /// The copy is damaged, or on a disk that failed, is gone or is being drained.
    Bad,
    Nothing,
}

impl Blocks {
    fn store(self: &Arc<Blocks>, content: &[u8]) -> Result<Stored> {
        let hash = BlockHash::of(content);
        // Pin first, then look: the copy that is found then stays.
        let pinned = Pinned::new(self, hash);
        let claim = Claim::new(&pinned);
        let (located, deduplicated) = match self.find_good(&hash)? {
            Found::Good(located) => (located, true),
            Found::Bad => (self.repair_copy(&pinned, content)?, false),
            Found::Nothing => (self.append_new(&hash, content)?, false),
        };
        drop(claim);
        if deduplicated {
            self.counters.deduplicated.add(1);
        }
        let known = self.pin_table.record(&hash);
        // Records that the committed index names are synced, so they need no ticket.
        let known = known.filter(|known| known.located.location == located.location);
        let ticket = known.and_then(|known| known.ticket);
        let len = content.len() as u32;
        Ok(Stored {
            block: BlockRef { hash, len },
            _pinned: pinned,
            ticket,
            deduplicated,
        })
    }

    /// Looks for a copy that an upload may rely on. It reads and verifies the copy, because the
    /// client may hold the last good one and then go away.
    fn find_good(&self, hash: &BlockHash) -> Result<Found> {
        let Some(located) = self.locate(hash)? else {
            return Ok(Found::Nothing);
        };
        // A disk that is drained may be removed before the upload ends.
        let is_leaving = self.leaves(located.location.disk);
        if is_leaving || self.damaged.lock().contains_key(hash) {
            return Ok(Found::Bad);
        }
        match self.fetch(hash, &located) {
            Ok(_) => Ok(Found::Good(located)),
            Err(Error::Damaged(_) | Error::NoBlock(_)) => Ok(Found::Bad),
            Err(error) => Err(error),
        }
    }

    /// Writes a new block. The caller holds the claim on it.
    fn append_new(&self, hash: &BlockHash, content: &[u8]) -> Result<LocatedRecord> {
        let (located, ticket) = self.write_anywhere(hash, content)?;
        self.pin_table.publish(hash, located, Some(ticket));
        Ok(located)
    }

    /// Compresses the content if it pays, and writes it to the chosen disk, or to another one if
    /// that fails. Does not publish the record.
    pub(super) fn write_anywhere(
        &self,
        hash: &BlockHash,
        content: &[u8],
    ) -> Result<(LocatedRecord, Ticket)> {
        let level = self.compression_level;
        let compressed = level.and_then(|level| record::compress(content, level));
        let saved = compressed
            .as_ref()
            .map_or(0, |small| content.len() - small.len());
        let record = Content {
            stored: compressed.as_deref().unwrap_or(content),
            len: content.len() as u32,
            compressed: compressed.is_some(),
        };
        let written = self.write_record(hash, record)?;
        self.counters.saved_bytes.add(saved as u64);
        Ok(written)
    }

    pub(super) fn write_record(
        &self,
        hash: &BlockHash,
        record: Content<'_>,
    ) -> Result<(LocatedRecord, Ticket)> {
        let mut tried = Vec::new();
        let mut last_error = None;
        while let Some(volume) = self.choose(hash, record.stored.len() as u64, &tried) {
            match volume.write(&self.pin_table, hash, record) {
                Ok((located, ticket)) => {
                    self.counters.appended.add(1);
                    self.counters.content_bytes.add(record.len.into());
                    self.counters.written_bytes.add(located.record_bytes());
                    return Ok((located, ticket));
                }
                Err(error) => {
                    tracing::warn!(disk = volume.id, "{error}");
                    tried.push(volume.id);
                    last_error = Some(error);
                }
            }
        }
        Err(last_error.unwrap_or_else(|| self.why_none_takes()))
    }

    /// Chooses a disk with room for `bytes`. The block's name serves as the random number, and free
    /// space as the weight.
    fn choose(&self, hash: &BlockHash, bytes: u64, tried: &[u16]) -> Option<&Arc<Volume>> {
        let takes = |volume: &&Arc<Volume>| {
            volume.state() == DiskState::Active && !tried.contains(&volume.id)
        };
        let mut candidates = Vec::new();
        for volume in self.volumes.values().filter(takes) {
            match volume.space() {
                Ok(space) if space.free > bytes => candidates.push((volume, space.free)),
                Ok(_) => {}
                Err(error) => tracing::warn!(disk = volume.id, "{error}"),
            }
        }
        pick(hash, &candidates).copied()
    }

    fn why_none_takes(&self) -> Error {
        let failed = |volume: &Arc<Volume>| volume.state() == DiskState::Failed;
        if self.volumes.values().all(failed) {
            Error::Failed("all disks failed".into())
        } else {
            Error::Full("no disk takes more blocks".into())
        }
    }
}

fn pick<'a, T>(hash: &BlockHash, weighted: &'a [(T, u64)]) -> Option<&'a T> {
    let total: u128 = weighted.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let (high, _) = hash.as_bytes().split_at(8);
    let chance = high
        .iter()
        .fold(0, |number, byte| number << 8 | u128::from(*byte));
    let mut point = (chance * total) >> 64;
    for (item, weight) in weighted {
        let weight = u128::from(*weight);
        if point < weight {
            return Some(item);
        }
        point -= weight;
    }
    None
}
