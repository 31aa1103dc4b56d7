//! Blocks on their way to all replicas of a partition at once.
//!
//! To each replica of another node goes one stream: blocks, and behind them the requests about the row
//! that makes them real. So a PUT costs one round trip after its last byte. A block counts as
//! taken when a quorum has it in hand; who is far behind the others is left behind, and gets what
//! it lacks later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use archipel_base::BlockHash;
use archipel_base::codec;
use archipel_net::{Class, Stream};
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::{BlockRef, Value};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::drive::waiting::again_if_it_fails;
use crate::error::Error;
use crate::group::Group;
use crate::inner::Inner;
use crate::register::{Answer, ReplicaSet};
use crate::wire::{RowCall, RowReply, UploadOpen, frame, method};

/// How many blocks wait for one replica.
const QUEUE: usize = 4;
/// How long a replica that is behind is waited for once a quorum has a block.
const GRACE: Duration = Duration::from_secs(5);
/// After how long it is asked whether it is there at all.
const FIRST_DOUBT: Duration = Duration::from_millis(50);

/// Blocks on their way in. Dropping it gives up what no row that was written refers to.
pub struct Upload {
    inner: Arc<Inner>,
    group: Group,
    local: Option<(usize, Arc<storage::Upload>)>,
    remotes: Vec<Remote>,
}

/// A replica on another node.
#[derive(Clone)]
struct Remote {
    place: usize,
    items: mpsc::Sender<Item>,
    /// Room for blocks that wait for this node, of all uploads.
    room: Arc<Semaphore>,
    /// Left behind, or its stream broke.
    lost: Arc<AtomicBool>,
}

enum Item {
    Block(Bytes, OwnedSemaphorePermit),
    Call(Box<RowCall>, oneshot::Sender<Result<Answer<Value>, Error>>),
}

/// How a request about the row reaches a replica that has the blocks.
pub(crate) struct Route {
    inner: Arc<Inner>,
    group: Group,
    place: usize,
    way: Way,
}

enum Way {
    Local(Arc<storage::Upload>),
    Remote(mpsc::Sender<Item>),
}

impl Upload {
    pub(crate) fn new(inner: Arc<Inner>, group: Group) -> Upload {
        let local = group
            .local()
            .map(|place| (place, Arc::new(inner.store().upload())));
        let others = group.quorums.all().iter();
        let remotes = others
            .filter(|place| !group.is_local(*place))
            .filter_map(|place| Remote::start(&inner, &group, place))
            .collect();
        Upload {
            inner,
            group,
            local,
            remotes,
        }
    }

    /// Appends a block; returns once a quorum has it in hand.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too few replicas take it; what the local storage says if it is the only one.
    pub async fn append(&self, content: Bytes) -> Result<BlockRef, Error> {
        if self.remotes.is_empty() {
            return match &self.local {
                Some((_, upload)) => Ok(upload.append(content).await?),
                None => Err(too_few()),
            };
        }
        let (named, taken) = futures_util::join!(self.name(&content), self.spread(&content));
        let (block, local) = named?;
        let mut holders: ReplicaSet = taken;
        if let Some(place) = local {
            holders.insert(place);
        }
        match self.group.quorums.is_quorum(holders) {
            true => Ok(block),
            false => Err(too_few()),
        }
    }

