//! The life of a block: uploaded, deduplicated, retained, released, pinned.

use super::*;

#[tokio::test]
async fn a_block_is_readable_until_it_is_released() {
    let world = World::new(1);
    let contents = [
        noise(1, 1),
        noise(2, 5000),
        text(3, 100_000),
        noise(4, MAX_BLOCK_BYTES),
    ];
    let refs = world.put(&contents).await.unwrap();
    for (block, content) in refs.iter().zip(&contents) {
        assert_eq!(world.read(block).await.unwrap(), content);
    }
    world.delete(&refs).unwrap();
    for block in &refs {
        expect_no_block(world.read(block).await);
    }
    assert!(world.index().is_empty());
    assert_eq!(world.blocks.pinned(), 0);
}

#[tokio::test]
async fn empty_and_oversized_blocks_are_refused() {
    let world = World::new(1);
    let upload = world.blocks.appender();
    for content in [Bytes::new(), noise(1, MAX_BLOCK_BYTES + 1)] {
        let refused = upload.append(content).await;
        assert!(matches!(refused, Err(Error::Refused(_))));
    }
}

#[tokio::test]
async fn the_same_content_is_written_once() {
    let world = World::new(1);
    let content = noise(1, 9000);
    let first = world.blocks.appender();
    let block = first.append(content.clone()).await.unwrap();
    let second = world.blocks.appender();
    assert_eq!(second.append(content.clone()).await.unwrap(), block);
    assert_eq!((first.deduplicated(), second.deduplicated()), (0, 1));

    // The first upload is dropped. The second one still holds the block.
    drop(first);
    world.edit(&[block], &[]).unwrap();
    drop(second);
    world.put(std::slice::from_ref(&content)).await.unwrap();
    assert_eq!(world.index()[&block.hash].1, 2);
    assert_eq!(world.blocks.counters().appended.get(), 1);
    assert_eq!(world.blocks.counters().deduplicated.get(), 2);

    world.delete(&[block]).unwrap();
    assert_eq!(world.read(&block).await.unwrap(), content);
    world.delete(&[block]).unwrap();
    expect_no_block(world.read(&block).await);
}

/// The second upload must not trust that the record of the first one is durable.
#[tokio::test]
async fn a_deduplicated_block_is_synced_too() {
    let mut world = World::new(1);
    let first = world.blocks.appender();
    let block = first.append(noise(1, 9000)).await.unwrap();
    assert_eq!(world.put(&[noise(1, 9000)]).await.unwrap(), [block]);
    std::mem::forget(first);
    world.crash(None);
    assert_eq!(world.read(&block).await.unwrap(), noise(1, 9000));
}

#[tokio::test]
async fn a_dropped_upload_leaves_nothing() {
    let world = World::new(1);
    let upload = world.blocks.appender();
    let block = upload.append(noise(1, 40_000)).await.unwrap();
    assert_eq!(world.read(&block).await.unwrap(), noise(1, 40_000));
    drop(upload);
    expect_no_block(world.read(&block).await);
    expect_no_block(world.edit(&[block], &[]));
    let (live, allocated) = world.live_and_allocated();
    assert!(live == 0 && allocated <= PUNCH_BYTES, "{allocated}");
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_changes_nothing() {
    let world = World::new(1);
    let kept = world.put(&[noise(1, 9000)]).await.unwrap();
    let upload = world.blocks.appender();
    let new = upload.append(noise(2, 9000)).await.unwrap();
    let before = world.index();
    {
        let mut txn = world.engine.write().unwrap();
        let mut change = world.blocks.change();
        change.retain(&mut *txn, &new).unwrap();
        change.release(&mut *txn, &kept[0]).unwrap();
        drop(txn);
    }
    assert_eq!(world.index(), before);
    assert_eq!(world.read(&kept[0]).await.unwrap(), noise(1, 9000));
    // The upload can still be committed.
    world.edit(&[new], &[]).unwrap();
    drop(upload);
    assert_eq!(world.read(&new).await.unwrap(), noise(2, 9000));
    assert_eq!(world.blocks.pinned(), 0);
}

/// Releases a reference without making the release durable.
fn released(world: &World, block: &BlockRef) -> Change {
    let mut txn = world.engine.write().unwrap();
    let mut change = world.blocks.change();
    change.release(&mut *txn, block).unwrap();
    txn.commit(Durability::Buffered).unwrap();
    change
}

#[tokio::test]
async fn nothing_is_freed_before_the_release_is_durable() {
    let mut world = World::new(1);
    let refs = world.put(&[noise(1, 40_000)]).await.unwrap();
    let change = released(&world, &refs[0]);
    assert!(world.index().is_empty());
    std::mem::forget(change);
    world.crash(None);
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 40_000));
}

