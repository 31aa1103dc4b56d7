//! This node: its store, its clock, the layouts that it knows, its replica of every row, and the
//! connections to other nodes. Everything else in the crate builds on it. It knows nothing of the
//! layers above, and reports to them through [`Events`].
//!
//! | module | what it holds |
//! |---|---|
//! | `options`, `sizes`, `times` | the parts of a node; sizes of pages and messages; waiting times |
//! | `replica` | answers the register's requests from the store |
//! | `companions` | rows that writes bring with them |
//! | `feed` | the changes that the replica has accepted, for those who watch rows |
//! | `epochs` | the newest known epoch: durable, never going back |
//! | `learning` | learns epochs from other nodes; which of them are believed; what they tell of a cluster |
//! | `group` | the replicas of one partition, as one operation sees them |
//! | `peers`, `talk` | the other nodes: addresses, distances, calls; messages to all of them |
//! | `wire` | the messages about rows and blocks |
//! | `clock` | the time that the nodes have in common |
//! | `floors`, `tombstones` | a replica's floors; its tombstone statistics |
//! | `purge` | dropping rows of partitions that are not this store's |
//! | `history`, `history_record`, `own_history` | the run history, for rollback detection |
//! | `throttle` | limits background work while clients are served |
//! | `detach` | futures that continue without their callers |

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use archipel_base::hash::{partition_of, placement_hash};
use archipel_base::{BlockHash, Id, PartitionId, Stamp, Writer, boxed};
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Store};

pub(crate) mod clock;
pub(crate) mod companions;
pub(crate) mod detach;
pub(crate) mod epochs;
pub(crate) mod feed;
pub(crate) mod floors;
pub(crate) mod group;
pub(crate) mod history;
pub(crate) mod history_record;
mod learning;
pub(crate) mod options;
pub(crate) mod own_history;
pub(crate) mod peers;
pub(crate) mod purge;
pub(crate) mod replica;
pub(crate) mod sizes;
mod talk;
pub(crate) mod throttle;
pub(crate) mod times;
pub(crate) mod tombstones;
pub(crate) mod wire;

use crate::error::Error;
use crate::layout::{Epoch, Layout, PARTITIONS, StoreName};
use epochs::{Epochs, Listening};
use group::Group;
use options::{ClusterOptions, Listener, Settings};
use peers::{Outbound, Peers};
use replica::{AHEAD_MILLIS, Replica};
use talk::{AnswerCheck, Hear};
use throttle::Throttle;

/// The time for which a write waits until the node knows the time, and the pause between two looks.
const TIME_TIMEOUT: Duration = Duration::from_secs(10);
const TIME_INTERVAL: Duration = Duration::from_millis(20);

/// This node.
pub struct Node {
    pub(crate) options: Settings,
    pub(crate) replica: Replica,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) peers: Option<Peers>,
    listener: Option<Arc<dyn Listener>>,
    pub(crate) throttle: Throttle,
    on_notice: OnceLock<Hear>,
    on_in_use_check: OnceLock<AnswerCheck>,
    events: OnceLock<Weak<dyn Events>>,
}

/// A listener that hears what requests meet, and repairs it in the background.
pub(crate) trait Events: Send + Sync {
    /// Notes that a read of a block of `partition` failed.
    fn block_read_failed(&self, hash: BlockHash, partition: PartitionId, error: &storage::Error);
    /// Notes that a row is damaged on this node.
    fn row_is_damaged(&self, key: &RowKey);
    /// Notes that the replica with this index in the group missed a write.
    fn write_was_missed(&self, group: &Group, index: usize);
}

impl Node {
    /// Opens a node from what its store remembers.
    pub(crate) async fn open(options: ClusterOptions) -> Result<Node, Error> {
        catch_up(&options).await?;
        let me = StoreName {
            node: options.node,
            store: options.store.identity(),
        };
        let epochs = Arc::new(Epochs::load(&options, me).await?);
        let replica = Replica::new(
            options.store.clone(),
            options.wall.clone(),
            options.hooks,
            epochs.clone(),
            Id::random(&*options.random),
            options.sizes.remembered_rows,
        );
        let (peers, listener) = match options.network {
            None => (None, None),
            Some(network) => {
                let peers = Peers {
                    times: options.times,
                    rpc: network.rpc,
                    directory: network.directory,
                    outbound: Outbound::default(),
                };
                (Some(peers), Some(network.listener))
            }
        };
        Ok(Node {
            options: Settings {
                store: options.store,
                stamps: options.stamps,
                wall: options.wall,
                random: options.random,
                durability: options.durability,
                sizes: options.sizes,
                times: options.times,
            },
            replica,
            epochs,
            peers,
            listener,
            throttle: Throttle::default(),
            on_notice: OnceLock::new(),
            on_in_use_check: OnceLock::new(),
            events: OnceLock::new(),
        })
    }

