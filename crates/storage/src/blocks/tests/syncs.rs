//! Syncs of blocks: when they are needed, and what they cover.

use super::super::sync::{Ticket, finished};
use super::*;
use crate::disk::Disk;

/// The segment is removed just before its sync begins, because all its blocks were released.
#[tokio::test]
async fn removing_a_segment_before_its_sync_does_not_fail_the_disk() {
    for waits in [false, true] {
        let world = World::new(1);
        let given_up = world.blocks.appender();
        given_up.append(noise(1, 64 << 10)).await.unwrap();
        let volume = world.blocks.volume(1).unwrap();
        let tickets = Ticket::of_all(volume);
        assert_eq!(tickets.len(), 1);
        let next = world.blocks.appender();
        next.append(noise(2, 3000)).await.unwrap();
        assert_eq!(world.disks[0].segments().unwrap(), [1, 2]);
        drop(given_up);
        assert_eq!(world.disks[0].segments().unwrap(), [2]);
        for ticket in tickets {
            if waits {
                finished(ticket.begin(world.blocks.pool())).await.unwrap()
            } else {
                ticket.run().unwrap()
            }
        }
        assert_eq!(world.blocks.disks()[0].state, DiskState::Active);
        next.sync().await.unwrap();
    }
}

/// The block counts as unsynced until it is synced, whatever a rolled-back transaction did with it.
#[tokio::test]
async fn a_rolled_back_transaction_does_not_make_a_block_count_as_synced() {
    let mut world = World::new(1);
    let upload = world.blocks.appender();
    let block = upload.append(noise(1, 9000)).await.unwrap();
    let mut change = world.blocks.change();
    let mut txn = world.engine.write().unwrap();
    change.retain(&mut *txn, &block).unwrap();
    change.release(&mut *txn, &block).unwrap();
    drop(txn);
    drop(change);
    world.edit(&[block], &[]).unwrap();
    std::mem::forget(upload);
    world.crash(None);
    assert_eq!(world.read(&block).await.unwrap(), noise(1, 9000));
}

/// Blocks in the committed index are synced, so a second upload of one waits for no writes of
/// others.
#[tokio::test]
async fn uploading_a_committed_block_again_needs_no_sync() {
    let world = World::new(1);
    let block = world.put(&[noise(1, 9000)]).await.unwrap()[0];
    let other = world.blocks.appender();
    other.append(noise(2, 9000)).await.unwrap();
    let again = world.blocks.appender();
    assert_eq!(again.append(noise(1, 9000)).await.unwrap(), block);
    let before = world.disks[0].fsyncs();
    again.sync().await.unwrap();
    assert_eq!(world.disks[0].fsyncs(), before);
    other.sync().await.unwrap();
    assert_eq!(world.disks[0].fsyncs(), before + 1);
}
