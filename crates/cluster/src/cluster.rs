//! The store as the model sees it: rows that are linearizable registers, blocks, listings, over all
//! nodes of the layout.
//!
//! Everything goes through the coordinator and the replicas of [`register`](crate::register). On one node
//! a message is a transaction of the local store; on several, the others get theirs as calls.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use archipel_base::clock::WallClock;
use archipel_base::codec;
use archipel_base::hash::{partition_of, placement_hash};
use archipel_base::random::Random;
use archipel_base::stamp::StampClock;
use archipel_base::{Id, NodeId, PartitionId, Stamp};
use archipel_net::Class;
use archipel_net::rpc::{Rpc, Service};
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::{BlockRef, Body, Pin, RowKey, Store, Value};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore};

use crate::blocks::{BlockStream, Prefetch};
use crate::change::Moving;
use crate::drive::Run;
use crate::epochs::{Epochs, Listening};
use crate::error::Error;
use crate::group::Group;
use crate::layout::{Epoch, Layout, PARTITIONS, StoreName};
use crate::peers::{Directory, Peers};
use crate::register::coordinator::Start;
use crate::register::{self, Answer, Operation, Outcome, Request, Rules, Version};
use crate::replica::{AHEAD_MILLIS, Replica};
use crate::service::NodeService;
use crate::upload::Upload;
use crate::wire::{CounterCall, CounterReply, RowCall, RowReply, method};

/// How many queues there are for updates.
const QUEUES: usize = 1024;
/// How many rows at once fetch blocks that they lack from other nodes.
const FETCHES: usize = 8;

/// What the model adds to the rules of rows.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Tells what the model must look after when a row is replaced: called in the transaction of
    /// the change; what it gives is put into the durable work queue.
    pub on_replace: fn(&RowKey, &Value, Option<&Value>) -> Option<Bytes>,
    /// Tells which row of the same partition ends (is a tombstone) from the moment in which this
    /// value is held: such a row must never be written again.
    pub ends: fn(&RowKey, &Value) -> Option<RowKey>,
    /// Tells whether a live row with this head holds what it guards.
    pub holds: fn(&RowKey, &[u8]) -> bool,
}

/// Who answers what concerns the membership.
#[async_trait]
pub trait Listener: Send + Sync + 'static {
    /// Answers what another node's membership says.
    async fn gossip(&self, from: NodeId, message: Bytes) -> Result<Bytes, String>;
}

/// What a cluster is made of.
pub struct ClusterOptions {
    /// The local store.
    pub store: Store,
    /// This node.
    pub node: NodeId,
    /// Issues stamps for this boot of this node.
    pub stamps: StampClock,
    /// The time of day.
    pub wall: Arc<dyn WallClock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// What buckets without a setting of their own get.
    pub durability: Durability,
    /// See [`Hooks`].
    pub hooks: Hooks,
    /// The way to other nodes; `None` for a node that stays alone.
    pub network: Option<Network>,
}

/// The way to other nodes.
pub struct Network {
    /// Calls.
    pub rpc: Rpc,
    /// Where nodes are.
    pub directory: Arc<dyn Directory>,
    /// Who answers what concerns the membership.
    pub listener: Arc<dyn Listener>,
}

/// Rows, blocks and listings as the model sees them. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub options: Settings,
    pub replica: Replica,
    pub epochs: Arc<Epochs>,
    pub peers: Option<Peers>,
    listener: Option<Arc<dyn Listener>>,
    /// Updates of one row queue here: they would only disturb one another. Nothing rests on it.
    queues: Vec<Mutex<()>>,
    fetches: Semaphore,
    on_notice: OnceLock<Hear>,
    pub moving: Moving,
}

/// Hears what another node's model tells.
type Hear = Box<dyn Fn(Bytes) -> BoxFuture<'static, ()> + Send + Sync>;

/// The part of the options that stays as it is.
pub(crate) struct Settings {
    pub store: Store,
    pub stamps: StampClock,
    pub wall: Arc<dyn WallClock>,
    pub random: Arc<dyn Random>,
    pub durability: Durability,
}

/// What an update decides when it sees the current value.
pub enum Decision<E> {
    /// Write this; `None` deletes.
    Write(Option<Value>),
    /// Leave the row as it is, and say why.
    Abort(E),
}

/// What a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It was never written.
    Absent,
    /// It was deleted.
    Tombstone,
    /// It has a value.
    Live,
}

