//! The journal on a disk and an engine in memory, with faults and power cuts.

use std::collections::BTreeMap;

use archipel_base::random::{Random, SeededRandom};

use super::*;
use crate::disk::{DiskFault, DiskOp, MemoryDisk};
use crate::engine::memory::{Fault, MemoryEngine};
use crate::engine::{Direction, Durability, Flow, Tree};

mod damage;
mod histories;
mod segments;

const NAME: [u8; 16] = [7; 16];
const GROWTH_BYTES: u64 = 8192;
const SEGMENT_BYTES: u64 = 20_000;

/// A journal whose disk and engine survive it.
struct World {
    below: Arc<MemoryEngine>,
    disk: Arc<MemoryDisk>,
    limits: JournalLimits,
}

impl World {
    fn new(limits: JournalLimits) -> World {
        World {
            below: Arc::new(MemoryEngine::new()),
            disk: Arc::new(MemoryDisk::new()),
            limits,
        }
    }

    /// A journal that makes checkpoints only when it is closed.
    fn large() -> World {
        World::new(JournalLimits {
            growth_bytes: GROWTH_BYTES,
            ..JournalLimits::default()
        })
    }

    fn try_open(&self) -> Result<Journaled> {
        Journaled::without_thread(self.below.clone(), self.disk.clone(), NAME, self.limits)
    }

    fn open(&self) -> Journaled {
        self.try_open().unwrap()
    }

    /// Checks that the journal is refused as one that does not fit the engine, with this text.
    fn assert_failed(&self, expected: &str) {
        match self.try_open().map(drop) {
            Err(Error::Failed(text)) => assert!(text.contains(expected), "{text}"),
            other => panic!("{other:?}"),
        }
    }

    /// Checks that the journal is refused as damaged, with this text.
    fn assert_damaged(&self, expected: &str) {
        match self.try_open().map(drop) {
            Err(Error::Damaged(text)) => assert!(text.contains(expected), "{text}"),
            other => panic!("{other:?}"),
        }
    }

    /// Ends the journal as a killed process does.
    fn kill(engine: Journaled) {
        engine.core.breaker.trip("the test", "killed");
        drop(engine);
    }

    fn power_cut(&self, engine: Journaled, random: &dyn Random) {
        World::kill(engine);
        self.disk.crash(Some(random));
        self.below.crash_keeping(random);
    }
}

type Map = BTreeMap<(Tree, Vec<u8>), Vec<u8>>;

fn contents(engine: &dyn Engine) -> Map {
    let txn = engine.read().unwrap();
    let mut found = Map::new();
    for tree in Tree::ALL {
        txn.scan(
            tree,
            (Unbounded, Unbounded),
            Direction::Ascending,
            &mut |key, value| {
                assert_eq!(txn.get(tree, key).unwrap().as_deref(), Some(value));
                found.insert((tree, key.to_vec()), value.to_vec());
                Ok(Flow::Continue)
            },
        )
        .unwrap();
    }
    found
}

use std::ops::Bound::Unbounded;

fn put(engine: &dyn Engine, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
    let mut txn = engine.write()?;
    txn.put(Tree::Rows, key, value)?;
    txn.commit(durability)
}

fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let txn = engine.read().unwrap();
    txn.get(Tree::Rows, key).unwrap().map(|v| v.into_owned())
}

/// A fault that never happens, in place of another.
fn never() -> Fault {
    Fault {
        after_commits: u64::MAX,
        error: Error::Full("never".into()),
    }
}

fn below_u64(random: &dyn Random, limit: u64) -> u64 {
    random.next_u64() % limit
}

#[test]
fn a_durable_commit_is_one_flush() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"first", b"", Durability::Fsync).unwrap();
    let before = world.disk.fsyncs();
    for i in 0..10 {
        put(&engine, &[i + 1], b"value", Durability::Fsync).unwrap();
    }
    assert_eq!(world.disk.fsyncs() - before, 10);
    put(&engine, b"buffered", b"", Durability::Buffered).unwrap();
    assert_eq!(world.disk.fsyncs() - before, 10);
    engine.sync().unwrap();
    engine.sync().unwrap();
    assert_eq!(world.disk.fsyncs() - before, 11);
}

