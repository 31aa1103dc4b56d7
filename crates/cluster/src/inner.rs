//! What the handles of a cluster share, and what this node's own replica answers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use archipel_base::clock::WallClock;
use archipel_base::codec;
use archipel_base::hash::placement_hash;
use archipel_base::random::Random;
use archipel_base::stamp::StampClock;
use archipel_base::{BlockHash, Id, NodeId, PartitionId, Stamp};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::{Body, Pin, RowKey, Store, Value};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use crate::blocks::BlockStream;
use crate::cluster::{Cluster, Listener};
use crate::epochs::Epochs;
use crate::error::Error;
use crate::group::Group;
use crate::heal::Heal;
use crate::layout::Epoch;
use crate::mend::Mend;
use crate::moving::Moving;
use crate::peers::Peers;
use crate::register::{Answer, Request};
use crate::replica::{AHEAD_MILLIS, Offer, Replica};
use crate::throttle::{Kind, Throttle};
use crate::verify::Verify;
use crate::wire::{Address, CounterCall, CounterReply, RowCall, RowReply, method};

/// How long what is written waits for the node to know what time it is, and how often it looks.
const TIME_TIMEOUT: Duration = Duration::from_secs(10);
const TIME_INTERVAL: Duration = Duration::from_millis(20);
/// How many queues there are for updates, and for fetches.
pub(crate) const QUEUES: usize = 1024;

pub(crate) struct Inner {
    pub options: Settings,
    pub replica: Replica,
    pub epochs: Arc<Epochs>,
    pub peers: Option<Peers>,
    pub listener: Option<Arc<dyn Listener>>,
    /// Updates of one row queue here: they would only disturb one another. Nothing rests on it.
    pub queues: Vec<Mutex<()>>,
    pub fetches: Semaphore,
    /// Fetches of the same blocks queue here.
    pub fetching: Vec<Mutex<()>>,
    pub throttle: Throttle,
    pub on_notice: OnceLock<Hear>,
    pub on_question: OnceLock<AnswerQuestion>,
    pub heal: Heal,
    pub moving: Moving,
    pub mend: Mend,
    pub verify: Verify,
}

/// Hears what another node's model tells.
pub(crate) type Hear = Box<dyn Fn(Bytes) -> BoxFuture<'static, ()> + Send + Sync>;

/// Answers what another node's model asks, from memory.
pub(crate) type AnswerQuestion = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The part of the options that stays as it is.
pub(crate) struct Settings {
    pub store: Store,
    pub stamps: StampClock,
    pub wall: Arc<dyn WallClock>,
    pub random: Arc<dyn Random>,
    pub durability: Durability,
}

/// Blocks that were fetched, and stay for as long as this is held.
pub(crate) struct Fetched {
    pub pin: Pin,
    pub upload: storage::Upload,
    /// How many were not here before, and their bytes.
    pub blocks: u64,
    pub bytes: u64,
}

impl Inner {
    pub fn store(&self) -> &Store {
        &self.options.store
    }

    pub fn queue_of(&self, key: &RowKey) -> &Mutex<()> {
        let hash = placement_hash(&[&key.partition.0.to_be_bytes(), &key.key]);
        &self.queues[hash as usize % QUEUES]
    }

    /// Healing and the mover, for one, bring the same row to a node at the same time: who fetches the same blocks queues here.
    fn fetching_of(&self, hash: &BlockHash) -> &Mutex<()> {
        let place = u16::from_be_bytes([hash.0[0], hash.0[1]]);
        &self.fetching[usize::from(place) % QUEUES]
    }

    /// A stamp of this node that was never issued before, above the one shown unless that is so far ahead that
    /// replicas would refuse it: one replica that holds what a wrong clock dated, or that lies, must not keep this node from writing.
    pub fn next_stamp(&self, seen: Stamp) -> Stamp {
        let wall = &*self.options.wall;
        if seen.millis() <= wall.now_millis().saturating_add(AHEAD_MILLIS) {
            self.options.stamps.observe(seen);
        }
        self.options.stamps.next(wall)
    }

    /// Waits until this node may date what it writes.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it does not come to know what time it is.
    pub async fn wait_for_time(&self) -> Result<(), Error> {
        let known = async {
            while !self.options.wall.is_known() {
                tokio::time::sleep(TIME_INTERVAL).await;
            }
        };
        let waited = tokio::time::timeout(TIME_TIMEOUT, known).await;
        waited.map_err(|_| {
            Error::Unavailable("no other node has borne out this node's clock yet".into())
        })
    }