    /// Sets the listener of events. Only the first call has an effect.
    pub(crate) fn listen(&self, events: Weak<dyn Events>) {
        let _ = self.events.set(events);
    }

    /// Reports an event to the listener, if there is one.
    pub(crate) fn tell(&self, event: impl FnOnce(&dyn Events)) {
        if let Some(events) = self.events.get().and_then(Weak::upgrade) {
            event(&*events);
        }
    }

    /// Returns an error if the cluster has a feature level that this node does not speak. The node
    /// serves nothing then.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with both levels and what to do.
    pub fn check_level(&self) -> Result<(), Error> {
        self.epochs.check_level()
    }

    /// Returns the highest feature level that this node speaks.
    pub fn level(&self) -> u32 {
        self.epochs.level()
    }

    /// Founds a cluster of this node alone, unless the node is in a cluster.
    #[boxed]
    pub async fn found(&self, zone: &str, capacity_bytes: u64) -> Result<(), Error> {
        if self.epochs.current().is_some() {
            return Ok(());
        }
        let layout = Layout::single(self.epochs.me(), zone, capacity_bytes);
        let epoch = Epoch {
            level: self.level(),
            ..Epoch::first(self.random_id(), layout)
        };
        self.epochs.found(self.store(), epoch).await
    }

    /// Returns true if this node founded its cluster and has not [ended](Node::end_founding) that.
    #[boxed]
    pub async fn is_founding(&self) -> Result<bool, Error> {
        epochs::is_founding(self.store()).await
    }

    /// Notes durably that nothing is left to do for the founding of the cluster.
    #[boxed]
    pub async fn end_founding(&self) -> Result<(), Error> {
        epochs::end_founding(self.store()).await
    }

    /// Returns the newest epoch that this node knows.
    pub fn epoch(&self) -> Option<Arc<Epoch>> {
        self.epochs.current()
    }

    /// Returns a listener that reports newer epochs by number.
    pub fn epoch_changes(&self) -> Listening {
        self.epochs.changed()
    }

    /// Returns this node and its store.
    pub fn me(&self) -> StoreName {
        self.epochs.me()
    }

    /// Returns the connections to other nodes.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if this node has none.
    pub(crate) fn peers(&self) -> Result<&Peers, Error> {
        let alone = || Error::Unavailable("this node has no connections to other nodes".into());
        self.peers.as_ref().ok_or_else(alone)
    }

    /// Returns true if this node has no connections to other nodes.
    pub fn is_alone(&self) -> bool {
        self.peers.is_none()
    }

    /// Returns the local store.
    pub fn store(&self) -> &Store {
        &self.options.store
    }

    /// Returns the durability of buckets that have no setting of their own.
    pub fn default_durability(&self) -> Durability {
        self.options.durability
    }

    /// Returns the partition of a sequence of fields.
    pub fn partition(&self, fields: &[&[u8]]) -> PartitionId {
        partition_of(placement_hash(fields), PARTITIONS)
    }

    /// Returns how many replicas of a partition come before this node's replica, or 0 if it has
    /// none. All nodes agree on the order, which differs between partitions.
    pub fn rank(&self, partition: PartitionId) -> usize {
        let me = self.me();
        let stores = self.stores_in_turn(partition);
        let place = stores.iter().position(|store| *store == me);
        place.unwrap_or_default()
    }

