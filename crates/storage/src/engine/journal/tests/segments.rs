//! Long values in segments: their counts, compaction, readers, damage.

use super::values::{SEPARATED, ValueLocation};
use super::*;

/// Checks what the engine counts of segments against the locations that it has.
pub fn check_segments(engine: &Journaled) {
    let values = &engine.core.values;
    let mut live: BTreeMap<u32, u64> = BTreeMap::new();
    let below = engine.core.below.read().unwrap();
    let (all, upwards) = ((Unbounded, Unbounded), Direction::Ascending);
    below
        .scan(SEPARATED, all, upwards, &mut |key, stored| {
            if let Some(location) = values.location(key, stored) {
                *live.entry(location.segment).or_default() += location.entry_bytes(key);
            }
            Ok(Flow::Continue)
        })
        .unwrap();
    let table = values.table();
    for (number, segment) in &table.segments {
        let counted = live.remove(number).unwrap_or_default();
        assert_eq!(segment.live, counted, "segment {number}");
        assert!(segment.live <= segment.end);
    }
    assert!(live.is_empty(), "locations in no segment: {live:?}");
    let files = engine.core.log.disk.segments().unwrap();
    for (number, segment) in table.segments {
        assert!(segment.live == 0 || files.contains(&number));
    }
}

fn put_value(engine: &Journaled, key: &[u8], value: &[u8]) {
    let mut txn = engine.write().unwrap();
    txn.put(SEPARATED, key, value).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

fn value(engine: &Journaled, key: &[u8]) -> Option<Vec<u8>> {
    let txn = engine.read().unwrap();
    txn.get(SEPARATED, key).unwrap().map(|v| v.into_owned())
}

fn checkpoint(engine: &Journaled) {
    engine.core.freeze(&mut engine.core.tail.lock()).unwrap();
    engine.core.checkpoint().unwrap();
    engine.core.free_space();
}

fn location(engine: &Journaled, key: &[u8]) -> Option<ValueLocation> {
    let below = engine.core.below.read().unwrap();
    let stored = below.get(SEPARATED, key).unwrap()?;
    engine.core.values.location(key, &stored)
}

fn world() -> World {
    World::new(JournalLimits {
        segment_bytes: SEGMENT_BYTES,
        ..World::large().limits
    })
}

fn files(world: &World) -> usize {
    world.disk.segments().unwrap().len()
}

#[test]
fn long_values_stand_in_segments_and_short_ones_in_the_engine() {
    let world = world();
    let engine = world.open();
    put_value(&engine, b"long", &[1; 512]);
    put_value(&engine, b"short", &[2; 511]);
    checkpoint(&engine);
    assert!(location(&engine, b"long").is_some() && location(&engine, b"short").is_none());
    let first = location(&engine, b"long").unwrap();
    drop(engine);
    let engine = world.open();
    assert_eq!(value(&engine, b"long"), Some(vec![1; 512]));
    assert_eq!(value(&engine, b"short"), Some(vec![2; 511]));
    put_value(&engine, b"other", &[3; 600]);
    checkpoint(&engine);
    assert_ne!(location(&engine, b"other").unwrap().segment, first.segment);
    put_value(&engine, b"later", &[3; 600]);
    checkpoint(&engine);
    let next = location(&engine, b"later").unwrap();
    assert_eq!(next.segment, first.segment);
    assert_eq!(u64::from(next.offset), first.entry_bytes(b"long"));
}

#[test]
fn space_of_dead_values_is_bounded() {
    let world = world();
    let engine = world.open();
    for round in 0..60_u8 {
        for key in 0..100_u8 {
            if round == 0 || (key + round) % 5 == 0 {
                put_value(&engine, &[key + 1], &[round; 1000]);
            }
        }
        checkpoint(&engine);
        check_segments(&engine);
        let (total, live) = engine.core.values.totals();
        assert_eq!(live, 100 * (14 + 1 + 1000));
        assert!(
            total - live <= (live / 4).max(SEGMENT_BYTES),
            "{total} {live}"
        );
    }
    assert!(engine.core.moved.load(Ordering::Relaxed) > 0);
    // A reader of this moment keeps at most one round of segments.
    assert!(files(&world) <= 3 + 9, "{}", files(&world));
    for key in 0..100_u8 {
        let txn = engine.read().unwrap();
        assert_eq!(txn.get(SEPARATED, &[key + 1]).unwrap().unwrap().len(), 1000);
    }
}

#[test]
fn a_reader_keeps_the_segments_of_its_moment() {
    let world = world();
    let engine = world.open();
    put_value(&engine, b"a", &[1; 30_000]);
    checkpoint(&engine);
    let reader = engine.read().unwrap();
    put_value(&engine, b"a", &[2; 30_000]);
    checkpoint(&engine);
    checkpoint(&engine);
    assert_eq!(files(&world), 5);
    assert_eq!(reader.get(SEPARATED, b"a").unwrap().unwrap()[0], 1);
    drop(reader);
    put_value(&engine, b"b", b"");
    checkpoint(&engine);
    assert_eq!(files(&world), 4);
    assert_eq!(value(&engine, b"a"), Some(vec![2; 30_000]));
}

/// Emptying segments frees nothing while a reader keeps them, so it stops.
#[test]
fn a_reader_of_long_ago_does_not_multiply_the_space() {
    let world = world();
    let engine = world.open();
    for key in 0..200_u8 {
        put_value(&engine, &[key, 1], &[key; 1000]);
    }
    checkpoint(&engine);
    let reader = engine.read().unwrap();
    let (before, _) = engine.core.values.totals();
    let mut written = 0;
    for round in 0..20_u8 {
        for key in (round % 4..200).step_by(8) {
            put_value(&engine, &[key, 1], &[round; 1000]);
            written += 1016;
        }
        checkpoint(&engine);
    }
    let (after, _) = engine.core.values.totals();
    let moved = engine.core.moved.load(Ordering::Relaxed);
    assert!(
        after - before <= written + before,
        "{after} {before} {moved}"
    );
    drop(reader);
    checkpoint(&engine);
    let (total, live) = engine.core.values.totals();
    assert!(
        total - live <= (live / 4).max(SEGMENT_BYTES),
        "{total} {live}"
    );
    check_segments(&engine);
}

/// Each try of a checkpoint that fails half way goes on where the one before ended.
#[test]
fn a_checkpoint_that_is_repeated_takes_no_room_again() {
    let world = World::new(JournalLimits {
        batch_bytes: 20_000,
        ..world().limits
    });
    let engine = world.open();
    for key in 0..40_u8 {
        put_value(&engine, &[key + 1], &[key; 1000]);
    }
    engine.core.freeze(&mut engine.core.tail.lock()).unwrap();
    for _ in 0..30 {
        world.below.inject(Fault {
            after_commits: 1,
            error: Error::Full("no room".into()),
        });
        let _ = engine.core.checkpoint();
    }
    world.below.inject(never());
    engine.core.checkpoint().unwrap();
    let (total, live) = engine.core.values.totals();
    assert_eq!((total, live), (40 * 1015, 40 * 1015));
    check_segments(&engine);
}

#[test]
fn values_that_look_like_places_are_values() {
    let world = world();
    let engine = world.open();
    put_value(&engine, b"a", &[1; 1000]);
    checkpoint(&engine);
    let below = engine.core.below.read().unwrap();
    let stored = below.get(SEPARATED, b"a").unwrap().unwrap().into_owned();
    drop(below);
    put_value(&engine, b"a", &stored);
    put_value(&engine, b"b", &stored);
    checkpoint(&engine);
    assert_eq!(value(&engine, b"a"), Some(stored.clone()));
    assert_eq!(value(&engine, b"b"), Some(stored));
}

#[test]
fn a_value_that_the_disk_cannot_read_is_damaged_alone() {
    let world = world();
    let engine = world.open();
    put_value(&engine, b"a", &[1; 1000]);
    put_value(&engine, b"b", &[2; 1000]);
    checkpoint(&engine);
    world.disk.inject(DiskFault {
        op: Some(DiskOp::Read),
        after: 0,
        errno: libc::EIO,
    });
    assert_eq!(value(&engine, b"a"), Some(Vec::new()));
    assert_eq!(value(&engine, b"b"), Some(vec![2; 1000]));
}

/// A damaged header hides one entry from compaction. Its value stays where it is, and is read.
#[test]
fn damaged_entries_stay_where_they_are() {
    let world = world();
    let engine = world.open();
    for key in 0..160_u8 {
        put_value(&engine, &[key + 1], &[key; 1000]);
    }
    checkpoint(&engine);
    let damaged = location(&engine, &[5]).unwrap();
    let other = location(&engine, &[9]).unwrap();
    assert_eq!(damaged.segment, other.segment);
    let at = u64::from(damaged.offset);
    world.disk.write_at(damaged.segment, at, &[b"rot"]).unwrap();
    for key in (0..160_u8).filter(|key| key % 4 > 0) {
        put_value(&engine, &[key + 1], &[key; 1000]);
    }
    checkpoint(&engine);
    assert_eq!(location(&engine, &[5]), Some(damaged));
    assert_ne!(location(&engine, &[9]).unwrap().segment, damaged.segment);
    for key in 0..160_u8 {
        assert_eq!(value(&engine, &[key + 1]), Some(vec![key; 1000]));
    }
    check_segments(&engine);
}

#[test]
fn missing_segments_are_noticed() {
    let world = world();
    let engine = world.open();
    put_value(&engine, b"a", &[1; 1000]);
    drop(engine);
    let segment = *world.disk.segments().unwrap().last().unwrap();
    world.disk.unlink(segment).unwrap();
    world.assert_failed("restore");
}

/// The journal before is gone with its name, and another store's values are not read.
#[test]
fn segments_of_another_store_are_refused() {
    let world = world();
    let engine = world.open();
    put_value(&engine, b"a", &[1; 1000]);
    drop(engine);
    let other = World {
        disk: world.disk.clone(),
        ..World::large()
    };
    other.assert_failed("another");
}

/// Copies and conversions read so.
#[test]
fn a_copy_has_the_values_themselves() {
    let world = world();
    let engine = world.open();
    put_value(&engine, b"a", &[1; 1000]);
    checkpoint(&engine);
    put_value(&engine, b"b", &[2; 1000]);
    let copy = contents(&engine);
    assert_eq!(copy[&(SEPARATED, b"a".to_vec())], vec![1; 1000]);
    assert_eq!(copy[&(SEPARATED, b"b".to_vec())], vec![2; 1000]);
    assert_eq!(copy.len(), 2, "nothing of the journal's own");
}
