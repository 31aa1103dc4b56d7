//! The background task that moves blocks away from draining and failed disks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_storage::blocks::{Blocks, DiskState};

/// The bytes that one step moves. Requests can run between steps.
const STEP_BYTES: u64 = 16 << 20;

/// The pause between two passes over the disks.
const REST: Duration = Duration::from_secs(10);

/// Moves blocks away from draining and failed disks until the future is dropped.
pub async fn forever(blocks: Arc<Blocks>) {
    let mut empty = BTreeSet::new();
    loop {
        for disk in leaving(&blocks).await {
            match walk(&blocks, disk).await {
                Ok(true) if empty.insert(disk) => {
                    tracing::info!(disk, "the disk is empty and may be removed");
                }
                Ok(true) => {}
                // An upload that began before may have brought a block back.
                Ok(false) if empty.remove(&disk) => {
                    tracing::warn!(disk, "the disk is not empty: do not remove it yet");
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(disk, %error, "cannot empty the disk; trying again")
                }
            }
        }
        tokio::time::sleep(REST).await;
    }
}

/// Returns the disks that blocks should leave.
async fn leaving(blocks: &Arc<Blocks>) -> Vec<u16> {
    let disks = blocks.ask_disks().await;
    let disks = disks.unwrap_or_default().into_iter();
    let leaving = disks.filter(|disk| disk.state != DiskState::Active);
    leaving.map(|disk| disk.id).collect()
}

/// Makes one pass over the disk. Returns true if no blocks are left on it.
async fn walk(blocks: &Arc<Blocks>, disk: u16) -> archipel_storage::engine::Result<bool> {
    let mut after = None;
    let (mut moved, mut unreadable) = (0, 0);
    loop {
        let step = blocks.drain_step(disk, after, STEP_BYTES).await?;
        moved += step.moved;
        unreadable += step.unreadable;
        if step.next.is_none() {
            break;
        }
        after = step.next;
    }
    if unreadable > 0 {
        tracing::error!(disk, unreadable, "unreadable blocks stay on the disk");
    }
    if moved > 0 || unreadable > 0 {
        return Ok(false);
    }
    // A row may refer to a record that the walk did not see in the index, because only an upload
    // held it then.
    let pool_blocks = blocks.clone();
    let is_empty = move || pool_blocks.is_disk_empty(disk);
    blocks.pool().run(is_empty).await
}

#[cfg(test)]
mod tests {
    use archipel_base::random::SystemRandom;
    use archipel_storage::Threads;
    use bytes::Bytes;

    use super::*;

    /// The index names no block of the upload, and a row may soon refer to one.
    #[tokio::test]
    async fn a_disk_is_empty_only_once_no_upload_holds_blocks_on_it() {
        let random = Arc::new(SystemRandom);
        let store = archipel_cluster::memory_store(random, Threads::Inline).unwrap();
        let blocks = store.blocks();
        let disk = blocks.disks()[0].id;
        let upload = blocks.appender();
        upload.append(Bytes::from(vec![7; 3000])).await.unwrap();
        blocks.set_draining(disk, true).unwrap();
        assert!(!walk(blocks, disk).await.unwrap(), "the upload may end yet");
        drop(upload);
        assert!(walk(blocks, disk).await.unwrap());
    }
}