    /// Returns true if this node has a replica of a partition, and all replicas that come before it
    /// are gone: their nodes are suspected, or have another store now.
    pub fn is_first_live(&self, partition: PartitionId) -> bool {
        let me = self.me();
        let is_gone = |store: &StoreName| {
            let directory = self.peers.as_ref().map(|peers| &peers.directory);
            directory.is_some_and(|directory| {
                let told = directory.store_of(&store.node);
                directory.is_suspected(&store.node) || told.is_some_and(|told| told != store.store)
            })
        };
        let stores = self.stores_in_turn(partition);
        let first = stores.iter().find(|store| **store == me || !is_gone(store));
        first == Some(&me)
    }

    /// Returns the stores with a replica of a partition, in the order in which they take turns.
    fn stores_in_turn(&self, partition: PartitionId) -> Vec<StoreName> {
        let Some(epoch) = self.epoch() else {
            return Vec::new();
        };
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
        stores
    }

    /// Returns a fresh random name.
    pub fn random_id(&self) -> Id {
        Id::random(&*self.options.random)
    }

    /// Fills `bytes` with randomness that is fit for secrets.
    pub fn fill_random(&self, bytes: &mut [u8]) {
        self.options.random.fill(bytes);
    }

    /// Returns the time in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.options.wall.now_millis()
    }

    /// Returns true if this node knows the time: it was compared with other nodes' clocks.
    pub fn is_time_known(&self) -> bool {
        self.options.wall.is_known()
    }

    /// Returns true if more than half of the memory for block buffers is in use.
    pub fn is_short_of_buffers(&self) -> bool {
        self.store().blocks().pool().is_short()
    }

    /// Returns a stamp that this node has never issued before. It is above `seen`, unless `seen` is
    /// so far ahead that replicas would refuse it. So one replica that lies, or that holds a stamp
    /// of a wrong clock, cannot keep this node from writing. Nor can its own clock, once that is
    /// right again: the node then issues stamps as another writer.
    pub(crate) fn next_stamp(&self, seen: Stamp) -> Stamp {
        if seen.millis() <= self.step_back() {
            self.options.stamps.observe(seen);
        }
        self.options.stamps.next(&*self.options.wall)
    }

    /// Returns the writer of this node's next stamps.
    pub(crate) fn writer(&self) -> Writer {
        self.step_back();
        self.options.stamps.writer()
    }

    /// Lets the stamps go back to the time if they are too far ahead. Returns the latest time of
    /// stamps that replicas accept.
    fn step_back(&self) -> u64 {
        let latest = self.now_ms().saturating_add(AHEAD_MILLIS);
        let stamps = &self.options.stamps;
        if stamps.step_back(latest, &*self.options.random) {
            tracing::warn!("this node's clock was far ahead; writes in progress may fail");
        }
        latest
    }

    /// Waits until this node knows the time, so that it may issue stamps.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it does not learn the time.
    pub(crate) async fn wait_for_time(&self) -> Result<(), Error> {
        let known = async {
            while !self.options.wall.is_known() {
                tokio::time::sleep(TIME_INTERVAL).await;
            }
        };
        let waited = tokio::time::timeout(TIME_TIMEOUT, known).await;
        waited.map_err(|_| {
            Error::Unavailable("no other node has confirmed this node's clock yet".into())
        })
    }

    /// Returns the replicas of a partition, nearest first.
    pub(crate) fn group(&self, partition: PartitionId) -> Result<Group, Error> {
        Group::now(&self.epochs, self.peers.as_ref(), partition)
    }

    /// Returns the usual round trip to the nearest other replica, which is about how long a quorum
    /// takes to answer.
    pub(crate) fn round_trip(&self, group: &Group) -> Duration {
        let Some(peers) = &self.peers else {
            return Duration::ZERO;
        };
        let nearest = group.members.iter().filter(|m| m.node != self.epochs.me());
        let near = nearest.map(|m| peers.distance(&m.node.node).1).min();
        near.unwrap_or_default()
    }
}

/// Moves the stamp clock past the highest stored stamp, because the wall clock may have been set
/// back. It does not if replicas would then refuse all stamps as coming from the future.
async fn catch_up(options: &ClusterOptions) -> Result<(), Error> {
    let Some(highest) = options.store.highest_stamp().await? else {
        return Ok(());
    };
    let now = options.wall.now_millis();
    if highest.millis() > now {
        let behind_ms = highest.millis() - now;
        tracing::warn!(
            behind_ms,
            "the clock is behind the newest stamp that is stored here; fix: check it"
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