/// A row that was opened.
pub struct Opened {
    /// Its value.
    pub value: Value,
    /// Keeps those of its blocks readable that are here.
    pub pin: Pin,
    /// Its blocks, from the first on, if they are on their way already.
    pub following: Option<BlockStream>,
}

/// How a row is written.
#[derive(Clone)]
pub struct How<'a> {
    /// How durable it is before it is acknowledged.
    pub durability: Durability,
    /// Only while these rows of the same partition [hold](Hooks::holds).
    pub guards: Vec<RowKey>,
    /// Brings the blocks that the value refers to.
    pub upload: Option<&'a Upload>,
}

impl How<'_> {
    /// So durable, on no condition, without blocks.
    pub fn durable(durability: Durability) -> How<'static> {
        How {
            durability,
            guards: Vec::new(),
            upload: None,
        }
    }
}

impl Cluster {
    /// The cluster as this node sees it, from what its store remembers. A node that remembers
    /// no layout serves nothing until it [founds](Cluster::found) a cluster or hears of one.
    pub async fn open(options: ClusterOptions) -> Result<Cluster, Error> {
        catch_up(&options).await?;
        let me = StoreName {
            node: options.node,
            store: options.store.identity(),
        };
        let epochs = Arc::new(Epochs::load(&options.store, me).await?);
        let replica = Replica::new(
            options.store.clone(),
            options.wall.clone(),
            options.hooks,
            epochs.clone(),
        );
        let (peers, listener) = match options.network {
            None => (None, None),
            Some(network) => {
                let peers = Peers {
                    rpc: network.rpc,
                    directory: network.directory,
                };
                (Some(peers), Some(network.listener))
            }
        };
        Ok(Cluster(Arc::new(Inner {
            options: Settings {
                store: options.store,
                stamps: options.stamps,
                wall: options.wall,
                random: options.random,
                durability: options.durability,
            },
            replica,
            epochs,
            peers,
            listener,
            queues: (0..QUEUES).map(|_| Mutex::new(())).collect(),
            fetches: Semaphore::new(FETCHES),
            on_notice: OnceLock::new(),
            moving: Moving::default(),
        })))
    }

    /// Founds a cluster of this node alone, unless it is in one.
    pub async fn found(&self, zone: &str, capacity_bytes: u64) -> Result<(), Error> {
        if self.0.epochs.current().is_some() {
            return Ok(());
        }
        let layout = Layout::single(self.0.epochs.me, zone, capacity_bytes);
        let epoch = Epoch::first(self.random_id(), layout);
        self.0.epochs.learn(self.store(), epoch).await
    }

    /// Learns an epoch, durably, if it is newer than the one that this node knows.
    pub async fn learn(&self, epoch: Epoch) -> Result<(), Error> {
        self.0.epochs.learn(self.store(), epoch).await
    }

    /// What answers other nodes: to be given to [`Rpc::serve`](archipel_net::rpc::Rpc).
    pub fn service(&self) -> Arc<dyn Service> {
        Arc::new(NodeService(Arc::downgrade(&self.0)))
    }

    /// The epoch that this node knows, and how to hear of newer ones.
    pub fn epoch(&self) -> Option<Arc<Epoch>> {
        self.0.epochs.current()
    }

    /// Tells when a newer epoch is known, by its number.
    pub fn epoch_changes(&self) -> Listening {
        self.0.epochs.changed()
    }

    /// This node and its store.
    pub fn me(&self) -> StoreName {
        self.0.epochs.me
    }

    /// Learns the epoch that another node knows, if it is newer.
    pub async fn learn_from(&self, node: &NodeId) -> Result<(), Error> {
        self.0.learn_from(node).await
    }

    /// Tells all other nodes something that concerns the model. Whoever is away misses it.
    pub async fn notify(&self, notice: Bytes) {
        self.tell_all(method::NOTICE, notice).await;
    }

    /// Tells all other nodes which epoch is known here, so that they ask for it.
    pub(crate) async fn tell_epoch(&self) {
        let number = self.0.epochs.number().to_be_bytes();
        self.tell_all(method::EPOCH, number.to_vec().into()).await;
    }

