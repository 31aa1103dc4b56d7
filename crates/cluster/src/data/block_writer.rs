//! Sending blocks to all replicas of a partition at once.
//!
//! Each replica of another node gets one stream: the blocks, and then the requests of the row that
//! refers to them. So a PUT costs one round trip after its last byte. A replica has *taken* a block
//! once the block is stored (on this node) or queued for the replica's stream (to another node).
//! Only the answer to the row says that the blocks are there. A replica that is far behind the
//! others becomes lagging, and gets what it lacks later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archipel_base::codec;
use archipel_base::{BlockHash, boxed};
use archipel_net::{Class, Stream};
use archipel_storage as storage;
use archipel_storage::{BlockRef, Value};
use archipel_traces::carry;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::data::Data;
use crate::data::driver::waiting::again_if_it_fails;
use crate::error::Error;
use crate::node::group::Group;
use crate::node::wire::{RowCall, RowReply, UploadOpen, frame, method};
use crate::register::{Answer, ReplicaSet};

/// The most blocks that wait for one replica.
const QUEUE: usize = 4;
/// The time for which a slow replica is awaited once a quorum has a block.
const GRACE: Duration = Duration::from_secs(5);
/// The time after which a slow replica is asked for a sign of life.
const FIRST_DOUBT: Duration = Duration::from_millis(50);

/// The time within which a block, or a request, must have gone out to a replica, and within which a
/// quorum must have taken a block. A connection breaks by itself if the other node is silent. A
/// node whose disk hangs is not: it answers gossip and reads nothing, and no other limit would end
/// the write.
const STUCK: Duration = Duration::from_secs(60);

/// Blocks that are being written. Dropping it discards the blocks that no written row refers to.
pub struct BlockWriter {
    inner: Arc<Data>,
    group: Group,
    local: Option<(usize, Arc<storage::BlockAppender>)>,
    remotes: Vec<Remote>,
}

/// A replica on another node.
#[derive(Clone)]
struct Remote {
    index: usize,
    items: mpsc::Sender<Item>,
    /// The permits for blocks that wait for this node, shared by all writers.
    room: Arc<Semaphore>,
    /// True if the replica is lagging, or if its stream broke.
    lagging: Arc<AtomicBool>,
}

enum Item {
    Block(Bytes, OwnedSemaphorePermit),
    Call(Box<RowCall>, oneshot::Sender<Result<Answer<Value>, Error>>),
}

impl Item {
    /// Returns the traffic class of the next item of an upload that has sent `before` bytes. Nobody
    /// tells how long an upload is. It is taken to be half over, so that short ones come first, and
    /// long ones do not come before all reads.
    fn class(&self, before: u64) -> Class {
        let remaining = match self {
            Item::Block(block, _) => before + block.len() as u64,
            // The client waits for the answer, and no block follows. On TCP this hurries the blocks
            // before it, too. QUIC applies it once they are sent.
            Item::Call(..) => 0,
        };
        Class::Data { remaining }
    }
}

/// The way of a row request to a replica that has the blocks.
pub(crate) struct Route {
    inner: Arc<Data>,
    group: Group,
    index: usize,
    way: Way,
}

enum Way {
    Local(Arc<storage::BlockAppender>),
    Remote(mpsc::Sender<Item>),
}

impl BlockWriter {
    pub(crate) fn new(inner: Arc<Data>, group: Group) -> BlockWriter {
        let local = group
            .local()
            .map(|index| (index, Arc::new(inner.store().appender())));
        let remotes = group
            .others()
            .filter_map(|index| Remote::start(&inner, &group, index))
            .collect();
        BlockWriter {
            inner,
            group,
            local,
            remotes,
        }
    }

    /// Appends a block. Returns once a quorum has taken it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too few replicas take it in time, and the errors of the local
    /// storage if it is the only replica.
    #[boxed]
    pub async fn append(&self, content: Bytes) -> Result<BlockRef, Error> {
        if self.remotes.is_empty() {
            return match &self.local {
                Some((_, upload)) => Ok(upload.append(content).await?),
                None => Err(too_few()),
            };
        }
        let both = async { futures_util::join!(self.name(&content), self.spread(&content)) };
        let taken = tokio::time::timeout(STUCK, both).await;
        let (named, taken) = taken.map_err(|_| too_few())?;
        let (block, local) = named?;
        let mut holders: ReplicaSet = taken;
        if let Some(index) = local {
            holders.insert(index);
        }
        if self.group.quorums.is_quorum(holders) {
            Ok(block)
        } else {
            Err(too_few())
        }
    }

