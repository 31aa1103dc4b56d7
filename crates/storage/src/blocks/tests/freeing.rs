//! Freeing of space.

use super::*;
use crate::disk::{Disk, FileDisk};

fn on_files(folder: &std::path::Path, engine: &Arc<MemoryEngine>, start: Start) -> Arc<Blocks> {
    let config = DiskConfig::new(1, Arc::new(FileDisk::open(folder).unwrap()));
    let options = BlockOptions {
        segment_bytes: 4 << 20,
        preallocate_bytes: 1 << 20,
        ..options()
    };
    Blocks::open(engine.clone(), vec![config], options, Pool::inline(), start).unwrap()
}

async fn put(blocks: &Arc<Blocks>, engine: &MemoryEngine, content: Bytes) -> BlockRef {
    let upload = blocks.appender();
    let block = upload.append(content).await.unwrap();
    upload.sync().await.unwrap();
    let mut txn = engine.write().unwrap();
    let mut change = blocks.change();
    change.retain(&mut *txn, &block).unwrap();
    txn.commit(Durability::Fsync).unwrap();
    change.settle();
    block
}

fn delete(blocks: &Arc<Blocks>, engine: &MemoryEngine, refs: &[BlockRef]) {
    let mut txn = engine.write().unwrap();
    let mut change = blocks.change();
    for block in refs {
        change.release(&mut *txn, block).unwrap();
    }
    txn.commit(Durability::Fsync).unwrap();
    change.settle();
}

/// Returns the size that the file system reports, not the one that the store counts.
fn allocated(folder: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(folder).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().blocks() * 512)
        .sum()
}

#[tokio::test]
async fn deleting_gives_space_back_to_the_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(MemoryEngine::new());
    let blocks = on_files(folder.path(), &engine, Start::Unclean);
    let mut refs = Vec::new();
    for seed in 0..64 {
        refs.push(put(&blocks, &engine, noise(seed, 200_000)).await);
    }
    let full = allocated(folder.path());
    assert!(full >= 64 * 200_000);
    let (odd, even): (Vec<_>, Vec<_>) = refs.iter().enumerate().partition(|(n, _)| n % 2 == 1);
    let odd: Vec<BlockRef> = odd.into_iter().map(|(_, block)| *block).collect();
    let even: Vec<BlockRef> = even.into_iter().map(|(_, block)| *block).collect();

    delete(&blocks, &engine, &odd);
    let half = allocated(folder.path());
    let can_punch = blocks.counters().punched_bytes.get() > 0;
    if can_punch {
        assert!(half < full - 32 * 190_000, "{full} {half}");
    }
    for (number, block) in even.iter().enumerate() {
        let content = blocks.read(block).await.unwrap();
        assert_eq!(content, noise(2 * number as u64, 200_000));
    }
    delete(&blocks, &engine, &even);
    let segments = FileSegments::of(folder.path());
    assert_eq!(
        segments, 1,
        "empty segments are removed, all but the active one"
    );
    blocks.close().await.unwrap();
    assert!(allocated(folder.path()) < 4 * 4096 + if can_punch { 0 } else { 4 << 20 });
    // The page at the append position may hold the end of a dead record.
    assert!(blocks.disks()[0].used_bytes <= PUNCH_BYTES);
}

struct FileSegments;

impl FileSegments {
    fn of(folder: &std::path::Path) -> usize {
        let names = std::fs::read_dir(folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".segment")).count()
    }
}

#[tokio::test]
async fn blocks_on_files_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(MemoryEngine::new());
    let blocks = on_files(folder.path(), &engine, Start::Unclean);
    let kept = put(&blocks, &engine, noise(1, 500_000)).await;
    blocks.close().await.unwrap();
    drop(blocks);
    let blocks = on_files(folder.path(), &engine, Start::Clean);
    let more = put(&blocks, &engine, noise(2, 500_000)).await;
    // The store was not closed: an upload was under way.
    let upload = blocks.appender();
    let lost = upload.append(noise(3, 500_000)).await.unwrap();
    std::mem::forget(upload);
    // The process has ended, and its lock with it.
    unlock(folder.path());
    let blocks = on_files(folder.path(), &engine, Start::Unclean);
    assert_eq!(blocks.read(&kept).await.unwrap(), noise(1, 500_000));
    assert_eq!(blocks.read(&more).await.unwrap(), noise(2, 500_000));
    expect_no_block(blocks.read(&lost).await);
    assert!(allocated(folder.path()) < 1_000_000 + 5 * 4096);
}