    async fn tell_all(&self, method: &'static str, message: Bytes) {
        let Some(peers) = &self.0.peers else {
            return;
        };
        let told = peers.directory.others().into_iter().map(|node| {
            let (peers, message) = (peers.clone(), message.clone());
            async move {
                let class = Class::Control;
                let _ = peers.call_bytes(&node, method, class, message).await;
            }
        });
        let told: Vec<_> = told.map(tokio::spawn).collect();
        // A moment for those who are near; nothing rests on it.
        let all = futures_util::future::join_all(told);
        let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
    }

    /// Who hears what other nodes' models [tell](Cluster::notify). Counts once.
    pub fn on_notice(
        &self,
        hear: impl Fn(Bytes) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        let _ = self.0.on_notice.set(Box::new(hear));
    }

    /// Whether there is no way to other nodes.
    pub fn is_alone(&self) -> bool {
        self.0.peers.is_none()
    }

    /// The local store, for status and metrics.
    pub fn store(&self) -> &Store {
        &self.0.options.store
    }

    /// What buckets without a setting of their own get.
    pub fn default_durability(&self) -> Durability {
        self.0.options.durability
    }

    /// The partition of a sequence of fields.
    pub fn partition(&self, fields: &[&[u8]]) -> PartitionId {
        partition_of(placement_hash(fields), PARTITIONS)
    }

    /// A fresh name.
    pub fn random_id(&self) -> Id {
        Id::random(&*self.0.options.random)
    }

    /// Random bytes, fit for secrets.
    pub fn fill_random(&self, bytes: &mut [u8]) {
        self.0.options.random.fill(bytes);
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.0.options.wall.now_millis()
    }

    /// The head of a row's value.
    pub async fn head(&self, key: &RowKey) -> Result<Option<Bytes>, Error> {
        let version = self.read_version(key, false).await?;
        Ok(version.value.map(|value| value.head))
    }

    /// A row's value.
    pub async fn read(&self, key: &RowKey) -> Result<Option<Value>, Error> {
        Ok(self.read_version(key, true).await?.value)
    }

    /// What a row is.
    pub async fn state(&self, key: &RowKey) -> Result<State, Error> {
        let version = self.read_version(key, false).await?;
        Ok(match (version.value, version.stamp) {
            (Some(_), _) => State::Live,
            (None, Stamp::ZERO) => State::Absent,
            (None, _) => State::Tombstone,
        })
    }

    /// Opens a row: its value, and what keeps the blocks of its body readable. Where no replica is here, the
    /// blocks follow the row at once.
    pub async fn open_row(&self, key: &RowKey) -> Result<Option<Opened>, Error> {
        loop {
            let prefetch = Arc::new(Prefetch::default());
            let before = self.read_with(key, true, Some(&prefetch)).await?;
            let Some(value) = before.value else {
                return Ok(None);
            };
            let blocks = value.body.blocks();
            let pin = self.store().pin(blocks);
            let receive = prefetch.take(before.stamp).filter(|_| !blocks.is_empty());
            let following = receive.map(|receive| {
                let (inner, blocks) = (self.0.clone(), blocks.to_vec());
                BlockStream::begun(inner, key.partition, blocks, receive)
            });
            // What was pinned before the row still referred to it stays; otherwise look again.
            if blocks.is_empty() || self.0.still_holds(key, before.stamp).await? {
                return Ok(Some(Opened {
                    value,
                    pin,
                    following,
                }));
            }
        }
    }

    async fn read_version(&self, key: &RowKey, with_body: bool) -> Result<Version<Value>, Error> {
        self.read_with(key, with_body, None).await
    }

