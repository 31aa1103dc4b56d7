//! Stored data: any bytes as the value of any row, and bytes that change on the disks below a store. The store
//! never panics, and never returns content that nobody wrote.
use std::cell::RefCell;
use std::sync::Arc;

use crate::Source;
use crate::endpoints::runtime;
use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_base::{Id, PartitionId, Stamp, Writer};
use archipel_storage::blocks::{BlockOptions, DiskConfig};
use archipel_storage::disk::{Disk, MemoryDisk};
use archipel_storage::engine::journal::{JournalLimits, Journaled};
use archipel_storage::engine::memory::MemoryEngine;
use archipel_storage::engine::{Durability, Tree};
use archipel_storage::pool::Pool;
use archipel_storage::rows::codec;
use archipel_storage::{Limits, Payload, Row, RowKey, RowTxn, Store, StoreOptions, Threads, Value};
use bytes::Bytes;

/// Returns a value with the checksum that belongs to its tree and key, so that its fields are looked at.
fn sealed(tree: Tree, key: &[u8], value: &[u8]) -> Vec<u8> {
    let length = (key.len() as u16).to_be_bytes();
    let whole = [&[tree as u8], &length[..], key, value].concat();
    let sum = crc_fast::crc32_iscsi(&whole);
    [value, &sum.to_be_bytes()].concat()
}

fn values(mut source: Source<'_>) {
    let kind = source.byte() % 7;
    let key = source.some(16);
    let value = source.rest();
    match kind {
        0 => {
            if let Ok(row) = codec::decode_row(key, &sealed(Tree::Rows, key, value)) {
                let again = codec::decode_row(key, &codec::encode_row(key, &row));
                assert_eq!(again.ok().as_ref(), Some(&row));
            }
        }
        1 => {
            let _ = codec::decode_metadata(key, &sealed(Tree::Rows, key, value));
        }
        2 => {
            let stored = sealed(Tree::Payloads, key, value);
            if let Ok((stamp, payload)) = codec::decode_payload(key, &stored) {
                let again = codec::encode_payload(key, stamp, &payload);
                assert_eq!(again, Some(stored));
            }
        }
        3 => {
            let stored = sealed(Tree::Derived, key, value);
            if let Ok(window) = codec::decode_window(key, &stored) {
                assert_eq!(codec::encode_window(key, &window), stored);
            }
        }
        4 => {
            let stored = sealed(Tree::Derived, key, value);
            if let Ok(counter) = codec::decode_counter(key, &stored) {
                assert_eq!(codec::encode_counter(key, &counter), stored);
            }
        }
        5 => {
            let _ = codec::decode_work(key, &sealed(Tree::Queue, key, value));
        }
        _ => {
            let _ = codec::row_of_key(value);
            let _ = codec::split_log_key(value);
            let _ = codec::split_partition(value);
        }
    }
}

/// The parts of a store, in memory.
struct Parts {
    engine: MemoryEngine,
    journal: MemoryDisk,
    blocks: MemoryDisk,
}

/// Rows by the kind of their content: in the row, beside it, in a block. Each was written twice.
const NAMES: [&str; 3] = ["within", "inline", "block"];

fn content(name: &str, turn: u8) -> Bytes {
    let length = if name == "within" { 20 } else { 3000 };
    let first = name.as_bytes()[0];
    (0..length).map(|at| (at as u8) ^ turn ^ first).collect()
}

fn key(name: &str) -> RowKey {
    RowKey {
        partition: PartitionId(3),
        key: Bytes::copy_from_slice(name.as_bytes()),
    }
}

fn open(parts: Parts) -> Option<Store> {
    let (engine, journal) = (Arc::new(parts.engine), Arc::new(parts.journal));
    open_on(engine, journal, Arc::new(parts.blocks))
}

fn open_on(
    below: Arc<MemoryEngine>,
    journal: Arc<MemoryDisk>,
    blocks: Arc<MemoryDisk>,
) -> Option<Store> {
    let limits = JournalLimits {
        growth_bytes: 16 << 10,
        ..JournalLimits::default()
    };
    let engine = Journaled::without_thread(below, journal, [7; 16], limits).ok()?;
    let options = StoreOptions {
        engine: Arc::new(engine),
        disks: vec![DiskConfig::new(1, blocks)],
        blocks: BlockOptions {
            owner: Id::default(),
            segment_bytes: 1 << 20,
            preallocate_bytes: 0,
            zero_bytes: 0,
            reserve_bytes: Some(0),
            compression_level: Some(1),
        },
        pool: Pool::inline(),
        threads: Threads::Inline,
        clock: Arc::new(ManualClock::at(1_700_000_000_000)),
        random: Arc::new(SeededRandom::new(1)),
        identity: None,
        metadata_space: None,
        limits: Limits::default(),
    };
    Store::open(options).ok()
}