    /// Returns the block's name, and the index of the local replica if that has stored the block.
    async fn name(&self, content: &Bytes) -> Result<(BlockRef, Option<usize>), Error> {
        if let Some((index, upload)) = &self.local {
            match upload.append(content.clone()).await {
                Ok(block) => return Ok((block, Some(*index))),
                Err(error) => tracing::warn!(%error, "a block cannot be stored here"),
            }
        }
        let content = content.clone();
        let len = content.len() as u32;
        let hash = move || Ok(BlockHash::of(&content));
        let pool = self.inner.store().blocks().pool();
        let hash = pool.run(hash).await?;
        Ok((BlockRef { hash, len }, None))
    }

    /// Queues a block for the other nodes. Returns the replicas that took it.
    async fn spread(&self, content: &Bytes) -> ReplicaSet {
        let mut taking: FuturesUnordered<_> = self
            .remotes
            .iter()
            .filter(|remote| !remote.lagging.load(Ordering::SeqCst))
            .map(|remote| async move { (remote, remote.take(content).await) })
            .collect();
        let mut taken = ReplicaSet::EMPTY;
        loop {
            let local = self.local.iter().map(|(index, _)| *index);
            let with_local = taken.union(local.collect());
            let is_quorum = self.group.quorums.is_quorum(with_local);
            let next = tokio::select! {
                biased;
                next = taking.next() => next,
                () = self.patience(taken), if is_quorum => break,
            };
            match next {
                Some((remote, true)) => taken.insert(remote.index),
                Some((remote, false)) => remote.leave_behind("its stream broke"),
                None => return taken,
            }
        }
        drop(taking);
        let slow = self.remotes.iter().filter(|r| !taken.contains(r.index));
        slow.for_each(|remote| {
            remote.leave_behind("it lags far behind the others, or does not answer")
        });
        taken
    }

    /// Returns when the replicas that have not received a block need not be awaited any longer:
    /// each one has been slow for long, or gives no sign of life.
    async fn patience(&self, taken: ReplicaSet) {
        let late = self
            .remotes
            .iter()
            .filter(|r| !taken.contains(r.index) && !r.lagging.load(Ordering::SeqCst));
        let silent = futures_util::future::join_all(late.map(|r| self.silence(r.index)));
        let _ = tokio::time::timeout(GRACE, silent).await;
    }

    /// Returns when the replica gives no sign of life.
    async fn silence(&self, index: usize) {
        let (Some(peers), Some(member)) = (&self.inner.peers, self.group.members.get(index)) else {
            return;
        };
        peers.falls_silent(&member.node.node, FIRST_DOUBT).await;
    }

    /// Returns how many of the blocks were stored here already.
    pub fn deduplicated(&self) -> usize {
        self.local
            .as_ref()
            .map_or(0, |(_, upload)| upload.deduplicated())
    }

    /// Returns the way to a replica of `group`, if that replica has the blocks.
    pub(crate) fn route(&self, group: &Group, index: usize) -> Option<Route> {
        let member = group.members.get(index)?;
        let ours = self.group.members.iter().position(|m| m == member)?;
        let way = match &self.local {
            Some((local, upload)) if *local == ours => Way::Local(upload.clone()),
            _ => {
                let remote = self.remotes.iter().find(|r| r.index == ours)?;
                if remote.lagging.load(Ordering::SeqCst) {
                    return None;
                }
                Way::Remote(remote.items.clone())
            }
        };
        Some(Route {
            inner: self.inner.clone(),
            group: group.clone(),
            index,
            way,
        })
    }
}

fn too_few() -> Error {
    Error::Unavailable("too few replicas take the content".into())
}

impl Route {
    /// Sends the request behind the blocks.
    #[boxed]
    pub async fn ask(self, call: RowCall) -> Result<Answer<Value>, Error> {
        match &self.way {
            Way::Local(upload) => {
                // In every durability mode: a committed row must not refer to missing blocks.
                upload.sync().await?;
                self.inner.ask(&self.group, self.index, call, None).await
            }
            Way::Remote(items) => {
                let (sender, answer) = oneshot::channel();
                let item = Item::Call(Box::new(call.clone()), sender);
                if items.send(item).await.is_ok()
                    && let Ok(answer) = answer.await
                {
                    return answer;
                }
                // The stream is gone. The replica fetches the blocks that it lacks from other
                // replicas.
                self.inner.ask(&self.group, self.index, call, None).await
            }
        }
    }
}

