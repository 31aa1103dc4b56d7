//! The operations that repair needs: finding the rows of a block, replacing a copy, restoring
//! references.

use std::collections::BTreeSet;

use super::blocks::{content, is_readable, set, with_blocks, with_payload, write};
use super::*;
use crate::disk::Disk;
use crate::engine::{Durability, Tree};
use crate::error::Error;
use crate::row::Payload;
use crate::rows::Mention;

fn mentions(store: &Store, partition: Option<u16>, hash: archipel_base::BlockHash) -> Vec<Mention> {
    let find = move |rows: &crate::RowReader<'_>| {
        let wanted = BTreeSet::from([hash]);
        rows.mentions(partition.map(PartitionId), &wanted)
    };
    let found = block_on(store.read(find)).unwrap();
    found.into_values().collect()
}

#[test]
fn mentions_finds_the_rows_of_a_block() {
    let store = Parts::new().open();
    let blocks = write(&store, "a", 1, &[1, 2, 1]);
    set(
        &store,
        "b",
        with_blocks(2, vec![blocks[0]]),
        Durability::Fsync,
    );
    let expected = Mention {
        block: blocks[0],
        times: 3,
        rows: vec![key("a"), key("b")],
    };
    for partition in [None, Some(3)] {
        let found = mentions(&store, partition, blocks[0].hash);
        assert_eq!(found, std::slice::from_ref(&expected));
    }
    assert_eq!(mentions(&store, Some(2), blocks[0].hash), []);
}

/// Many rows of one partition refer to a block. Those of other partitions are named all the same: only their
/// replicas may have a good copy.
#[test]
fn rows_of_one_partition_do_not_hide_those_of_others() {
    let store = Parts::new().open();
    let block = write(&store, "row 00", 1, &[1])[0];
    let partition_and_name = (1..12).map(|number| (3, format!("row {number:02}")));
    let elsewhere =
        [(4, "a"), (4, "b"), (5, "a")].map(|(partition, name)| (partition, name.into()));
    for (partition, name) in partition_and_name.chain(elsewhere) {
        let row_key = RowKey {
            partition: PartitionId(partition),
            ..key(&name)
        };
        let row = with_blocks(2, vec![block]);
        let set = store.transact(Durability::Fsync, move |txn| txn.set(&row_key, &row));
        block_on(set).unwrap();
    }
    let found = mentions(&store, None, block.hash);
    let named = found[0].rows.iter().map(|row| row.partition.0);
    assert_eq!(found[0].times, 15);
    assert_eq!(named.collect::<Vec<_>>(), [3, 3, 3, 3, 3, 3, 4, 5]);
    assert!(found[0].rows.is_sorted());
}

/// A good copy replaces a damaged one, and the references stay.
#[test]
fn a_good_copy_replaces_a_damaged_one() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1, 2]);
    parts.disk.flip(1, 100, 8);
    let read = block_on(store.read_block(&blocks[0]));
    assert!(matches!(read, Err(Error::Damaged(_))), "{read:?}");
    assert!(store.blocks().is_damaged(&blocks[0].hash));
    block_on(store.appender().append(content(1))).unwrap();
    assert!(!store.blocks().is_damaged(&blocks[0].hash));
    assert!(is_readable(&store, &blocks[0]));
    assert_clean(&store);
    drop(store);
    parts.crash();
    assert!(is_readable(&parts.open(), &blocks[0]));
}

/// The index lost a block that two rows mention three times. The block is uploaded again.
#[test]
fn lost_references_are_restored_exactly() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1, 2, 1]);
    set(
        &store,
        "b",
        with_blocks(2, vec![blocks[0]]),
        Durability::Fsync,
    );
    block_on(store.close()).unwrap();
    drop(store);
    lose(&*parts.engine, &blocks[0].hash);
    let store = parts.open();
    assert_eq!(block_on(store.verify()).unwrap().lacking, [blocks[0].hash]);
    let (restored, again) = (restore(&store, blocks[0]), restore(&store, blocks[0]));
    assert_eq!((restored, again), (3, 0));
    assert_clean(&store);
    assert!(is_readable(&store, &blocks[0]));
}

/// A check of the rows names blocks that the index has lost, each once.
#[test]
fn check_of_a_partition_names_missing_blocks() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1, 2, 1]);
    write(&store, "b", 2, &[2, 3]);
    block_on(store.close()).unwrap();
    drop(store);
    lose(&*parts.engine, &blocks[1].hash);
    let store = parts.open();
    let here = store.blocks().clone();
    let checked = block_on(store.read(move |rows| rows.check(key("a").partition, &here))).unwrap();
    assert_eq!(checked.missing, [blocks[1].hash]);
    assert!(
        checked.damaged.is_empty() && checked.bytes > 0,
        "{checked:?}"
    );
}

