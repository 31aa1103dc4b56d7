//! Operations on rows: reads, writes, conditional writes, each driven over the row's replicas.

use std::sync::Arc;

use archipel_base::{Id, PartitionId, Stamp, boxed};
use archipel_storage::engine::Durability;
use archipel_storage::{BlockRef, Pin, RowKey, Value};
use bytes::Bytes;
use parking_lot::Mutex;

use super::Data;
use super::decision::{Current, Decision};
use crate::data::block_reader::{BlockStream, Prefetch};
use crate::data::block_writer::BlockWriter;
use crate::data::companions::Brings;
use crate::data::driver::Run;
use crate::data::options::{Guard, Versioning, WriteOptions};
use crate::error::Error;
use crate::node::group::Group;
use crate::register::coordinator::Start;
use crate::register::versions::Promises;
use crate::register::{self, Operation, Outcome, Rules, Version};

/// The state of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The row was never written.
    Absent,
    /// The row was deleted.
    Tombstone,
    /// The row has a value.
    Live,
}

/// A read that is under way: the row is there, the blocks follow.
pub struct OpenRow {
    /// Its value.
    pub value: Value,
    /// Keeps the row's local blocks readable.
    pub pin: Pin,
    /// The row's blocks from the first one on, if they are on their way already.
    pub following: Option<BlockStream>,
}

impl Data {
    /// Returns a writer of blocks for rows of a partition.
    pub fn block_writer(self: &Arc<Data>, partition: PartitionId) -> Result<BlockWriter, Error> {
        Ok(BlockWriter::new(self.clone(), self.group(partition)?))
    }

    /// Returns the blocks of a row of `partition`, one after another.
    pub fn read_blocks(
        self: &Arc<Data>,
        partition: PartitionId,
        blocks: Vec<BlockRef>,
    ) -> BlockStream {
        let local = self.group(partition);
        let try_local = local.is_ok_and(|group| group.local().is_some());
        BlockStream::new(self.clone(), partition, blocks, try_local)
    }

    /// Returns the metadata of a row.
    #[boxed]
    pub async fn metadata(self: &Arc<Data>, key: &RowKey) -> Result<Option<Bytes>, Error> {
        Ok(self.head(key, &[]).await?.map(|value| value.metadata))
    }

    /// Returns a row's value without its payload. `guards` are as for [`open_row`](Data::open_row).
    #[boxed]
    pub async fn head(
        self: &Arc<Data>,
        key: &RowKey,
        guards: &[Guard],
    ) -> Result<Option<Value>, Error> {
        Ok(self.head_version(key, guards).await?.value)
    }

    /// Returns a row's value.
    #[boxed]
    pub async fn read(self: &Arc<Data>, key: &RowKey) -> Result<Option<Value>, Error> {
        Ok(self.read_version(key).await?.value)
    }

    /// Returns a row's version. The stamp of a tombstone is that of the deletion. A row that was
    /// never written, or whose tombstone was dropped, has [`Stamp::ZERO`].
    #[boxed]
    pub async fn read_stamped(self: &Arc<Data>, key: &RowKey) -> Result<Version<Value>, Error> {
        self.read_version(key).await
    }

    /// Does the same without the payload.
    #[boxed]
    pub async fn head_stamped(self: &Arc<Data>, key: &RowKey) -> Result<Version<Value>, Error> {
        self.head_version(key, &[]).await
    }

    /// Returns the state of a row.
    #[boxed]
    pub async fn state(self: &Arc<Data>, key: &RowKey) -> Result<State, Error> {
        let version = self.head_version(key, &[]).await?;
        Ok(match (version.value, version.stamp) {
            (Some(_), _) => State::Live,
            (None, Stamp::ZERO) => State::Absent,
            (None, _) => State::Tombstone,
        })
    }

