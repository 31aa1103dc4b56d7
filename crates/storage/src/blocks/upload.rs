//! Blocks on their way in, and pins for those who read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archipel_base::BlockHash;
use bytes::Bytes;

use super::append::Content;
use super::place::Located;
use super::sync::{Ticket, finished};
use super::volume::{DiskState, Volume};
use super::{Blocks, MAX_BLOCK_BYTES, Pinned, record};
use crate::engine::Result;
use crate::error::Error;
use crate::row::BlockRef;

/// Blocks on their way in, each pinned. Dropping it gives up what no committed row refers to.
pub struct Upload {
    blocks: Arc<Blocks>,
    stored: Mutex<Vec<Stored>>,
}

/// Keeps blocks readable while it lives, whatever happens to the rows that referred to them.
pub struct Pin(#[allow(dead_code, reason = "held for its drop")] Vec<Pinned>);

/// A block that is here, pinned.
struct Stored {
    block: BlockRef,
    _pinned: Pinned,
    /// What makes it durable, unless it is.
    ticket: Option<Ticket>,
    deduplicated: bool,
}

/// The right to decide whether and where a block is written.
pub(super) struct Claim<'a>(&'a Pinned);

impl<'a> Claim<'a> {
    pub fn new(pinned: &'a Pinned) -> Claim<'a> {
        pinned.blocks.table.claim(&pinned.hash);
        Claim(pinned)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.blocks.table.unclaim(&self.0.hash);
    }
}

impl Pin {
    pub(super) fn new(blocks: &Arc<Blocks>, names: &[BlockRef]) -> Pin {
        let pins = names.iter().map(|block| Pinned::new(blocks, block.hash));
        Pin(pins.collect())
    }
}

impl Upload {
    pub(super) fn new(blocks: Arc<Blocks>) -> Upload {
        Upload {
            blocks,
            stored: Mutex::default(),
        }
    }

    /// Appends a block, or pins the one that is here already. Several calls may run at once.
    ///
    /// [`Error::Refused`] if it is empty or longer than [`MAX_BLOCK_BYTES`], [`Error::Full`] if no
    /// disk has room. A copy that is here but damaged is replaced.
    pub async fn append(&self, content: Bytes) -> Result<BlockRef> {
        if content.is_empty() || content.len() > MAX_BLOCK_BYTES {
            let len = content.len();
            return Err(Error::Refused(format!("a block of {len} bytes")));
        }
        let blocks = self.blocks.clone();
        let stored = self.blocks.pool.run(move || blocks.store(&content)).await?;
        let block = stored.block;
        self.stored().push(stored);
        Ok(block)
    }

    /// Returns once everything appended so far is on stable storage.
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

    /// How many of the blocks were here already.
    pub fn deduplicated(&self) -> usize {
        self.stored()
            .iter()
            .filter(|stored| stored.deduplicated)
            .count()
    }

    fn stored(&self) -> MutexGuard<'_, Vec<Stored>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One ticket for each segment.
    fn tickets(&self) -> Vec<Ticket> {
        let mut tickets: Vec<Ticket> = Vec::new();
        let stored = self.stored();
        for ticket in stored.iter().filter_map(|stored| stored.ticket.as_ref()) {
            if !tickets.iter().any(|known| known.covers(ticket)) {
                tickets.retain(|known| !ticket.covers(known));
                tickets.push(ticket.clone());
            }
        }
        tickets
    }
}

/// What was found under a block's name.
enum Found {
    Good(Located),
    /// Damaged, or on a disk that failed or is gone.
    Bad,
    Nothing,
}

impl Blocks {
    fn store(self: &Arc<Blocks>, content: &[u8]) -> Result<Stored> {
        let hash = BlockHash::of(content);
        // Pinned first, then looked for: what is found then stays.
        let pinned = Pinned::new(self, hash);
        let claim = Claim::new(&pinned);
        let (located, deduplicated) = match self.find_good(&hash)? {
            Found::Good(located) => (located, true),
            Found::Bad => (self.heal(&pinned, content)?, false),
            Found::Nothing => (self.append_new(&hash, content)?, false),
        };
        drop(claim);
        if deduplicated {
            self.counters.deduplicated.add(1);
        }
        let volume = self.volume(located.place.disk)?;
        let ticket = Ticket::of(volume, located.place.segment);
        let len = content.len() as u32;
        Ok(Stored {
            block: BlockRef { hash, len },
            _pinned: pinned,
            ticket,
            deduplicated,
        })
    }

    /// Looks for a copy that an upload may rely on: it is read and verified, since the client
    /// goes away with what may be the last good one.
    fn find_good(&self, hash: &BlockHash) -> Result<Found> {
        let Some(located) = self.locate(hash)? else {
            return Ok(Found::Nothing);
        };
        let state = self
            .volumes
            .get(&located.place.disk)
            .map(|volume| volume.state());
        if !matches!(state, Some(DiskState::Active | DiskState::Draining))
            || self.damaged_names().contains_key(hash)
        {
            return Ok(Found::Bad);
        }
        match self.fetch(hash, &located) {
            Ok(_) => Ok(Found::Good(located)),
            Err(Error::Damaged(_) | Error::NoBlock(_)) => Ok(Found::Bad),
            Err(error) => Err(error),
        }
    }

    /// Writes a block that is not here. The claim on it is held.
    fn append_new(&self, hash: &BlockHash, content: &[u8]) -> Result<Located> {
        let located = self.write_anywhere(hash, content)?;
        self.table.publish(hash, located);
        Ok(located)
    }

    /// Compresses if it pays, and writes to the disk that the choice falls on, or to another if
    /// that cannot. Not published yet.
    pub(super) fn write_anywhere(&self, hash: &BlockHash, content: &[u8]) -> Result<Located> {
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
        let located = self.write_record(hash, record)?;
        self.counters.saved_bytes.add(saved as u64);
        Ok(located)
    }

    pub(super) fn write_record(&self, hash: &BlockHash, record: Content<'_>) -> Result<Located> {
        let mut tried = Vec::new();
        let mut last_error = None;
        while let Some(volume) = self.choose(hash, record.stored.len() as u64, &tried) {
            match volume.write(&self.table, hash, record) {
                Ok(located) => {
                    self.counters.appended.add(1);
                    self.counters.content_bytes.add(record.len.into());
                    self.counters.written_bytes.add(located.record_bytes());
                    return Ok(located);
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

    /// A disk that takes `bytes`: by chance (the block's name), weighted by room.
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
