//! Random runs against a reference: uploads, commits, releases, pins, drains, garbage collections and crashes.
//!
//! After every step, each block that is pinned or that a committed row refers to can be read, and
//! the index has exactly the committed references. After a crash all durable blocks exist, and only
//! live records take space.

mod steps;

use proptest::prelude::*;

use super::super::startup_gc::StartupGc;
use super::super::walk::Batch;
use super::super::{BlockAppender, Change, Pin};
use super::*;
use steps::{DISKS, Step, block, content, step};

/// Small, so that a collection has many batches.
const BATCH: Batch = Batch {
    records: 2,
    gaps: 1,
};

/// References by content.
type References = BTreeMap<u64, u64>;

struct Run {
    world: World,
    uploads: Vec<(BlockAppender, Vec<u64>)>,
    pins: Vec<(Pin, Vec<u64>)>,
    /// Commits that are not durable, and the references after each.
    buffered: Vec<(Change, References)>,
    now: References,
    durable: References,
    gc: Option<StartupGc>,
}

impl Run {
    fn new() -> Run {
        Run {
            world: World::new(DISKS),
            uploads: Vec::new(),
            pins: Vec::new(),
            buffered: Vec::new(),
            now: References::new(),
            durable: References::new(),
            gc: None,
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::BlockAppender(contents) => self.appender(contents).await,
            Step::Abort(number) => drop(take(&mut self.uploads, number)),
            Step::Commit {
                upload,
                release,
                durable,
                roll_back,
            } => self.commit(upload, release, durable, roll_back).await,
            Step::Sync => self.sync().await,
            Step::Pin(contents) => self.pin(contents),
            Step::Unpin(number) => drop(take(&mut self.pins, number)),
            Step::Drain(disk) => self.drain(disk).await,
            Step::Scrub => self.scrub().await,
            Step::Crash(torn, kept) => self.crash(torn, kept).await,
            Step::Kill => self.kill(),
            Step::KillAndServe => self.kill_and_serve(),
            Step::StartupGc(batches) => self.collect(batches),
            Step::Restart => self.restart().await,
        }
        self.check().await;
    }

    async fn appender(&mut self, contents: Vec<u64>) {
        if self.uploads.len() >= 4 {
            self.uploads.remove(0);
        }
        let upload = self.world.blocks.appender();
        for number in &contents {
            assert_eq!(
                upload.append(content(*number)).await.unwrap(),
                block(*number)
            );
        }
        self.uploads.push((upload, contents));
    }

