//! The cluster of one node: the register protocol over a single, local replica.
//!
//! Everything goes through the coordinator and the replica of [`register`](crate::register), as
//! it does with more nodes; here a message is a transaction of the local store.

use std::sync::Arc;

use archipel_base::clock::WallClock;
use archipel_base::hash::{partition_of, placement_hash};
use archipel_base::random::Random;
use archipel_base::stamp::StampClock;
use archipel_base::{Id, PartitionId, Stamp};
use archipel_storage::engine::Durability;
use archipel_storage::{BlockRef, ListQuery, Listing, Pin, RowKey, Store, Upload, Value};
use bytes::Bytes;
use tokio::sync::Mutex;

use crate::drive::Run;
use crate::error::Error;
use crate::register::coordinator::Start;
use crate::register::{self, Operation, Outcome, Quorums, Rules, Version};
use crate::replica::Replica;
use crate::scan::Scanned;

/// How many partitions a cluster has. Fixed when it is made.
const PARTITIONS: u16 = 1024;
/// How many rows of a scan are read in one go.
const SCAN_BATCH: usize = 1000;
/// How many queues there are for updates.
const QUEUES: usize = 1024;

/// Tells what the model must look after when a row is replaced: called in the transaction of
/// the change; what it gives is put into the durable work queue.
pub type OnReplace = fn(&RowKey, &Value, Option<&Value>) -> Option<Bytes>;

/// What a cluster is made of.
pub struct ClusterOptions {
    /// The local store.
    pub store: Store,
    /// Issues stamps for this boot of this node.
    pub stamps: StampClock,
    /// The time of day.
    pub wall: Arc<dyn WallClock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// What buckets without a setting of their own get.
    pub durability: Durability,
    /// See [`OnReplace`].
    pub on_replace: OnReplace,
}

/// Rows, blocks and listings as the model sees them. Cheap to clone.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

