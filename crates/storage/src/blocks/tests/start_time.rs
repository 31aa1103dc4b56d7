//! A measurement of starts.

use super::*;
use crate::disk::{Disk, FileDisk};
use crate::engine::{self, EngineKind, EngineOptions};
use crate::pool::PoolOptions;

// A measurement needs a clock, and no simulation ever runs it.
#[allow(clippy::disallowed_methods)]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// Prints how long a start takes with 200,000 gaps between live records, on files and LMDB.
///
/// `cargo test -p archipel-storage --lib start_time -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn start_time_with_many_gaps() {
    const GAPS: u64 = 200_000;
    const STEP_BYTES: u64 = 2 * PUNCH_BYTES;
    let folder = tempfile::tempdir().unwrap();
    let engine = engine::open(
        EngineKind::Lmdb,
        &folder.path().join("metadata"),
        &EngineOptions::default(),
    )
    .unwrap();
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(&folder.path().join("blocks")).unwrap());
    let open = |start, pool: &Pool| {
        let config = DiskConfig::new(1, disk.clone());
        let options = BlockOptions::default();
        Blocks::open(engine.clone(), vec![config], options, pool.clone(), start).unwrap()
    };
    drop(open(Start::Clean, &Pool::inline()));
    let segments = (GAPS * STEP_BYTES).div_ceil(1 << 30) as u32;
    for segment in 1..=segments {
        disk.create(segment).unwrap();
        disk.preallocate(segment, 0, 1 << 30).unwrap();
    }
    for numbers in (0..GAPS).collect::<Vec<_>>().chunks(10_000) {
        let mut txn = engine.write().unwrap();
        for number in numbers {
            let hash = BlockHash::of(&number.to_be_bytes());
            let at = number * STEP_BYTES;
            let located = LocatedRecord {
                location: DiskLocation {
                    disk: 1,
                    segment: 1 + (at >> 30) as u32,
                    offset: at % (1 << 30),
                },
                stored: PUNCH_BYTES as u32 - 64,
                len: PUNCH_BYTES as u32 - 64,
                compressed: false,
            };
            let entry = location::Entry {
                located,
                references: 1,
            };
            index::insert(&mut *txn, &hash, &entry).unwrap();
        }
        txn.commit(Durability::Buffered).unwrap();
    }
    let pool = Pool::start(PoolOptions::default()).unwrap();
    for gaps in ["to punch", "punched before"] {
        let begun = clock();
        let blocks = open(Start::Unclean, &pool);
        let opened = begun.elapsed();
        while !blocks.startup_gc_is_done() {
            std::thread::yield_now();
        }
        let (collected, freed) = (begun.elapsed(), blocks.counters().punched_bytes.get());
        println!(
            "{GAPS} gaps {gaps}: open after {opened:?}, collected after {collected:?}, {freed} B freed"
        );
    }
}
