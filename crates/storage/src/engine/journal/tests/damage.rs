//! Journals that are lost, damaged, or of another state.

use super::*;

#[test]
fn a_lost_journal_is_noticed() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"a", b"1", Durability::Fsync).unwrap();
    World::kill(engine);
    let other = World {
        below: world.below.clone(),
        ..World::large()
    };
    other.assert_failed("restore");
    assert_eq!(get(&world.open(), b"a").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_journal_of_another_engine_is_refused() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"a", b"1", Durability::Fsync).unwrap();
    World::kill(engine);
    let other = World {
        disk: world.disk.clone(),
        ..World::large()
    };
    other.assert_failed("another");
}

/// A copy of one of the two that is older than the other: changes between them are missing.
#[test]
fn an_older_copy_of_the_engine_or_of_the_journal_is_refused() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"a", b"1", Durability::Fsync).unwrap();
    drop(engine);
    let (old_below, old_disk) = (world.below.copy(), world.disk.copy());
    for value in [b"2", b"3"] {
        let engine = world.open();
        put(&engine, b"a", value, Durability::Fsync).unwrap();
        drop(engine);
    }
    let refused = |below: &Arc<MemoryEngine>, disk: &Arc<MemoryDisk>| {
        let world = World {
            below: below.clone(),
            disk: disk.clone(),
            ..World::large()
        };
        world.assert_failed("another state");
    };
    refused(&Arc::new(old_below), &world.disk);
    refused(&world.below, &Arc::new(old_disk));
    assert_eq!(get(&world.open(), b"a").as_deref(), Some(&b"3"[..]));
}

/// Finds the record that holds `text`, and its file.
fn find(world: &World, text: &[u8]) -> (u32, u64) {
    for file in world.disk.segments().unwrap() {
        let mut content = vec![0; world.disk.length(file).unwrap() as usize];
        world.disk.read_at(file, 0, &mut content).unwrap();
        if let Some(at) = content.windows(text.len()).position(|w| w == text) {
            return (file, at as u64);
        }
    }
    panic!("no file has it");
}

#[test]
fn a_damaged_record_before_synced_ones_is_no_end() {
    let world = World::large();
    let engine = world.open();
    for value in [b"first", b"other", b"third"] {
        put(&engine, value, value, Durability::Fsync).unwrap();
    }
    World::kill(engine);
    let (file, at) = find(&world, b"firstfirst");
    world.disk.flip(file, at, 1);
    world.assert_damaged("record 1");
    world.disk.flip(file, at, 1);
    assert_eq!(get(&world.open(), b"first").as_deref(), Some(&b"first"[..]));
}

/// The count of synced records goes on after a start.
#[test]
fn a_damaged_record_after_a_start_is_no_end() {
    let world = World::large();
    for value in [b"first", b"other"] {
        let engine = world.open();
        put(&engine, value, value, Durability::Fsync).unwrap();
        put(&engine, b"again", value, Durability::Fsync).unwrap();
        World::kill(engine);
    }
    let (file, at) = find(&world, b"otherother");
    world.disk.flip(file, at, 1);
    let opened = world.try_open().map(drop);
    assert!(matches!(opened, Err(Error::Damaged(_))), "{opened:?}");
    // The refusal changed nothing.
    world.disk.flip(file, at, 1);
    assert_eq!(get(&world.open(), b"again").as_deref(), Some(&b"other"[..]));
}

#[test]
fn a_damaged_header_of_the_newest_generation_is_no_end() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"first", b"first", Durability::Fsync).unwrap();
    assert!(engine.core.freeze(&mut engine.core.tail.lock()).unwrap());
    put(&engine, b"later", b"later", Durability::Fsync).unwrap();
    World::kill(engine);
    let (file, _) = find(&world, b"laterlater");
    world.disk.flip(file, 30, 1);
    world.assert_damaged("no header");
}

/// A key that is written again and again takes no more memory.
#[test]
fn a_long_file_begins_a_checkpoint() {
    let world = World::new(JournalLimits {
        rest: Duration::ZERO,
        memory_bytes: 1 << 20,
        batch_bytes: 4096,
        file_bytes: 64 << 10,
        growth_bytes: GROWTH_BYTES,
        segment_bytes: SEGMENT_BYTES,
        idle: Duration::MAX,
    });
    let engine = world.open();
    for i in 0..1000_u16 {
        put(&engine, b"key", &[i as u8; 1000], Durability::Buffered).unwrap();
    }
    assert!(engine.core.checkpoints.load(Ordering::Relaxed) > 3);
    for file in world.disk.segments().unwrap() {
        assert!(world.disk.length(file).unwrap() <= 2 * (64 << 10) + GROWTH_BYTES);
    }
    assert_eq!(get(&engine, b"key"), Some(vec![999_u16 as u8; 1000]));
}

#[test]
fn a_damaged_generation_before_a_later_one_is_no_end() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"first", b"first", Durability::Fsync).unwrap();
    assert!(engine.core.freeze(&mut engine.core.tail.lock()).unwrap());
    put(&engine, b"later", b"later", Durability::Fsync).unwrap();
    World::kill(engine);
    let (file, at) = find(&world, b"firstfirst");
    world.disk.flip(file, at, 1);
    world.assert_damaged("generation 1");
}

/// A journal that was read must not read old records again that follow the new end.
#[test]
fn records_after_the_end_do_not_come_back() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"a", b"1", Durability::Fsync).unwrap();
    put(&engine, b"b", b"1", Durability::Buffered).unwrap();
    put(&engine, b"c", b"1", Durability::Buffered).unwrap();
    World::kill(engine);
    let (file, at) = find(&world, b"b1");
    world.disk.flip(file, at, 1);
    let engine = world.open();
    assert_eq!((get(&engine, b"b"), get(&engine, b"c")), (None, None));
    put(&engine, b"b", b"2", Durability::Fsync).unwrap();
    World::kill(engine);
    let engine = world.open();
    assert_eq!(get(&engine, b"b").as_deref(), Some(&b"2"[..]));
    assert_eq!(get(&engine, b"c"), None);
}

/// A generation whose first page did not outlast a power cut begins again. The remains of its other
/// pages must not become part of it.
#[test]
fn remains_of_a_generation_without_a_first_record_do_not_come_back() {
    let world = World::large();
    let engine = world.open();
    put(&engine, b"first", b"1", Durability::Fsync).unwrap();
    assert!(engine.core.freeze(&mut engine.core.tail.lock()).unwrap());
    put(&engine, b"lost", &[1; 100], Durability::Buffered).unwrap();
    put(&engine, b"later", b"later", Durability::Buffered).unwrap();
    World::kill(engine);
    // The first record of the generation is damaged, and the one after the next is whole.
    let (file, _) = find(&world, b"laterlater");
    world.disk.flip(file, record::PAGE_BYTES as u64, 1);
    let engine = world.open();
    assert_eq!(get(&engine, b"later"), None);
    World::kill(engine);
    let mut content = vec![0; world.disk.length(file).unwrap() as usize];
    world.disk.read_at(file, 0, &mut content).unwrap();
    assert!(!content.windows(10).any(|window| window == b"laterlater"));
}