/// Of many blocks, in many ranges of hashes, exactly the lost ones are named, in their order.
#[test]
fn lost_blocks_are_named_among_many() {
    let parts = Parts::new();
    let store = parts.open();
    let numbers: Vec<u8> = (0..60).collect();
    let blocks = write(&store, "a", 1, &numbers);
    write(&store, "b", 2, &numbers[30..]);
    block_on(store.close()).unwrap();
    drop(store);
    let mut lost: Vec<_> = blocks.iter().step_by(7).map(|block| block.hash).collect();
    for hash in &lost {
        lose(&*parts.engine, hash);
    }
    lost.sort_unstable();
    let report = block_on(parts.open().verify()).unwrap();
    assert_eq!(report.lacking, lost);
    assert_eq!(
        (report.references, report.blocks),
        (90, 60 - lost.len() as u64)
    );
    assert!(
        report.told[0].ends_with("references, not in the index"),
        "{:?}",
        report.told
    );
}

/// The entry of one block in the index is damaged. It is reported, and so is what is wrong behind it.
#[test]
fn a_damaged_entry_of_a_block_does_not_end_the_verification() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1, 2, 3]);
    block_on(store.close()).unwrap();
    drop(store);
    let mut hashes: Vec<_> = blocks.iter().map(|block| block.hash).collect();
    hashes.sort_unstable();
    let mut txn = parts.engine.write().unwrap();
    let entry = txn.get(Tree::Blocks, hashes[0].as_bytes()).unwrap();
    let mut entry = entry.unwrap().to_vec();
    entry.pop();
    txn.put(Tree::Blocks, hashes[0].as_bytes(), &entry).unwrap();
    txn.commit(Durability::Fsync).unwrap();
    lose(&*parts.engine, &hashes[2]);
    let report = block_on(parts.open().verify()).unwrap();
    assert_eq!(report.lacking, [hashes[2]]);
    assert_eq!(
        (report.problems, report.blocks, report.references),
        (2, 2, 3)
    );
    let told = &report.told[0];
    assert!(told.contains(&hashes[0].to_string()) && told.contains("rebuild-blocks"));
}

/// The index counts more references than rows make, for a block in use and for an unused one.
#[test]
fn surplus_references_are_released() {
    let parts = Parts::new();
    let store = parts.open();
    let (used, unused) = (write(&store, "a", 1, &[1]), write(&store, "b", 1, &[2]));
    for block in [&used[0], &unused[0]] {
        count_more(&*parts.engine, &block.hash);
    }
    let gone = Row {
        value: None,
        ..row(9, "metadata")
    };
    set(&store, "b", gone, Durability::Fsync);
    let mut surplus = block_on(store.verify()).unwrap().surplus;
    surplus.sort_unstable();
    let mut both = vec![used[0].hash, unused[0].hash];
    both.sort_unstable();
    assert_eq!(surplus, both);
    let release = move || {
        let both = both.clone();
        block_on(store.transact(Durability::Fsync, move |txn| txn.release_surplus(&both))).unwrap()
    };
    assert_eq!((release(), release()), (2, 0));
    drop(release);
    let store = parts.open();
    assert_clean(&store);
    assert!(is_readable(&store, &used[0]) && !is_readable(&store, &unused[0]));
}

/// Makes the index count one reference too many for a block.
fn count_more(engine: &dyn Engine, hash: &archipel_base::BlockHash) {
    let mut txn = engine.write().unwrap();
    let entry = txn.get(Tree::Blocks, hash.as_bytes()).unwrap().unwrap();
    let mut entry = entry.to_vec();
    *entry.last_mut().unwrap() += 1;
    txn.put(Tree::Blocks, hash.as_bytes(), &entry).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

fn restore(store: &Store, block: crate::BlockRef) -> u64 {
    let upload = store.appender();
    block_on(upload.append(content(1))).unwrap();
    block_on(upload.sync()).unwrap();
    let restored = store.transact(Durability::Fsync, move |txn| {
        txn.restore_references(&[block])
    });
    block_on(restored).unwrap()
}

/// Removes a block from the index, as a rebuild does if it does not find the block's segment.
fn lose(engine: &dyn Engine, hash: &archipel_base::BlockHash) {
    let mut txn = engine.write().unwrap();
    let entry = txn.get(Tree::Blocks, hash.as_bytes()).unwrap().unwrap();
    let place = entry[2..16].to_vec();
    assert!(txn.delete(Tree::Blocks, hash.as_bytes()).unwrap());
    assert!(txn.delete(Tree::Places, &place).unwrap());
    txn.commit(Durability::Fsync).unwrap();
}

#[test]
fn verification_finds_a_location_that_the_index_does_not_name() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1, 2]);
    assert_clean(&store);
    block_on(store.close()).unwrap();
    drop(store);
    let mut txn = parts.engine.write().unwrap();
    let entry = txn.get(Tree::Blocks, blocks[0].hash.as_bytes()).unwrap();
    let place = entry.unwrap()[2..16].to_vec();
    let placed = txn.get(Tree::Places, &place).unwrap().unwrap().to_vec();
    txn.put(Tree::Places, &[9; 14], &placed).unwrap();
    txn.commit(Durability::Fsync).unwrap();
    let report = block_on(parts.open().verify()).unwrap();
    assert_eq!(report.problems, 2, "{:?}", report.told);
}

