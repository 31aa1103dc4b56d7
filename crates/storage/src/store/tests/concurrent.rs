//! Concurrent tasks on threads: writers and deleters of rows that share blocks, and readers that
//! must never find a row without its blocks.

use archipel_base::BlockHash;
use archipel_base::random::Random;

use super::*;
use crate::engine::{Durability, Engine};
use crate::row::Payload;
use crate::store::Transact;

const TASKS: u64 = 8;
const ROUNDS: u64 = 60;
const ROWS: u64 = 6;
const CONTENTS: u64 = 5;

fn content(number: u64) -> Bytes {
    Bytes::from(vec![number as u8; 3000 + number as usize])
}

fn durability(random: &SeededRandom) -> Durability {
    match random.next_u64() % 4 {
        0 => Durability::Buffered,
        _ => Durability::Fsync,
    }
}

async fn write(store: &Store, random: &SeededRandom, round: u64) {
    let durability = durability(random);
    let upload = store.appender();
    let mut blocks = Vec::new();
    for _ in 0..random.next_u64() % 4 {
        let content = content(random.next_u64() % CONTENTS);
        blocks.push(upload.append(content).await.unwrap());
    }
    if durability == Durability::Fsync {
        upload.sync().await.unwrap();
    }
    let mut row = row(round, "metadata");
    if let Some(value) = &mut row.value {
        value.payload = Payload::Blocks(blocks);
    }
    let key = key(&format!("row {}", random.next_u64() % ROWS));
    let set = store.transact(durability, move |txn| txn.set(&key, &row));
    set.await.unwrap();
}

async fn delete(store: &Store, random: &SeededRandom, round: u64) {
    let tombstone = Row {
        value: None,
        ..row(round, "")
    };
    let key = key(&format!("row {}", random.next_u64() % ROWS));
    let how = Transact::new(durability(random)).shrinking();
    let set = store.transact(how, move |txn| txn.set(&key, &tombstone));
    set.await.unwrap();
}

async fn read(store: &Store, random: &SeededRandom) {
    let key = key(&format!("row {}", random.next_u64() % ROWS));
    let Some((row, _pin)) = store.pin_payload(&key).await.unwrap() else {
        return;
    };
    for block in row.value.iter().flat_map(|value| value.payload.blocks()) {
        let content = store.read_block(block).await.unwrap();
        assert_eq!(BlockHash::of(&content), block.hash);
    }
}

async fn work(store: Store, seed: u64) {
    let random = SeededRandom::new(seed);
    for round in 1..=ROUNDS {
        match random.next_u64() % 4 {
            0 => write(&store, &random, round).await,
            1 => delete(&store, &random, round).await,
            2 => read(&store, &random).await,
            _ => {
                write(&store, &random, round).await;
                read(&store, &random).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_readers_never_find_a_row_without_its_blocks() {
    let parts = Parts::new();
    let engine: Arc<dyn Engine> = parts.engine.clone();
    let options = parts.threaded(engine);
    let open = move || Store::open(options);
    let store = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| tokio::spawn(work(store.clone(), seed)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let report = store.verify().await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
    store.close().await.unwrap();
    drop(store);
    parts.crash();
    let again = parts.options();
    let open = move || Store::open(again);
    let store = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    for number in 0..ROWS {
        let key = key(&format!("row {number}"));
        if let Some((row, _pin)) = store.pin_payload(&key).await.unwrap() {
            for block in row.value.iter().flat_map(|value| value.payload.blocks()) {
                store.read_block(block).await.unwrap();
            }
        }
    }
    assert!(store.verify().await.unwrap().is_clean());
}