pub(crate) struct Inner {
    pub options: ClusterOptions,
    pub replica: Replica,
    /// Updates of one row queue here: they would only disturb one another. Nothing rests on it.
    queues: Vec<Mutex<()>>,
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

impl Cluster {
    /// A cluster of this node alone.
    pub fn single(options: ClusterOptions) -> Cluster {
        let replica = Replica::new(
            options.store.clone(),
            options.wall.clone(),
            options.on_replace,
        );
        let queues = (0..QUEUES).map(|_| Mutex::new(())).collect();
        Cluster(Arc::new(Inner {
            options,
            replica,
            queues,
        }))
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

    /// A row's value, and a pin that keeps its blocks readable.
    pub async fn read_pinned(&self, key: &RowKey) -> Result<Option<(Value, Pin)>, Error> {
        loop {
            let before = self.read_version(key, true).await?;
            let Some(value) = before.value else {
                return Ok(None);
            };
            let pin = self.store().pin(value.body.blocks());
            // What was pinned before the row still referred to it stays; otherwise look again.
            if value.body.blocks().is_empty()
                || self.read_version(key, false).await?.stamp == before.stamp
            {
                return Ok(Some((value, pin)));
            }
        }
    }

    async fn read_version(&self, key: &RowKey, with_body: bool) -> Result<Version<Value>, Error> {
        let (operation, outputs) = Operation::read(self.start());
        let run = Run {
            inner: &self.0,
            key,
            guard: None,
            durability: Durability::Fsync,
            with_body,
        };
        let mut never = |_: &Version<Value>| register::Decision::Keep;
        match run.drive(operation, outputs, &mut never).await? {
            Outcome::Value(version) => Ok(version),
            other => Err(unexpected(&other)),
        }
    }

    fn start(&self) -> Start {
        Start {
            rules: Rules::CORRECT,
            quorums: Quorums::majority_of(1),
        }
    }

    /// Writes a row (`None` deletes it) whatever it holds; gives the stamp.
    pub async fn write(
        &self,
        key: &RowKey,
        value: Option<Value>,
        durability: Durability,
    ) -> Result<Stamp, Error> {
        let id = self.random_id();
        let (operation, outputs) = Operation::write(self.start(), id, value, false, &mut |seen| {
            self.0.next_stamp(seen)
        });
        let run = Run {
            inner: &self.0,
            key,
            guard: None,
            durability,
            with_body: true,
        };
        let mut never = |_: &Version<Value>| register::Decision::Keep;
        match run.drive(operation, outputs, &mut never).await? {
            Outcome::Written { stamp } => Ok(stamp),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads, decides and writes in one atomic act. With a `guard`, only while that row (of the
    /// same partition) is live.
    ///
    /// `decide` may be asked more than once; the last answer counts.
    ///
    /// # Errors
    /// Outside: [`Error::Guarded`], [`Error::Unavailable`]. Inside: what `decide` aborted with.
    pub async fn update<E>(
        &self,
        key: &RowKey,
        guard: Option<RowKey>,
        durability: Durability,
        decide: impl Fn(Option<&Value>) -> Decision<E> + Send + Sync,
    ) -> Result<Result<(), E>, Error>
    where
        E: Send,
    {
        let id = self.random_id();
        let _turn = self.0.queue_of(key).lock().await;
        let (operation, outputs) =
            Operation::update(self.start(), id, guard.is_some(), &mut |seen| {
                self.0.next_stamp(seen)
            });
        let run = Run {
            inner: &self.0,
            key,
            guard: guard.as_ref(),
            durability,
            with_body: true,
        };
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

    /// Begins to write blocks.
    pub fn upload(&self) -> Upload {
        self.store().upload()
    }

    /// The content of a block, verified.
    pub async fn read_block(&self, block: &BlockRef) -> Result<Bytes, Error> {
        Ok(self.store().read_block(block).await?)
    }

    /// Whether more than half of the memory for block buffers is in use.
    pub fn is_short_of_buffers(&self) -> bool {
        let pool = self.store().blocks().pool();
        let free = pool.free_buffer_bytes().unwrap_or(usize::MAX);
        free < pool.buffer_bytes() / 2
    }

    /// A page of a listing.
    pub async fn list(&self, query: ListQuery) -> Result<Listing, Error> {
        Ok(self.store().read(move |rows| rows.list(&query)).await?)
    }

    /// Live rows of a partition whose keys begin with `prefix`, behind `after`, at most `limit`.
    pub async fn scan(
        &self,
        partition: PartitionId,
        prefix: &Bytes,
        after: Option<Bytes>,
        limit: usize,
    ) -> Result<Vec<Scanned>, Error> {
        self.0.replica.scan(partition, prefix, after, limit).await
    }

    /// All live rows of a partition whose keys begin with `prefix`, in order.
    pub async fn scan_all(
        &self,
        partition: PartitionId,
        prefix: &Bytes,
    ) -> Result<Vec<Scanned>, Error> {
        let mut all: Vec<Scanned> = Vec::new();
        loop {
            let after = all.last().map(|row| row.key.key.clone());
            let rows = self.scan(partition, prefix, after, SCAN_BATCH).await?;
            let full = rows.len() == SCAN_BATCH;
            all.extend(rows);
            if !full {
                return Ok(all);
            }
        }
    }

    /// A counter: objects, bytes.
    pub async fn counter(&self, partition: PartitionId, group: Id) -> Result<(u64, u64), Error> {
        Ok(self
            .store()
            .read(move |rows| rows.counter(partition, group))
            .await?)
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

fn unexpected(outcome: &Outcome<Value>) -> Error {
    Error::Unavailable(match outcome {
        Outcome::Unknown => "it is not known whether the write took effect".into(),
        _ => "too much contention, or storage refuses".into(),
    })
}

impl Inner {
    fn queue_of(&self, key: &RowKey) -> &Mutex<()> {
        let hash = placement_hash(&[&key.partition.0.to_be_bytes(), &key.key]);
        &self.queues[hash as usize % QUEUES]
    }

    /// A stamp of this node that was never issued before, above the one shown.
    pub fn next_stamp(&self, seen: Stamp) -> Stamp {
        self.options.stamps.observe(seen);
        self.options.stamps.next(&*self.options.wall)
    }
}
