mod concurrent;
mod disks;
mod faults;
mod freeing;
mod life;
mod model;

mod records;
mod repair;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use archipel_base::random::{Random, SeededRandom};
use archipel_base::{BlockHash, Id};
use bytes::Bytes;

use super::place::Located;
use super::*;
use crate::disk::{MemoryDisk, PUNCH_BYTES};
use crate::engine::memory::MemoryEngine;
use crate::engine::{Direction, Durability, Flow, Tree};

/// Blocks on disks in memory, in one thread.
struct World {
    engine: Arc<MemoryEngine>,
    disks: Vec<Arc<MemoryDisk>>,
    blocks: Arc<Blocks>,
}

fn options() -> BlockOptions {
    BlockOptions {
        owner: Id([7; 16]),
        segment_bytes: 64 << 10,
        preallocate_bytes: 16 << 10,
        reserve_bytes: Some(0),
        compression_level: Some(1),
    }
}

fn open(
    engine: &Arc<MemoryEngine>,
    disks: &[Arc<MemoryDisk>],
    start: Start,
) -> Result<Arc<Blocks>> {
    let configs = disks.iter().enumerate().map(|(number, disk)| DiskConfig {
        id: number as u16 + 1,
        disk: disk.clone(),
        draining: false,
        capacity_bytes: None,
    });
    Blocks::open(
        engine.clone(),
        configs.collect(),
        options(),
        Pool::inline(),
        start,
    )
}

impl World {
    fn new(disks: usize) -> World {
        let engine = Arc::new(MemoryEngine::new());
        let disks: Vec<_> = (0..disks).map(|_| Arc::new(MemoryDisk::new())).collect();
        let blocks = open(&engine, &disks, Start::Unclean).unwrap();
        World {
            engine,
            disks,
            blocks,
        }
    }

    /// Opens again without closing. What the old blocks still hold is forgotten, not dropped: a
    /// process that is gone frees nothing.
    fn reopen(&mut self, start: Start) {
        self.blocks = open(&self.engine, &self.disks, start).unwrap();
    }

    fn crash(&mut self, torn: Option<u64>) {
        self.engine.crash();
        for disk in &self.disks {
            let random = torn.map(SeededRandom::new);
            disk.crash(random.as_ref().map(|random| random as &dyn Random));
        }
        self.reopen(Start::Unclean);
    }

    /// Uploads and commits, durably.
    async fn put(&self, contents: &[Bytes]) -> Result<Vec<BlockRef>> {
        let upload = self.blocks.upload();
        let mut refs = Vec::new();
        for content in contents {
            refs.push(upload.append(content.clone()).await?);
        }
        upload.sync().await?;
        self.edit(&refs, &[])?;
        Ok(refs)
    }

    fn delete(&self, refs: &[BlockRef]) -> Result<()> {
        self.edit(&[], refs)
    }

    fn edit(&self, retain: &[BlockRef], release: &[BlockRef]) -> Result<()> {
        let mut txn = self.engine.write()?;
        let mut change = self.blocks.change();
        for block in retain {
            change.retain(&mut *txn, block)?;
        }
        for block in release {
            change.release(&mut *txn, block)?;
        }
        txn.commit(Durability::Fsync)?;
        change.settle();
        Ok(())
    }

    async fn read(&self, block: &BlockRef) -> Result<Bytes> {
        self.blocks.read(block).await
    }

    /// The index as it is committed: references by hash. Fails unless both trees agree and no two
    /// records overlap.
    fn index(&self) -> BTreeMap<BlockHash, (Located, u64)> {
        let txn = self.engine.read().unwrap();
        let mut entries = BTreeMap::new();
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        txn.scan(
            Tree::Blocks,
            all,
            Direction::Ascending,
            &mut |key, value| {
                let entry = place::Entry::from_bytes(value)?;
                let hash = BlockHash(key.try_into().unwrap());
                entries.insert(hash, (entry.located, entry.references));
                Ok(Flow::Continue)
            },
        )
        .unwrap();
        let mut placed = 0;
        let mut end = (0, 0, 0);
        index::places(&*txn, None, |hash, located| {
            assert_eq!(entries.get(&hash).map(|(l, _)| *l), Some(located));
            let place = located.place;
            assert!(
                end <= (place.disk, place.segment, place.offset),
                "records overlap"
            );
            end = (place.disk, place.segment, located.end());
            placed += 1;
            Ok(Flow::Continue)
        })
        .unwrap();
        assert_eq!(placed, entries.len(), "the two trees differ");
        entries
    }

    /// The pages that live records touch, in bytes, and what is allocated.
    fn live_and_allocated(&self) -> (u64, u64) {
        let mut pages = BTreeSet::new();
        for (located, _) in self.index().values() {
            let place = located.place;
            for page in place.offset / PUNCH_BYTES..located.end().div_ceil(PUNCH_BYTES) {
                // A record's padding is not written, so its last page may be untouched.
                if page * PUNCH_BYTES < place.offset + 64 + u64::from(located.stored) {
                    pages.insert((place.disk, place.segment, page));
                }
            }
        }
        let allocated = self.disks.iter().map(|disk| disk.allocated_total()).sum();
        (pages.len() as u64 * PUNCH_BYTES, allocated)
    }
}

/// Content that does not compress; the same for the same seed and length.
fn noise(seed: u64, len: usize) -> Bytes {
    let mut content = vec![0; len];
    SeededRandom::new(seed).fill(&mut content);
    content.into()
}

/// Content that does.
fn text(seed: u64, len: usize) -> Bytes {
    let line = format!("line {seed} of a text that repeats itself\n");
    line.bytes().cycle().take(len).collect::<Vec<u8>>().into()
}

fn expect_no_block<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::NoBlock(_))), "{result:?}");
}
