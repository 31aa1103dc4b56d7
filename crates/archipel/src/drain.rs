//! Moves blocks away from disks that drain or failed, in the background.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_storage::blocks::{Blocks, DiskState};

/// How much one step moves, in bytes: requests come in between.
const STEP_BYTES: u64 = 16 << 20;

/// How long to rest between walks over the disks.
const REST: Duration = Duration::from_secs(10);

/// Empties disks until it is dropped.
pub async fn forever(blocks: Arc<Blocks>) {
    let mut empty = BTreeSet::new();
    loop {
        for disk in leaving(&blocks).await {
            if empty.contains(&disk) {
                continue;
            }
            match walk(&blocks, disk).await {
                Ok(true) => {
                    tracing::info!(disk, "the disk is empty and may be taken away");
                    empty.insert(disk);
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(disk, %error, "the disk cannot be emptied; trying again")
                }
            }
        }
        tokio::time::sleep(REST).await;
    }
}

/// The disks that blocks should leave.
async fn leaving(blocks: &Arc<Blocks>) -> Vec<u16> {
    let asked = blocks.clone();
    let disks = blocks.pool().run(move || Ok(asked.disks())).await;
    let disks = disks.unwrap_or_default().into_iter();
    let leaving = disks.filter(|disk| disk.state != DiskState::Active);
    leaving.map(|disk| disk.id).collect()
}

/// Goes over the disk once; tells whether there was nothing on it any more.
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
        tracing::error!(
            disk,
            unreadable,
            "blocks cannot be read and stay on the disk"
        );
    }
    Ok(moved == 0 && unreadable == 0)
}