/// A disk was lost and replaced by an empty one. New uploads repair the blocks, and freeing works.
#[test]
fn uploads_fill_a_disk_that_was_lost_and_replaced() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1, 2]);
    let other = write(&store, "b", 1, &[3]);
    block_on(store.close()).unwrap();
    drop(store);
    parts.disk.unlink(1).unwrap();
    let store = parts.open();
    assert!(block_on(store.read_block(&blocks[0])).is_err());
    let upload = store.appender();
    for number in [1, 2, 3] {
        block_on(upload.append(content(number))).unwrap();
    }
    drop(upload);
    assert!(
        blocks
            .iter()
            .chain(&other)
            .all(|block| is_readable(&store, block))
    );
    block_on(store.transact(Durability::Fsync, |txn| txn.forget(&key("b")))).unwrap();
    assert!(!is_readable(&store, &other[0]));
    assert_eq!(store.blocks().counters().free_errors.get(), 0);
    assert_clean(&store);
}

/// Flips a bit in the middle of the payload of a row.
fn damage(engine: &dyn Engine, name: &str) {
    let key = crate::rows::codec::row_key(&key(name)).unwrap();
    let mut txn = engine.write().unwrap();
    let mut payload = txn.get(Tree::Payloads, &key).unwrap().unwrap().to_vec();
    let middle = payload.len() / 2;
    payload[middle] ^= 4;
    txn.put(Tree::Payloads, &key, &payload).unwrap();
    txn.commit(Durability::Fsync).unwrap();
}

fn with_content(millis: u64) -> Row {
    with_payload(millis, Payload::Inline(content(1)))
}

fn is_damaged(store: &Store, name: &str) -> bool {
    let key = key(name);
    match block_on(store.read(move |rows| rows.row(&key))) {
        Ok(_) => false,
        Err(Error::Damaged(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// A damaged payload is not returned, is reported, and can be rewritten unchanged or changed.
#[test]
fn a_damaged_payload_is_found_and_replaced() {
    let parts = Parts::new();
    let store = parts.open();
    for name in ["a", "b", "c"] {
        set(&store, name, with_content(1), Durability::Fsync);
    }
    for name in ["a", "b"] {
        damage(&*parts.engine, name);
    }
    assert!(is_damaged(&store, "a") && is_damaged(&store, "b") && !is_damaged(&store, "c"));
    let report = block_on(store.verify()).unwrap();
    assert_eq!(report.damaged, [key("a"), key("b")]);
    let blocks = store.blocks().clone();
    let checked = block_on(store.read(move |rows| rows.check(key("a").partition, &blocks)));
    assert_eq!(checked.unwrap().damaged, [key("a"), key("b")]);
    set(&store, "a", with_content(2), Durability::Fsync);
    let restore = |name: &str| {
        let (key, payload) = (key(name), Payload::Inline(content(1)));
        let restored = store.transact(Durability::Fsync, move |txn| {
            txn.restore_payload(&key, &payload)
        });
        block_on(restored).unwrap()
    };
    assert_eq!(["b", "b", "c"].map(restore), [true, false, false]);
    assert_clean(&store);
}

/// The mentions of a damaged payload are unknown, so no reference that it may need is released.
#[test]
fn no_reference_counts_as_surplus_while_a_payload_is_damaged() {
    let parts = Parts::new();
    let store = parts.open();
    let blocks = write(&store, "a", 1, &[1]);
    write(&store, "b", 1, &[2]);
    damage(&*parts.engine, "a");
    assert_eq!(block_on(store.verify()).unwrap().surplus, []);
    let hash = blocks[0].hash;
    let release = |store: &Store| {
        block_on(store.transact(Durability::Fsync, move |txn| txn.release_surplus(&[hash])))
    };
    assert!(matches!(release(&store), Err(Error::Damaged(_))));
    assert!(is_readable(&store, &blocks[0]));
    // The payload is replaced. The next verification finds the references of the old one.
    set(&store, "a", with_content(2), Durability::Fsync);
    assert_eq!(block_on(store.verify()).unwrap().surplus, [hash]);
    assert_eq!(release(&store).unwrap(), 1);
    assert_clean(&store);
}
