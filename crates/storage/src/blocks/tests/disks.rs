//! Several disks: choice, draining, failure, identity.

use super::startup_gc::{Hooked, open_on};
use super::*;
use crate::disk::{Disk, DiskFault, DiskOp};

fn disks_used(world: &World) -> Vec<u64> {
    let mut used = vec![0; world.disks.len()];
    for (located, _) in world.index().values() {
        used[usize::from(located.location.disk) - 1] += 1;
    }
    used
}

async fn put_many(world: &World, seeds: std::ops::Range<u64>) -> Vec<BlockRef> {
    let contents: Vec<Bytes> = seeds.map(|seed| noise(seed, 3000)).collect();
    world.put(&contents).await.unwrap()
}

async fn assert_whole(world: &World, refs: &[BlockRef]) {
    for (seed, block) in refs.iter().enumerate() {
        assert_eq!(world.read(block).await.unwrap(), noise(seed as u64, 3000));
    }
}

fn fail_next_sync(disk: &MemoryDisk) {
    disk.inject(DiskFault {
        op: Some(DiskOp::Sync),
        after: 0,
        errno: libc::EIO,
    });
}

#[tokio::test]
async fn blocks_go_to_disks_with_room() {
    let world = World::new(2);
    world.disks[0].set_capacity(Some(64 << 20));
    world.disks[1].set_capacity(Some(192 << 20));
    put_many(&world, 0..400).await;
    let used = disks_used(&world);
    assert_eq!(used.iter().sum::<u64>(), 400);
    assert!((60..140).contains(&used[0]), "a quarter of them: {used:?}");
}

#[tokio::test]
async fn a_full_disk_refuses_blocks_with_an_error() {
    let world = World::new(2);
    let refs = put_many(&world, 0..4).await;
    for disk in &world.disks {
        disk.set_capacity(Some(0));
    }
    let upload = world.blocks.appender();
    let full = upload.append(noise(100, 3000)).await;
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
    // Existing blocks can still be read, referred to and deleted.
    world.put(&[noise(0, 3000)]).await.unwrap();
    assert_whole(&world, &refs).await;
    world.delete(&refs).unwrap();

    world.disks[1].set_capacity(None);
    upload.append(noise(100, 3000)).await.unwrap();
}

#[tokio::test]
async fn reserve_and_capacity_limit_a_disk() {
    let open = |reserve_bytes, capacity_bytes| {
        let disk = Arc::new(MemoryDisk::new());
        disk.set_capacity(Some(1 << 30));
        let config = DiskConfig {
            capacity_bytes,
            ..DiskConfig::new(1, disk)
        };
        let options = BlockOptions {
            reserve_bytes,
            ..options()
        };
        let engine = Arc::new(MemoryEngine::new());
        Blocks::open(engine, vec![config], options, Pool::inline(), Start::Clean).unwrap()
    };
    assert_eq!(
        open(None, None).disks()[0].free_bytes,
        (1 << 30) - (256 << 20)
    );
    assert_eq!(open(Some(1), None).disks()[0].free_bytes, (1 << 30) - 1);
    let limited = open(Some(0), Some(100_000));
    let upload = limited.appender();
    upload.append(noise(1, 90_000)).await.unwrap();
    let full = upload.append(noise(2, 90_000)).await;
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
    drop(upload);
    limited.appender().append(noise(2, 90_000)).await.unwrap();
}

