//! Reading blocks: from the local store where it has them, else from another replica, verified.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::codec;
use archipel_base::{BlockHash, PartitionId, Stamp};
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

/// How long a replica may be silent in the middle of a stream before another is asked.
const SILENCE: Duration = Duration::from_secs(3);

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
    remote: Option<Box<dyn ReceiveFrames>>,
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
        remote: Box<dyn ReceiveFrames>,
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
        self.untried = None;
        loop {
            if self.remote.is_none() && !self.connect(wanted).await? {
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
                self.remote = Some(stream.receive);
                self.group = Some(group);
                return Ok(true);
            }
        }
        self.group = Some(group);
        Ok(false)
    }

    async fn receive(&mut self, block: &BlockRef) -> Result<Bytes, Error> {
        let Some(remote) = &mut self.remote else {
            return Err(broken("it was not asked"));
        };
        let (hash, len) = (block.hash, block.len as usize);
        let mut content = piece_of(&mut **remote).await?;
        while content.len() < len {
            // In pieces, from a node whose memory is short.
            let mut longer = BytesMut::from(content);
            longer.extend_from_slice(&piece_of(&mut **remote).await?);
            content = longer.freeze();
        }
        let pool = self.inner.store().blocks().pool();
        let verify = move || match content.len() == len && BlockHash::of(&content) == hash {
            true => Ok(content),
            false => Err(storage::Error::Damaged(hash.to_string())),
        };
        Ok(pool.run(verify).await?)
    }
}

/// The next piece of a block, which is not empty.
async fn piece_of(remote: &mut dyn ReceiveFrames) -> Result<Bytes, Error> {
    let piece = tokio::time::timeout(SILENCE, remote.receive()).await;
    let piece = piece.map_err(|_| broken("it does not come"))?;
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
pub(crate) struct Prefetch(Mutex<Option<(Stamp, Box<dyn ReceiveFrames>)>>);

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
            *self.lock() = Some((version.stamp, receive));
        }
        Ok(answer)
    }

    /// The stream, if it brings the blocks of the version with this stamp.
    pub fn take(&self, stamp: Stamp) -> Option<Box<dyn ReceiveFrames>> {
        let taken = self.lock().take();
        taken
            .filter(|(of, _)| *of == stamp)
            .map(|(_, receive)| receive)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Stamp, Box<dyn ReceiveFrames>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