    /// Opens a row: returns its value, and a pin that keeps the blocks of its payload readable. If
    /// no replica is local, the blocks follow the row at once.
    ///
    /// # Errors
    /// [`Error::Guarded`] if a replica that answers knows that one of `guards` does not
    /// [hold](crate::Hooks::holds). A quorum of replicas that know it is met by each read.
    #[boxed]
    pub async fn open_row(
        self: &Arc<Data>,
        key: &RowKey,
        guards: &[Guard],
    ) -> Result<Option<OpenRow>, Error> {
        let how = guarded_by(guards);
        loop {
            let prefetch = Arc::new(Prefetch::default());
            let mut run = self.run(key, &how)?;
            run.prefetch = Some(&prefetch);
            let before = self.read_as(run).await?;
            let Some(value) = before.value else {
                return Ok(None);
            };
            let blocks = value.payload.blocks();
            let pin = self.store().pin(blocks);
            let receive = if blocks.is_empty() {
                None
            } else {
                prefetch.take(before.stamp).await
            };
            let following = receive.map(|receive| {
                let (inner, blocks) = (self.clone(), blocks.to_vec());
                BlockStream::begun(inner, key.partition, blocks, receive)
            });
            // A pin holds if the row still referred to the blocks after it was taken. Otherwise
            // look again.
            if blocks.is_empty() || self.still_holds(key, before.stamp).await? {
                return Ok(Some(OpenRow {
                    value,
                    pin,
                    following,
                }));
            }
        }
    }

    /// Reads a row from a quorum. `background` is true if no client waits for it.
    pub(crate) async fn read_whole(
        self: &Arc<Data>,
        key: &RowKey,
        background: bool,
    ) -> Result<Version<Value>, Error> {
        let how = WriteOptions::durable(Durability::Fsync);
        let run = self.run(key, &how)?;
        self.read_as(Run { background, ..run }).await
    }

    async fn read_version(self: &Arc<Data>, key: &RowKey) -> Result<Version<Value>, Error> {
        let how = guarded_by(&[]);
        self.read_as(self.run(key, &how)?).await
    }

    /// Returns a row's version without its payload.
    pub(in crate::data) async fn head_version(
        self: &Arc<Data>,
        key: &RowKey,
        guards: &[Guard],
    ) -> Result<Version<Value>, Error> {
        let how = guarded_by(guards);
        let run = self.run(key, &how)?;
        self.read_as(Run {
            with_payload: false,
            ..run
        })
        .await
    }