#[test]
fn a_closed_journal_leaves_nothing_to_read() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"a", b"1", Durability::Buffered).unwrap();
    drop(engine);
    let txn = world.below.read().unwrap();
    assert_eq!(
        txn.get(Tree::Rows, b"a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    let log = Log::new(world.disk.clone(), NAME, world.limits);
    assert!(!recover::recover(&log, None).unwrap().unwrap().has_changes());
}

/// The content of an object may look like a record. It is never read as one.
#[test]
fn content_that_looks_like_a_record_is_content() {
    let body = {
        let mut body = Vec::new();
        record::push_change(&mut body, Tree::Rows, b"forged", Some(b"1"));
        body
    };
    let position = record::RecordPosition {
        index: 1,
        synced: 1,
    };
    let forged = |seal| {
        [
            &record::record_header(seal, position, &body).unwrap()[..],
            &body,
        ]
        .concat()
    };
    let with_name = forged(record::Seal::new(NAME, 1));
    let without = forged(record::Seal::new([0; 16], 1));
    let seal = record::Seal::new(NAME, 1);
    assert!(record::find_record(&[b"x", &with_name[..]].concat(), seal).is_some());
    assert!(record::find_record(&[b"x", &without[..]].concat(), seal).is_none());
}

#[test]
fn a_full_disk_refuses_and_goes_on() {
    let world = World::new(JournalLimits {
        rest: Duration::ZERO,
        memory_bytes: 64 << 10,
        batch_bytes: 4096,
        file_bytes: 1 << 20,
        growth_bytes: GROWTH_BYTES,
        segment_bytes: SEGMENT_BYTES,
        idle: Duration::MAX,
    });
    let engine = world.open();
    world.disk.set_capacity(Some(world.disk.allocated_total()));
    let error = put(&engine, b"a", &[1; 9000], Durability::Fsync).unwrap_err();
    assert!(matches!(error, Error::Full(_)), "{error}");
    assert_eq!(get(&engine, b"a"), None);
    world.disk.set_capacity(None);
    put(&engine, b"b", b"1", Durability::Fsync).unwrap();
    World::kill(engine);
    let engine = world.open();
    assert_eq!(
        (get(&engine, b"a"), get(&engine, b"b")),
        (None, Some(b"1".to_vec()))
    );
}

/// A start writes a little. It must do so without a byte left on the disk.
#[test]
fn a_prepared_generation_has_room_on_a_full_disk() {
    let world = World::large();
    drop(world.open());
    for i in 0..3 {
        world.disk.set_capacity(Some(world.disk.allocated_total()));
        let engine = world.open();
        put(&engine, &[i + 1], b"1", Durability::Fsync).unwrap();
        World::kill(engine);
    }
    assert_eq!(contents(&world.open()).len(), 3);
}

/// The disk fills up before the third file was ever used, and checkpoints go on.
#[test]
fn a_start_on_a_full_disk_needs_no_new_file() {
    let world = World::large();
    drop(world.open());
    world.disk.set_capacity(Some(world.disk.allocated_total()));
    for i in 0..6 {
        let engine = world.open();
        put(&engine, &[i + 1], b"1", Durability::Fsync).unwrap();
        if i % 2 == 0 {
            drop(engine);
        } else {
            World::kill(engine);
        }
    }
    assert_eq!(contents(&world.open()).len(), 6);
}

/// A checkpoint without room holds writers up only when memory is full, and is repeated.
#[test]
fn a_checkpoint_that_fails_is_repeated() {
    let world = World::new(JournalLimits {
        rest: Duration::ZERO,
        memory_bytes: 2000,
        batch_bytes: 4096,
        file_bytes: 1 << 20,
        growth_bytes: GROWTH_BYTES,
        segment_bytes: SEGMENT_BYTES,
        idle: Duration::MAX,
    });
    let engine = world.open();
    let full = || Fault {
        after_commits: 0,
        error: Error::Full("no room".into()),
    };
    let mut refused = 0;
    for i in 1..=40_u8 {
        world.below.inject(full());
        match put(&engine, &[i], &[i; 100], Durability::Fsync) {
            Ok(()) => assert_eq!(refused, 0),
            Err(error) => {
                assert!(matches!(error, Error::Full(_)), "{error}");
                refused += 1;
            }
        }
    }
    assert!((1..40).contains(&refused), "{refused}");
    world.below.inject(never());
    put(&engine, b"after", b"", Durability::Fsync).unwrap();
    assert_eq!(contents(&engine).len(), 41 - refused);
}

#[test]
fn an_idle_journal_brings_its_changes_to_the_engine() {
    let limits = JournalLimits {
        idle: Duration::from_millis(20),
        ..World::large().limits
    };
    let world = World::new(limits);
    let (below, disk) = (world.below.clone(), world.disk.clone());
    let engine = Journaled::open(below, disk, NAME, limits).unwrap();
    put(&engine, b"a", b"1", Durability::Buffered).unwrap();
    let mut work = engine.core.work.lock();
    while engine.core.checkpoints.load(Ordering::Relaxed) == 0 {
        engine.core.done.wait(&mut work);
    }
    drop(work);
    let txn = world.below.read().unwrap();
    assert_eq!(
        txn.get(Tree::Rows, b"a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(get(&engine, b"a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_thread_makes_checkpoints_while_writers_and_readers_go_on() {
    let world = World::new(JournalLimits {
        rest: Duration::ZERO,
        memory_bytes: 20_000,
        batch_bytes: 2000,
        file_bytes: 1 << 20,
        growth_bytes: GROWTH_BYTES,
        segment_bytes: SEGMENT_BYTES,
        idle: Duration::MAX,
    });
    let (below, disk) = (world.below.clone(), world.disk.clone());
    let engine = Journaled::open(below, disk, NAME, world.limits).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u8)
            .map(|writer| {
                let engine = &engine;
                scope.spawn(move || {
                    for i in 0..400_u16 {
                        let key = [&[writer][..], &i.to_be_bytes()].concat();
                        put(engine, &key, &[writer; 100], Durability::Fsync).unwrap();
                        assert_eq!(get(engine, &key), Some(vec![writer; 100]));
                    }
                })
            })
            .collect();
        let mut seen = 0;
        while writers.iter().any(|writer| !writer.is_finished()) {
            let now = contents(&engine).len();
            assert!(now >= seen);
            seen = now;
        }
    });
    assert_eq!(contents(&engine).len(), 1200);
    assert!(engine.core.checkpoints.load(Ordering::Relaxed) > 3);
    World::kill(engine);
    world.disk.crash(None);
    world.below.crash();
    assert_eq!(contents(&world.open()).len(), 1200);
}
