//! Finding and repairing damage, and rebuilding a lost index.

use super::*;
use crate::disk::Disk;

fn located(world: &World, block: &BlockRef) -> LocatedRecord {
    world.index()[&block.hash].0
}

fn rot(world: &World, block: &BlockRef, offset: u64) {
    let located = located(world, block);
    let location = located.location;
    world.disks[usize::from(location.disk) - 1].flip(location.segment, location.offset + offset, 4);
}

#[tokio::test]
async fn a_read_finds_every_flipped_bit_of_the_content() {
    let world = World::new(1);
    let refs = world.put(&[noise(1, 600), text(2, 6000)]).await.unwrap();
    for block in &refs {
        for offset in 64..64 + u64::from(located(&world, block).stored) {
            rot(&world, block, offset);
            let damaged = world.read(block).await;
            assert!(matches!(damaged, Err(Error::Damaged(_))), "{damaged:?}");
            rot(&world, block, offset);
        }
        world.read(block).await.unwrap();
    }
    assert_eq!(world.blocks.damaged().len(), 2);
    // Each of them was read thousands of times.
    assert_eq!(world.blocks.counters().damaged.get(), 2);
}

#[tokio::test]
async fn uploading_repairs_a_damaged_block() {
    let world = World::new(1);
    let refs = world.put(&[noise(1, 9000), noise(2, 9000)]).await.unwrap();
    let old = located(&world, &refs[0]).location;
    rot(&world, &refs[0], 100);
    let pin = world.blocks.pin(&refs);
    // The damage is not known yet: the upload finds it.
    world.put(&[noise(1, 9000)]).await.unwrap();
    assert_ne!(located(&world, &refs[0]).location, old);
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 9000));
    assert_eq!(world.index()[&refs[0].hash].1, 2);
    assert!(world.blocks.damaged().is_empty());
    assert_eq!(world.blocks.counters().repaired.get(), 1);
    drop(pin);
    world.delete(&[refs[0], refs[0], refs[1]]).unwrap();
    assert!(world.live_and_allocated().1 <= PUNCH_BYTES);
}

/// The block is freed but pinned, so only the pin table knows it.
#[tokio::test]
async fn uploading_repairs_a_damaged_block_that_the_index_lacks() {
    let mut world = World::new(1);
    let refs = world.put(&[noise(1, 9000)]).await.unwrap();
    rot(&world, &refs[0], 100);
    let pin = world.blocks.pin(&refs);
    world.delete(&refs).unwrap();
    assert_eq!(world.put(&[noise(1, 9000)]).await.unwrap(), refs);
    drop(pin);
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 9000));
    world.crash(None);
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 9000));
}