impl Remote {
    fn start(inner: &Arc<Data>, group: &Group, index: usize) -> Option<Remote> {
        let member = group.members.get(index)?;
        let open = UploadOpen {
            address: group.address(index)?,
        };
        let peers = inner.peers.clone()?;
        if peers.directory.is_suspected(&member.node.node) {
            return None;
        }
        let (items, queue) = mpsc::channel(QUEUE);
        let room = peers.outbound.to(&member.node.node);
        let lagging = Arc::new(AtomicBool::new(false));
        let (node, flag) = (member.node.node, lagging.clone());
        tokio::spawn(carry(async move {
            // That of the answers, which are short. `feed` sets that of the content.
            let class = Class::Data { remaining: 0 };
            let is_away = || peers.directory.is_suspected(&node);
            let open_stream = || peers.stream(&node, method::UPLOAD, class);
            let served = match again_if_it_fails(&peers.times, is_away, open_stream).await {
                Ok(stream) => feed(stream, open, queue).await,
                Err(error) => Err(error.to_string()),
            };
            if let Err(why) = served {
                flag.store(true, Ordering::SeqCst);
                tracing::debug!(node = %node.short(), why, "an upload to a replica broke off");
            }
        }));
        Some(Remote {
            index,
            items,
            room,
            lagging,
        })
    }

    /// Queues a copy of a block. Returns `false` if the stream is gone. A copy, because blocks that
    /// wait for a distant or unreachable node must not keep buffers that other requests wait for.
    async fn take(&self, content: &Bytes) -> bool {
        let Ok(room) = self.room.clone().acquire_owned().await else {
            return false;
        };
        let block = framed(frame::BLOCK, content);
        self.items.send(Item::Block(block, room)).await.is_ok()
    }

    fn leave_behind(&self, why: &str) {
        if !self.lagging.swap(true, Ordering::SeqCst) {
            tracing::debug!(index = self.index, why, "a replica is lagging");
        }
    }
}

/// Sends queued items until the writer is dropped, or until the replica takes one for too long.
async fn feed(
    mut stream: Stream,
    open: UploadOpen,
    mut queue: mpsc::Receiver<Item>,
) -> Result<(), String> {
    let text = |error: archipel_net::Error| error.to_string();
    let stuck = |_| "the replica takes nothing";
    let opening = stream.send.send(codec::encode(&open).into());
    let opened = tokio::time::timeout(STUCK, opening).await;
    opened.map_err(stuck)?.map_err(text)?;
    let mut before = 0;
    while let Some(item) = queue.recv().await {
        stream.send.set_class(item.class(before));
        if let Item::Block(block, _) = &item {
            before += block.len() as u64;
        }
        // The permit of a block is one of a few that all writers share.
        let sent = tokio::time::timeout(STUCK, send(&mut stream, item)).await;
        sent.map_err(stuck)??;
    }
    stream.send.finish().await.map_err(text)
}

/// Sends an item. Returns after the answer if it is a request.
async fn send(stream: &mut Stream, item: Item) -> Result<(), String> {
    let text = |error: archipel_net::Error| error.to_string();
    match item {
        Item::Block(block, _room) => stream.send.send(block).await.map_err(text),
        Item::Call(call, answer) => {
            let call = framed(frame::CALL, &codec::encode(&*call));
            stream.send.send(call).await.map_err(text)?;
            let reply = stream.receive.receive().await.map_err(text)?;
            let reply = reply.ok_or("the replica ended the upload")?;
            let reply: RowReply = codec::decode(&reply).map_err(|e| e.to_string())?;
            let reply = reply.0.map_err(|refusal| Error::Storage(refusal.into()));
            // If the operation has its quorum, nobody waits for the reply any more.
            let _ = answer.send(reply);
            Ok(())
        }
    }
}

fn framed(kind: u8, content: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + content.len());
    bytes.put_u8(kind);
    bytes.put_slice(content);
    bytes.freeze()
}

#[cfg(test)]
mod tests;