/// A reader that looked in the index while no row referred to the block looks in the pin table
/// next. A row that refers to the block again and a move to another disk may come in between.
#[tokio::test]
async fn a_pinned_block_that_moves_stays_in_the_pin_table() {
    let world = World::new(2);
    world.disks[1].set_capacity(Some(0));
    let content = noise(0, 3000);
    let refs = world.put(std::slice::from_ref(&content)).await.unwrap();
    let _pin = world.blocks.pin(&refs);
    world.delete(&refs).unwrap();
    world.edit(&refs, &[]).unwrap();
    world.disks[1].set_capacity(None);
    world.blocks.set_draining(1, true).unwrap();
    let drained = world.blocks.drain_step(1, None, u64::MAX).await.unwrap();
    assert_eq!(drained.moved, 1);
    let known = world.blocks.pin_table.record(&refs[0].hash).unwrap();
    assert_eq!(known.located.location.disk, 2);
    assert_eq!(
        world.blocks.fetch(&refs[0].hash, &known.located).unwrap(),
        content
    );
    world.delete(&refs).unwrap();
    assert_eq!(world.read(&refs[0]).await.unwrap(), content);
}

#[tokio::test]
async fn a_draining_disk_is_emptied() {
    let mut world = World::new(2);
    let refs = put_many(&world, 0..100).await;
    let refused = world.blocks.drain_step(1, None, 1000).await;
    assert!(matches!(refused, Err(Error::Refused(_))));
    world.blocks.set_draining(1, true).unwrap();
    let pin = world.blocks.pin(&refs[..50]);
    let upload = world.blocks.appender();
    let before = disks_used(&world)[0];
    let (mut after, mut moved) = (None, 0);
    loop {
        let step = world.blocks.drain_step(1, after, 10_000).await.unwrap();
        assert!(step.bytes < 20_000 && step.unreadable == 0);
        moved += step.moved;
        after = step.next;
        upload.append(noise(1000 + moved, 3000)).await.unwrap();
        if after.is_none() {
            break;
        }
    }
    assert_eq!(moved, before);
    assert_eq!(disks_used(&world), [0, 100]);
    assert_whole(&world, &refs).await;
    drop((pin, upload));
    assert!(world.disks[0].allocated_total() <= PUNCH_BYTES);
    world.crash(None);
    assert_whole(&world, &refs).await;
}

/// The disk may be removed before the upload ends. So its copy is on another disk from the beginning.
#[tokio::test]
async fn an_upload_relies_on_no_copy_of_a_draining_disk() {
    let world = World::new(2);
    world.disks[1].set_capacity(Some(0));
    let content = noise(0, 3000);
    let refs = world.put(std::slice::from_ref(&content)).await.unwrap();
    world.disks[1].set_capacity(None);
    world.blocks.set_draining(1, true).unwrap();
    let upload = world.blocks.appender();
    upload.append(content.clone()).await.unwrap();
    assert!(!world.blocks.names_disk(1).unwrap());
    world.delete(&refs).unwrap();
    let known = world.blocks.pin_table.record(&refs[0].hash).unwrap();
    assert_eq!(known.located.location.disk, 2);
    assert_eq!(world.read(&refs[0]).await.unwrap(), content);
}

/// A row refers to an uploaded block just after a walk over the index began, and the upload ends before the walk
/// does. The walk finds nothing, and nothing is pinned any more.
#[tokio::test]
async fn a_disk_with_a_block_that_came_during_the_walk_is_not_empty() {
    let engine = Arc::new(MemoryEngine::new());
    let hooked = Hooked::new(&engine);
    let disk = Arc::new(MemoryDisk::new());
    let blocks = open_on(hooked.clone(), disk, Pool::inline(), Start::Clean);
    let upload = blocks.appender();
    let block = upload.append(noise(1, 3000)).await.unwrap();
    upload.sync().await.unwrap();
    blocks.set_draining(1, true).unwrap();
    assert!(!blocks.is_disk_empty(1).unwrap(), "the upload may end yet");
    let (in_walk, on, upload) = (blocks.clone(), engine.clone(), Mutex::new(Some(upload)));
    *hooked.after.lock() = Some(Box::new(move || {
        let mut txn = on.write().unwrap();
        let mut change = in_walk.change();
        change.retain(&mut *txn, &block).unwrap();
        txn.commit(Durability::Fsync).unwrap();
        change.settle();
        drop(upload.lock().take());
    }));
    let step = blocks.drain_step(1, None, u64::MAX).await.unwrap();
    assert_eq!((step.moved, step.unreadable, step.next), (0, 0, None));
    assert_eq!(blocks.pinned(), 0);
    assert!(!blocks.is_disk_empty(1).unwrap());

    let mut txn = engine.write().unwrap();
    let mut change = blocks.change();
    change.release(&mut *txn, &block).unwrap();
    txn.commit(Durability::Fsync).unwrap();
    change.settle();
    assert!(blocks.is_disk_empty(1).unwrap());
}