    async fn read_as(self: &Arc<Data>, mut run: Run<'_>) -> Result<Version<Value>, Error> {
        let mut never = |_: &Promises<'_>| register::Decision::Keep;
        loop {
            let (operation, outputs) = Operation::read(start(&run.group));
            match run.drive(operation, outputs, &mut never).await? {
                Outcome::Value(version) => return Ok(version),
                Outcome::Guarded => return Err(Error::Guarded),
                Outcome::Unavailable if run.needs_payload => {
                    (run.with_payload, run.needs_payload) = (true, false);
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    pub(super) fn run<'a>(
        self: &'a Arc<Data>,
        key: &'a RowKey,
        how: &'a WriteOptions<'a>,
    ) -> Result<Run<'a>, Error> {
        Ok(Run {
            inner: self,
            key,
            guards: &how.guards,
            pointing: how.pointing.as_ref(),
            durability: how.durability,
            with_payload: true,
            needs_payload: false,
            upload: how.upload,
            prefetch: None,
            bundle: how.bundle.as_ref(),
            background: how.background,
            frees: how.frees,
            taking: how.taking.as_ref(),
            companions: Brings::new(&how.companions),
            write: Id::default(),
            about: None,
            writer: match &how.pointing {
                Some(pointing) => pointing.intent.after.writer,
                None => self.writer(),
            },
            group: self.group(key.partition)?,
        })
    }

    /// Writes a row unconditionally; `None` deletes it. Returns the stamp, or the name of the new
    /// [version](WriteOptions::versioning).
    ///
    /// # Errors
    /// [`Error::Guarded`], [`Error::Unavailable`].
    #[boxed]
    pub async fn write(
        self: &Arc<Data>,
        key: &RowKey,
        value: Option<Value>,
        how: WriteOptions<'_>,
    ) -> Result<Stamp, Error> {
        match how.versioning {
            Versioning::New => return self.write_new(key, value, &how).await,
            Versioning::Null => return self.write_null(key, value, how).await,
            Versioning::Plain => {}
        }
        self.wait_for_time().await?;
        let id = self.random_id();
        let mut run = self.run(key, &how)?.writing(id);
        let (operation, outputs) = Operation::write(
            start(&run.group),
            id,
            value,
            !how.guards.is_empty(),
            &mut |seen| self.next_stamp(seen),
        );
        let operation = operation.repeating(how.repeat());
        let mut never = |_: &Promises<'_>| register::Decision::Keep;
        match run.drive(operation, outputs, &mut never).await? {
            Outcome::Written { stamp } => Ok(stamp),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads a row, decides, and writes it, as one atomic operation.
    ///
    /// `decide` may be called more than once; the last answer counts.
    ///
    /// # Errors
    /// Outside: [`Error::Guarded`], [`Error::Overtaken`], [`Error::Unavailable`]. Inside: what
    /// `decide` aborted with.
    pub async fn update<E>(
        self: &Arc<Data>,
        key: &RowKey,
        how: WriteOptions<'_>,
        decide: impl Fn(Option<&Value>) -> Decision<E> + Send + Sync,
    ) -> Result<Result<(), E>, Error>
    where
        E: Send,
    {
        let decide = |current: Current<'_>| decide(current.value);
        self.update_stamped(key, how, decide).await
    }

    /// Does the same as [`update`](Data::update). The decision also sees stamps.
    ///
    /// # Errors
    /// As [`update`](Data::update).
    pub async fn update_stamped<E>(
        self: &Arc<Data>,
        key: &RowKey,
        how: WriteOptions<'_>,
        decide: impl Fn(Current<'_>) -> Decision<E> + Send + Sync,
    ) -> Result<Result<(), E>, Error>
    where
        E: Send,
    {
        self.wait_for_time().await?;
        let pointing = how.pointing.as_ref();
        let id = pointing.map_or_else(|| self.random_id(), |pointing| pointing.intent.write);
        let _turn = self.queues.turn(key).await;
        let mut run = self.run(key, &how)?.writing(id);
        let guarded = !how.guards.is_empty() || pointing.is_some();
        let (operation, outputs) = Operation::update(start(&run.group), id, guarded, &mut |seen| {
            self.next_stamp(seen)
        });
        let operation = operation
            .repeating(how.repeat())
            .by_own_quorum(pointing.is_some_and(|pointing| !pointing.is_named));
        let mut aborted = None;
        let mut adapter = |promises: &Promises<'_>| {
            let (version, own) = (promises.current, promises.ballot);
            let current = Current {
                value: version.value.as_ref(),
                stamp: version.stamp,
                write: version.write,
                own,
            };
            match decide(current) {
                Decision::Write(value) => {
                    aborted = None;
                    register::Decision::Write(value)
                }
                Decision::Abort(error) => {
                    aborted = Some(error);
                    register::Decision::Keep
                }
            }
        };
        let outcome = run.drive(operation, outputs, &mut adapter).await?;
        match (outcome, aborted) {
            (Outcome::Written { .. }, _) => Ok(Ok(())),
            (Outcome::Kept(_), Some(error)) => Ok(Err(error)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Lets this node's next stamps be above this one, unless replicas would refuse them.
    pub fn observe(&self, stamp: Stamp) {
        self.next_stamp(stamp);
    }

    /// Returns a row's value after it has settled the row: no earlier write can surface any more,
    /// because any version that only a minority holds is overwritten.
    ///
    /// To be called before content is dropped because its owner does not refer to it.
    #[boxed]
    pub async fn settle(self: &Arc<Data>, key: &RowKey) -> Result<Option<Value>, Error> {
        let seen = Mutex::new(None);
        let how = WriteOptions {
            frees: true,
            ..WriteOptions::durable(Durability::Fsync)
        };
        let written = self.update::<std::convert::Infallible>(key, how, |current| {
            *seen.lock() = current.cloned();
            Decision::Write(current.cloned())
        });
        match written.await? {
            Ok(()) => Ok(seen.lock().take()),
            Err(never) => match never {},
        }
    }
}

pub(super) fn start(group: &Group) -> Start {
    Start {
        rules: Rules::CORRECT,
        quorums: group.quorums.clone(),
    }
}

pub(super) fn unexpected(outcome: &Outcome<Value>) -> Error {
    let why = match outcome {
        Outcome::Guarded => return Error::Guarded,
        Outcome::Held => return Error::Held,
        Outcome::Overtaken => return Error::Overtaken,
        Outcome::Unknown => "it is not known whether the write took effect",
        _ => "too few replicas answer, or too much contention",
    };
    Error::Unavailable(why.into())
}

/// Returns the options of a read with guards.
fn guarded_by(guards: &[Guard]) -> WriteOptions<'static> {
    WriteOptions {
        guards: guards.to_vec(),
        ..WriteOptions::durable(Durability::Fsync)
    }
}
