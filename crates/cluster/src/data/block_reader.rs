//! Reading blocks: from the local store if it has them, else from another replica, verified.
//!
//! A reader for a client takes blocks in [pieces](archipel_base::pieces). Each piece is passed on
//! as soon as it is there and verified. A reader that stores the blocks again takes them whole. If
//! a replica fails within a block, another replica continues where it stopped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::pieces::Pieces;
use archipel_base::{BlockHash, PartitionId, boxed};
use archipel_net::{Class, MAX_FRAME_BYTES, ReceiveFrames};
use archipel_storage as storage;
use archipel_storage::BlockRef;
use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, timeout};

use crate::data::Data;
use crate::error::Error;
use crate::node::group::Group;

mod choice;
mod prefetch;
mod source;

pub(crate) use prefetch::Prefetch;
use source::{PATIENCE, SEVERAL};
pub(crate) use source::{SlowSources, Source};

/// The time limit for a frame if there is no better replica.
const LAST_PATIENCE: Duration = Duration::from_secs(20);
/// No replica is asked for a sign of life before it has sent nothing for this time.
const FIRST_DOUBT: Duration = Duration::from_millis(50);

/// The blocks of rows of one partition, one after another, in order.
pub struct BlockStream {
    inner: Arc<Data>,
    partition: PartitionId,
    left: VecDeque<BlockRef>,
    /// True if this node's own store is asked first.
    try_local: bool,
    /// The replicas of other nodes that were not tried for the next block, nearest last.
    untried: Option<Vec<usize>>,
    group: Option<Group>,
    remote: Option<Source>,
    /// A slow replica that would go on with the next block if the others are no better.
    reserve: Option<Source>,
    /// True if some replica was too slow with the next block.
    slow: bool,
    /// True if only replicas that were too slow with the next block are left.
    last_resort: bool,
    /// The traffic class; `None` for content that a client waits for.
    class: Option<Class>,
    /// True if blocks come in pieces.
    in_pieces: bool,
    /// Bytes of the next block that were passed on already, or that are not wanted.
    given: usize,
    /// The rest of the next block, on a stream that brings it in pieces.
    pieces: Option<Pieces>,
    /// True if no store was asked for the next block yet.
    fresh: bool,
    /// True if other replicas are asked for the next block only.
    only_next: bool,
}

impl BlockStream {
    pub(crate) fn new(
        inner: Arc<Data>,
        partition: PartitionId,
        blocks: Vec<BlockRef>,
        try_local: bool,
    ) -> BlockStream {
        BlockStream {
            inner,
            partition,
            left: blocks.into(),
            try_local,
            untried: None,
            group: None,
            remote: None,
            reserve: None,
            slow: false,
            last_resort: false,
            class: None,
            in_pieces: false,
            given: 0,
            pieces: None,
            fresh: true,
            only_next: false,
        }
    }

    /// Returns this stream in pieces, without the first `from` bytes, for readers that pass pieces
    /// on at once.
    pub fn in_pieces(self, from: u32) -> BlockStream {
        BlockStream {
            in_pieces: true,
            given: from as usize,
            ..self
        }
    }

    /// Returns this stream with another traffic class.
    pub(crate) fn in_class(self, class: Option<Class>) -> BlockStream {
        BlockStream { class, ..self }
    }

    /// Returns a stream of the blocks of a row that was read, in pieces, on the connection that
    /// brought the row.
    pub(crate) fn begun(
        inner: Arc<Data>,
        partition: PartitionId,
        blocks: Vec<BlockRef>,
        remote: Source,
    ) -> BlockStream {
        BlockStream {
            remote: Some(remote),
            ..BlockStream::new(inner, partition, blocks, false).in_pieces(0)
        }
    }

