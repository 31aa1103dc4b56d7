//! Reading blocks: from the local store where it has them, else from another replica, verified.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::codec;
use archipel_base::{BlockHash, NodeId, PartitionId, Stamp};
use archipel_net::{Class, ReceiveFrames};
use archipel_storage as storage;
use archipel_storage::{BlockRef, Value};
use bytes::{Bytes, BytesMut};

use crate::error::Error;
use crate::group::Group;
use crate::inner::Inner;
use crate::peers::CALL_TIMEOUT;
use crate::register::Answer;
use crate::wire::{FetchCall, RowCall, RowReply, method};

/// How long a piece of a stream may take before another replica is asked; if there is no other, so much longer.
const PATIENCE: Duration = Duration::from_secs(3);
const LAST_PATIENCE: Duration = Duration::from_secs(20);
/// A replica that sends nothing for so many times its distance, or so long if that is more, is asked whether it is there at all.
const DISTANCES: u32 = 3;
const FIRST_DOUBT: Duration = Duration::from_millis(50);

/// Where blocks come from.
pub(crate) struct Source {
    node: NodeId,
    receive: Box<dyn ReceiveFrames>,
}

/// Blocks of a partition, one after another, in order.
pub struct BlockStream {
    inner: Arc<Inner>,
    partition: PartitionId,
    left: VecDeque<BlockRef>,
    /// Ask this node's own store first.
    try_local: bool,
    /// The replicas of other nodes that were not tried for the next block, nearest last.
    untried: Option<Vec<usize>>,
    group: Option<Group>,
    remote: Option<Source>,
    /// Somebody was too slow with the next block.
    slow: bool,
    /// Nobody is left but those who were too slow.
    last_resort: bool,
    /// How urgent it is; `None`: as content that somebody waits for.
    class: Option<Class>,
}

impl BlockStream {
    pub(crate) fn new(
        inner: Arc<Inner>,
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
            slow: false,
            last_resort: false,
            class: None,
        }
    }

    /// The same, so urgent.
    pub(crate) fn in_class(self, class: Option<Class>) -> BlockStream {
        BlockStream { class, ..self }
    }

    /// The blocks of a row that was read, on the stream that brought it.
    pub(crate) fn begun(
        inner: Arc<Inner>,
        partition: PartitionId,
        blocks: Vec<BlockRef>,
        remote: Source,
    ) -> BlockStream {
        BlockStream {
            remote: Some(remote),
            ..BlockStream::new(inner, partition, blocks, false)
        }
    }

    /// The next block, verified; `None` at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        let block = *self.left.front()?;
        let content = self.block(&block).await;
        match content {
            Ok(_) => self.left.pop_front(),
            Err(_) => {
                self.left.clear();
                None
            }
        };
        Some(content)
    }

    async fn block(&mut self, block: &BlockRef) -> Result<Bytes, Error> {
        let mut why = None;
        let mut wanted = self.left.len();
        if self.try_local && self.remote.is_none() {
            match self.inner.store().read_block(block).await {
                Ok(content) => return Ok(content),
                Err(error @ (storage::Error::NoBlock(_) | storage::Error::Damaged(_))) => {
                    if matches!(error, storage::Error::Damaged(_)) {
                        // The others are most likely whole: they need not come from afar.
                        wanted = 1;
                    }
                    self.inner
                        .mend
                        .note_read(block.hash, self.partition, &error);
                    why = Some(Error::Storage(error));
                }
                Err(error) if self.inner.peers.is_none() => return Err(error.into()),
                Err(error) => why = Some(Error::Storage(error)),
            }
        }
        (self.untried, self.slow, self.last_resort) = (None, false, false);
        loop {
            if self.remote.is_none() && !self.connect(wanted).await? {
                if self.slow && !self.last_resort {
                    // All are slow, or seem so: now they have time.
                    (self.untried, self.last_resort) = (None, true);
                    continue;
                }
                return Err(why.unwrap_or_else(|| {
                    Error::Unavailable("no replica has the content in reach".into())
                }));
            }
            match self.receive(block).await {
                Ok(content) => {
                    if wanted == 1 {
                        self.remote = None;
                    }
                    return Ok(content);
                }
                Err(error) => {
                    tracing::debug!(%error, "another replica is asked for a block");
                    self.remote = None;
                    why = Some(error);
                }
            }
        }
    }

    /// Opens a stream of the next `wanted` blocks from the nearest replica that was not tried for this one;
    /// `false` if there is none.
    async fn connect(&mut self, wanted: usize) -> Result<bool, Error> {
        let Some(peers) = self.inner.peers.clone() else {
            return Ok(false);
        };
        let group = match &self.group {
            Some(group) => group.clone(),
            None => self.inner.group(self.partition)?,
        };
        let untried = self.untried.get_or_insert_with(|| {
            let others = group.quorums.all().iter();
            let mut others: Vec<_> = others.filter(|place| !group.is_local(*place)).collect();
            others.reverse();
            others
        });
        while let Some(place) = untried.pop() {
            let Some(member) = group.members.get(place) else {
                continue;
            };
            let call = FetchCall {
                partition: self.partition,
                blocks: self.left.iter().take(wanted).copied().collect(),
                row: None,
            };
            let remaining = call.blocks.iter().map(|b| u64::from(b.len)).sum();
            let class = self.class.unwrap_or(Class::Data { remaining });
            let opened = peers.stream(&member.node.node, method::FETCH, class).await;
            let Ok(mut stream) = opened else {
                continue;
            };
            let asked = stream.send.send(codec::encode(&call).into()).await;
            if asked.is_ok() && stream.send.finish().await.is_ok() {
                self.remote = Some(Source {
                    node: member.node.node,
                    receive: stream.receive,
                });
                self.group = Some(group);
                return Ok(true);
            }
        }
        self.group = Some(group);
        Ok(false)
    }

    async fn receive(&mut self, block: &BlockRef) -> Result<Bytes, Error> {
        let (hash, len) = (block.hash, block.len as usize);
        let mut content = self.piece().await?;
        while content.len() < len {
            // In pieces, from a node whose memory is short.
            let mut longer = BytesMut::from(content);
            longer.extend_from_slice(&self.piece().await?);
            content = longer.freeze();
        }
        let pool = self.inner.store().blocks().pool();
        let verify = move || match content.len() == len && BlockHash::of(&content) == hash {
            true => Ok(content),
            false => Err(storage::Error::Damaged(hash.to_string())),
        };
        Ok(pool.run(verify).await?)
    }

    /// The next piece of a block, unless the replica falls silent.
    async fn piece(&mut self) -> Result<Bytes, Error> {
        let Some(source) = &mut self.remote else {
            return Err(broken("it was not asked"));
        };
        let receive = &mut *source.receive;
        let peers = self.inner.peers.as_ref().filter(|_| !self.last_resort);
        let Some(peers) = peers else {
            let piece = tokio::time::timeout(LAST_PATIENCE, piece_of(receive)).await;
            return piece.unwrap_or_else(|_| Err(broken("it does not come")));
        };
        let distance = peers.rpc.round_trip(&source.node).unwrap_or_default();
        let doubt = FIRST_DOUBT.max(DISTANCES * distance).min(PATIENCE);
        let piece = tokio::select! {
            biased;
            piece = tokio::time::timeout(PATIENCE, piece_of(receive)) => piece.ok(),
            () = peers.falls_silent(&source.node, doubt) => None,
        };
        self.slow |= piece.is_none();
        piece.unwrap_or_else(|| Err(broken("it does not come")))
    }
}

