//! Concurrent clients, on real threads.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;

use super::super::startup_gc::StartupGc;
use super::super::walk::Batch;
use super::*;
use crate::disk::FileDisk;
use crate::pool::PoolOptions;

fn threaded(disks: Vec<Arc<dyn Disk>>, engine: &Arc<MemoryEngine>) -> Arc<Blocks> {
    let configs = disks
        .into_iter()
        .zip(1..)
        .map(|(disk, id)| DiskConfig::new(id, disk));
    let pool = Pool::start(PoolOptions {
        threads: 4,
        queue: 8,
        buffer_bytes: 1 << 20,
        holdable_bytes: 1 << 19,
    });
    let pool = pool.unwrap();
    Blocks::open(
        engine.clone(),
        configs.collect(),
        options(),
        pool,
        Start::Unclean,
    )
    .unwrap()
}

async fn commit(
    blocks: &Arc<Blocks>,
    engine: &Arc<MemoryEngine>,
    retain: Vec<BlockRef>,
    release: Vec<BlockRef>,
) {
    let (pool, blocks, engine) = (blocks.pool().clone(), blocks.clone(), engine.clone());
    pool.run(move || {
        let mut txn = engine.write()?;
        let mut change = blocks.change();
        for block in &retain {
            change.retain(&mut *txn, block)?;
        }
        for block in &release {
            change.release(&mut *txn, block)?;
        }
        txn.commit(Durability::Fsync)?;
        drop(change);
        Ok(())
    })
    .await
    .unwrap();
}

/// Runs one client: puts, reads and deletes contents that other clients use too.
async fn client(blocks: Arc<Blocks>, engine: Arc<MemoryEngine>, random: SeededRandom) {
    for _ in 0..40 {
        let seeds: Vec<u64> = (0..3).map(|_| random.next_u64() % 12).collect();
        let upload = blocks.appender();
        let mut refs = Vec::new();
        for seed in &seeds {
            refs.push(upload.append(noise(*seed, 6000)).await.unwrap());
        }
        if random.next_u64().is_multiple_of(4) {
            continue;
        }
        upload.sync().await.unwrap();
        commit(&blocks, &engine, refs.clone(), Vec::new()).await;
        drop(upload);
        // The pin was made while a row referred to the block. So it stays readable although it may
        // be deleted meanwhile.
        let pin = blocks.pin(&refs);
        commit(&blocks, &engine, Vec::new(), refs.clone()).await;
        for (seed, block) in seeds.iter().zip(&refs) {
            assert_eq!(blocks.read(block).await.unwrap(), noise(*seed, 6000));
        }
        drop(pin);
    }
}

/// Drains one disk, then the other, over and over, and scrubs in between.
async fn drainer(blocks: Arc<Blocks>) {
    for round in 0..30 {
        let disk = 1 + round % 2;
        blocks.set_draining(disk, true).unwrap();
        let step = blocks.drain_step(disk, None, u64::MAX).await.unwrap();
        assert_eq!(step.unreadable, 0);
        blocks.set_draining(disk, false).unwrap();
        let scrubbed = blocks.scrub_step(None, u64::MAX).await.unwrap();
        assert!(scrubbed.damaged.is_empty());
    }
}

/// Collects garbage in all segments over and over, in small batches.
async fn collector(blocks: Arc<Blocks>, clients: Arc<AtomicU64>) {
    let pool = blocks.pool().clone();
    let job = move || {
        let batch = Batch {
            records: 3,
            gaps: 1,
        };
        while clients.load(Ordering::SeqCst) > 0 {
            let mut gc = StartupGc::new(&blocks, batch);
            while gc.step(&blocks) {}
        }
        Ok(())
    };
    pool.run(job).await.unwrap();
}