async fn write(store: &Store, name: &'static str, turn: u8) {
    let upload = store.appender();
    let payload = match name {
        "block" => {
            let block = upload.append(content(name, turn)).await.expect("a block");
            upload.sync().await.expect("a sync");
            Payload::Blocks(vec![block])
        }
        _ => Payload::Inline(content(name, turn)),
    };
    let stamp = Stamp::new(1_700_000_000_000 + u64::from(turn), 0, Writer(1));
    let row = Row {
        promised: stamp,
        stamp,
        value: Some(Value {
            metadata: Bytes::from_static(b"metadata"),
            payload,
            ..Value::default()
        }),
        ..Row::default()
    };
    let set = move |txn: &mut RowTxn<'_>| txn.set(&key(name), &row);
    store
        .transact(Durability::Fsync, set)
        .await
        .expect("a write");
}

/// Returns a store that holds all rows, as a power cut leaves it.
fn base() -> Parts {
    let parts = Parts {
        engine: MemoryEngine::new(),
        journal: MemoryDisk::new(),
        blocks: MemoryDisk::new(),
    };
    let (engine, journal) = (Arc::new(parts.engine), Arc::new(parts.journal));
    let blocks = Arc::new(parts.blocks);
    let store = open_on(engine.clone(), journal.clone(), blocks.clone()).expect("a store");
    runtime().block_on(async {
        for turn in [1, 2] {
            for name in NAMES {
                write(&store, name, turn).await;
            }
        }
    });
    drop(store);
    Parts {
        engine: engine.copy(),
        journal: journal.copy(),
        blocks: blocks.copy(),
    }
}

thread_local! {
    static BASE: RefCell<Option<Parts>> = const { RefCell::new(None) };
}

/// Changes bytes of one of the disks.
fn damage(disk: &MemoryDisk, source: &mut Source<'_>) {
    let segments = disk.segments().unwrap_or_default();
    if segments.is_empty() {
        return;
    }
    let segment = *source.pick(&segments);
    let Ok(length) = disk.length(segment) else {
        return;
    };
    let place = u64::from(source.byte()) << 8 | u64::from(source.byte());
    let place = place % length.max(1);
    let bytes = match source.flag() {
        true => source.some(32).to_vec(),
        false => {
            let mut old = [0];
            let read = disk.read_at(segment, place, &mut old);
            if read.is_err() {
                return;
            }
            vec![old[0] ^ source.byte()]
        }
    };
    let _ = disk.write_at(segment, place, &[&bytes]);
    let _ = disk.sync(segment);
}

fn on_damaged_disks(mut source: Source<'_>) {
    let parts = BASE.with_borrow_mut(|base| {
        let base = base.get_or_insert_with(self::base);
        Parts {
            engine: base.engine.copy(),
            journal: base.journal.copy(),
            blocks: base.blocks.copy(),
        }
    });
    for _ in 0..source.byte() % 8 + 1 {
        match source.flag() {
            true => damage(&parts.journal, &mut source),
            false => damage(&parts.blocks, &mut source),
        }
    }
    let Some(store) = open(parts) else {
        return;
    };
    runtime().block_on(async {
        for name in NAMES {
            let row = store.read(move |rows| rows.row(&key(name))).await;
            let Ok(Some(Row {
                value: Some(value), ..
            })) = row
            else {
                continue;
            };
            assert_eq!(&value.metadata[..], b"metadata");
            let found = match &value.payload {
                Payload::Inline(bytes) => bytes.clone(),
                Payload::Blocks(blocks) => match store.read_block(&blocks[0]).await {
                    Ok(bytes) => bytes,
                    Err(_) => continue,
                },
                other => panic!("{other:?}"),
            };
            let written = [content(name, 1), content(name, 2)];
            assert!(written.contains(&found), "{name}: {found:?}");
        }
        let _ = store.verify().await;
        let _ = store.close().await;
    });
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0..128, rest)) => values(Source::new(rest)),
        Some((_, rest)) => on_damaged_disks(Source::new(rest)),
        None => {}
    }
}