#[tokio::test]
async fn scrubbing_finds_damage_that_reads_do_not_find() {
    let world = World::new(2);
    let contents: Vec<Bytes> = (0..40).map(|seed| noise(seed, 2000)).collect();
    let refs = world.put(&contents).await.unwrap();
    rot(&world, &refs[3], 1000);
    // Damage a header: the content can be read, but the index could not be rebuilt.
    rot(&world, &refs[7], 20);
    let (mut after, mut blocks, mut damaged) = (None, 0, Vec::new());
    loop {
        let step = world.blocks.scrub_step(after, 5000).await.unwrap();
        assert!(step.bytes < 5000 + 3000);
        blocks += step.blocks;
        damaged.extend(step.damaged);
        after = step.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(blocks, 40);
    damaged.sort();
    let mut expected = vec![refs[3].hash, refs[7].hash];
    expected.sort();
    assert_eq!(damaged, expected);
    assert_eq!(world.blocks.damaged(), expected);
    world.put(&[noise(3, 2000), noise(7, 2000)]).await.unwrap();
    let step = world.blocks.scrub_step(None, u64::MAX).await.unwrap();
    assert_eq!((step.blocks, step.damaged.len()), (40, 0));
}

#[tokio::test]
async fn blocks_of_a_lost_segment_are_damaged() {
    let mut world = World::new(1);
    let refs = world.put(&[noise(1, 9000)]).await.unwrap();
    world.disks[0].unlink(1).unwrap();
    world.reopen(Start::Unclean);
    assert!(matches!(world.read(&refs[0]).await, Err(Error::Damaged(_))));
    world.put(&[noise(1, 9000)]).await.unwrap();
    assert_eq!(world.read(&refs[0]).await.unwrap(), noise(1, 9000));
}

async fn rebuild(world: &mut World, rows: &[BlockRef]) -> Rebuilt {
    world.engine = Arc::new(MemoryEngine::new());
    world.reopen(Start::Rebuild);
    let rebuilt = world.blocks.rebuild(&Arc::default()).await.unwrap();
    let mut txn = world.engine.write().unwrap();
    let mut change = world.blocks.change();
    for block in rows {
        change.retain(&mut *txn, block).unwrap();
    }
    txn.commit(Durability::Fsync).unwrap();
    change.settle();
    world.blocks.drop_unreferenced().await.unwrap();
    rebuilt
}

#[tokio::test]
async fn a_lost_index_is_rebuilt() {
    let mut world = World::new(2);
    let contents: Vec<Bytes> = (0..60)
        .map(|seed| {
            if seed % 3 == 0 {
                text(seed, 9000)
            } else {
                noise(seed, 2500)
            }
        })
        .collect();
    let refs = world.put(&contents).await.unwrap();
    world.put(&contents[..5]).await.unwrap();
    // Leave dead records between the live ones. Some are not punched because they are small.
    world.delete(&refs[20..30]).unwrap();
    let kept: Vec<BlockRef> = [&refs[..5], &refs[..20], &refs[30..]].concat();
    let before = world.index();

    let rebuilt = rebuild(&mut world, &kept).await;
    assert!(rebuilt.blocks >= 50);
    let after = world.index();
    assert_eq!(after, before);
    let (live, allocated) = world.live_and_allocated();
    assert_eq!(live, allocated);
    for (block, content) in refs
        .iter()
        .zip(&contents)
        .filter(|(block, _)| kept.contains(block))
    {
        assert_eq!(world.read(block).await.unwrap(), content);
    }
    // Blocks work as before.
    let more = world.put(&[noise(900, 5000)]).await.unwrap();
    world.crash(None);
    assert_eq!(world.read(&more[0]).await.unwrap(), noise(900, 5000));
    assert_eq!(world.read(&refs[0]).await.unwrap(), contents[0]);
}

/// The content of a block may be a segment.
#[tokio::test]
async fn rebuild_ignores_records_inside_content() {
    let mut world = World::new(1);
    let inner = world.put(&[noise(1, 5000)]).await.unwrap();
    let mut segment = vec![0; 5064];
    world.disks[0].read_at(1, 0, &mut segment).unwrap();
    let outer = world.put(&[segment.clone().into()]).await.unwrap();
    world.delete(&inner).unwrap();
    // Damage the outer header, so that the scan enters its content.
    rot(&world, &outer[0], 0);
    world.engine = Arc::new(MemoryEngine::new());
    world.reopen(Start::Rebuild);
    let rebuilt = world.blocks.rebuild(&Arc::default()).await.unwrap();
    assert_eq!(rebuilt.blocks, 0);
}

#[tokio::test]
async fn rebuild_skips_damaged_records() {
    let mut world = World::new(1);
    let contents: Vec<Bytes> = (0..10).map(|seed| noise(seed, 2000)).collect();
    let refs = world.put(&contents).await.unwrap();
    rot(&world, &refs[2], 30);
    rot(&world, &refs[5], 500);
    let kept: Vec<BlockRef> = refs
        .iter()
        .enumerate()
        .filter(|(n, _)| *n != 2 && *n != 5)
        .map(|(_, block)| *block)
        .collect();
    let rebuilt = rebuild(&mut world, &kept).await;
    assert_eq!((rebuilt.blocks, rebuilt.broken), (8, 1));
    for block in &kept {
        world.read(block).await.unwrap();
    }
}

/// The entry of one location is damaged. The blocks behind it are scrubbed and moved all the same.
#[tokio::test]
async fn a_damaged_entry_of_the_index_stops_neither_scrub_nor_drain() {
    let world = World::new(2);
    world.disks[1].set_capacity(Some(0));
    let contents: Vec<_> = (1..4).map(|n| noise(n, 900)).collect();
    let refs = world.put(&contents).await.unwrap();
    world.disks[1].set_capacity(None);
    let first = refs.iter().map(|block| located(&world, block).location);
    let key = first.min().unwrap().to_key();
    let mut txn = world.engine.write().unwrap();
    let mut entry = txn.get(Tree::Places, &key).unwrap().unwrap().into_owned();
    entry[0] ^= 4;
    txn.put(Tree::Places, &key, &entry).unwrap();
    txn.commit(Durability::Fsync).unwrap();
    let scrubbed = world.blocks.scrub_step(None, u64::MAX).await.unwrap();
    assert_eq!((scrubbed.blocks, scrubbed.next), (2, None));
    world.blocks.set_draining(1, true).unwrap();
    let drained = world.blocks.drain_step(1, None, u64::MAX).await.unwrap();
    assert_eq!((drained.moved, drained.unreadable), (2, 1));
}

/// The entry of one block is damaged. The blocks behind it are scrubbed all the same.
#[tokio::test]
async fn a_damaged_entry_of_a_block_does_not_end_the_scrub() {
    let world = World::new(1);
    let contents: Vec<_> = (1..4).map(|n| noise(n, 900)).collect();
    let refs = world.put(&contents).await.unwrap();
    let first = refs
        .iter()
        .min_by_key(|block| located(&world, block).location.to_key());
    let hash = first.unwrap().hash;
    let mut txn = world.engine.write().unwrap();
    let mut entry = txn
        .get(Tree::Blocks, &hash.0)
        .unwrap()
        .unwrap()
        .into_owned();
    entry.pop();
    txn.put(Tree::Blocks, &hash.0, &entry).unwrap();
    txn.commit(Durability::Fsync).unwrap();
    let scrubbed = world.blocks.scrub_step(None, u64::MAX).await.unwrap();
    assert_eq!((scrubbed.blocks, scrubbed.next), (2, None));
    assert_eq!(scrubbed.damaged, [hash]);
}
