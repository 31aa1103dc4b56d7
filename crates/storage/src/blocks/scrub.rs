//! Scrubbing: reads the live blocks in disk order and verifies them.

use std::sync::Arc;

use archipel_base::BlockHash;

use super::location::{DiskLocation, LocatedRecord};
use super::record::{self, HEADER_BYTES, Header};
use super::{Blocks, Pinned, index};
use crate::engine::{Flow, Result};
use crate::error::Error;

/// The largest number of blocks in one step.
const STEP_BLOCKS: usize = 256;

/// The results of one step of scrubbing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scrubbed {
    /// The start of the next step; `None` after the last block.
    pub next: Option<DiskLocation>,
    /// Blocks verified.
    pub blocks: u64,
    /// Bytes of records read.
    pub bytes: u64,
    /// The blocks that are damaged.
    pub damaged: Vec<BlockHash>,
}

impl Blocks {
    /// Verifies about `budget_bytes` of the blocks after `after` (from the first if `None`).
    pub async fn scrub_step(
        self: &Arc<Blocks>,
        after: Option<DiskLocation>,
        budget_bytes: u64,
    ) -> Result<Scrubbed> {
        let blocks = self.clone();
        self.pool
            .run(move || blocks.scrub_blocking(after, budget_bytes))
            .await
    }

    fn scrub_blocking(
        self: &Arc<Blocks>,
        after: Option<DiskLocation>,
        budget_bytes: u64,
    ) -> Result<Scrubbed> {
        let mut scrubbed = Scrubbed::default();
        let found = self.next_locations(after, budget_bytes, &mut scrubbed)?;
        for (hash, located) in found {
            let pinned = Pinned::new(self, hash);
            match self.locate(&hash) {
                Ok(found) if found == Some(located) => {}
                Ok(_) => continue,
                Err(error @ Error::Damaged(_)) => {
                    self.note_damaged(&hash, &error);
                    scrubbed.damaged.push(hash);
                    continue;
                }
                Err(error) => return Err(error),
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

    fn next_locations(
        &self,
        after: Option<DiskLocation>,
        budget_bytes: u64,
        scrubbed: &mut Scrubbed,
    ) -> Result<Vec<(BlockHash, LocatedRecord)>> {
        let mut found = Vec::new();
        let mut bytes = 0;
        index::readable_locations(&*self.engine.read()?, after, |hash, located| {
            found.push((hash, located));
            bytes += located.record_bytes();
            if found.len() < STEP_BLOCKS && bytes < budget_bytes {
                return Ok(Flow::Continue);
            }
            scrubbed.next = Some(located.location);
            Ok(Flow::Stop)
        })?;
        Ok(found)
    }

    /// Verifies the content and the header. Without the header, the index could not be rebuilt.
    fn verify(&self, hash: &BlockHash, located: &LocatedRecord) -> Result<()> {
        self.fetch(hash, located)?;
        let volume = self.volume(located.location.disk)?;
        let mut bytes = [0; HEADER_BYTES];
        let read = volume.disk.read_at(
            located.location.segment,
            located.location.offset,
            &mut bytes,
        );
        let read = read.map_err(|error| self.unreadable(hash, located, &error));
        let wanted = Header {
            hash: *hash,
            located: *located,
        };
        let verified = read.and_then(|()| match Header::from_bytes(located.location, &bytes) {
            Some(header) if header == wanted => Ok(()),
            _ => Err(record::damaged(hash, located, "the header is damaged")),
        });
        verified.inspect_err(|error| self.note_damaged(hash, error))
    }
}
