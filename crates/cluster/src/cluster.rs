//! The store as the model sees it: rows that are linearizable registers, blocks, listings, over all
//! nodes of the layout.
//!
//! Everything goes through the coordinator and the replicas of [`register`](crate::register). On one node
//! a message is a transaction of the local store; on several, the others get theirs as calls.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use archipel_base::clock::WallClock;
use archipel_base::hash::{partition_of, placement_hash};
use archipel_base::random::Random;
use archipel_base::stamp::StampClock;
use archipel_base::{Id, NodeId, PartitionId};
use archipel_net::Class;
use archipel_net::rpc::{Rpc, Service};
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{BlockRef, RowKey, Store, Value};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore};

use crate::blocks::BlockStream;
use crate::epochs::{Epochs, Listening};
use crate::error::Error;
use crate::heal::Heal;
use crate::inner::{Inner, QUEUES, Settings};
use crate::layout::{Epoch, Layout, PARTITIONS, StoreName};
use crate::mend::Mend;
use crate::moving::Moving;
use crate::peers::{Directory, Outbound, Peers};
use crate::replica::{AHEAD_MILLIS, Replica};
use crate::service::NodeService;
use crate::throttle::Throttle;
use crate::upload::Upload;
use crate::verify::Verify;
use crate::wire::method;

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

impl Hooks {
    /// Nothing follows from a change of a row, and each that is live holds.
    pub const NONE: Hooks = Hooks {
        on_replace: |_, _, _| None,
        ends: |_, _| None,
        holds: |_, _| true,
    };
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

impl Cluster {
    /// The cluster as this node sees it, from what its store remembers. A node that remembers
    /// no layout serves nothing until it [founds](Cluster::found) a cluster or hears of one.
    pub async fn open(options: ClusterOptions) -> Result<Cluster, Error> {
        catch_up(&options).await?;
        let me = StoreName {
            node: options.node,
            store: options.store.identity(),
        };
        let epochs = Arc::new(Epochs::load(&options.store, me, &*options.random).await?);
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
                    outbound: Outbound::default(),
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
            fetching: (0..QUEUES).map(|_| Mutex::new(())).collect(),
            throttle: Throttle::default(),
            on_notice: OnceLock::new(),
            on_question: OnceLock::new(),
            heal: Heal::default(),
            moving: Moving::default(),
            mend: Mend::default(),
            verify: Verify::default(),
        })))
    }

    /// Founds a cluster of this node alone, unless it is in one.
    pub async fn found(&self, zone: &str, capacity_bytes: u64) -> Result<(), Error> {
        if self.0.epochs.current().is_some() {
            return Ok(());
        }
        let layout = Layout::single(self.0.epochs.me(), zone, capacity_bytes);
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
        self.0.epochs.me()
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

    /// Asks all other nodes: whether one of them says yes. Who is away, or slow, says nothing.
    pub async fn ask_all(&self, question: Bytes) -> bool {
        let answers = self.tell_all(method::QUESTION, question).await;
        answers.iter().any(|answer| answer.iter().any(|b| *b != 0))
    }

    /// What [`Cluster::ask_all`] of other nodes is answered with. Counts once.
    pub fn on_question(&self, answer: impl Fn(&[u8]) -> bool + Send + Sync + 'static) {
        let _ = self.0.on_question.set(Box::new(answer));
    }

    /// Gives the answers that came in time.
    async fn tell_all(&self, method: &'static str, message: Bytes) -> Vec<Bytes> {
        let Some(peers) = &self.0.peers else {
            return Vec::new();
        };
        // Who seems to be away is not dialled for this again and again; it looks for itself when it is back.
        let others = peers.directory.others().into_iter();
        let there = others.filter(|node| !peers.directory.is_suspected(node));
        let told = there.map(|node| {
            let (peers, message) = (peers.clone(), message.clone());
            // In a task of its own: it goes on when nobody waits for it any more.
            let told = tokio::spawn(async move {
                let class = Class::Control;
                peers.call_bytes(&node, method, class, message).await
            });
            // A moment for those who are near; nothing rests on it.
            tokio::time::timeout(Duration::from_secs(1), told)
        });
        let told = futures_util::future::join_all(told.collect::<Vec<_>>()).await;
        told.into_iter().flatten().flatten().flatten().collect()
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

    /// How many replicas of a partition come before this node's, in an order that all nodes agree on and that
    /// differs from partition to partition; 0 if it has none.
    pub fn rank(&self, partition: PartitionId) -> usize {
        let Some(epoch) = self.epoch() else { return 0 };
        let mut stores: Vec<StoreName> = epoch
            .replicas(partition)
            .into_iter()
            .flatten()
            .map(|member| member.node)
            .collect();
        stores.sort_unstable();
        stores.dedup();
        let first = usize::from(partition.0) % stores.len().max(1);
        stores.rotate_left(first);
        let me = self.me();
        stores
            .iter()
            .position(|store| *store == me)
            .unwrap_or_default()
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
        self.store().blocks().pool().is_short()
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
        let how = Transact::new(Durability::Buffered).shrinking();
        Ok(self
            .store()
            .transact(how, move |txn| txn.queue_remove(sequence))
            .await?)
    }
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

#[cfg(test)]
mod tests;