    async fn read_with(
        &self,
        key: &RowKey,
        with_body: bool,
        prefetch: Option<&Arc<Prefetch>>,
    ) -> Result<Version<Value>, Error> {
        let how = How::durable(Durability::Fsync);
        let mut run = self.run(key, &how)?;
        run.with_body = with_body;
        run.prefetch = prefetch;
        let mut never = |_: &Version<Value>| register::Decision::Keep;
        loop {
            let (operation, outputs) = Operation::read(start(&run.group));
            match run.drive(operation, outputs, &mut never).await? {
                Outcome::Value(version) => return Ok(version),
                Outcome::Unavailable if run.needs_body => {
                    (run.with_body, run.needs_body) = (true, false);
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    fn run<'a>(&'a self, key: &'a RowKey, how: &'a How<'a>) -> Result<Run<'a>, Error> {
        Ok(Run {
            inner: &self.0,
            key,
            guards: &how.guards,
            durability: how.durability,
            with_body: true,
            needs_body: false,
            upload: how.upload,
            prefetch: None,
            group: self.0.group(key.partition)?,
        })
    }

    /// Writes a row (`None` deletes it) whatever it holds; gives the stamp.
    ///
    /// # Errors
    /// [`Error::Guarded`], [`Error::Unavailable`].
    pub async fn write(
        &self,
        key: &RowKey,
        value: Option<Value>,
        how: How<'_>,
    ) -> Result<Stamp, Error> {
        let id = self.random_id();
        let mut run = self.run(key, &how)?;
        let (operation, outputs) = Operation::write(
            start(&run.group),
            id,
            value,
            !how.guards.is_empty(),
            &mut |seen| self.0.next_stamp(seen),
        );
        let mut never = |_: &Version<Value>| register::Decision::Keep;
        match run.drive(operation, outputs, &mut never).await? {
            Outcome::Written { stamp } => Ok(stamp),
            Outcome::Guarded => Err(Error::Guarded),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads, decides and writes in one atomic act.
    ///
    /// `decide` may be asked more than once; the last answer counts.
    ///
    /// # Errors
    /// Outside: [`Error::Guarded`], [`Error::Unavailable`]. Inside: what `decide` aborted with.
    pub async fn update<E>(
        &self,
        key: &RowKey,
        how: How<'_>,
        decide: impl Fn(Option<&Value>) -> Decision<E> + Send + Sync,
    ) -> Result<Result<(), E>, Error>
    where
        E: Send,
    {
        let id = self.random_id();
        let _turn = self.0.queue_of(key).lock().await;
        let mut run = self.run(key, &how)?;
        let guarded = !how.guards.is_empty();
        let (operation, outputs) = Operation::update(start(&run.group), id, guarded, &mut |seen| {
            self.0.next_stamp(seen)
        });
        let mut aborted = None;
        let mut adapter = |version: &Version<Value>| match decide(version.value.as_ref()) {
            Decision::Write(value) => {
                aborted = None;
                register::Decision::Write(value)
            }
            Decision::Abort(error) => {
                aborted = Some(error);
                register::Decision::Keep
            }
        };
        let outcome = run.drive(operation, outputs, &mut adapter).await?;
        match (outcome, aborted) {
            (Outcome::Written { .. }, _) => Ok(Ok(())),
            (Outcome::Kept(_), Some(error)) => Ok(Err(error)),
            (Outcome::Guarded, _) => Err(Error::Guarded),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// A row's value, after making sure that no write of before can surface any more: what a
    /// minority may still hold of an operation that nobody finished is overwritten.
    ///
    /// To be asked before content is dropped because its owner does not refer to it.
    pub async fn settle(&self, key: &RowKey) -> Result<Option<Value>, Error> {
        let seen = std::sync::Mutex::new(None);
        let lock = || {
            seen.lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        let how = How::durable(Durability::Fsync);
        let written = self.update::<std::convert::Infallible>(key, how, |current| {
            *lock() = current.cloned();
            Decision::Write(current.cloned())
        });
        match written.await? {
            Ok(()) => Ok(lock().take()),
            Err(never) => match never {},
        }
    }

    /// Begins to write blocks for rows of a partition.
    pub fn upload(&self, partition: PartitionId) -> Result<Upload, Error> {
        Ok(Upload::new(self.0.clone(), self.0.group(partition)?))
    }

    /// Blocks of a row of `partition`, one after another.
    pub fn read_blocks(&self, partition: PartitionId, blocks: Vec<BlockRef>) -> BlockStream {
        let local = self.0.group(partition);
        let try_local = local.is_ok_and(|group| group.local().is_some());
        BlockStream::new(self.0.clone(), partition, blocks, try_local)
    }

    /// Whether more than half of the memory for block buffers is in use.
    pub fn is_short_of_buffers(&self) -> bool {
        let pool = self.store().blocks().pool();
        let free = pool.free_buffer_bytes().unwrap_or(usize::MAX);
        free < pool.buffer_bytes() / 2
    }

    /// A counter: objects, bytes. As the nearest replica counts.
    pub async fn counter(&self, partition: PartitionId, group: Id) -> Result<(u64, u64), Error> {
        let replicas = self.0.group(partition)?;
        let mut why = Error::Unavailable("no replica answers".into());
        for place in replicas.quorums.all().iter() {
            let counted = match replicas.is_local(place) {
                true => {
                    let read = self
                        .store()
                        .read(move |rows| rows.counter(partition, group));
                    read.await.map_err(Error::from)
                }
                false => self.0.remote_counter(&replicas, place, group).await,
            };
            match counted {
                Ok(counted) => return Ok(counted),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Appends to this node's durable work queue.
    pub async fn queue_push(&self, work: Bytes, durability: Durability) -> Result<u64, Error> {
        Ok(self
            .store()
            .transact(durability, move |txn| txn.queue_push(&work))
            .await?)
    }

    /// Entries of the work queue behind the number `after`, at most `limit`.
    pub async fn queue_read(&self, after: u64, limit: usize) -> Result<Vec<(u64, Bytes)>, Error> {
        Ok(self
            .store()
            .read(move |rows| rows.queue(after, limit))
            .await?)
    }

    /// Removes an entry of the work queue.
    pub async fn queue_remove(&self, sequence: u64) -> Result<(), Error> {
        Ok(self
            .store()
            .transact(Durability::Buffered, move |txn| txn.queue_remove(sequence))
            .await?)
    }
}

fn start(group: &Group) -> Start {
    Start {
        rules: Rules::CORRECT,
        quorums: group.quorums.clone(),
    }
}

fn unexpected(outcome: &Outcome<Value>) -> Error {
    Error::Unavailable(match outcome {
        Outcome::Unknown => "it is not known whether the write took effect".into(),
        _ => "too few replicas answer, or too much contention".into(),
    })
}

/// Moves the stamp clock past what the store holds: the time may have been set back. Not if it
/// was set back so far that replicas would refuse all stamps as coming from the future.
async fn catch_up(options: &ClusterOptions) -> Result<(), Error> {
    let Some(highest) = options.store.highest_stamp().await? else {
        return Ok(());
    };
    let now = options.wall.now_millis();
    if highest.millis() > now {
        let behind_ms = highest.millis() - now;
        tracing::warn!(
            behind_ms,
            "the clock is behind what was written here: check it"
        );
        if behind_ms > AHEAD_MILLIS {
            return Ok(());
        }
    }
    options.stamps.observe(highest);
    Ok(())
}

impl Inner {
    pub fn store(&self) -> &Store {
        &self.options.store
    }

    fn queue_of(&self, key: &RowKey) -> &Mutex<()> {
        let hash = placement_hash(&[&key.partition.0.to_be_bytes(), &key.key]);
        &self.queues[hash as usize % QUEUES]
    }

    /// A stamp of this node that was never issued before, above the one shown.
    pub fn next_stamp(&self, seen: Stamp) -> Stamp {
        self.options.stamps.observe(seen);
        self.options.stamps.next(&*self.options.wall)
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
        let nearest = group.members.iter().filter(|m| m.node != self.epochs.me);
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

    /// Answers for the local replica. Blocks that the row refers to and that are not here are
    /// fetched from the others first: what is acknowledged is whole.
    pub async fn answer(self: &Arc<Inner>, call: RowCall) -> Result<Answer<Value>, storage::Error> {
        let blocks = match &call.request {
            Request::Write { version, .. } => version.value.as_ref().map(|v| v.body.clone()),
            Request::Read { .. } | Request::Prepare { .. } => None,
        };
        match (self.replica.answer(call.clone()).await, blocks) {
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
        let pin = self.store().pin(body.blocks());
        let missing = self.store().missing_blocks(body.blocks().to_vec()).await?;
        let upload = self.store().upload();
        let mut blocks = BlockStream::new(self.clone(), partition, missing, false);
        while let Some(content) = blocks.next().await {
            let content = content.map_err(|error| busy(error.to_string()))?;
            upload.append(content).await?;
        }
        upload.sync().await?;
        Ok((pin, upload))
    }

    /// Whether the row is still what was read: asked of the local replica if there is one, whose
    /// references are what a pin rests on.
    async fn still_holds(self: &Arc<Inner>, key: &RowKey, stamp: Stamp) -> Result<bool, Error> {
        if self.group(key.partition)?.local().is_none() {
            return Ok(true);
        }
        let key = key.clone();
        let head = self.store().read(move |rows| rows.head(&key)).await?;
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

    async fn remote_counter(
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

    pub async fn on_notice(&self, notice: Bytes) {
        if let Some(hear) = self.on_notice.get() {
            hear(notice).await;
        }
    }
}

#[cfg(test)]
mod tests;