    /// The replicas of a partition, nearest first.
    pub fn group(&self, partition: PartitionId) -> Result<Group, Error> {
        Group::now(&self.epochs, self.peers.as_ref(), partition)
    }

    /// About how long a quorum's answer takes.
    pub fn round_trip(&self, group: &Group) -> Duration {
        let Some(peers) = &self.peers else {
            return Duration::ZERO;
        };
        let nearest = group.members.iter().filter(|m| m.node != self.epochs.me());
        let near = nearest.map(|m| peers.distance(&m.node.node).1).min();
        near.unwrap_or_default()
    }

    /// Asks the replica at a place of the group.
    pub async fn ask(
        self: &Arc<Inner>,
        group: &Group,
        place: usize,
        call: RowCall,
    ) -> Result<Answer<Value>, Error> {
        if group.is_local(place) {
            return Ok(self.answer(call).await?);
        }
        let unknown = || Error::Unavailable("the replica is not known".into());
        let member = group.members.get(place).ok_or_else(unknown)?;
        let peers = self.peers.as_ref().ok_or_else(unknown)?;
        let node = &member.node.node;
        let reply: RowReply = peers.call(node, method::ROW, Class::Small, &call).await?;
        Ok(reply.0.map_err(storage::Error::from)?)
    }

    /// Answers for the local replica. It says that a guard is gone only after asking the others: it
    /// may have been away when the guard was written, or be new in the partition.
    ///
    /// # Errors
    /// [`storage::Error::Busy`] if the others cannot be asked; what storage says.
    pub async fn answer(self: &Arc<Inner>, call: RowCall) -> Result<Answer<Value>, storage::Error> {
        match self.answer_whole(call.clone()).await? {
            Answer::Guarded if self.peers.is_some() => {
                self.catch_up(&call).await?;
                // Also if nothing was behind: the guard may have come just before that was looked at.
                self.answer_whole(call).await
            }
            answer => Ok(answer),
        }
    }

    /// Brings the guards of a request up to date.
    async fn catch_up(self: &Arc<Inner>, call: &RowCall) -> Result<(), storage::Error> {
        for guard in call.guard_keys() {
            let brought = self.bring(call.address, &guard, call.background).await;
            brought.map_err(|error| {
                storage::Error::Busy(format!("what guards a row cannot be read: {error}"))
            })?;
        }
        Ok(())
    }

    /// Brings a row of the local replica up to date; tells whether it was behind. `background`: nobody waits for it.
    pub async fn bring(
        self: &Arc<Inner>,
        address: Address,
        key: &RowKey,
        background: bool,
    ) -> Result<bool, Error> {
        let wanted = key.clone();
        let before = self.store().look_up(move |rows| rows.head(&wanted)).await?;
        let cluster = Cluster(self.clone());
        let version = cluster.read_whole(key, background).await?;
        if before.is_some_and(|head| head.stamp >= version.stamp) {
            return Ok(false);
        }
        // The read may have brought it already.
        let body = version.value.as_ref().map(|value| value.body.clone());
        let take = |version| {
            let offer = Offer::settled(version);
            self.replica.take(address, key.clone(), offer)
        };
        if let (Err(storage::Error::NoBlock(_)), Some(body)) = (take(version.clone()).await, body) {
            let _held = self.fetch_missing(key.partition, &body).await?;
            take(version).await?;
        }
        Ok(true)
    }

    /// Answers for the local replica. Blocks that the row refers to and that are not here are
    /// fetched from the others first: what is acknowledged is whole.
    async fn answer_whole(
        self: &Arc<Inner>,
        call: RowCall,
    ) -> Result<Answer<Value>, storage::Error> {
        let blocks = match &call.request {
            Request::Write { version, .. } => version.value.as_ref().map(|v| v.body.clone()),
            Request::Read { .. } | Request::Prepare { .. } => None,
        };
        let began = Instant::now();
        let answer = self.replica.answer(call.clone()).await;
        if answer.is_ok() && !call.background {
            self.throttle
                .answered(Kind::of(&call.request), began.elapsed());
        }
        if let Err(storage::Error::Damaged(_)) = &answer {
            self.mend_row_soon(&call.row_key());
        }
        match (answer, blocks) {
            (Err(storage::Error::NoBlock(_)), Some(body)) if self.peers.is_some() => {
                let _held = self.fetch_missing(call.address.partition, &body).await?;
                self.replica.answer(call).await
            }
            (answer, _) => answer,
        }
    }

