//! Clients that take the beginning of an object while other clients hold all memory.

use std::ops::Range;
use std::sync::Arc;

use archipel_base::NodeId;
use archipel_base::random::{Random, SeededRandom};
use archipel_cluster::{Cluster, memory_store};
use archipel_storage::pool::PoolOptions;
use archipel_storage::store::Threads;
use bytes::Bytes;

use super::ObjectStream;
use super::feeder::FIRST_BYTES;
use crate::{BLOCK_BYTES, Bucket, Condition, HOOKS, Model, ModelOptions, ObjectMeta, Reservation};

/// The size of the object: three blocks, the last of them short.
const SIZE: usize = 2 * BLOCK_BYTES + 100_000;

/// Returns a node whose memory has a limit, with an object "key". Each of its blocks but the first
/// is in an extent.
async fn start() -> (Model, Arc<Bucket>, Bytes) {
    let random = Arc::new(SeededRandom::new(1));
    let store = memory_store(random.clone(), Threads::Own).unwrap();
    let cluster = Cluster::with_store(store, NodeId::default(), random, HOOKS, None);
    let cluster = cluster.await.unwrap();
    cluster.found("here", 1 << 40).await.unwrap();
    let options = ModelOptions {
        extent_blocks: 1,
        ..ModelOptions::default()
    };
    let model = Model::open_with(cluster, options).await.unwrap();
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    let mut content = vec![0; SIZE];
    SeededRandom::new(2).fill(&mut content);
    let content = Bytes::from(content);
    put(&model, &bucket, content.clone()).await;
    (model, bucket, content)
}

async fn put(model: &Model, bucket: &Arc<Bucket>, content: Bytes) {
    let mut writer = model.begin_object(bucket, "key").unwrap();
    writer.write(content).await.unwrap();
    let meta = ObjectMeta {
        etag: "e".into(),
        ..ObjectMeta::default()
    };
    writer.finish(meta, Condition::Always).await.unwrap();
}

/// Holds all that may be held, once nothing else is held.
async fn hold(model: &Model) -> Reservation {
    let pool = model.cluster().buffers();
    for _ in 0..10_000 {
        if let Some(held) = pool.try_hold(PoolOptions::default().holdable_bytes) {
            return held;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("memory is held, and nothing is in progress");
}

/// Waits until no block is in memory, beside all that is held.
async fn settle(model: &Model) {
    let options = PoolOptions::default();
    let free = options.buffer_bytes - options.holdable_bytes;
    for _ in 0..10_000 {
        if model.cluster().buffers().free_buffer_bytes() == Some(free) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("a block stays in memory");
}

async fn open(model: &Model, bucket: &Arc<Bucket>, range: Range<u64>) -> ObjectStream {
    let reader = model.open_object(bucket, "key").await.unwrap();
    reader.stream(range)
}

async fn piece(stream: &mut ObjectStream) -> Bytes {
    stream.next().await.unwrap().unwrap()
}

async fn rest_of(mut stream: ObjectStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(piece) = stream.next().await {
        all.extend_from_slice(&piece.unwrap());
    }
    all
}

/// Over HTTP/2, a connection takes two pieces of an answer whose client reads one byte.
#[tokio::test]
async fn block_is_not_parked_before_the_client_asks_for_more_than_its_beginning() {
    let (model, bucket, content) = start().await;
    let held = hold(&model).await;
    let mut stream = open(&model, &bucket, 0..u64::MAX).await;
    for at in [0, FIRST_BYTES] {
        assert_eq!(piece(&mut stream).await, content[at..at + FIRST_BYTES]);
    }
    settle(&model).await;
    drop(held);
    // Parked content comes in small pieces.
    let next = piece(&mut stream).await;
    assert_eq!(next.len(), BLOCK_BYTES - 2 * FIRST_BYTES);
    assert!(next == content[2 * FIRST_BYTES..BLOCK_BYTES]);
    assert!(rest_of(stream).await == content[BLOCK_BYTES..]);
}

#[tokio::test]
async fn client_that_reads_on_costs_one_read_of_each_block() {
    let (model, bucket, content) = start().await;
    let reads = || {
        let blocks = model.cluster().store().blocks();
        blocks.counters().read.get()
    };
    let mut counts = Vec::new();
    let mut held = None;
    for is_short in [false, true] {
        if is_short {
            held = Some(hold(&model).await);
        }
        let before = reads();
        let stream = open(&model, &bucket, 0..u64::MAX).await;
        assert!(rest_of(stream).await == content);
        counts.push(reads() - before);
    }
    drop(held);
    assert_eq!(counts[0], counts[1]);
}

/// The second read goes on where the beginning ended, with memory to hold it or without.
#[tokio::test]
async fn pause_after_the_beginning_changes_no_byte() {
    let (model, bucket, content) = start().await;
    let block = BLOCK_BYTES as u64;
    for range in [
        0..SIZE as u64,
        1..block - 1,
        block - 70_000..block + 70_000,
        block - 10_000..SIZE as u64,
        block + 12_345..2 * block + 5,
        2 * block..SIZE as u64,
    ] {
        for stays_short in [true, false] {
            let mut held = Some(hold(&model).await);
            let mut stream = open(&model, &bucket, range.clone()).await;
            let mut all = piece(&mut stream).await.to_vec();
            all.extend_from_slice(&piece(&mut stream).await);
            settle(&model).await;
            if !stays_short {
                held = None;
            }
            all.extend_from_slice(&rest_of(stream).await);
            drop(held);
            let wanted = &content[range.start as usize..range.end as usize];
            assert!(all == wanted, "{range:?}");
        }
    }
}

/// The block that is read again belongs to an object that nobody else can read any more.
#[tokio::test]
async fn object_that_is_replaced_during_the_pause_is_read_to_its_end() {
    let (model, bucket, content) = start().await;
    let held = hold(&model).await;
    let mut stream = open(&model, &bucket, 0..u64::MAX).await;
    let mut all = piece(&mut stream).await.to_vec();
    all.extend_from_slice(&piece(&mut stream).await);
    settle(&model).await;
    put(&model, &bucket, Bytes::from_static(b"new")).await;
    let report = model.run_all_gc_tasks().await.unwrap();
    assert!(report.in_use >= 1, "{report:?}");
    drop(held);
    all.extend_from_slice(&rest_of(stream).await);
    assert!(all == content);
}

/// Neither more memory nor the places of others are taken by those that wait.
#[tokio::test]
async fn clients_that_ask_for_no_more_let_others_through() {
    let (model, bucket, content) = start().await;
    let _held = hold(&model).await;
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut stream = open(&model, &bucket, 0..u64::MAX).await;
        let mut all = piece(&mut stream).await.to_vec();
        all.extend_from_slice(&piece(&mut stream).await);
        waiting.push((all, stream));
    }
    settle(&model).await;
    let other = open(&model, &bucket, 0..u64::MAX).await;
    assert!(rest_of(other).await == content);
    for (mut all, stream) in waiting {
        all.extend_from_slice(&rest_of(stream).await);
        assert!(all == content);
    }
}
