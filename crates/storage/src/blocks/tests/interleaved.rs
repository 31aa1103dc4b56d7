//! Garbage collection beside others that act in the middle of its batches, in every order.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::super::startup_gc::StartupGc;
use super::concurrent::SlowDisk;
use super::startup_gc::{BATCH, Hooked, killed, open_on};
use super::*;

/// Returns the output of a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

/// The work of other threads while a batch runs. The handles are kept, because dropping them would
/// begin a freeing pass, which waits for the batch.
struct Others {
    blocks: Arc<Blocks>,
    engine: Arc<MemoryEngine>,
    random: SeededRandom,
    /// Blocks that rows refer to.
    named: Vec<(BlockRef, Bytes)>,
    /// Blocks that must be readable.
    kept: Vec<(BlockRef, Bytes)>,
    uploads: Vec<BlockAppender>,
    changes: Vec<Change>,
    pins: Vec<Pin>,
    made: u64,
}

impl Others {
    fn act(&mut self) {
        match self.random.next_u64() % 4 {
            0 => drop(self.upload()),
            1 => {
                let uploaded = self.upload();
                self.edit(&[uploaded.0], &[]);
                self.named.push(uploaded);
            }
            2 => {
                let (block, _) = self.take_named();
                self.pins.push(self.blocks.pin(&[block]));
                self.edit(&[], &[block]);
            }
            _ => {
                let (block, content) = self.take_named();
                let upload = self.blocks.appender();
                assert_eq!(now(upload.append(content)).unwrap(), block);
                assert_eq!(upload.deduplicated(), 1);
                self.uploads.push(upload);
                self.edit(&[], &[block]);
            }
        }
    }

    fn upload(&mut self) -> (BlockRef, Bytes) {
        self.made += 1;
        let content = noise(1000 + self.made, 3000 + 500 * (self.made as usize % 20));
        let upload = self.blocks.appender();
        let uploaded = (now(upload.append(content.clone())).unwrap(), content);
        now(upload.sync()).unwrap();
        self.uploads.push(upload);
        self.kept.push(uploaded.clone());
        uploaded
    }

    fn take_named(&mut self) -> (BlockRef, Bytes) {
        let number = self.random.next_u64() as usize % self.named.len();
        let taken = self.named.remove(number);
        // A row is left to take.
        if self.named.is_empty() {
            let uploaded = self.upload();
            self.edit(&[uploaded.0], &[]);
            self.named.push(uploaded);
        }
        taken
    }

    fn edit(&mut self, retain: &[BlockRef], release: &[BlockRef]) {
        let mut txn = self.engine.write().unwrap();
        let mut change = self.blocks.change();
        for block in retain {
            change.retain(&mut *txn, block).unwrap();
        }
        for block in release {
            change.release(&mut *txn, block).unwrap();
        }
        change.sync().unwrap();
        txn.commit(Durability::Fsync).unwrap();
        self.changes.push(change);
    }

    fn check(&self) {
        for (block, content) in &self.kept {
            assert_eq!(now(self.blocks.read(block)).unwrap(), content);
        }
    }
}

/// Others upload, commit, delete what is pinned, and deduplicate, just before and just after a batch
/// opens its view of the index, and before it punches.
fn one_interleaving(seed: u64) {
    let (world, live) = now(killed());
    let engine = Hooked::new(&world.engine);
    let disk = SlowDisk::opened(&world.disks[0]);
    let blocks = open_on(engine.clone(), disk.clone(), Pool::inline(), Start::Clean);
    let others = Arc::new(Mutex::new(Others {
        blocks: blocks.clone(),
        engine: world.engine.clone(),
        random: SeededRandom::new(seed),
        named: live.clone(),
        kept: live,
        uploads: Vec::new(),
        changes: Vec::new(),
        pins: Vec::new(),
        made: 0,
    }));
    let random = SeededRandom::new(seed + 1000);
    let mut gc = StartupGc::new(&blocks, BATCH);
    loop {
        for hook in [&engine.before, &engine.after, &disk.before_punch] {
            if random.next_u64().is_multiple_of(3) {
                let others = others.clone();
                *hook.lock() = Some(Box::new(move || others.lock().act()));
            }
        }
        let more = gc.step(&blocks);
        engine.before.lock().take();
        engine.after.lock().take();
        disk.before_punch.lock().take();
        if !more {
            break;
        }
    }
    assert!(gc.is_complete());
    let mut others = others.lock();
    others.check();
    let (uploads, changes, pins) = (
        std::mem::take(&mut others.uploads),
        std::mem::take(&mut others.changes),
        std::mem::take(&mut others.pins),
    );
    drop((uploads, changes, pins));
    others.kept = others.named.clone();
    others.check();
    now(blocks.close()).unwrap();
    let world = World { blocks, ..world };
    let (needed, allocated) = world.live_and_allocated();
    // The page at the append position may hold the end of a dead record.
    assert!(allocated <= needed + PUNCH_BYTES, "{allocated} {needed}");
}

#[test]
fn startup_gc_keeps_what_others_write_pin_and_deduplicate_meanwhile() {
    for seed in 0..200 {
        one_interleaving(seed);
    }
}