    async fn commit(
        &mut self,
        upload: Option<usize>,
        release: Vec<u64>,
        durable: bool,
        roll_back: bool,
    ) {
        let upload = upload.and_then(|number| take(&mut self.uploads, number));
        let mut after = self.now.clone();
        let mut change = self.world.blocks.change();
        let mut txn = self.world.engine.write().unwrap();
        // Release first, so that a block that is released and retained in one transaction stays.
        for number in release {
            if let Some(references) = after.get_mut(&number) {
                *references -= 1;
                change.release(&mut *txn, &block(number)).unwrap();
            }
            after.retain(|_, references| *references > 0);
        }
        for number in upload.iter().flat_map(|(_, contents)| contents) {
            *after.entry(*number).or_default() += 1;
            change.retain(&mut *txn, &block(*number)).unwrap();
        }
        if roll_back {
            drop(txn);
            return;
        }
        self.now = after;
        change.sync().unwrap();
        let durability = if durable {
            Durability::Fsync
        } else {
            Durability::Buffered
        };
        txn.commit(durability).unwrap();
        self.buffered.push((change, self.now.clone()));
        if durable {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.durable = self.now.clone();
        let settled = self.buffered.drain(..);
        settled.for_each(|(change, _)| change.settle());
    }

    async fn sync(&mut self) {
        self.world.engine.sync().unwrap();
        self.settle();
    }

    fn pin(&mut self, contents: Vec<u64>) {
        let refs: Vec<BlockRef> = contents.iter().map(|number| block(*number)).collect();
        let pin = self.world.blocks.pin(&refs);
        // Pin first, then look: only blocks that a row refers to are promised to stay.
        let contents = contents
            .into_iter()
            .filter(|number| self.now.contains_key(number));
        self.pins.push((pin, contents.collect()));
        if self.pins.len() > 4 {
            self.pins.remove(0);
        }
    }

    async fn drain(&mut self, disk: u16) {
        self.world.blocks.set_draining(disk, true).unwrap();
        let mut after = None;
        loop {
            let step = self
                .world
                .blocks
                .drain_step(disk, after, 40_000)
                .await
                .unwrap();
            assert_eq!(step.unreadable, 0);
            if step.moved > 0 {
                // The engine was synced with it.
                self.settle();
            }
            after = step.next;
            if after.is_none() {
                break;
            }
        }
        let index = self.world.index();
        assert!(
            index
                .values()
                .all(|(located, _)| located.location.disk != disk)
        );
        self.world.blocks.set_draining(disk, false).unwrap();
    }

    async fn scrub(&mut self) {
        let step = self.world.blocks.scrub_step(None, u64::MAX).await.unwrap();
        assert_eq!(step.blocks as usize, self.now.len());
        assert!(step.damaged.is_empty());
    }

    /// Ends the process without giving back what it held.
    fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.uploads));
        std::mem::forget(std::mem::take(&mut self.pins));
        std::mem::forget(std::mem::take(&mut self.buffered));
        self.gc = None;
    }

    async fn crash(&mut self, torn: Option<u64>, kept: usize) {
        let kept = kept.min(self.buffered.len());
        if let Some((_, survived)) = kept.checked_sub(1).and_then(|last| self.buffered.get(last)) {
            self.durable = survived.clone();
        }
        self.forget();
        self.world.crash_after(kept, torn);
        self.now = self.durable.clone();
        self.check_space();
    }

    fn kill(&mut self) {
        self.forget();
        self.world.reopen(Start::Unclean);
        // The content of the page cache survives, and also survives a later power cut.
        self.durable = self.now.clone();
        self.check_space();
    }

    /// The part of an unclean start that comes before serving: names are durable.
    fn kill_and_serve(&mut self) {
        self.forget();
        self.world.engine.sync().unwrap();
        self.world.reopen(Start::Clean);
        self.durable = self.now.clone();
        self.gc = Some(StartupGc::new(&self.world.blocks, BATCH));
    }

    fn collect(&mut self, batches: usize) {
        let blocks = &self.world.blocks;
        let mut gc = self
            .gc
            .take()
            .unwrap_or_else(|| StartupGc::new(blocks, BATCH));
        let mut left = batches;
        while left > 0 && gc.step(blocks) {
            left -= 1;
        }
        self.gc = Some(gc).filter(|gc| !gc.is_complete());
    }

    async fn restart(&mut self) {
        self.collect(usize::MAX);
        self.uploads.clear();
        self.pins.clear();
        self.sync().await;
        self.world.blocks.close().await.unwrap();
        assert_eq!(self.world.blocks.pinned(), 0);
        let (live, allocated) = self.world.live_and_allocated();
        // The page at the append position may hold the end of a dead record.
        let slack = DISKS as u64 * PUNCH_BYTES;
        assert!(
            allocated <= live + slack,
            "{allocated} allocated, {live} live"
        );
        self.world.reopen(Start::Clean);
    }

    fn check_space(&self) {
        let (live, allocated) = self.world.live_and_allocated();
        assert_eq!(live, allocated, "space leaked, or lost");
    }

    async fn check(&self) {
        let references = |references: &References| -> BTreeMap<BlockHash, u64> {
            references
                .iter()
                .map(|(number, count)| (block(*number).hash, *count))
                .collect()
        };
        let index = self.world.index();
        let found: BTreeMap<_, _> = index
            .into_iter()
            .map(|(hash, (_, count))| (hash, count))
            .collect();
        assert_eq!(found, references(&self.now));
        let pinned = self.pins.iter().flat_map(|(_, contents)| contents);
        let uploaded = self.uploads.iter().flat_map(|(_, contents)| contents);
        for number in self.now.keys().chain(pinned).chain(uploaded) {
            let read = self.world.read(&block(*number)).await;
            assert_eq!(read.unwrap(), content(*number));
        }
        assert_eq!(self.world.blocks.counters().damaged.get(), 0);
        assert_eq!(self.world.blocks.counters().free_errors.get(), 0);
    }
}

fn take<T>(items: &mut Vec<T>, number: usize) -> Option<T> {
    (number < items.len()).then(|| items.remove(number))
}

async fn run(steps: Vec<Step>) {
    let mut run = Run::new();
    for step in steps {
        run.step(step).await;
    }
    run.crash(Some(1), 0).await;
    run.check().await;
}

fn buffered(upload: usize) -> Step {
    Step::Commit {
        upload: Some(upload),
        release: Vec::new(),
        durable: false,
        roll_back: false,
    }
}

/// A move commits durably, and makes earlier buffered commits durable too.
#[tokio::test]
async fn draining_makes_earlier_buffered_commits_durable() {
    for disk in 1..=DISKS as u16 {
        run(vec![
            Step::BlockAppender(vec![1]),
            buffered(0),
            Step::BlockAppender(vec![2, 3, 6, 7]),
            buffered(0),
            Step::Drain(disk),
        ])
        .await;
    }
}

/// The next process finds buffered commits in the page cache. Its first commit makes them durable.
#[tokio::test]
async fn buffered_commits_survive_a_kill_and_the_next_commit_makes_them_durable() {
    let nothing = Step::Commit {
        upload: None,
        release: Vec::new(),
        durable: true,
        roll_back: false,
    };
    run(vec![
        Step::BlockAppender(vec![1]),
        buffered(0),
        Step::Kill,
        nothing,
    ])
    .await;
}

/// Returns half of `PROPTEST_CASES`, because a run is long.
fn cases() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    config.cases = config.cases.div_ceil(2);
    config
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn random_runs_match_the_reference(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}