#[tokio::test]
async fn a_move_whose_commit_fails_moves_nothing() {
    let world = World::new(2);
    let refs = put_many(&world, 0..20).await;
    let before = world.index();
    world.blocks.set_draining(1, true).unwrap();
    world.engine.inject(crate::engine::memory::Fault {
        after_commits: 0,
        error: Error::Io("on purpose".into()),
    });
    let failed = world.blocks.drain_step(1, None, u64::MAX).await;
    assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
    assert_eq!(world.index(), before);
    assert_whole(&world, &refs).await;
    assert_eq!(world.blocks.pinned(), 0);
}

#[tokio::test]
async fn a_failed_sync_fails_the_disk_for_good() {
    let world = World::new(1);
    let refs = put_many(&world, 0..5).await;
    let upload = world.blocks.appender();
    let block = upload.append(noise(50, 3000)).await.unwrap();
    fail_next_sync(&world.disks[0]);
    for _ in 0..3 {
        let failed = upload.sync().await;
        assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    }
    let fsyncs = world.disks[0].fsyncs();
    let failed = world.put(&[noise(51, 3000)]).await;
    assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    expect_no_block(world.edit(&[block], &[]));
    assert_eq!(world.disks[0].fsyncs(), fsyncs, "it is not tried again");
    let status = &world.blocks.disks()[0];
    assert_eq!(status.state, DiskState::Failed);
    assert!(status.reason.as_ref().unwrap().contains("fdatasync"));
    assert_whole(&world, &refs).await;
}

/// A file system that hangs would hide that its disk failed.
#[tokio::test]
async fn counts_of_disks_ask_no_file_system() {
    let world = World::new(2);
    put_many(&world, 0..4).await;
    let calls = || world.disks.iter().map(|disk| disk.calls()).sum::<u64>();
    let before = calls();
    let counts = world.blocks.disk_counts();
    assert_eq!(calls(), before);
    for (counts, status) in counts.iter().zip(world.blocks.disks()) {
        let of_counts = (counts.id, counts.state, counts.used_bytes, counts.fsyncs);
        let of_status = (status.id, status.state, status.used_bytes, status.fsyncs);
        assert_eq!(of_counts, of_status);
    }
    assert_eq!(counts.len(), 2);
}

#[tokio::test]
async fn the_other_disk_takes_over_after_a_failure() {
    let mut world = World::new(2);
    let refs = put_many(&world, 0..60).await;
    let on_first = |world: &World| disks_used(world)[0];
    assert!(on_first(&world) > 0);
    fail_next_sync(&world.disks[0]);
    let contents: Vec<Bytes> = (200..220).map(|seed| noise(seed, 3000)).collect();
    let failed = world.put(&contents).await;
    assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    // The client tries again.
    let again = world.put(&contents).await.unwrap();

    // Blocks on the failed disk do not count: an upload of one writes it again.
    let before = world.blocks.counters().appended.get();
    let first = on_first(&world);
    world
        .put(&[
            noise(0, 3000),
            noise(1, 3000),
            noise(2, 3000),
            noise(3, 3000),
        ])
        .await
        .unwrap();
    let rewritten = world.blocks.counters().appended.get() - before;
    assert!(rewritten > 0);
    assert_eq!(on_first(&world), first - rewritten);

    // The other blocks move away while they can be read.
    let step = world.blocks.drain_step(1, None, u64::MAX).await.unwrap();
    assert_eq!((step.moved, on_first(&world)), (first - rewritten, 0));
    world.crash(Some(3));
    assert_whole(&world, &refs).await;
    for (block, content) in again.iter().zip(&contents) {
        assert_eq!(world.read(block).await.unwrap(), content);
    }
}

