//! Reads of blocks: locating a block, and verifying the bytes at that location.

use std::io::{self, ErrorKind};

use archipel_base::BlockHash;
use bytes::Bytes;

use super::location::LocatedRecord;
use super::volume::DiskState;
use super::{Blocks, MAX_DAMAGED, index, record};
use crate::engine::{ReadTxn, Result};
use crate::error::{Error, is_damage};
use crate::row::BlockRef;

impl Blocks {
    /// Returns true if a block was found damaged and has not been replaced since.
    pub fn is_damaged(&self, hash: &BlockHash) -> bool {
        self.damaged.lock().contains_key(hash)
    }

    /// Returns the blocks that a new row cannot refer to, each once. They are not on this node, or
    /// on a disk that failed or is gone. Blocking.
    pub(crate) fn missing(&self, blocks: &[BlockRef]) -> Result<Vec<BlockRef>> {
        let mut missing: Vec<BlockRef> = Vec::new();
        for block in blocks {
            let is_here = |located: LocatedRecord| self.is_usable(&located);
            if !missing.contains(block) && !self.locate(&block.hash)?.is_some_and(is_here) {
                missing.push(*block);
            }
        }
        Ok(missing)
    }

    /// Returns true if a usable disk holds the block, as far as the index of `txn` says. A damaged entry
    /// names no disk.
    pub(crate) fn is_held(&self, txn: &dyn ReadTxn, hash: &BlockHash) -> Result<bool> {
        match index::entry(txn, hash) {
            Ok(entry) => Ok(entry.is_some_and(|entry| self.is_usable(&entry.located))),
            Err(Error::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns true if a new row may rely on the record: its disk has not failed and is not gone.
    pub(super) fn is_usable(&self, located: &LocatedRecord) -> bool {
        let volume = self.volumes.get(&located.location.disk);
        volume.is_some_and(|volume| volume.state() != DiskState::Failed)
    }

    /// Returns true if blocks should leave the disk: it failed, is gone, or is being drained.
    pub(super) fn leaves(&self, disk: u16) -> bool {
        let volume = self.volumes.get(&disk);
        volume.is_none_or(|volume| volume.state() != DiskState::Active)
    }

    /// Returns the location of a block. The block must be pinned, so that it stays there.
    pub(super) fn locate(&self, hash: &BlockHash) -> Result<Option<LocatedRecord>> {
        // Look in the index first: a pinned block is in the pin table before it leaves the index.
        let entry = index::entry(&*self.engine.read()?, hash)?;
        Ok(match entry {
            Some(entry) => Some(entry.located),
            None => self.pin_table.record(hash).map(|known| known.located),
        })
    }

    pub(super) fn load(&self, hash: &BlockHash, len: u32) -> Result<Bytes> {
        let located = self
            .locate(hash)?
            .ok_or_else(|| Error::NoBlock(hash.to_string()))?;
        if located.len != len {
            let why = format!("{len} bytes are expected, not {}", located.len);
            return Err(record::damaged(hash, &located, &why));
        }
        self.fetch(hash, &located)
    }

    /// Reads and verifies a block. Remembers it if it is damaged.
    pub(super) fn fetch(&self, hash: &BlockHash, located: &LocatedRecord) -> Result<Bytes> {
        let stored = self.fetch_stored(hash, located)?;
        let content = record::open(hash, located, stored);
        content.inspect_err(|error| self.note_damaged(hash, error))
    }

    pub(super) fn fetch_stored(
        &self,
        hash: &BlockHash,
        located: &LocatedRecord,
    ) -> Result<Vec<u8>> {
        let volume = self.volume(located.location.disk)?;
        if !located.is_sound() {
            return Err(record::damaged(
                hash,
                located,
                "the index has impossible lengths",
            ));
        }
        let mut stored = vec![0; located.stored as usize];
        let location = located.location;
        let offset = location.offset + record::HEADER_BYTES as u64;
        let read = volume.disk.read_at(location.segment, offset, &mut stored);
        self.counters.read.add(1);
        self.counters.read_bytes.add(stored.len() as u64);
        if let Err(error) = read {
            let error = self.unreadable(hash, located, &error);
            self.note_damaged(hash, &error);
            return Err(error);
        }
        Ok(stored)
    }

    /// Converts a read error. If the disk lacks the bytes or cannot read them, the block is damaged
    /// and must come from elsewhere. Other errors are temporary.
    pub(super) fn unreadable(
        &self,
        hash: &BlockHash,
        located: &LocatedRecord,
        error: &io::Error,
    ) -> Error {
        let is_gone =
            error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODATA);
        if is_gone || is_damage(error) {
            return record::damaged(hash, located, &error.to_string());
        }
        Error::from_io(&format!("reading block {hash}"), error)
    }

    pub(super) fn note_damaged(&self, hash: &BlockHash, error: &Error) {
        let Error::Damaged(text) = error else {
            return;
        };
        tracing::warn!("{text}");
        let mut damaged = self.damaged.lock();
        let is_new = match damaged.len() < MAX_DAMAGED {
            true => damaged.insert(*hash, text.clone()).is_none(),
            false => !damaged.contains_key(hash),
        };
        // A block is found once, however often it is read until it is repaired.
        self.counters.damaged.add(u64::from(is_new));
    }
}
