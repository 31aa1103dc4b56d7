//! Operations on rows: reads, writes, conditional writes, each driven over the row's replicas.

use std::sync::Arc;

use archipel_base::Stamp;
use archipel_storage::engine::Durability;
use archipel_storage::{Pin, RowKey, Value};
use bytes::Bytes;

use crate::blocks::{BlockStream, Prefetch};
use crate::cluster::Cluster;
use crate::drive::Run;
use crate::error::Error;
use crate::group::Group;
use crate::register::coordinator::Start;
use crate::register::{self, Answer, Operation, Outcome, Request, Rules, Version};
use crate::upload::Upload;
use crate::wire::RowCall;

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
            let how = How::durable(Durability::Fsync);
            let mut run = self.run(key, &how)?;
            run.prefetch = Some(&prefetch);
            let before = self.read_as(run).await?;
            let Some(value) = before.value else {
                return Ok(None);
            };
            let blocks = value.body.blocks();
            let pin = self.store().pin(blocks);
            let receive = match blocks.is_empty() {
                true => None,
                false => prefetch.take(before.stamp).await,
            };
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

    /// A row as a quorum has it; `background`: nobody waits for it.
    pub(crate) async fn read_whole(
        &self,
        key: &RowKey,
        background: bool,
    ) -> Result<Version<Value>, Error> {
        let how = How::durable(Durability::Fsync);
        let run = self.run(key, &how)?;
        self.read_as(Run { background, ..run }).await
    }

    async fn read_version(&self, key: &RowKey, with_body: bool) -> Result<Version<Value>, Error> {
        let how = How::durable(Durability::Fsync);
        let run = self.run(key, &how)?;
        self.read_as(Run { with_body, ..run }).await
    }

    async fn read_as(&self, mut run: Run<'_>) -> Result<Version<Value>, Error> {
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
            background: false,
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
        self.0.wait_for_time().await?;
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
        self.0.wait_for_time().await?;
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

    /// Brings a row to all of its replicas that are there, not only to a quorum; in the background.
    pub(crate) async fn replicate(&self, key: &RowKey) -> Result<(), Error> {
        let version = self.read_whole(key, true).await?;
        if version.stamp == Stamp::ZERO {
            return Ok(());
        }
        let group = self.0.group(key.partition)?;
        let behind = group.quorums.all().iter().map(|place| {
            let (group, version) = (&group, &version);
            async move {
                let held = self.ask_for_stamp(group, place, key).await?;
                if held < version.stamp {
                    let write = Request::Write {
                        version: version.clone(),
                        guarded: false,
                    };
                    self.ask_about(group, place, key, write).await?;
                }
                Ok::<_, Error>(())
            }
        });
        for done in futures_util::future::join_all(behind).await {
            // A quorum has it; who is away gets it later.
            if let Err(error) = done {
                tracing::debug!(%error, "a replica does not get a row now");
            }
        }
        Ok(())
    }

    async fn ask_for_stamp(
        &self,
        group: &Group,
        place: usize,
        key: &RowKey,
    ) -> Result<Stamp, Error> {
        let read = Request::Read { with_value: false };
        match self.ask_about(group, place, key, read).await? {
            Answer::Found { version, .. } => Ok(version.stamp),
            _ => Err(Error::Unavailable("the layout changed meanwhile".into())),
        }
    }

    async fn ask_about(
        &self,
        group: &Group,
        place: usize,
        key: &RowKey,
        request: Request<Value>,
    ) -> Result<Answer<Value>, Error> {
        let unknown = || Error::Unavailable("the replica is not known".into());
        let call = RowCall {
            address: group.address(place).ok_or_else(unknown)?,
            key: key.key.clone(),
            guards: Vec::new(),
            buffered: false,
            with_body: true,
            background: true,
            request,
        };
        self.0.ask(group, place, call).await
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
