mod concurrent;
mod disks;
mod faults;
mod freeing;
mod interleaved;
mod life;
mod model;

mod records;
mod removable;
mod repair;
mod start_time;
mod startup_gc;
mod syncs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use archipel_base::random::{Random, SeededRandom};
use archipel_base::{BlockHash, Id};
use bytes::Bytes;

use super::location::LocatedRecord;
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
        zero_bytes: 16 << 10,
        reserve_bytes: Some(0),
        compression_level: Some(1),
    }
}

fn open(
    engine: &Arc<MemoryEngine>,
    disks: &[Arc<MemoryDisk>],
    start: Start,
) -> Result<Arc<Blocks>> {
    let configs = disks
        .iter()
        .enumerate()
        .map(|(number, disk)| DiskConfig::new(number as u16 + 1, disk.clone()));
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

    /// Opens the blocks again without closing them. The old ones are forgotten, not dropped,
    /// because a process that has ended frees nothing.
    fn reopen(&mut self, start: Start) {
        self.blocks = open(&self.engine, &self.disks, start).unwrap();
    }

    fn crash(&mut self, torn: Option<u64>) {
        self.crash_after(0, torn);
    }

    /// Simulates a power cut that the first `kept` of the buffered commits survive.
    fn crash_after(&mut self, kept: usize, torn: Option<u64>) {
        self.engine.crash_after(kept);
        for disk in &self.disks {
            let random = torn.map(SeededRandom::new);
            disk.crash(random.as_ref().map(|random| random as &dyn Random));
        }
        self.reopen(Start::Unclean);
    }

    /// Uploads contents and commits them durably.
    async fn put(&self, contents: &[Bytes]) -> Result<Vec<BlockRef>> {
        let upload = self.blocks.appender();
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
        change.sync()?;
        txn.commit(Durability::Fsync)?;
        change.settle();
        Ok(())
    }

    async fn read(&self, block: &BlockRef) -> Result<Bytes> {
        self.blocks.read(block).await
    }

    /// Returns the committed index: references by hash. Fails unless both trees agree and no two
    /// records overlap.
    fn index(&self) -> BTreeMap<BlockHash, (LocatedRecord, u64)> {
        let txn = self.engine.read().unwrap();
        let mut entries = BTreeMap::new();
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        txn.scan(
            Tree::Blocks,
            all,
            Direction::Ascending,
            &mut |key, value| {
                let entry = location::Entry::from_bytes(value)?;
                let hash = BlockHash(key.try_into().unwrap());
                entries.insert(hash, (entry.located, entry.references));
                Ok(Flow::Continue)
            },
        )
        .unwrap();
        let mut placed = 0;
        let mut end = (0, 0, 0);
        index::locations(&*txn, None, |hash, located| {
            assert_eq!(entries.get(&hash).map(|(l, _)| *l), Some(located));
            let location = located.location;
            assert!(
                end <= (location.disk, location.segment, location.offset),
                "records overlap"
            );
            end = (location.disk, location.segment, located.end());
            placed += 1;
            Ok(Flow::Continue)
        })
        .unwrap();
        assert_eq!(placed, entries.len(), "the two trees differ");
        entries
    }

    /// Returns the bytes of the pages that live records touch, and the allocated bytes.
    fn live_and_allocated(&self) -> (u64, u64) {
        let mut pages = BTreeSet::new();
        for (located, _) in self.index().values() {
            let location = located.location;
            for page in location.offset / PUNCH_BYTES..located.end().div_ceil(PUNCH_BYTES) {
                // A record's padding is not written, so its last page may be untouched.
                if page * PUNCH_BYTES < location.offset + 64 + u64::from(located.stored) {
                    pages.insert((location.disk, location.segment, page));
                }
            }
        }
        let allocated = self.disks.iter().map(|disk| disk.allocated_total()).sum();
        (pages.len() as u64 * PUNCH_BYTES, allocated)
    }
}

/// Returns content that does not compress. It is the same for the same seed and length.
fn noise(seed: u64, len: usize) -> Bytes {
    let mut content = vec![0; len];
    SeededRandom::new(seed).fill(&mut content);
    content.into()
}

/// Returns content that compresses.
fn text(seed: u64, len: usize) -> Bytes {
    let line = format!("line {seed} of a text that repeats itself\n");
    line.bytes().cycle().take(len).collect::<Vec<u8>>().into()
}

fn expect_no_block<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::NoBlock(_))), "{result:?}");
}