/// The next piece of a block, which is not empty.
async fn piece_of(remote: &mut dyn ReceiveFrames) -> Result<Bytes, Error> {
    let piece = remote.receive().await;
    piece
        .map_err(|error| broken(&error.to_string()))?
        .filter(|piece| !piece.is_empty())
        .ok_or_else(|| broken("it ended early"))
}

fn broken(why: &str) -> Error {
    Error::Unavailable(format!("a replica's content: {why}"))
}

/// The stream on which a replica of another node sends a row and then its blocks: content is on its way
/// while the other replicas confirm that the row is the newest.
#[derive(Default)]
pub(crate) struct Prefetch(Mutex<Option<(Stamp, Source)>>);

impl Prefetch {
    /// Asks for a row; keeps the stream.
    pub async fn ask(
        &self,
        inner: &Arc<Inner>,
        group: &Group,
        place: usize,
        call: RowCall,
    ) -> Result<Answer<Value>, Error> {
        let unknown = || Error::Unavailable("the replica is not known".into());
        let member = group.members.get(place).ok_or_else(unknown)?;
        let peers = inner.peers.as_ref().ok_or_else(unknown)?;
        let broken = |why: &dyn std::fmt::Display| Error::Unavailable(why.to_string());
        let class = Class::Data { remaining: 0 };
        let asking = async {
            let node = &member.node.node;
            let mut stream = peers.stream(node, method::FETCH, class).await?;
            let call = FetchCall {
                partition: group.partition,
                blocks: Vec::new(),
                row: Some(call),
            };
            let sent = stream.send.send(codec::encode(&call).into()).await;
            sent.map_err(|error| broken(&error))?;
            stream.send.finish().await.map_err(|error| broken(&error))?;
            let reply = stream.receive.receive().await;
            let reply = reply.map_err(|error| broken(&error))?;
            let reply = reply.ok_or_else(|| broken(&"a row does not come"))?;
            let reply: RowReply = codec::decode(&reply).map_err(|error| broken(&error))?;
            Ok::<_, Error>((reply, stream.receive))
        };
        let (reply, receive) = tokio::time::timeout(CALL_TIMEOUT, asking)
            .await
            .map_err(|_| broken(&"a row does not come"))??;
        let answer = reply.0.map_err(storage::Error::from)?;
        if let Answer::Found { version, .. } = &answer {
            let node = member.node.node;
            *self.lock() = Some((version.stamp, Source { node, receive }));
        }
        Ok(answer)
    }

    /// The stream, if it brings the blocks of the version with this stamp.
    pub fn take(&self, stamp: Stamp) -> Option<Source> {
        let taken = self.lock().take();
        taken
            .filter(|(of, _)| *of == stamp)
            .map(|(_, source)| source)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Stamp, Source)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
