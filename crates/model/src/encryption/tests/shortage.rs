//! Encrypted content while other clients hold all memory that may be held.

use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::random::SeededRandom;
use archipel_cluster::memory_store;
use archipel_storage::pool::PoolOptions;
use archipel_storage::store::Threads;

use super::*;
use crate::{ObjectWriter, Reservation};

/// More clients than ciphers have memory for at once.
const CLIENTS: usize = 60;

/// Returns a node whose memory has a limit.
async fn start_with_a_limit() -> (Model, Arc<Bucket>) {
    let random = Arc::new(SeededRandom::new(1));
    let store = memory_store(random.clone(), Threads::Own).unwrap();
    let cluster = Cluster::with_store(store, NodeId::default(), random, HOOKS, None);
    let cluster = cluster.await.unwrap();
    cluster.found("here", 1 << 40).await.unwrap();
    let model = Model::open(cluster).await.unwrap();
    model.set_ring_secrets(secrets(&["secret"], &[]));
    let bucket = model.create_bucket("bucket", None).await.unwrap();
    (model, bucket)
}

/// Holds all that may be held, once the requests before have given back what they held.
async fn hold(model: &Model) -> Reservation {
    hold_all_but(model, 0).await
}

/// Holds all that may be held but this many bytes, once no request holds more than these.
async fn hold_all_but(model: &Model, bytes: usize) -> Reservation {
    let pool = model.cluster().buffers();
    for _ in 0..10_000 {
        if let Some(held) = pool.try_hold(PoolOptions::default().holdable_bytes - bytes) {
            return held;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("memory is held, and nothing is in progress");
}

async fn begin(model: &Model, bucket: &Arc<Bucket>) -> ObjectWriter {
    let sealing = model.seal(bucket, "key", &Encrypt::Server).await.unwrap();
    let mut writer = model.begin_object(bucket, "key").unwrap();
    writer.encrypt(&sealing).unwrap();
    writer
}

async fn write(writer: &mut ObjectWriter, content: &[u8]) {
    let content = Bytes::copy_from_slice(content);
    writer.write(content).await.unwrap();
}

#[tokio::test]
async fn content_reads_back_whatever_was_short_of_memory() {
    let (model, bucket) = start_with_a_limit().await;
    let pieces = [1000, 16_384, 20_000, 65_536, 65_537, 300_000];
    for (size, piece) in SIZES
        .into_iter()
        .flat_map(|size| pieces.map(|piece| (size, piece)))
    {
        let content = content(size);
        let mut held = Some(hold(&model).await);
        let mut writer = begin(&model, &bucket).await;
        for (number, piece) in content.chunks(piece).enumerate() {
            // Now and then there is some in the middle of a segment.
            if piece.len() == 20_000 && number == 42 {
                held = None;
            }
            write(&mut writer, piece).await;
        }
        let done = writer.finish(ObjectMeta::default(), Condition::Always);
        done.await.unwrap();
        drop(held);
        let held = hold(&model).await;
        let reader = model.open_object(&bucket, "key").await.unwrap();
        let middle = size as u64 / 3..size as u64 / 2;
        let wanted = &content[middle.start as usize..middle.end as usize];
        assert_eq!(read(&reader, middle).await.unwrap(), wanted, "{size}");
        // It begins without memory, and goes on with some.
        let mut stream = reader.stream(0..u64::MAX);
        let mut all = Vec::new();
        let mut held = Some(held);
        while let Some(piece) = stream.next().await {
            all.extend_from_slice(&piece.unwrap());
            if all.len() > 1_500_000 {
                held = None;
            }
        }
        drop(held);
        assert_eq!(all, content, "{size} in pieces of {piece}");
    }
}

#[tokio::test]
async fn clients_that_stall_hold_nothing_that_others_need() {
    let (model, bucket) = start_with_a_limit().await;
    let content = content(300_000);
    put(&model, &bucket, &Encrypt::Server, &content).await;
    let _held = hold(&model).await;
    let reader = model.open_object(&bucket, "key").await.unwrap();
    let mut readers = Vec::new();
    let mut writers = Vec::new();
    for _ in 0..CLIENTS {
        let mut writer = begin(&model, &bucket).await;
        write(&mut writer, &content[..150_000]).await;
        writers.push(writer);
        let mut stream = reader.stream(0..u64::MAX);
        stream.next().await.unwrap().unwrap();
        readers.push(stream);
    }
    assert_eq!(read(&reader, 0..u64::MAX).await.unwrap(), content);
    for mut writer in writers {
        write(&mut writer, &content[150_000..]).await;
        let done = writer.finish(ObjectMeta::default(), Condition::Always);
        done.await.unwrap();
    }
    let reader = model.open_object(&bucket, "key").await.unwrap();
    assert_eq!(read(&reader, 0..u64::MAX).await.unwrap(), content);
}

/// A client may take what it is sent, and never ask for more. Its answer begins with one segment,
/// which may begin in one block and end in the next.
#[tokio::test]
async fn block_is_not_parked_before_the_client_asks_for_a_second_segment() {
    let (model, bucket) = start_with_a_limit().await;
    let content = content(3_000_000);
    put(&model, &bucket, &Encrypt::Server, &content).await;
    for start in [0, 15 * 65_536] {
        let held = hold(&model).await;
        let reader = model.open_object(&bucket, "key").await.unwrap();
        let mut stream = reader.stream(start as u64..u64::MAX);
        let mut all = Vec::new();
        while all.len() < 65_536 {
            all.extend_from_slice(&stream.next().await.unwrap().unwrap());
        }
        assert_eq!(all.len(), 65_536);
        drop(held);
        // The rest of a parked block would come one segment at a time, or less.
        let piece = stream.next().await.unwrap().unwrap();
        assert_eq!(piece.len(), 4 * 65_536);
        all.extend_from_slice(&piece);
        drop(piece);
        while let Some(piece) = stream.next().await {
            all.extend_from_slice(&piece.unwrap());
        }
        assert!(all == content[start..], "from {start}");
    }
}

/// The connection to a slow client may hold pieces for as long as it likes.
#[tokio::test]
async fn opened_segments_count_until_the_client_has_them() {
    let (model, bucket) = start_with_a_limit().await;
    put(&model, &bucket, &Encrypt::Server, &content(3_000_000)).await;
    let reader = model.open_object(&bucket, "key").await.unwrap();
    let mut stream = reader.stream(0..u64::MAX);
    let piece = stream.next().await.unwrap().unwrap();
    assert_eq!(piece.len(), 4 * 65_536);
    drop(stream);
    let _rest = hold_all_but(&model, piece.len()).await;
    let pool = model.cluster().buffers();
    assert!(pool.try_hold(1).is_none());
    drop(piece);
    assert!(pool.try_hold(4 * 65_536).is_some());
}
