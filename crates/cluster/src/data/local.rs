//! The local replica's answers, the counters, and the work queue.

use std::sync::Arc;
use std::time::Duration;

use archipel_base::{Id, PartitionId, boxed};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::store::Transact;
use archipel_storage::{RowReader, Value};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use super::bundle::Bundle;
use super::{Data, MOVED};
use crate::error::Error;
use crate::node::detach::DetachOnDrop;
use crate::node::group::Group;
use crate::node::throttle::Kind;
use crate::node::wire::{CountersCall, CountersReply, RowCall, method};
use crate::register::{Answer, ReplicaSet, Request};

/// The time for which the answers of other replicas are awaited once enough have come.
pub(super) const FOR_THE_OTHERS: Duration = Duration::from_millis(200);

/// Returns the next answer; `None` if there is none, or none in time.
pub(super) async fn next_before<F: Future>(
    asked: &mut FuturesUnordered<F>,
    until: Option<Instant>,
) -> Option<F::Output> {
    match until {
        None => asked.next().await,
        Some(until) => timeout_at(until, asked.next()).await.ok().flatten(),
    }
}

impl Data {
    /// Sends a request to the replica with this index.
    pub(crate) async fn ask(
        self: &Arc<Data>,
        group: &Group,
        index: usize,
        call: RowCall,
        bundle: Option<&Bundle>,
    ) -> Result<Answer<Value>, Error> {
        if group.is_local(index) {
            return Ok(self.answer(call).await?);
        }
        let member = group.member(index)?;
        let node = &member.node.node;
        let reply = match bundle {
            Some(bundle) => bundle.ask(node, call).await?,
            None => self.ask_alone(node, &call).await?,
        };
        Ok(reply.0.map_err(storage::Error::from)?)
    }

    /// Answers a call of this node itself. No other node suspects this one for being late. So it waits
    /// for other nodes for as long as an operation may take.
    ///
    /// # Errors
    /// As [`Data::answer_before`].
    pub(crate) async fn answer(
        self: &Arc<Data>,
        call: RowCall,
    ) -> Result<Answer<Value>, storage::Error> {
        let until = Instant::now() + self.options.times.operation;
        self.answer_before(until, call).await
    }

    /// Answers for the local replica. Before it says that a guard is gone, it asks the other
    /// replicas: it may have been away when the guard was written, or be new in the partition. It
    /// does the same if it lacks the row that points to a write. It waits for them until this time.
    ///
    /// # Errors
    /// [`storage::Error::Busy`] if the other replicas cannot be asked, or if blocks that it fetches
    /// first do not come [in time](Data::in_answer_time); the errors of storage.
    pub(super) async fn answer_before(
        self: &Arc<Data>,
        until: Instant,
        call: RowCall,
    ) -> Result<Answer<Value>, storage::Error> {
        match self.answer_pointed(call.clone(), until).await? {
            Answer::Guarded if self.peers.is_some() => {
                let (data, guarded) = (self.clone(), call.clone());
                let catching_up = async move { data.catch_up(&guarded).await };
                self.in_answer_time(until, catching_up).await?;
                // This is done even if no guard was lagging: one may have come just before the
                // check.
                self.answer_pointed(call, until).await
            }
            answer => Ok(answer),
        }
    }

    /// Returns the time for which a call of another node may wait here. If it was not answered at all,
    /// its caller would suspect this node.
    pub(super) fn answer_time(&self) -> Duration {
        self.options.times.call * 3 / 4
    }