    /// The block's name; and the place of the local replica, if it took the block.
    async fn name(&self, content: &Bytes) -> Result<(BlockRef, Option<usize>), Error> {
        if let Some((place, upload)) = &self.local {
            match upload.append(content.clone()).await {
                Ok(block) => return Ok((block, Some(*place))),
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

    /// Hands a block to the other nodes; gives those who took it.
    async fn spread(&self, content: &Bytes) -> ReplicaSet {
        let mut taking: FuturesUnordered<_> = self
            .remotes
            .iter()
            .filter(|remote| !remote.lost.load(Ordering::SeqCst))
            .map(|remote| async move { (remote, remote.take(content).await) })
            .collect();
        let mut taken = ReplicaSet::EMPTY;
        loop {
            let local = self.local.iter().map(|(place, _)| *place);
            let with_local = taken.union(local.collect());
            let is_quorum = self.group.quorums.is_quorum(with_local);
            let next = tokio::select! {
                biased;
                next = taking.next() => next,
                () = self.patience(taken), if is_quorum => break,
            };
            match next {
                Some((remote, true)) => taken.insert(remote.place),
                Some((remote, false)) => remote.lose("its stream broke"),
                None => return taken,
            }
        }
        drop(taking);
        let slow = self.remotes.iter().filter(|r| !taken.contains(r.place));
        slow.for_each(|remote| remote.lose("it is far behind the others, or does not answer"));
        taken
    }

    /// Ends when those who have not taken a block need not be waited for any longer: each is slow
    /// for long, or silent.
    async fn patience(&self, taken: ReplicaSet) {
        let late = self
            .remotes
            .iter()
            .filter(|r| !taken.contains(r.place) && !r.lost.load(Ordering::SeqCst));
        let silent = futures_util::future::join_all(late.map(|r| self.silence(r.place)));
        let _ = tokio::time::timeout(GRACE, silent).await;
    }

    /// Ends when the replica does not say that it is there.
    async fn silence(&self, place: usize) {
        let (Some(peers), Some(member)) = (&self.inner.peers, self.group.members.get(place)) else {
            return;
        };
        peers.falls_silent(&member.node.node, FIRST_DOUBT).await;
    }

    /// How many of the blocks that came so far were here already.
    pub fn deduplicated(&self) -> usize {
        self.local
            .as_ref()
            .map_or(0, |(_, upload)| upload.deduplicated())
    }

    /// The way to the replica at a place of `group`, if it has the blocks.
    pub(crate) fn route(&self, group: &Group, place: usize) -> Option<Route> {
        let member = group.members.get(place)?;
        let ours = self.group.members.iter().position(|m| m == member)?;
        let way = match &self.local {
            Some((local, upload)) if *local == ours => Way::Local(upload.clone()),
            _ => {
                let remote = self.remotes.iter().find(|r| r.place == ours)?;
                if remote.lost.load(Ordering::SeqCst) {
                    return None;
                }
                Way::Remote(remote.items.clone())
            }
        };
        Some(Route {
            inner: self.inner.clone(),
            group: group.clone(),
            place,
            way,
        })
    }
}

fn too_few() -> Error {
    Error::Unavailable("too few replicas take the content".into())
}

impl Route {
    /// Asks the replica, behind the blocks that were sent to it.
    pub async fn ask(self, call: RowCall) -> Result<Answer<Value>, Error> {
        match &self.way {
            Way::Local(upload) => {
                if call.durability() == Durability::Fsync {
                    upload.sync().await?;
                }
                self.inner.ask(&self.group, self.place, call).await
            }
            Way::Remote(items) => {
                let (sender, answer) = oneshot::channel();
                let item = Item::Call(Box::new(call.clone()), sender);
                if items.send(item).await.is_ok()
                    && let Ok(answer) = answer.await
                {
                    return answer;
                }
                // The stream is gone; the replica fetches what it lacks from the others.
                self.inner.ask(&self.group, self.place, call).await
            }
        }
    }
}

impl Remote {
    fn start(inner: &Arc<Inner>, group: &Group, place: usize) -> Option<Remote> {
        let member = group.members.get(place)?;
        let open = UploadOpen {
            address: group.address(place)?,
        };
        let peers = inner.peers.clone()?;
        if peers.directory.is_suspected(&member.node.node) {
            return None;
        }
        let (items, queue) = mpsc::channel(QUEUE);
        let room = peers.outbound.to(&member.node.node);
        let lost = Arc::new(AtomicBool::new(false));
        let (node, flag) = (member.node.node, lost.clone());
        tokio::spawn(async move {
            let class = Class::Data { remaining: 0 };
            let is_away = || peers.directory.is_suspected(&node);
            let open_stream = || peers.stream(&node, method::UPLOAD, class);
            let served = match again_if_it_fails(is_away, open_stream).await {
                Ok(stream) => feed(stream, open, queue).await,
                Err(error) => Err(error.to_string()),
            };
            if let Err(why) = served {
                flag.store(true, Ordering::SeqCst);
                tracing::debug!(node = %node.short(), why, "an upload to a replica broke off");
            }
        });
        Some(Remote {
            place,
            items,
            room,
            lost,
        })
    }

    /// Queues a block; `false` if the stream is gone. It is a copy: what waits for a node that is
    /// far or away must not keep memory that others wait for.
    async fn take(&self, content: &Bytes) -> bool {
        let Ok(room) = self.room.clone().acquire_owned().await else {
            return false;
        };
        let block = framed(frame::BLOCK, content);
        self.items.send(Item::Block(block, room)).await.is_ok()
    }

    fn lose(&self, why: &str) {
        if !self.lost.swap(true, Ordering::SeqCst) {
            tracing::debug!(place = self.place, why, "a replica is left behind");
        }
    }
}

/// Sends what comes in, until the upload is dropped.
async fn feed(
    mut stream: Stream,
    open: UploadOpen,
    mut queue: mpsc::Receiver<Item>,
) -> Result<(), String> {
    let text = |error: archipel_net::Error| error.to_string();
    stream
        .send
        .send(codec::encode(&open).into())
        .await
        .map_err(text)?;
    while let Some(item) = queue.recv().await {
        match item {
            Item::Block(block, _room) => {
                stream.send.send(block).await.map_err(text)?;
            }
            Item::Call(call, answer) => {
                let call = framed(frame::CALL, &codec::encode(&*call));
                stream.send.send(call).await.map_err(text)?;
                let reply = stream.receive.receive().await.map_err(text)?;
                let reply = reply.ok_or("the replica ended the upload")?;
                let reply: RowReply = codec::decode(&reply).map_err(|e| e.to_string())?;
                let reply = reply.0.map_err(|refusal| Error::Storage(refusal.into()));
                // Nobody waits any more if the operation has its quorum.
                let _ = answer.send(reply);
            }
        }
    }
    stream.send.finish().await.map_err(text)
}

fn framed(kind: u8, content: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + content.len());
    bytes.put_u8(kind);
    bytes.put_slice(content);
    bytes.freeze()
}
