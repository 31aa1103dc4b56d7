use archipel_base::pieces::MAX_PIECE_BYTES;
use archipel_net::ReceiveFrames;
use archipel_storage::engine::Durability;
use archipel_storage::{Payload, RowKey, Value};
use async_trait::async_trait;
use parking_lot::Mutex;

use super::*;
use crate::data::options::WriteOptions;
use crate::{Cluster, Hooks};

/// A replica's use of its stream.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Done {
    Class(Class),
    Frame(usize),
    End,
}

#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<Done>>>);

#[async_trait]
impl SendFrames for Noting {
    async fn send(&mut self, frame: Bytes) -> Result<(), archipel_net::Error> {
        self.0.lock().push(Done::Frame(frame.len()));
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), archipel_net::Error> {
        self.0.lock().push(Done::End);
        Ok(())
    }

    fn set_class(&mut self, class: Class) {
        self.0.lock().push(Done::Class(class));
    }
}

/// The receiving half, which brings one request.
struct Asking(Option<Bytes>);

#[async_trait]
impl ReceiveFrames for Asking {
    async fn receive(&mut self) -> Result<Option<Bytes>, archipel_net::Error> {
        Ok(self.0.take())
    }
}

const LENGTHS: [usize; 2] = [1 << 20, 100_000];

fn key() -> RowKey {
    RowKey {
        partition: PartitionId(0),
        key: Bytes::from_static(b"big"),
    }
}

/// Returns a node with a row of two blocks.
async fn holding() -> (Cluster, Vec<BlockRef>) {
    let node = Cluster::in_memory(1, Hooks::NONE).await.unwrap();
    let upload = node.block_writer(PartitionId(0)).unwrap();
    let mut blocks = Vec::new();
    for len in LENGTHS {
        blocks.push(upload.append(Bytes::from(vec![7; len])).await.unwrap());
    }
    let row = Value {
        payload: Payload::Blocks(blocks.clone()),
        ..Value::default()
    };
    let how = WriteOptions {
        upload: Some(&upload),
        ..WriteOptions::durable(Durability::Fsync)
    };
    node.write(&key(), Some(row), how).await.unwrap();
    drop(upload);
    (node, blocks)
}

/// Returns a request for these blocks, or for the row if there are none.
fn fetch(node: &Cluster, blocks: Vec<BlockRef>, background: bool) -> FetchCall {
    let group = node.group(PartitionId(0)).unwrap();
    let address = group.address(group.local().unwrap()).unwrap();
    let read = Request::Read { with_value: true };
    let row = RowCall {
        background,
        ..RowCall::plain(address, key().key, read)
    };
    FetchCall {
        partition: PartitionId(0),
        row: blocks.is_empty().then_some(row),
        in_pieces: blocks.is_empty(),
        blocks,
        from: 0,
    }
}

async fn done(node: &Cluster, call: &FetchCall) -> Vec<Done> {
    let noting = Noting::default();
    let stream = Stream {
        send: Box::new(noting.clone()),
        receive: Box::new(Asking(Some(codec::encode(call).into()))),
    };
    let data = node.data();
    serve_fetch(&data, node.me().node, stream).await.unwrap();
    noting.0.lock().clone()
}

fn lengths(done: &[Done]) -> Vec<usize> {
    let lengths = done.iter().filter_map(|done| match done {
        Done::Frame(len) => Some(*len),
        Done::Class(_) | Done::End => None,
    });
    lengths.collect()
}

/// Found by reading: a block of 1 MiB in one frame was dropped if it took 3 s.
#[tokio::test]
async fn whole_blocks_come_in_short_frames() {
    let (node, blocks) = holding().await;
    let done = done(&node, &fetch(&node, blocks, false)).await;
    let lengths = lengths(&done);
    assert!(lengths.iter().all(|len| *len <= MAX_PIECE_BYTES));
    assert_eq!(lengths.iter().sum::<usize>(), LENGTHS.iter().sum::<usize>());
    assert_eq!(done.last(), Some(&Done::End));
}

/// Found by reading: content that follows its row came before all other content, however long it
/// was.
#[tokio::test]
async fn content_that_follows_its_row_tells_how_long_it_is() {
    let (node, _) = holding().await;
    for background in [false, true] {
        let done = done(&node, &fetch(&node, Vec::new(), background)).await;
        let remaining = LENGTHS.iter().sum::<usize>() as u64;
        let class = Done::Class(Class::Data { remaining });
        assert!(matches!(done[0], Done::Frame(_)), "{:?}", done[0]);
        assert_eq!(done[1] == class, !background, "{:?}", done[1]);
        assert_eq!(lengths(&done).iter().filter(|len| **len == 0).count(), 2);
    }
}