    /// Waits until this time for work that fetches rows and blocks from other nodes. Then the work goes
    /// on by itself. Otherwise what has come would be lost, and the repeated call would begin again.
    async fn in_answer_time<T: Send + 'static>(
        &self,
        until: Instant,
        work: impl Future<Output = Result<T, storage::Error>> + Send + 'static,
    ) -> Result<T, storage::Error> {
        if self.peers.is_none() {
            return work.await;
        }
        let late = "the blocks and rows that the row needs are being fetched";
        let done = timeout_at(until, DetachOnDrop::new(work)).await;
        done.map_err(|_| storage::Error::Busy(late.into()))?
    }

    /// Answers for the local replica. It first brings the row that points to a write, if that is
    /// missing here.
    async fn answer_pointed(
        self: &Arc<Data>,
        call: RowCall,
        until: Instant,
    ) -> Result<Answer<Value>, storage::Error> {
        let answer = self.answer_whole(call.clone(), false, until).await?;
        let (Answer::LacksPointing, Request::Write { version, .. }) = (&answer, &call.request)
        else {
            return Ok(answer);
        };
        let (key, own) = (call.row_key(), call.pointing());
        let Some(pointing) = self.replica.pointing_of(&key, version, own) else {
            return Ok(answer);
        };
        let (data, address, class) = (self.clone(), call.address, class_of(&call));
        let bringing = async move { data.bring_pointing(address, &pointing, class).await };
        let is_over = self.in_answer_time(until, bringing).await?;
        self.answer_whole(call, is_over, until).await
    }

    /// Brings the guards of a request up to date.
    async fn catch_up(self: &Arc<Data>, call: &RowCall) -> Result<(), storage::Error> {
        let pointing = call.pointing().map(|(row, _)| row);
        let guards = call.guard_rows().map(|(row, _)| row);
        for guard in guards.chain(pointing) {
            let brought = self.bring(call.address, &guard, class_of(call)).await;
            brought.map_err(|error| {
                storage::Error::Busy(format!("the guard of a row cannot be read: {error}"))
            })?;
        }
        Ok(())
    }

    /// Answers for the local replica. It first fetches the blocks that the row refers to and that
    /// are missing here, so that an acknowledged row is complete. `is_over` is true if a quorum has
    /// told that the row which points to the write is over.
    async fn answer_whole(
        self: &Arc<Data>,
        call: RowCall,
        is_over: bool,
        until: Instant,
    ) -> Result<Answer<Value>, storage::Error> {
        let began = Instant::now();
        let answer = self.replica.answer(call.clone(), is_over).await;
        if answer.is_ok() && !call.background {
            self.throttle
                .answered(Kind::of(&call.request), began.elapsed());
        }
        if let Err(storage::Error::Damaged(_)) = &answer {
            self.tell(|events| events.row_is_damaged(&call.row_key()));
        }
        let value = match &answer {
            Err(storage::Error::NoBlock(_)) if self.peers.is_some() => call.value(),
            _ => None,
        };
        let Some(value) = value else {
            return answer;
        };
        let (data, payload) = (self.clone(), value.payload.clone());
        let (partition, class) = (call.address.partition, class_of(&call));
        let turn = until.max(self.turn_until(class));
        let fetching = async move {
            let fetched = data.fetch_missing(partition, &payload, class, turn);
            let _held = fetched.await?;
            data.replica.answer(call, is_over).await
        };
        self.in_answer_time(until, fetching).await
    }

    /// Returns a counter as the nearest replica has it: objects and bytes.
    #[boxed]
    pub async fn counter(&self, partition: PartitionId, group: Id) -> Result<(u64, u64), Error> {
        let counted = self.counters(partition, vec![group]).await?;
        // There is one counter for each group.
        Ok(counted.first().copied().unwrap_or_default())
    }

    /// Returns counters of a partition, in the order of `groups`, as the nearest replica has them.
    #[boxed]
    pub async fn counters(
        &self,
        partition: PartitionId,
        groups: Vec<Id>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let replicas = self.group(partition)?;
        let mut why = Error::Unavailable("no replica answers".into());
        for index in replicas.quorums.all().iter() {
            let counted = if replicas.is_local(index) {
                self.counters_here(partition, groups.clone()).await
            } else {
                self.remote_counters(&replicas, index, groups.clone()).await
            };
            match counted {
                Ok(counted) => return Ok(counted),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Returns a counter of a partition as each replica has it that answers: a majority at least,
    /// and those of the others that answer soon.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too few replicas answer.
    #[boxed]
    pub async fn counter_at_all(
        &self,
        partition: PartitionId,
        counter: Id,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let group = &self.group(partition)?;
        let ask = |index: usize| async move {
            let counted = match group.is_local(index) {
                true => self.counters_here(partition, vec![counter]).await,
                false => self.remote_counters(group, index, vec![counter]).await,
            };
            (index, counted)
        };
        let mut asked: FuturesUnordered<_> = group.quorums.all().iter().map(ask).collect();
        let (mut from, mut counts) = (ReplicaSet::EMPTY, Vec::new());
        let mut until = None;
        loop {
            let Some((index, counted)) = next_before(&mut asked, until).await else {
                break;
            };
            let Ok(counted) = counted else {
                continue;
            };
            counts.extend(counted);
            from.insert(index);
            if until.is_none() && group.quorums.is_quorum(from) {
                until = Some(Instant::now() + FOR_THE_OTHERS);
            }
        }
        match group.quorums.is_quorum(from) {
            true => Ok(counts),
            false => Err(Error::Unavailable("too few replicas count".into())),
        }
    }

    /// Returns counters as this node's replica has them.
    pub(crate) async fn counters_here(
        &self,
        partition: PartitionId,
        groups: Vec<Id>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let count = move |rows: &RowReader<'_>| {
            let groups = groups.iter();
            groups
                .map(|group| rows.counter(partition, *group))
                .collect()
        };
        Ok(self.store().read(count).await?)
    }

    /// Appends to this node's durable work queue.
    #[boxed]
    pub async fn queue_push(&self, work: Bytes, durability: Durability) -> Result<u64, Error> {
        Ok(self
            .store()
            .transact(durability, move |txn| txn.queue_push(&work))
            .await?)
    }

    /// Returns at most `limit` entries of the work queue after the number `after`.
    #[boxed]
    pub async fn queue_read(&self, after: u64, limit: usize) -> Result<Vec<(u64, Bytes)>, Error> {
        Ok(self
            .store()
            .read(move |rows| rows.queue(after, limit))
            .await?)
    }

    /// Removes an entry of the work queue.
    #[boxed]
    pub async fn queue_remove(&self, sequence: u64) -> Result<(), Error> {
        let how = Transact::new(Durability::Buffered).shrinking();
        Ok(self
            .store()
            .transact(how, move |txn| txn.queue_remove(sequence))
            .await?)
    }

    async fn remote_counters(
        &self,
        group: &Group,
        index: usize,
        groups: Vec<Id>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let (member, count) = (group.member(index)?, groups.len());
        let call = CountersCall {
            partition: group.partition,
            groups,
        };
        let (peers, node) = (self.peers()?, &member.node.node);
        let reply = peers.call(node, method::COUNTERS, Class::Small, &call);
        let CountersReply(counted) = reply.await?;
        if counted.len() == count {
            return Ok(counted);
        }
        let why = format!("{} counts other groups", node.short());
        Err(Error::Unavailable(why))
    }
}

/// Returns the traffic class of blocks that are fetched for a call, if no client waits.
fn class_of(call: &RowCall) -> Option<Class> {
    call.background.then_some(MOVED)
}

#[cfg(test)]
mod tests;
