//! Rebuild of the block index when it is lost or wrong. Locations come from the records in the
//! segments, references from the payloads of rows.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::boot::{self, Purpose};
use super::{Store, StoreOptions};
use crate::blocks::{self, BlockOptions, Blocks, DiskState, RebuildProgress, Start};
use crate::engine::{Direction, Durability, Engine, Flow, Result, Tree};
use crate::error::Error;
use crate::row::BlockRef;
use crate::rows::codec;

/// The number of entries that one transaction changes.
const BATCH: usize = 1000;

/// The results of a rebuild.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rebuilt {
    /// The records that were found in the segments.
    pub found: blocks::Rebuilt,
    /// References of rows to blocks that exist.
    pub references: u64,
    /// References of rows to blocks that no segment holds. They must be fetched from another
    /// replica.
    pub missing: u64,
    /// Freed blocks, to which no row refers.
    pub dropped: u64,
    /// Damaged payloads. Nobody knows the blocks that they referred to.
    pub damaged: u64,
}

impl Store {
    /// Rebuilds the block index of a store that is not open, and closes the store again. Blocks the
    /// thread.
    ///
    /// If it is interrupted or fails, the store cannot be opened until another rebuild has ended. The blocks of a
    /// disk that it does not get count as lost, and the store refuses that disk later, until a rebuild gets it.
    ///
    /// # Errors
    /// [`Error::Refused`] if a disk has failed, or is another store's and no row refers to its blocks. Nothing on
    /// the disks has changed then.
    pub async fn rebuild_blocks(
        options: StoreOptions,
        progress: &Arc<RebuildProgress>,
    ) -> Result<Rebuilt> {
        let boot = boot::begin(&options, Purpose::Rebuild)?;
        let engine = options.engine;
        clear(&*engine, Tree::Blocks)?;
        clear(&*engine, Tree::Places)?;
        let settings = BlockOptions {
            owner: boot.identity,
            ..options.blocks
        };
        let blocks = Blocks::open(
            engine.clone(),
            options.disks,
            settings,
            options.pool,
            Start::Rebuild,
        )?;
        if let Some(failed) = blocks
            .disks()
            .into_iter()
            .find(|disk| disk.state == DiskState::Failed)
        {
            return Err(Error::Refused(format!(
                "disk {} has failed ({}), and a rebuild needs all disks; fix: repair it, or take it out of the settings",
                failed.id,
                failed.reason.unwrap_or_default()
            )));
        }
        let mut rebuilt = Rebuilt {
            found: blocks.rebuild(progress).await?,
            ..Rebuilt::default()
        };
        retain_all(&engine, &blocks, &mut rebuilt, progress)?;
        blocks.take_over_disks(boot.identity)?;
        rebuilt.dropped = blocks.drop_unreferenced().await?;
        blocks.close().await?;
        boot::end(&engine, boot.number, blocks.startup_gc_is_done())?;
        Ok(rebuilt)
    }
}

/// Removes all entries of a tree.
fn clear(engine: &dyn Engine, tree: Tree) -> Result<()> {
    loop {
        let mut keys = Vec::new();
        let mut txn = engine.write()?;
        let all = (Bound::Unbounded, Bound::Unbounded);
        txn.scan(tree, all, Direction::Ascending, &mut |key, _| {
            keys.push(key.to_vec());
            Ok(go_on(keys.len()))
        })?;
        if keys.is_empty() {
            return Ok(());
        }
        for key in &keys {
            txn.delete(tree, key)?;
        }
        txn.commit(Durability::Buffered)?;
    }
}

fn go_on(entries: usize) -> Flow {
    if entries < BATCH {
        Flow::Continue
    } else {
        Flow::Stop
    }
}

/// Counts the references of all payloads.
fn retain_all(
    engine: &Arc<dyn Engine>,
    blocks: &Arc<Blocks>,
    rebuilt: &mut Rebuilt,
    progress: &RebuildProgress,
) -> Result<()> {
    let mut after = None;
    loop {
        let (mentions, last) = mentions(&**engine, after.as_deref(), &mut rebuilt.damaged)?;
        let counted = rebuilt.references;
        let mut txn = engine.write()?;
        let mut change = blocks.change();
        for block in &mentions {
            match change.retain(&mut *txn, block) {
                Ok(()) => rebuilt.references += 1,
                // The index counts it all the same. Otherwise another row with that block could free it.
                Err(Error::NoBlock(_)) => {
                    change.retain_absent(&mut *txn, block)?;
                    rebuilt.missing += 1;
                }
                Err(error) => return Err(error),
            }
        }
        txn.commit(Durability::Buffered)?;
        // Nothing is released here, so nothing can be freed too early.
        change.settle();
        let counted = rebuilt.references - counted;
        progress.references.fetch_add(counted, Ordering::Relaxed);
        match last {
            Some(_) => after = last,
            None => return engine.sync(),
        }
    }
}

/// Returns the blocks that a batch of payloads refers to. Also returns the last key of the batch if
/// there may be more payloads. Counts damaged payloads and passes over them.
fn mentions(
    engine: &dyn Engine,
    after: Option<&[u8]>,
    damaged: &mut u64,
) -> Result<(Vec<BlockRef>, Option<Vec<u8>>)> {
    let mut mentions = Vec::new();
    let (mut payloads, mut last) = (0, None);
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let txn = engine.read()?;
    txn.scan(
        Tree::Payloads,
        (from, Bound::Unbounded),
        Direction::Ascending,
        &mut |key, value| {
            match codec::decode_payload(key, value) {
                Ok((_, payload)) => mentions.extend_from_slice(payload.blocks()),
                Err(Error::Damaged(why)) => {
                    tracing::warn!("a payload is damaged: {why}");
                    *damaged += 1;
                }
                Err(error) => return Err(error),
            }
            payloads += 1;
            let flow = go_on(payloads);
            if flow == Flow::Stop {
                last = Some(key.to_vec());
            }
            Ok(flow)
        },
    )?;
    Ok((mentions, last))
}