#[tokio::test]
async fn blocks_of_a_removed_disk_are_missing_until_uploaded_again() {
    let mut world = World::new(2);
    let refs = put_many(&world, 0..40).await;
    let gone = disks_used(&world)[0];
    let config = DiskConfig::new(2, world.disks[1].clone());
    let configs = vec![config];
    let (engine, pool) = (world.engine.clone(), Pool::inline());
    world.blocks = Blocks::open(engine, configs, options(), pool, Start::Unclean).unwrap();
    let mut missed = 0;
    for block in &refs {
        missed += u64::from(matches!(world.read(block).await, Err(Error::NoBlock(_))));
    }
    assert_eq!(missed, gone);
    put_many(&world, 0..40).await;
    assert_whole(&world, &refs).await;
    assert!(
        world
            .index()
            .values()
            .all(|(_, references)| *references == 2)
    );
}

#[tokio::test]
async fn a_disk_of_another_store_is_refused() {
    let world = World::new(2);
    put_many(&world, 0..10).await;
    let open = |id, owner, start| {
        let config = DiskConfig::new(id, world.disks[0].clone());
        let options = BlockOptions { owner, ..options() };
        let engine = Arc::new(MemoryEngine::new());
        Blocks::open(engine, vec![config], options, Pool::inline(), start).map(|_| ())
    };
    let owner = options().owner;
    // The empty index of another store would free everything on the disk.
    for (id, owner) in [(2, owner), (1, Id([8; 16]))] {
        let refused = open(id, owner, Start::Unclean);
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    assert!(open(2, owner, Start::Rebuild).is_err());
    open(1, Id([8; 16]), Start::Rebuild).unwrap();
    assert!(world.disks[0].allocated_total() > 0);
    // It is not taken over before rows refer to its blocks.
    assert!(open(1, Id([8; 16]), Start::Unclean).is_err());
    let twice = vec![world.disks[1].clone(); 2];
    let configs = twice.into_iter().map(|disk| DiskConfig::new(2, disk));
    let engine = world.engine.clone();
    let twice = Blocks::open(
        engine,
        configs.collect(),
        options(),
        Pool::inline(),
        Start::Clean,
    );
    assert!(matches!(twice.map(|_| ()), Err(Error::Refused(_))));
}

/// The disk is not the one that is refused, and comes before it.
#[tokio::test]
async fn a_start_that_is_refused_takes_no_disk() {
    let world = World::new(2);
    put_many(&world, 0..10).await;
    let disks = [Arc::new(MemoryDisk::new()), world.disks[0].clone()];
    let engine = Arc::new(MemoryEngine::new());
    // The second one is another disk of the same store.
    let refused = open(&engine, &disks, Start::Unclean).map(|_| ());
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    assert_eq!(disks[0].read_state("disk").unwrap(), None);
}

#[tokio::test]
async fn a_disk_that_cannot_be_opened_does_not_stop_the_others() {
    let mut world = World::new(2);
    let refs = put_many(&world, 0..10).await;
    world.disks[0].inject(DiskFault {
        op: Some(DiskOp::Look),
        after: 0,
        errno: libc::EIO,
    });
    world.reopen(Start::Unclean);
    let states: Vec<DiskState> = world.blocks.disks().iter().map(|disk| disk.state).collect();
    assert_eq!(states, [DiskState::Failed, DiskState::Active]);
    put_many(&world, 20..30).await;
    assert_whole(&world, &refs).await;
}
