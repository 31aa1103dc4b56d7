//! Scrubbing: reads what lives, in the order in which it lies, and verifies it.

use std::sync::Arc;

use archipel_base::BlockHash;

use super::place::{Located, Place};
use super::record::{self, HEADER_BYTES, Header};
use super::{Blocks, Pinned, index};
use crate::engine::{Flow, Result};
use crate::error::Error;

/// Blocks that one step looks at, at most.
const STEP_BLOCKS: usize = 256;

/// What a step of scrubbing found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scrubbed {
    /// Where the next step begins; `None` after the last block.
    pub next: Option<Place>,
    /// Blocks verified.
    pub blocks: u64,
    /// Bytes of records read.
    pub bytes: u64,
    /// The blocks that are damaged.
    pub damaged: Vec<BlockHash>,
}

impl Blocks {
    /// Verifies the blocks after `after` (from the first if `None`), about `budget_bytes` of them.
    pub async fn scrub_step(
        self: &Arc<Blocks>,
        after: Option<Place>,
        budget_bytes: u64,
    ) -> Result<Scrubbed> {
        let blocks = self.clone();
        self.pool
            .run(move || blocks.scrub_blocking(after, budget_bytes))
            .await
    }

    fn scrub_blocking(
        self: &Arc<Blocks>,
        after: Option<Place>,
        budget_bytes: u64,
    ) -> Result<Scrubbed> {
        let mut scrubbed = Scrubbed::default();
        let found = self.next_places(after, budget_bytes, &mut scrubbed)?;
        for (hash, located) in found {
            let pinned = Pinned::new(self, hash);
            if self.locate(&hash)? != Some(located) {
                continue;
            }
            scrubbed.blocks += 1;
            scrubbed.bytes += located.record_bytes();
            match self.verify(&pinned.hash, &located) {
                Ok(()) => {}
                Err(Error::Damaged(_) | Error::NoBlock(_)) => scrubbed.damaged.push(hash),
                Err(error) => return Err(error),
            }
        }
        Ok(scrubbed)
    }

    fn next_places(
        &self,
        after: Option<Place>,
        budget_bytes: u64,
        scrubbed: &mut Scrubbed,
    ) -> Result<Vec<(BlockHash, Located)>> {
        let mut found = Vec::new();
        let mut bytes = 0;
        index::places(&*self.engine.read()?, after, |hash, located| {
            found.push((hash, located));
            bytes += located.record_bytes();
            if found.len() < STEP_BLOCKS && bytes < budget_bytes {
                return Ok(Flow::Continue);
            }
            scrubbed.next = Some(located.place);
            Ok(Flow::Stop)
        })?;
        Ok(found)
    }

    /// Verifies the content, and the header too: the index could not be rebuilt without it.
    fn verify(&self, hash: &BlockHash, located: &Located) -> Result<()> {
        self.fetch(hash, located)?;
        let volume = self.volume(located.place.disk)?;
        let mut bytes = [0; HEADER_BYTES];
        let read = volume
            .disk
            .read_at(located.place.segment, located.place.offset, &mut bytes);
        let read = read.map_err(|error| self.unreadable(hash, located, &error));
        let wanted = Header {
            hash: *hash,
            located: *located,
        };
        let verified = read.and_then(|()| match Header::from_bytes(located.place, &bytes) {
            Some(header) if header == wanted => Ok(()),
            _ => Err(record::damaged(hash, located, "the header is damaged")),
        });
        verified.inspect_err(|error| self.note_damaged(hash, error))
    }
}
