//! Reading: where a block lies, and whether what lies there is it.

use std::io::{self, ErrorKind};

use archipel_base::BlockHash;
use bytes::Bytes;

use super::place::Located;
use super::{Blocks, MAX_DAMAGED, index, record};
use crate::engine::Result;
use crate::error::Error;
use crate::row::BlockRef;

impl Blocks {
    /// Whether a block was found damaged, and not replaced since.
    pub fn is_damaged(&self, hash: &BlockHash) -> bool {
        self.damaged_names().contains_key(hash)
    }

    /// Those of `blocks` that are not here, each once. Blocking.
    pub(crate) fn missing(&self, blocks: &[BlockRef]) -> Result<Vec<BlockRef>> {
        let mut missing: Vec<BlockRef> = Vec::new();
        for block in blocks {
            if !missing.contains(block) && self.locate(&block.hash)?.is_none() {
                missing.push(*block);
            }
        }
        Ok(missing)
    }

    /// Where a block lies. It must be pinned, so that it stays there.
    pub(super) fn locate(&self, hash: &BlockHash) -> Result<Option<Located>> {
        // The index first: a block that leaves it while it is pinned is in the table before that.
        let entry = index::entry(&*self.engine.read()?, hash)?;
        Ok(match entry {
            Some(entry) => Some(entry.located),
            None => self.table.place(hash),
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

    /// Reads and verifies; what is damaged is remembered.
    pub(super) fn fetch(&self, hash: &BlockHash, located: &Located) -> Result<Bytes> {
        let stored = self.fetch_stored(hash, located)?;
        let content = record::open(hash, located, stored);
        content.inspect_err(|error| self.note_damaged(hash, error))
    }

    pub(super) fn fetch_stored(&self, hash: &BlockHash, located: &Located) -> Result<Vec<u8>> {
        let volume = self.volume(located.place.disk)?;
        if !located.is_sound() {
            return Err(record::damaged(
                hash,
                located,
                "the index has impossible lengths",
            ));
        }
        let mut stored = vec![0; located.stored as usize];
        let place = located.place;
        let offset = place.offset + record::HEADER_BYTES as u64;
        let read = volume.disk.read_at(place.segment, offset, &mut stored);
        self.counters.read.add(1);
        self.counters.read_bytes.add(stored.len() as u64);
        if let Err(error) = read {
            let error = self.unreadable(hash, located, &error);
            self.note_damaged(hash, &error);
            return Err(error);
        }
        Ok(stored)
    }

    /// What the disk does not have, or cannot read, is to be looked for elsewhere; what else may
    /// go wrong with a call passes.
    pub(super) fn unreadable(
        &self,
        hash: &BlockHash,
        located: &Located,
        error: &io::Error,
    ) -> Error {
        let lost = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof);
        if lost || error.raw_os_error() == Some(libc::EIO) {
            return record::damaged(hash, located, &error.to_string());
        }
        Error::from_io(&format!("reading block {hash}"), error)
    }

    pub(super) fn note_damaged(&self, hash: &BlockHash, error: &Error) {
        let Error::Damaged(text) = error else {
            return;
        };
        self.counters.damaged.add(1);
        tracing::warn!("{text}");
        let mut damaged = self.damaged_names();
        if damaged.len() < MAX_DAMAGED {
            damaged.insert(*hash, text.clone());
        }
    }
}
