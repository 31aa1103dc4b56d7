//! Garbage collection after an unclean start: what it frees, what it keeps, and how it ends.

use std::path::Path;

use parking_lot::Condvar;

use super::super::startup_gc::StartupGc;
use super::super::walk::Batch;
use super::*;
use crate::disk::{Disk, DiskFault, DiskOp};
use crate::engine::{ReadTxn, WriteTxn};
use crate::pool::PoolOptions;

/// Small, so that a collection has many batches.
pub(super) const BATCH: Batch = Batch {
    records: 2,
    gaps: 1,
};

fn collect_all(blocks: &Blocks) -> StartupGc {
    let mut gc = StartupGc::new(blocks, BATCH);
    while gc.step(blocks) {}
    gc
}

/// Returns a world with dead space in several segments that the process did not free before it was
/// killed: deleted blocks, and an upload that no row refers to. Also returns the live blocks.
pub(super) async fn killed() -> (World, Vec<(BlockRef, Bytes)>) {
    let world = World::new(1);
    let contents: Vec<Bytes> = (0..40).map(|seed| noise(seed, 9000)).collect();
    let refs = world.put(&contents).await.unwrap();
    let upload = world.blocks.appender();
    for seed in 100..140 {
        upload.append(noise(seed, 5000)).await.unwrap();
    }
    std::mem::forget(upload);
    let last = world.put(&[noise(200, 9000)]).await.unwrap()[0];
    let mut txn = world.engine.write().unwrap();
    let mut change = world.blocks.change();
    let live = refs.iter().copied().zip(contents);
    let (dead, mut live): (Vec<_>, Vec<_>) =
        live.enumerate().partition(|(n, _)| n % 3 == 0 || *n < 9);
    for (_, (block, _)) in &dead {
        change.release(&mut *txn, block).unwrap();
    }
    txn.commit(Durability::Fsync).unwrap();
    std::mem::forget(change);
    live.push((0, (last, noise(200, 9000))));
    (world, live.into_iter().map(|(_, one)| one).collect())
}

async fn check(world: &World, live: &[(BlockRef, Bytes)]) {
    for (block, content) in live {
        assert_eq!(world.read(block).await.unwrap(), content);
    }
    let (live, allocated) = world.live_and_allocated();
    assert_eq!(live, allocated);
}

/// Closes a world with dead space. The end is no clean one, and the next start frees it.
async fn check_next_start(world: &mut World, live: &[(BlockRef, Bytes)]) {
    world.blocks.close().await.unwrap();
    assert!(!world.blocks.startup_gc_is_done());
    let (needed, allocated) = world.live_and_allocated();
    assert!(allocated > needed);
    world.reopen(Start::Unclean);
    assert!(world.blocks.startup_gc_is_done());
    check(world, live).await;
}

#[tokio::test]
async fn an_unclean_start_frees_all_dead_space_and_syncs_no_segment() {
    let (mut world, live) = killed().await;
    let (needed, allocated) = world.live_and_allocated();
    assert!(allocated > 2 * needed, "{allocated} {needed}");
    let segments = world.disks[0].segments().unwrap().len();
    let before = world.disks[0].fsyncs();
    world.reopen(Start::Unclean);
    check(&world, &live).await;
    assert!(world.disks[0].segments().unwrap().len() < segments);
    assert_eq!(world.disks[0].fsyncs(), before);
    assert!(world.blocks.startup_gc_is_done());
    assert_eq!(world.blocks.unsearched_segments(), 0);
    assert_eq!(
        world.blocks.counters().punched_bytes.get(),
        allocated - needed,
        "the cut of the last segment freed nothing"
    );
    // Blocks that rows refer to are durable although no segment was synced again.
    world.crash(Some(7));
    check(&world, &live).await;
}

/// Only the active segment is punched again: how much of it is dead is not known.
#[tokio::test]
async fn segment_that_is_done_costs_the_next_start_no_punch() {
    let (mut world, live) = killed().await;
    world.reopen(Start::Unclean);
    let full = world.disks[0].segments().unwrap().len() - 1;
    assert!(full > 3);
    let active = world.blocks.volume(1).unwrap().active().unwrap();
    assert_eq!(
        active.segment,
        *world.disks[0].segments().unwrap().last().unwrap()
    );
    for round in 1..3 {
        world.disks[0].inject(DiskFault {
            op: Some(DiskOp::Allocate),
            after: 1,
            errno: libc::EIO,
        });
        let gc = collect_all(&world.blocks);
        assert!(gc.is_complete(), "{round}");
        assert_eq!(gc.freed_bytes(), 0);
        assert!(world.disks[0].clear_fault());
    }
    check(&world, &live).await;
}

#[tokio::test]
async fn an_error_leaves_a_segment_to_the_next_start() {
    for op in [DiskOp::Allocate, DiskOp::Unlink] {
        let (mut world, live) = killed().await;
        world.disks[0].inject(DiskFault {
            op: Some(op),
            // The first call of `Allocate` cuts the last segment.
            after: u64::from(op == DiskOp::Allocate),
            errno: libc::EIO,
        });
        world.reopen(Start::Unclean);
        assert!(!world.blocks.startup_gc_is_done());
        assert_eq!(world.blocks.counters().free_errors.get(), 1);
        check_next_start(&mut world, &live).await;
    }
}