/// The forgotten blocks keep their lock, so a new file stands for a new process.
fn unlock(folder: &std::path::Path) {
    std::fs::remove_file(folder.join("lock")).unwrap();
}

#[tokio::test]
async fn small_records_are_freed_once_a_whole_page_is_dead() {
    let world = World::new(1);
    let contents: Vec<Bytes> = (0..30).map(|seed| noise(seed, 500)).collect();
    let refs = world.put(&contents).await.unwrap();
    // The zeros that are written ahead belong to no record.
    world.blocks.volume(1).unwrap().trim().unwrap();
    let before = world.live_and_allocated().1;
    // Free them one by one, in an order without neighbours.
    for start in 0..3 {
        for block in refs.iter().skip(start).step_by(3) {
            world.delete(&[*block]).unwrap();
        }
    }
    let after = world.live_and_allocated().1;
    assert!(
        before >= 4 * PUNCH_BYTES && after <= PUNCH_BYTES,
        "{before} {after}"
    );
    assert_eq!(world.blocks.counters().punched_bytes.get(), before - after);
}

#[tokio::test]
async fn a_segment_that_empties_while_active_is_removed_later() {
    let world = World::new(1);
    let refs = world.put(&[noise(1, 60_000)]).await.unwrap();
    world.delete(&refs).unwrap();
    assert_eq!(world.disks[0].segments().unwrap(), [1]);
    let refs = world.put(&[noise(2, 60_000)]).await.unwrap();
    world.delete(&refs).unwrap();
    assert_eq!(world.disks[0].segments().unwrap(), [2]);
}

#[tokio::test]
async fn without_holes_only_empty_segments_give_space_back() {
    let mut world = World::new(1);
    world.disks[0].forbid_punching();
    let contents: Vec<Bytes> = (0..6).map(|seed| noise(seed, 30_000)).collect();
    let refs = world.put(&contents).await.unwrap();
    assert_eq!(world.disks[0].segments().unwrap(), [1, 2, 3]);
    let full = world.disks[0].allocated_total();
    world.delete(&refs[..3]).unwrap();
    assert_eq!(world.disks[0].segments().unwrap(), [2, 3]);
    assert!(world.disks[0].allocated_total() < full - 60_000);
    world.crash(None);
    for (block, content) in refs.iter().zip(&contents).skip(3) {
        assert_eq!(world.read(block).await.unwrap(), content);
    }
    world.delete(&refs[3..]).unwrap();
    world.crash(None);
    assert_eq!(world.disks[0].allocated_total(), 0);
}

/// The record died at the end of the active segment. Its last page is freed when the segment is
/// full.
#[tokio::test]
async fn the_dead_end_of_a_full_segment_is_freed() {
    let world = World::new(1);
    let refs = world
        .put(&[noise(1, 30_000), noise(2, 20_000)])
        .await
        .unwrap();
    world.delete(&refs[1..]).unwrap();
    let (live, allocated) = world.live_and_allocated();
    assert_eq!(allocated, live + PUNCH_BYTES);
    world.put(&[noise(3, 30_000)]).await.unwrap();
    assert_eq!(world.disks[0].segments().unwrap(), [1, 2]);
    let (live, allocated) = world.live_and_allocated();
    assert_eq!(allocated, live);
}

#[tokio::test]
async fn freeing_a_block_spares_an_upload_next_to_it() {
    let world = World::new(1);
    let upload = world.blocks.appender();
    let mut mine = Vec::new();
    for seed in 0..5 {
        mine.push(upload.append(noise(seed, 7000)).await.unwrap());
        let other = world.put(&[noise(100 + seed, 7000)]).await.unwrap();
        world.delete(&other).unwrap();
    }
    upload.sync().await.unwrap();
    world.edit(&mine, &[]).unwrap();
    drop(upload);
    for (seed, block) in mine.iter().enumerate() {
        assert_eq!(world.read(block).await.unwrap(), noise(seed as u64, 7000));
    }
}