    async fn fetch_missing(
        self: &Arc<Inner>,
        partition: PartitionId,
        body: &Body,
    ) -> Result<(Pin, storage::Upload), storage::Error> {
        let busy = |why: String| storage::Error::Busy(why);
        let _turn = self
            .fetches
            .acquire()
            .await
            .map_err(|e| busy(e.to_string()))?;
        let held = self.fetch_with(partition, body, None).await?;
        Ok((held.pin, held.upload))
    }

    /// Fetches the blocks of a body that are not here; they are durable then. `class` is how urgent it is, if not as
    /// what somebody waits for.
    pub async fn fetch_with(
        self: &Arc<Inner>,
        partition: PartitionId,
        body: &Body,
        class: Option<Class>,
    ) -> Result<Fetched, storage::Error> {
        let pin = self.store().pin(body.blocks());
        let mut missing = self.store().missing_blocks(body.blocks().to_vec()).await?;
        let _turn = match missing.first() {
            None => None,
            Some(first) => {
                let turn = self.fetching_of(&first.hash).lock().await;
                // Whoever had the turn before may have brought them.
                missing = self.store().missing_blocks(missing).await?;
                Some(turn)
            }
        };
        let mut fetched = Fetched {
            pin,
            upload: self.store().upload(),
            blocks: 0,
            bytes: 0,
        };
        let blocks = BlockStream::new(self.clone(), partition, missing, false);
        let mut blocks = blocks.in_class(class);
        while let Some(content) = blocks.next().await {
            let content = content.map_err(|error| storage::Error::Busy(error.to_string()))?;
            fetched.blocks += 1;
            fetched.bytes += content.len() as u64;
            fetched.upload.append(content).await?;
        }
        fetched.upload.sync().await?;
        Ok(fetched)
    }

    /// Whether the row is still what was read: asked of the local replica if there is one, whose
    /// references are what a pin rests on.
    pub async fn still_holds(self: &Arc<Inner>, key: &RowKey, stamp: Stamp) -> Result<bool, Error> {
        if self.group(key.partition)?.local().is_none() {
            return Ok(true);
        }
        let key = key.clone();
        let head = self.store().look_up(move |rows| rows.head(&key)).await?;
        Ok(head.is_none_or(|head| head.stamp <= stamp))
    }

    /// Learns the epoch that another node knows, if it is newer.
    pub async fn learn_from(&self, node: &NodeId) -> Result<(), Error> {
        let alone = || Error::Unavailable("this node is alone".into());
        let peers = self.peers.as_ref().ok_or_else(alone)?;
        let class = Class::Control;
        let bytes = peers
            .call_bytes(node, method::EPOCH, class, Bytes::new())
            .await?;
        let epoch = Epoch::decode(&bytes).map_err(|error: codec::DecodeError| {
            Error::Unavailable(format!("the layout that {} tells: {error}", node.short()))
        })?;
        self.epochs.learn(self.store(), epoch).await
    }

    pub async fn remote_counter(
        &self,
        group: &Group,
        place: usize,
        counter: Id,
    ) -> Result<(u64, u64), Error> {
        let unknown = || Error::Unavailable("the replica is not known".into());
        let member = group.members.get(place).ok_or_else(unknown)?;
        let peers = self.peers.as_ref().ok_or_else(unknown)?;
        let call = CounterCall {
            partition: group.partition,
            group: counter,
        };
        let node = &member.node.node;
        let CounterReply(objects, bytes) = peers
            .call(node, method::COUNTER, Class::Small, &call)
            .await?;
        Ok((objects, bytes))
    }

    pub async fn gossip(&self, from: NodeId, message: Bytes) -> Result<Bytes, String> {
        match &self.listener {
            Some(listener) => listener.gossip(from, message).await,
            None => Err("no membership here".into()),
        }
    }

    pub async fn hear_notice(&self, notice: Bytes) {
        if let Some(hear) = self.on_notice.get() {
            hear(notice).await;
        }
    }

    pub fn answer_question(&self, question: &[u8]) -> bool {
        let answer = self.on_question.get();
        answer.is_some_and(|answer| answer(question))
    }
}

#[cfg(test)]
mod tests;