type Hook = Box<dyn Fn() + Send + Sync>;

/// An engine that calls a function before or after a view is opened.
pub(super) struct Hooked {
    inner: Arc<MemoryEngine>,
    pub before: Mutex<Option<Hook>>,
    pub after: Mutex<Option<Hook>>,
}

impl Hooked {
    pub fn new(inner: &Arc<MemoryEngine>) -> Arc<Hooked> {
        Arc::new(Hooked {
            inner: inner.clone(),
            before: Mutex::default(),
            after: Mutex::default(),
        })
    }
}

impl Engine for Hooked {
    fn read(&self) -> Result<Box<dyn ReadTxn + '_>> {
        // Hooks are called once. They open views themselves.
        let before = self.before.lock().take();
        let after = self.after.lock().take();
        before.inspect(|before| before());
        let view = self.inner.read();
        after.inspect(|after| after());
        view
    }

    fn write(&self) -> Result<Box<dyn WriteTxn + '_>> {
        self.inner.write()
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn copy_to(&self, source: &dyn ReadTxn, folder: &Path) -> Result<()> {
        self.inner.copy_to(source, folder)
    }

    fn size_bytes(&self) -> Result<u64> {
        self.inner.size_bytes()
    }
}

pub(super) fn open_on(
    engine: Arc<dyn Engine>,
    disk: Arc<dyn Disk>,
    pool: Pool,
    start: Start,
) -> Arc<Blocks> {
    let config = DiskConfig::new(1, disk);
    Blocks::open(engine, vec![config], options(), pool, start).unwrap()
}

/// Holds the thread of the collection.
#[derive(Default)]
struct Hold {
    state: Mutex<(bool, bool)>,
    moved: Condvar,
}

impl Hold {
    /// Waits in the thread of the collection until `open` is called. Says that it waits.
    fn pass(&self) {
        let mut state = self.state.lock();
        state.0 = true;
        self.moved.notify_all();
        while !state.1 {
            self.moved.wait(&mut state);
        }
    }

    fn wait_until_it_waits(&self) {
        let mut state = self.state.lock();
        while !state.0 {
            self.moved.wait(&mut state);
        }
    }

    fn open(&self) {
        self.state.lock().1 = true;
        self.moved.notify_all();
    }
}

/// Opens the disk of a killed process with threads, and holds the collection in its first batch.
async fn held() -> (World, Vec<(BlockRef, Bytes)>, Arc<Hold>) {
    let (mut world, live) = killed().await;
    let engine = Hooked::new(&world.engine);
    let hold = Arc::new(Hold::default());
    let pool = Pool::start(PoolOptions::default()).unwrap();
    // The start itself opens a view for the disk, in this thread.
    let (in_batch, armed) = (hold.clone(), engine.clone());
    *engine.after.lock() = Some(Box::new(move || {
        let hold = in_batch.clone();
        *armed.before.lock() = Some(Box::new(move || hold.pass()));
    }));
    world.blocks = open_on(engine, world.disks[0].clone(), pool, Start::Unclean);
    hold.wait_until_it_waits();
    (world, live, hold)
}

#[tokio::test]
async fn node_serves_during_startup_gc() {
    let (world, live, hold) = held().await;
    assert!(!world.blocks.startup_gc_is_done());
    assert!(world.blocks.unsearched_segments() > 0);
    for (block, content) in &live {
        assert_eq!(world.read(block).await.unwrap(), content);
    }
    let more = noise(500, 9000);
    let block = world.put(std::slice::from_ref(&more)).await.unwrap()[0];
    hold.open();
    while !world.blocks.startup_gc_is_done() {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.blocks.unsearched_segments(), 0);
    world.blocks.close().await.unwrap();
    let live: Vec<_> = live.into_iter().chain([(block, more)]).collect();
    check(&world, &live).await;
}

#[tokio::test]
async fn stop_ends_startup_gc_and_the_next_start_begins_it_again() {
    let (mut world, live, hold) = held().await;
    world.blocks.startup_gc.ask_to_stop();
    hold.open();
    check_next_start(&mut world, &live).await;
}

/// A pass of this run that fails leaves dead space. The end is not a clean one then.
#[tokio::test]
async fn what_a_pass_could_not_free_is_left_for_the_next_start() {
    let mut world = World::new(1);
    let contents: Vec<Bytes> = (0..20).map(|seed| noise(seed, 9000)).collect();
    let refs = world.put(&contents).await.unwrap();
    assert!(world.blocks.startup_gc_is_done());
    world.disks[0].inject(DiskFault {
        op: Some(DiskOp::Allocate),
        after: 0,
        errno: libc::EIO,
    });
    // One alone: the death of a neighbour would free its space, too.
    world.delete(&refs[5..6]).unwrap();
    world.blocks.reclaim();
    assert_eq!(world.blocks.counters().free_errors.get(), 1);
    world.disks[0].clear_fault();
    let live = refs.into_iter().zip(contents).enumerate();
    let live = live.filter(|(n, _)| *n != 5);
    let live: Vec<_> = live.map(|(_, one)| one).collect();
    check_next_start(&mut world, &live).await;
}