    /// Returns the next block, or more of it if it comes [in pieces](BlockStream::in_pieces),
    /// verified; `None` at the end. Nothing follows an error.
    #[boxed]
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        let block = *self.left.front()?;
        let content = self.more(&block).await;
        match &content {
            Ok(content) => self.given += content.len(),
            Err(_) => self.left.clear(),
        }
        if self.given >= block.len as usize {
            self.left.pop_front();
            (self.given, self.fresh, self.pieces) = (0, true, None);
            self.reserve = None;
            self.judge();
            if self.only_next {
                (self.remote, self.reserve) = (None, None);
            }
        }
        Some(content)
    }

    /// Returns the rest of a block, or a part of the rest.
    async fn more(&mut self, block: &BlockRef) -> Result<Bytes, Error> {
        let mut why = None;
        if std::mem::take(&mut self.fresh) {
            (self.untried, self.slow, self.last_resort) = (None, false, false);
            self.only_next = false;
            if self.try_local && self.remote.is_none() {
                match self.local(block).await {
                    Ok(content) => return Ok(content),
                    Err(error) if self.inner.peers.is_none() => return Err(error),
                    Err(error) => why = Some(error),
                }
            }
        }
        loop {
            if self.remote.is_none() && !self.connect().await? {
                if self.slow && !self.last_resort {
                    // All replicas are slow, or seem so. They get more time now.
                    (self.untried, self.last_resort) = (None, true);
                    continue;
                }
                return Err(self.out_of_reach(why));
            }
            match self.receive(block).await {
                Ok(content) => return Ok(content),
                Err(error) => {
                    tracing::debug!(%error, "a block is read from another replica");
                    (self.remote, self.pieces) = (None, None);
                    why = Some(error);
                }
            }
        }
    }

    /// Returns the error of a block that no reachable replica gives. If the block is missing or
    /// damaged here, other replicas may still have it, so the error is temporary while one of them
    /// cannot be asked.
    fn out_of_reach(&self, why: Option<Error>) -> Error {
        let group = self.group.as_ref();
        let has_others = group.is_some_and(|group| group.others().next().is_some());
        let out_of_reach = "no other replica with the content is reachable";
        match why {
            Some(Error::Storage(
                error @ (storage::Error::NoBlock(_) | storage::Error::Damaged(_)),
            )) if has_others => Error::Unavailable(format!("{error}; {out_of_reach}")),
            Some(error) => error,
            None => Error::Unavailable(out_of_reach.into()),
        }
    }

    /// Returns a block of this node's own store, without the bytes that were passed on.
    async fn local(&mut self, block: &BlockRef) -> Result<Bytes, Error> {
        let error = match self.inner.store().read_block(block).await {
            Ok(content) => return Ok(content.slice(self.given.min(content.len())..)),
            Err(error) => error,
        };
        if let storage::Error::NoBlock(_) | storage::Error::Damaged(_) = error {
            // If this block is damaged, the others are most likely whole. They need not come from
            // other nodes.
            self.only_next = matches!(error, storage::Error::Damaged(_));
            self.inner
                .tell(|events| events.block_read_failed(block.hash, self.partition, &error));
        }
        Err(error.into())
    }

    /// Returns the next piece of a block, or all of it if it does not come in pieces, without the
    /// bytes that were passed on.
    async fn receive(&mut self, block: &BlockRef) -> Result<Bytes, Error> {
        let (len, damaged) = (block.len as usize, || damaged(&block.hash));
        if self.pieces.is_none() {
            let first = self.frame().await?;
            if !self.in_pieces || !first.is_empty() {
                let content = self.gather(first, len).await?;
                let content = self.verified(block, content).await?;
                return Ok(content.slice(self.given.min(len)..));
            }
            let values = self.frame().await?;
            self.pieces = Some(Pieces::of(&block.hash, len, &values).ok_or_else(damaged)?);
        }
        let pieces = self.pieces.as_mut().ok_or_else(damaged)?;
        let start = pieces.skip_to(self.given);
        let len = pieces.next_len().ok_or_else(damaged)?;
        let first = self.frame().await?;
        let piece = self.gather(first, len).await?;
        // The check runs on this thread: it takes less time than a hand-over to another one.
        if self.pieces.as_mut().is_some_and(|all| all.check(&piece)) {
            Ok(piece.slice(self.given - start..))
        } else {
            Err(damaged().into())
        }
    }

    /// Returns `len` bytes that come in one frame or more.
    async fn gather(&mut self, first: Bytes, len: usize) -> Result<Bytes, Error> {
        if first.len() >= len {
            return Ok(first);
        }
        let mut content = BytesMut::with_capacity(len.min(MAX_FRAME_BYTES));
        content.extend_from_slice(&first);
        while content.len() < len {
            let more = self.frame().await?;
            if content.is_empty() || more.is_empty() {
                return Err(broken("an empty frame"));
            }
            content.extend_from_slice(&more);
        }
        Ok(content.freeze())
    }

    /// Returns a whole block after it has verified the block.
    async fn verified(&self, block: &BlockRef, content: Bytes) -> Result<Bytes, Error> {
        let BlockRef { hash, len } = *block;
        let pool = self.inner.store().blocks().pool();
        let verify = move || {
            if content.len() == len as usize && BlockHash::of(&content) == hash {
                Ok(content)
            } else {
                Err(damaged(&hash))
            }
        };
        Ok(pool.run(verify).await?)
    }

    /// Returns the next frame, unless the replica falls silent.
    async fn frame(&mut self) -> Result<Bytes, Error> {
        let Some(source) = &mut self.remote else {
            return Err(broken("it was not asked"));
        };
        let (node, may_be_slow) = (source.node, source.may_be_slow(self.class));
        let pace = source.pace.unwrap_or_default();
        let (begun, receive) = (Instant::now(), &mut *source.receive);
        let piece = match self.inner.peers.as_ref().filter(|_| !may_be_slow) {
            None => timeout(LAST_PATIENCE, frame_of(receive)).await.ok(),
            Some(peers) => {
                let distance = peers.rpc.round_trip(&node).unwrap_or_default();
                let doubt = FIRST_DOUBT.max(SEVERAL * distance.max(pace));
                tokio::select! {
                    biased;
                    piece = timeout(PATIENCE, frame_of(receive)) => piece.ok(),
                    () = peers.falls_silent(&node, doubt.min(PATIENCE)) => None,
                }
            }
        };
        match &piece {
            Some(_) => source.took(begun.elapsed()),
            None => self.slow = true,
        }
        if self.class.is_some() && (piece.is_none() || source.is_slow()) {
            let slow = &self.inner.slow_sources;
            slow.note(&node, self.class, Instant::now());
        }
        piece.unwrap_or_else(|| Err(broken("it does not arrive")))
    }
}

async fn frame_of(remote: &mut dyn ReceiveFrames) -> Result<Bytes, Error> {
    let frame = remote.receive().await;
    frame
        .map_err(|error| broken(&error.to_string()))?
        .ok_or_else(|| broken("it ended early"))
}

fn damaged(hash: &BlockHash) -> storage::Error {
    storage::Error::Damaged(hash.to_string())
}

fn broken(why: &str) -> Error {
    Error::Unavailable(format!("a replica's content: {why}"))
}

#[cfg(test)]
mod tests;
