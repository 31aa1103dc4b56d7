use archipel_base::{NodeId, pieces};
use archipel_storage::engine::Durability;
use archipel_storage::{Payload, RowKey, Value};
use async_trait::async_trait;

use super::*;
use crate::data::MOVED;
use crate::{Cluster, Hooks};

mod slow;

/// The frames that a replica sends.
struct Pieces(VecDeque<Bytes>);

#[async_trait]
impl ReceiveFrames for Pieces {
    async fn receive(&mut self) -> Result<Option<Bytes>, archipel_net::Error> {
        Ok(self.0.pop_front())
    }
}

fn block_of(content: &[u8]) -> BlockRef {
    BlockRef {
        hash: BlockHash::of(content),
        len: content.len() as u32,
    }
}

fn source(frames: Vec<Bytes>) -> Source {
    Source::new(NodeId::default(), Box::new(Pieces(frames.into())))
}

async fn received(content: &[u8], pieces: Vec<Bytes>) -> Result<Bytes, Error> {
    let cluster = Cluster::in_memory(1, Hooks::NONE).await?;
    let blocks = vec![block_of(content)];
    let mut stream = BlockStream {
        remote: Some(source(pieces)),
        ..BlockStream::new(cluster.data(), PartitionId(0), blocks, false)
    };
    stream
        .next()
        .await
        .unwrap_or(Err(Error::Unavailable("nothing".into())))
}

/// A node whose memory is short sends a block in several frames.
#[tokio::test]
async fn block_may_arrive_in_several_frames() {
    let content: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
    let pieces = |size: usize| content.chunks(size).map(Bytes::copy_from_slice).collect();
    for size in [100_000, 32 << 10, 7] {
        let whole = received(&content, pieces(size)).await.unwrap();
        assert_eq!(whole, content);
    }
    let mut short: Vec<Bytes> = pieces(32 << 10);
    short.pop();
    let mut wrong: Vec<Bytes> = pieces(32 << 10);
    wrong.swap(0, 1);
    let mut long: Vec<Bytes> = pieces(32 << 10);
    long.insert(0, Bytes::from_static(b"more"));
    let mut stuck: Vec<Bytes> = pieces(32 << 10);
    stuck.insert(2, Bytes::new());
    for pieces in [short, wrong, long, stuck] {
        assert!(received(&content, pieces).await.is_err());
    }
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Returns the frames of a block in pieces.
fn in_pieces(content: &[u8]) -> Vec<Bytes> {
    let mut frames = vec![Bytes::new(), pieces::values(content).into()];
    let mut start = 0;
    for len in pieces::lengths(content.len()) {
        frames.push(Bytes::copy_from_slice(&content[start..start + len]));
        start += len;
    }
    frames
}

async fn drain(mut stream: BlockStream) -> (Vec<u8>, Option<Error>) {
    let mut all = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => all.extend_from_slice(&piece),
            Err(error) => return (all, Some(error)),
        }
    }
    (all, None)
}

async fn drained(blocks: &[&[u8]], frames: Vec<Bytes>) -> (Vec<u8>, Option<Error>) {
    let cluster = Cluster::in_memory(1, Hooks::NONE).await.unwrap();
    let blocks = blocks.iter().map(|content| block_of(content)).collect();
    let (inner, partition) = (cluster.data(), PartitionId(0));
    let stream = BlockStream::begun(inner, partition, blocks, source(frames));
    drain(stream).await
}

#[tokio::test]
async fn piece_is_passed_on_before_the_next_arrives() {
    let block = content(200_000);
    for frames in 3..8 {
        let mut there = in_pieces(&block);
        there.truncate(frames);
        let handed = there[2..].iter().map(Bytes::len).sum::<usize>();
        let (got, error) = drained(&[&block], there).await;
        assert_eq!(got, block[..handed]);
        assert!(error.is_some());
    }
}

#[tokio::test]
async fn blocks_follow_one_another_in_pieces_or_whole() {
    let (one, two, three) = (content(200_000), content(3000), content(70_000));
    let mut frames = in_pieces(&one);
    frames.push(two.clone().into());
    // An older node sends the block whole.
    frames.push(three.clone().into());
    frames.extend(in_pieces(&one));
    let (got, error) = drained(&[&one, &two, &three, &one], frames).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(got, [&one[..], &two, &three, &one].concat());
}

/// Tries each frame wrong, missing or in the wrong place.
#[tokio::test]
async fn wrong_frame_is_never_passed_on() {
    let block = content(200_000);
    let good = in_pieces(&block);
    for at in 0..good.len() {
        let mut flipped = good.clone();
        let mut bytes = flipped[at].to_vec();
        match bytes.last_mut() {
            Some(last) => *last ^= 1,
            None => bytes.push(0),
        }
        flipped[at] = bytes.into();
        let mut missing = good.clone();
        missing.remove(at);
        let mut twice = good.clone();
        twice.insert(at, good[at].clone());
        let mut longer = good.clone();
        longer[at] = [&good[at][..], b"more"].concat().into();
        for (kind, frames) in [flipped, missing, twice, longer].into_iter().enumerate() {
            let (got, error) = drained(&[&block], frames).await;
            // A frame after the last piece is not read.
            let ended = kind == 2 && at + 1 == good.len();
            assert_eq!(error.is_none(), ended, "frame {at}, {kind}");
            assert_eq!(got, block[..got.len()]);
        }
    }
}

