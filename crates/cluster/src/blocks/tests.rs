use async_trait::async_trait;

use super::*;
use crate::{Cluster, Hooks};

const HOOKS: Hooks = Hooks {
    on_replace: |_, _, _| None,
    ends: |_, _| None,
    holds: |_, _| true,
};

/// What a replica sends.
struct Pieces(VecDeque<Bytes>);

#[async_trait]
impl ReceiveFrames for Pieces {
    async fn receive(&mut self) -> Result<Option<Bytes>, archipel_net::Error> {
        Ok(self.0.pop_front())
    }
}

async fn received(content: &[u8], pieces: Vec<Bytes>) -> Result<Bytes, Error> {
    let cluster = Cluster::in_memory(1, HOOKS).await?;
    let block = BlockRef {
        hash: BlockHash::of(content),
        len: content.len() as u32,
    };
    let remote = Source {
        node: NodeId::default(),
        receive: Box::new(Pieces(pieces.into())),
    };
    let mut stream = BlockStream::begun(cluster.0.clone(), PartitionId(0), vec![block], remote);
    stream
        .next()
        .await
        .unwrap_or(Err(Error::Unavailable("nothing".into())))
}

/// A node whose memory is short sends a block in pieces.
#[tokio::test]
async fn a_block_may_come_in_pieces() {
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
