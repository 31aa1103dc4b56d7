//! Errors at every call of a disk.

use super::*;
use crate::disk::{Disk, DiskFault, DiskOp};

/// Runs uploads and deletions and continues after errors. Returns the acknowledged blocks and the
/// number of failed operations.
async fn run(world: &World, acknowledged: &mut Vec<(BlockRef, Bytes)>) -> Vec<Error> {
    let mut errors = Vec::new();
    for round in 0..6u64 {
        let contents = [
            noise(round, 9000),
            text(round, 3000),
            noise(1000 + round, 30_000),
        ];
        match world.put(&contents).await {
            Ok(refs) => acknowledged.extend(refs.into_iter().zip(contents)),
            Err(error) => errors.push(error),
        }
        if round % 2 == 1 && !acknowledged.is_empty() {
            let (block, _) = acknowledged.remove(0);
            world.delete(&[block]).unwrap();
        }
    }
    errors
}

async fn check(world: &World, acknowledged: &[(BlockRef, Bytes)]) {
    for (block, content) in acknowledged {
        assert_eq!(world.read(block).await.unwrap(), content);
    }
    let referred: BTreeSet<BlockHash> = acknowledged.iter().map(|(block, _)| block.hash).collect();
    assert_eq!(world.index().into_keys().collect::<BTreeSet<_>>(), referred);
}

async fn one_fault(disks: usize, fault: DiskFault) -> bool {
    let mut world = World::new(disks);
    world.disks[0].inject(fault);
    let mut acknowledged = Vec::new();
    let errors = run(&world, &mut acknowledged).await;
    let happened = !world.disks[0].clear_fault();
    for error in &errors {
        let clear = matches!(error, Error::Io(_) | Error::Full(_) | Error::Failed(_));
        assert!(clear && happened, "{error}");
    }
    let failed = world.blocks.disks()[0].state == DiskState::Failed;
    if disks == 1 && !failed && happened {
        assert!(errors.len() <= 1, "one fault, one failure: {errors:?}");
    }
    check(&world, &acknowledged).await;
    world.crash(Some(fault.after));
    check(&world, &acknowledged).await;
    let (live, allocated) = world.live_and_allocated();
    assert_eq!(live, allocated);
    // After a restart the disk works again, and no remains are in the way.
    let errors = run(&world, &mut acknowledged).await;
    assert!(errors.is_empty(), "{errors:?}");
    check(&world, &acknowledged).await;
    happened
}

async fn every_call(disks: usize, errno: i32) {
    let mut after = 0;
    while one_fault(
        disks,
        DiskFault {
            op: None,
            after,
            errno,
        },
    )
    .await
    {
        after += 1;
    }
    assert!(after > 30, "{after} calls");
}

#[tokio::test]
async fn acknowledged_blocks_survive_eio_at_every_call() {
    every_call(1, libc::EIO).await;
}

#[tokio::test]
async fn acknowledged_blocks_survive_enospc_at_every_call() {
    every_call(1, libc::ENOSPC).await;
}

#[tokio::test]
async fn acknowledged_blocks_survive_eio_at_every_call_of_one_of_two_disks() {
    every_call(2, libc::EIO).await;
}

#[tokio::test]
async fn acknowledged_blocks_survive_emfile_at_every_call() {
    every_call(1, libc::EMFILE).await;
}

/// There is room for the record, but not for all that is allocated ahead.
#[tokio::test]
async fn a_block_needs_no_room_ahead() {
    for errno in [libc::ENOSPC, libc::EDQUOT] {
        let world = World::new(1);
        world.disks[0].inject(DiskFault {
            op: Some(DiskOp::Allocate),
            after: 0,
            errno,
        });
        let put = world.put(&[noise(1, 9000)]).await;
        assert!(put.is_ok(), "{errno}: {put:?}");
        assert!(!world.disks[0].clear_fault(), "nothing was allocated ahead");
    }
}

/// The disk becomes full in the middle of a run, at every size.
#[tokio::test]
async fn a_disk_that_fills_up_loses_no_block() {
    for pages in 0..40 {
        let mut world = World::new(1);
        world.disks[0].set_capacity(Some(pages * PUNCH_BYTES));
        let mut acknowledged = Vec::new();
        for error in run(&world, &mut acknowledged).await {
            assert!(matches!(error, Error::Full(_)), "{error}");
        }
        check(&world, &acknowledged).await;
        world.crash(None);
        check(&world, &acknowledged).await;
        // Deleting makes room again.
        for (block, _) in acknowledged.drain(..) {
            world.delete(&[block]).unwrap();
        }
        if pages > 10 {
            world.put(&[noise(5000, 30_000)]).await.unwrap();
        }
    }
}

/// The engine fails to commit. The upload can be committed later, or dropped without a trace.
#[tokio::test]
async fn a_failed_commit_leaves_the_upload_intact() {
    let world = World::new(1);
    let upload = world.blocks.appender();
    let block = upload.append(noise(1, 9000)).await.unwrap();
    upload.sync().await.unwrap();
    world.engine.inject(crate::engine::memory::Fault {
        after_commits: 0,
        error: Error::Full("on purpose".into()),
    });
    assert!(matches!(world.edit(&[block], &[]), Err(Error::Full(_))));
    assert_eq!(world.read(&block).await.unwrap(), noise(1, 9000));
    world.edit(&[block], &[]).unwrap();
    drop(upload);
    assert_eq!(world.read(&block).await.unwrap(), noise(1, 9000));
}

#[tokio::test]
async fn a_failed_read_is_damage_only_if_the_disk_cannot_read() {
    let world = World::new(1);
    let block = world.put(&[noise(1, 9000)]).await.unwrap()[0];
    // File systems that verify what they read answer as in the last three cases.
    let lost = [libc::EIO, libc::EUCLEAN, libc::EBADMSG, libc::ENODATA].map(|errno| (errno, 1));
    for (errno, damaged) in [(libc::EMFILE, 0)].into_iter().chain(lost) {
        let op = Some(DiskOp::Read);
        world.disks[0].inject(DiskFault {
            op,
            after: 0,
            errno,
        });
        let error = world.read(&block).await.unwrap_err();
        assert_eq!(matches!(error, Error::Damaged(_)), damaged == 1, "{error}");
        assert_eq!(world.blocks.damaged().len(), damaged);
    }
    assert_eq!(world.disks[0].segments().unwrap(), [1]);
}
