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

/// Stores records one by one, so that the next one is written over zeros if it is small.
async fn come_one_by_one(world: &World) {
    for seed in 100..104 {
        world.put(&[noise(seed, 100)]).await.unwrap();
    }
}

/// The sync of the second record changes no allocation.
#[tokio::test]
async fn records_that_come_one_by_one_are_written_over_zeros() {
    let world = World::new(1);
    come_one_by_one(&world).await;
    assert_eq!(world.disks[0].allocated_total(), 4 << 10);
    let first = world.put(&[noise(1, 3000)]).await.unwrap()[0];
    let taken = world.disks[0].allocated_total();
    assert_eq!(
        taken,
        16 << 10,
        "zeros fill the space that is allocated ahead"
    );
    let second = world.put(&[noise(2, 3000)]).await.unwrap()[0];
    assert_eq!(world.disks[0].allocated_total(), taken);
    assert_eq!(world.read(&first).await.unwrap(), noise(1, 3000));
    assert_eq!(world.read(&second).await.unwrap(), noise(2, 3000));
}

/// Zeros would double what is written, and save little.
#[tokio::test]
async fn records_that_share_a_sync_or_are_large_are_not_written_over_zeros() {
    let world = World::new(1);
    let nothing_beyond_records = || {
        let active = world.blocks.volume(1).unwrap().active().unwrap();
        let pages = active.position.next_multiple_of(PUNCH_BYTES);
        assert_eq!(world.disks[0].allocated_total(), pages);
    };
    come_one_by_one(&world).await;
    world.put(&[noise(1, 16 << 10)]).await.unwrap();
    nothing_beyond_records();
    // No sync has been shared before that of the first five.
    for seeds in [2..7, 7..12] {
        let together: Vec<_> = seeds.map(|seed| noise(seed, 3000)).collect();
        world.put(&together).await.unwrap();
    }
    nothing_beyond_records();
}

/// A disk that has room for the record only takes the record.
#[tokio::test]
async fn a_full_disk_takes_a_record_without_zeros() {
    let world = World::new(1);
    come_one_by_one(&world).await;
    world.disks[0].set_capacity(Some(8 << 10));
    let block = world.put(&[noise(1, 3000)]).await.unwrap()[0];
    assert_eq!(world.read(&block).await.unwrap(), noise(1, 3000));
}