#[tokio::test]
async fn an_abandoned_change_frees_nothing_until_the_next_start() {
    let mut world = World::new(1);
    let refs = world.put(&[noise(1, 40_000)]).await.unwrap();
    let change = released(&world, &refs[0]);
    change.abandon();
    world.blocks.reclaim();
    assert_eq!(world.blocks.counters().freed.get(), 0);
    world.crash(None);
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 40_000));
}

#[tokio::test]
async fn a_pinned_block_stays_readable_and_can_come_back() {
    let world = World::new(1);
    let refs = world.put(&[noise(1, 40_000)]).await.unwrap();
    let pin = world.blocks.pin(&refs);
    world.delete(&refs).unwrap();
    assert!(world.index().is_empty());
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 40_000));

    // The new upload finds the block and brings it back into the index.
    assert_eq!(world.put(&[noise(1, 40_000)]).await.unwrap(), refs);
    assert_eq!(world.blocks.counters().appended.get(), 1);
    drop(pin);
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 40_000));

    let pin = world.blocks.pin(&refs);
    world.delete(&refs).unwrap();
    drop(pin);
    expect_no_block(world.read(&refs[0]).await);
    assert_eq!(world.blocks.pinned(), 0);
}

#[tokio::test]
async fn a_block_released_and_retained_in_one_transaction_stays() {
    let world = World::new(1);
    let refs = world.put(&[noise(1, 9000)]).await.unwrap();
    let mut txn = world.engine.write().unwrap();
    let mut change = world.blocks.change();
    change.release(&mut *txn, &refs[0]).unwrap();
    change.check(&*txn, &refs).unwrap();
    change.retain(&mut *txn, &refs[0]).unwrap();
    change.retain(&mut *txn, &refs[0]).unwrap();
    txn.commit(Durability::Fsync).unwrap();
    change.settle();
    assert_eq!(world.index()[&refs[0].hash].1, 2);
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 9000));
}

#[tokio::test]
async fn missing_blocks_are_refused() {
    let world = World::new(1);
    let content = noise(1, 10);
    let unknown = BlockRef {
        hash: BlockHash::of(&content),
        len: 10,
    };
    expect_no_block(world.read(&unknown).await);
    expect_no_block(world.edit(&[unknown], &[]));
    // A row whose blocks are lost can still be deleted.
    world.delete(&[unknown]).unwrap();
    assert_eq!(world.blocks.counters().missing.get(), 1);

    let known = world.put(&[content]).await.unwrap()[0];
    let wrong = BlockRef { len: 11, ..known };
    assert!(matches!(world.read(&wrong).await, Err(Error::Damaged(_))));
    assert!(matches!(world.edit(&[wrong], &[]), Err(Error::Refused(_))));
}

#[tokio::test]
async fn fsyncs_are_counted_and_shared() {
    let world = World::new(1);
    let fsyncs = || world.blocks.disks()[0].fsyncs;
    let before = fsyncs();
    world
        .put(&[noise(1, 100), noise(2, 100), noise(3, 100)])
        .await
        .unwrap();
    // One sync for the name of the first segment, one for all three blocks.
    assert_eq!(fsyncs() - before, 2);
    world.put(&[noise(1, 100)]).await.unwrap();
    assert_eq!(fsyncs() - before, 2, "what is durable is not synced again");
    world.put(&[noise(4, 100)]).await.unwrap();
    assert_eq!(fsyncs() - before, 3);
}