async fn stress(disks: Vec<Arc<dyn Disk>>) -> (Arc<Blocks>, Arc<MemoryEngine>) {
    let engine = Arc::new(MemoryEngine::new());
    let blocks = threaded(disks, &engine);
    let mut clients = JoinSet::new();
    let running = Arc::new(AtomicU64::new(8));
    for seed in 0..8 {
        let (blocks, engine, running) = (blocks.clone(), engine.clone(), running.clone());
        clients.spawn(async move {
            client(blocks, engine, SeededRandom::new(seed)).await;
            running.fetch_sub(1, Ordering::SeqCst);
        });
    }
    if blocks.disks().len() > 1 {
        clients.spawn(drainer(blocks.clone()));
    }
    let collecting = tokio::spawn(collector(blocks.clone(), running.clone()));
    while let Some(done) = clients.join_next().await {
        // Without clients, the collector ends.
        done.inspect_err(|_| running.store(0, Ordering::SeqCst))
            .unwrap();
    }
    collecting.await.unwrap();
    blocks.close().await.unwrap();
    assert_eq!(blocks.pinned(), 0);
    assert_eq!(blocks.counters().damaged.get(), 0);
    assert_eq!(blocks.counters().missing.get(), 0);
    (blocks, engine)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_clients_share_blocks_on_memory_disks() {
    let disk = Arc::new(MemoryDisk::new());
    let (blocks, engine) = stress(vec![disk.clone()]).await;
    let world = World {
        engine,
        disks: vec![disk],
        blocks,
    };
    assert!(world.index().is_empty());
    assert!(world.live_and_allocated().1 <= PUNCH_BYTES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn draining_runs_beside_concurrent_clients() {
    let disks: Vec<_> = (0..2).map(|_| Arc::new(MemoryDisk::new())).collect();
    let dynamic = disks.iter().map(|disk| disk.clone() as Arc<dyn Disk>);
    let (blocks, engine) = stress(dynamic.collect()).await;
    let world = World {
        engine,
        disks,
        blocks,
    };
    assert!(world.index().is_empty());
    assert!(world.live_and_allocated().1 <= 2 * PUNCH_BYTES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_clients_share_blocks_on_file_disks() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FileDisk::open(folder.path()).unwrap());
    let (blocks, _) = stress(vec![disk]).await;
    assert!(blocks.disks()[0].used_bytes <= 2 * PUNCH_BYTES);
}

/// While one `fdatasync` runs, all later callers wait for the next one: two calls in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_syncs_share_an_fdatasync() {
    let disk = Arc::new(SlowDisk::default());
    let engine = Arc::new(MemoryEngine::new());
    let blocks = threaded(vec![disk.clone()], &engine);
    let mut uploads = Vec::new();
    for seed in 0..32 {
        let upload = blocks.appender();
        upload.append(noise(seed, 100)).await.unwrap();
        uploads.push(upload);
    }
    let before = disk.fsyncs();
    let mut syncs = JoinSet::new();
    for upload in uploads {
        syncs.spawn(async move {
            upload.sync().await.unwrap();
        });
    }
    // The first sync is held until all callers wait. All had written before, so the second one
    // suffices.
    while disk.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    disk.open();
    while let Some(done) = syncs.join_next().await {
        done.unwrap();
    }
    assert!(disk.fsyncs() - before <= 2, "{}", disk.fsyncs() - before);
}

/// A disk whose syncs wait until it is opened. It calls a function before it punches, once.
#[derive(Default)]
pub(super) struct SlowDisk {
    inner: Arc<MemoryDisk>,
    pub before_punch: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    waiting: AtomicU64,
    is_open: (Mutex<bool>, parking_lot::Condvar),
}

impl SlowDisk {
    /// Makes a disk on `inner` whose syncs do not wait.
    pub fn opened(inner: &Arc<MemoryDisk>) -> Arc<SlowDisk> {
        let disk = SlowDisk {
            inner: inner.clone(),
            ..SlowDisk::default()
        };
        disk.open();
        Arc::new(disk)
    }

    fn open(&self) {
        *self.is_open.0.lock() = true;
        self.is_open.1.notify_all();
    }
}

use std::io;

impl Disk for SlowDisk {
    fn sync(&self, segment: u32) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut open = self.is_open.0.lock();
        while !*open {
            self.is_open.1.wait(&mut open);
        }
        drop(open);
        self.inner.sync(segment)
    }

    fn segments(&self) -> io::Result<Vec<u32>> {
        self.inner.segments()
    }
    fn create(&self, segment: u32) -> io::Result<()> {
        self.inner.create(segment)
    }
    fn unlink(&self, segment: u32) -> io::Result<()> {
        self.inner.unlink(segment)
    }
    fn length(&self, segment: u32) -> io::Result<u64> {
        self.inner.length(segment)
    }
    fn read_at(&self, segment: u32, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(segment, offset, buffer)
    }
    fn write_at(&self, segment: u32, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.inner.write_at(segment, offset, parts)
    }
    fn preallocate(&self, segment: u32, offset: u64, len: u64) -> io::Result<()> {
        self.inner.preallocate(segment, offset, len)
    }
    fn syncs_overwrites_faster(&self) -> bool {
        self.inner.syncs_overwrites_faster()
    }
    fn punch(&self, segment: u32, offset: u64, len: u64) -> io::Result<bool> {
        let hook = self.before_punch.lock().take();
        hook.inspect(|hook| hook());
        self.inner.punch(segment, offset, len)
    }
    fn set_length(&self, segment: u32, len: u64) -> io::Result<()> {
        self.inner.set_length(segment, len)
    }
    fn allocated(&self, segment: u32) -> io::Result<u64> {
        self.inner.allocated(segment)
    }
    fn space(&self) -> io::Result<crate::disk::Space> {
        self.inner.space()
    }
    fn read_state(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.inner.read_state(name)
    }
    fn write_state(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.inner.write_state(name, content)
    }
    fn fsyncs(&self) -> u64 {
        self.inner.fsyncs()
    }
}