/// Creates three nodes that all have these blocks.
async fn holding(contents: &[Vec<u8>]) -> (crate::World, Vec<BlockRef>) {
    let world = crate::World::new(3, 3, Duration::from_millis(20), 7, Hooks::NONE);
    let world = world.await.unwrap();
    let blocks = store(&world, contents).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    (world, blocks)
}

/// Writes a row with these blocks through the first node.
async fn store(world: &crate::World, contents: &[Vec<u8>]) -> Vec<BlockRef> {
    let upload = world.nodes[0].block_writer(PartitionId(0)).unwrap();
    let mut blocks = Vec::new();
    for content in contents {
        let content = Bytes::copy_from_slice(content);
        blocks.push(upload.append(content).await.unwrap());
    }
    let key = RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"big"),
    };
    let row = Value {
        payload: Payload::Blocks(blocks.clone()),
        ..Value::default()
    };
    let how = crate::WriteOptions {
        upload: Some(&upload),
        ..crate::WriteOptions::durable(Durability::Fsync)
    };
    world.nodes[0].write(&key, Some(row), how).await.unwrap();
    blocks
}

/// A replica sends wrong bytes in the middle of a block.
#[tokio::test(start_paused = true)]
async fn another_replica_continues_where_a_wrong_one_stopped() {
    let contents = [content(300_000), content(5000), content(100_001)];
    let (world, blocks) = holding(&contents).await;
    let partition = PartitionId(0);
    let all = contents.concat();
    let mut good: Vec<Bytes> = contents[..1].iter().flat_map(|c| in_pieces(c)).collect();
    good.push(contents[1].clone().into());
    good.extend(in_pieces(&contents[2]));
    for at in 0..good.len() {
        let mut frames = good.clone();
        frames[at] = vec![1; frames[at].len().max(1)].into();
        let (inner, blocks) = (world.nodes[2].clone(), blocks.clone());
        let stream = BlockStream::begun(inner.data(), partition, blocks, source(frames));
        let (got, error) = drain(stream).await;
        assert!(error.is_none(), "frame {at}: {error:?}");
        assert!(got == all, "frame {at}");
    }

    // The bytes of another replica and the local bytes are the same, wherever the reader begins in
    // the first block.
    for from in [0, 1, 4096, 100_000, 299_999] {
        for try_local in [false, true] {
            let (inner, blocks) = (world.nodes[2].clone(), blocks.clone());
            let stream = BlockStream::new(inner.data(), partition, blocks, try_local);
            let (got, error) = drain(stream.in_pieces(from)).await;
            assert!(error.is_none(), "from {from}: {error:?}");
            assert!(got == all[from as usize..], "from {from}");
        }
    }
}

/// Found by measurement: anti-entropy and the rebalancer brought the same rows to a new node, which
/// cost a sixth more bytes.
#[tokio::test(start_paused = true)]
async fn block_that_is_being_fetched_is_not_fetched_again() {
    let latency = Duration::from_millis(20);
    let world = crate::World::new(3, 3, latency, 7, Hooks::NONE);
    let world = world.await.unwrap();
    world.isolate(2);
    let blocks = store(&world, &[content(300_000), content(5000)]).await;
    world.network.end_all_cuts();
    let (node, payload) = (world.nodes[2].data(), Payload::Blocks(blocks));
    let fetch = |class| node.fetch_with(PartitionId(0), &payload, class);
    // The rebalancer, whose fetches come first, waits for no other.
    let (one, other) = tokio::join!(fetch(Some(MOVED)), fetch(Some(Class::Background)));
    assert_eq!((one.unwrap().blocks, other.unwrap().blocks), (2, 0));
}

/// Other replicas may have a good copy: the client may try again, and nobody should be told of
/// damage that a repair cannot fix yet.
#[tokio::test(start_paused = true)]
async fn locally_damaged_block_is_unavailable_while_others_are_unreachable() {
    let (world, blocks) = holding(&[content(300_000)]).await;
    world.disks[2].flip(1, 5000, 1);
    let read = || {
        let inner = world.nodes[2].clone();
        drain(BlockStream::new(
            inner.data(),
            PartitionId(0),
            blocks.clone(),
            true,
        ))
    };
    assert!(read().await.1.is_none());
    world.kill(0);
    world.kill(1);
    let (got, error) = read().await;
    assert!(got.is_empty());
    let unavailable =
        matches!(&error, Some(Error::Unavailable(why)) if why.contains("is reachable"));
    assert!(unavailable, "{error:?}");
}

/// The end of a block costs one of its pieces.
#[tokio::test(start_paused = true)]
async fn pieces_before_the_wanted_one_are_not_sent() {
    let big = content(1 << 20);
    let (world, blocks) = holding(std::slice::from_ref(&big)).await;
    let frames = || world.network.frames().values().sum::<u64>();
    let mut sent = Vec::new();
    for from in [0, 1_000_000] {
        let before = frames();
        let inner = world.nodes[2].clone();
        let stream = BlockStream::new(inner.data(), PartitionId(0), blocks.clone(), false);
        let (got, error) = drain(stream.in_pieces(from)).await;
        assert!(error.is_none() && got == big[from as usize..]);
        sent.push(frames() - before);
    }
    // A whole block takes the request, the empty frame, the values and 20 pieces. Its end takes
    // one piece.
    assert_eq!(sent[0] - sent[1], 19, "{sent:?}");
}
