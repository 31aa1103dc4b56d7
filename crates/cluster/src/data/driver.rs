//! The driver of one operation of the register: it sends the operation's requests, and brings the
//! answers back.

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{Id, Stamp, Writer, boxed};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;

use crate::data::Data;
use crate::data::block_reader::Prefetch;
use crate::data::block_writer::BlockWriter;
use crate::data::bundle::Bundle;
use crate::data::companions::Brings;
use crate::data::options::{Guard, PointingRow};
use crate::error::Error;
use crate::node::detach::DetachOnDrop;
use crate::node::group::Group;
use crate::node::options::Taking;
use crate::node::wire::{About, RowCall};
use crate::register::versions::Promises;
use crate::register::{self, Answer, Operation, Outcome, Output, ReplicaSet, Request};
use sent::{Came, Deferred, Reply, Sent};
use waiting::{Due, Replicas, Waiting, is_busy, is_passing, is_settled};

mod follow;
mod refresh;
mod sent;
#[cfg(test)]
mod tests;
pub(crate) mod waiting;

/// One operation on one row, with what its requests need.
pub(crate) struct Run<'a> {
    pub inner: &'a Arc<Data>,
    pub key: &'a RowKey,
    pub guards: &'a [Guard],
    pub pointing: Option<&'a PointingRow>,
    pub durability: Durability,
    /// True if a read wants the payload. Metadata alone are cheaper.
    pub with_payload: bool,
    /// True if a read without payload found that the newest version must be written back. It ended
    /// as unavailable, and must be repeated with the payload.
    pub needs_payload: bool,
    /// The writer of the blocks that a written value refers to.
    pub upload: Option<&'a BlockWriter>,
    /// Takes the blocks of a row on the stream that brings the row.
    pub prefetch: Option<&'a Arc<Prefetch>>,
    /// The operations that it runs together with.
    pub bundle: Option<&'a Arc<Bundle>>,
    /// True if no client waits for the operation.
    pub background: bool,
    /// True if the write lets space become free.
    pub frees: bool,
    /// The thing that the operation would take from a version of an object.
    pub taking: Option<&'a Taking>,
    /// Rows that the operation's own writes bring with them.
    pub companions: Brings<'a>,
    /// The id of these writes.
    pub write: Id,
    /// The versions of the object that the requests ask about.
    pub about: Option<About>,
    /// The writer of the operation's stamps.
    pub writer: Writer,
    pub group: Group,
}

/// The condition of an update, evaluated on the promises of a quorum.
pub(crate) type Decide<'d> = dyn FnMut(&Promises<'_>) -> register::Decision<Value> + Send + 'd;

impl Run<'_> {
    /// Runs the operation to its end. Only updates call `decide`, with the current
    /// version and the stamp that the new one gets.
    #[boxed]
    pub async fn drive(
        &mut self,
        mut operation: Operation<Value>,
        outputs: Vec<Output<Value>>,
        decide: &mut Decide<'_>,
    ) -> Result<Outcome<Value>, Error> {
        let mut waiting = Waiting::new(Instant::now(), self.inner.options.times);
        let mut todo: VecDeque<_> = outputs.into();
        let mut sent = Sent {
            replies: FuturesUnordered::new(),
            deferred: Vec::new(),
            open: BTreeSet::new(),
            away: self.away(),
            refused: None,
            newer_at: None,
        };
        loop {
            while let Some(output) = todo.pop_front() {
                if self.has_gone_back(&operation) {
                    todo = operation.give_up().into();
                    continue;
                }
                let followed = self.follow(output, &mut operation, &mut sent, decide);
                match followed.await? {
                    ControlFlow::Continue(more) => todo.extend(more),
                    ControlFlow::Break(outcome) => return Ok(outcome),
                }
            }
            let came = self.reply(&mut sent, &mut waiting, &operation).await;
            todo.extend(self.on_came(came, &mut operation, &mut sent, &mut waiting)?);
        }
    }

    /// Goes on with a reply, or because none came in time.
    fn on_came(
        &self,
        came: Came,
        operation: &mut Operation<Value>,
        sent: &mut Sent,
        waiting: &mut Waiting,
    ) -> Result<Vec<Output<Value>>, Error> {
        Ok(match came {
            Came::Reply(reply) => {
                let least = self.inner.options.times.least_hedge;
                let hedge = || (self.inner.round_trip(&self.group) / 2).max(least);
                waiting.on_answer(Instant::now(), operation.is_reading().then(hedge));
                self.on_reply(operation, sent, waiting, *reply)
            }
            Came::Panic => return Err(Error::Unavailable("a request broke off".into())),
            Came::Time => {
                self.send_deferred(sent);
                Vec::new()
            }
            Came::Silence => {
                sent.away = self.away();
                match waiting.on_silence(Instant::now(), &self.replicas(sent, operation)) {
                    Due::Again => operation.on_timeout(&mut next(self.inner)),
                    Due::Over => operation.give_up(),
                }
            }
            // All replicas have answered, or have failed for long enough, and there is no quorum.
            Came::End => operation.give_up(),
        })
    }

    /// Returns true if this node's stamps [went back](archipel_base::stamp::StampClock::step_back)
    /// since the operation began, so that its next ones might be below its earlier ones.
    fn has_gone_back(&mut self, operation: &Operation<Value>) -> bool {
        let writer = self.inner.options.stamps.writer();
        if operation.is_reading() {
            self.writer = writer;
        }
        self.writer != writer && !operation.is_over()
    }

    /// Asks about the operation's attempt, once it was sent, if replicas keep it as a version.
    fn ask_about_attempt(&mut self, operation: &Operation<Value>) {
        let Some(attempt) = operation.attempt().filter(|_| operation.is_keeping()) else {
            return;
        };
        let about = self.about.get_or_insert_default();
        if !about.names.contains(&Some(attempt)) {
            about.names.push(Some(attempt));
        }
    }

    /// Waits for the next reply, for as long as one may come.
    async fn reply(
        &self,
        sent: &mut Sent,
        waiting: &mut Waiting,
        operation: &Operation<Value>,
    ) -> Came {
        let until = if self.group.is_local_alone() {
            // A local disk has no alternative, so there is no time limit.
            None
        } else {
            match waiting.until(&self.replicas(sent, operation)) {
                None => return Came::End,
                until => until,
            }
        };
        let deferred = sent.deferred.iter().map(|deferred| deferred.until).min();
        let first = until.into_iter().chain(deferred).min();
        let reply = match (first, sent.replies.is_empty()) {
            (None, _) => sent.replies.next().await,
            (Some(first), true) => {
                tokio::time::sleep_until(first).await;
                return Came::nothing(first, deferred);
            }
            (Some(first), false) => {
                match tokio::time::timeout_at(first, sent.replies.next()).await {
                    Ok(reply) => reply,
                    Err(_) => return Came::nothing(first, deferred),
                }
            }
        };
        match reply {
            None => Came::End,
            Some(Some((to, round, reply))) => {
                sent.open.remove(&(to, round));
                Came::Reply(Box::new((to, round, reply)))
            }
            Some(None) => Came::Panic,
        }
    }

    /// Passes a reply to the operation, unless it is a failure that may pass.
    fn on_reply(
        &self,
        operation: &mut Operation<Value>,
        sent: &mut Sent,
        waiting: &mut Waiting,
        (to, round, reply): Reply,
    ) -> Vec<Output<Value>> {
        match reply {
            Ok(answer) => {
                if matches!(answer, Answer::Superseded { .. }) {
                    sent.newer_at = Some(to);
                }
                operation.on_answer(to, round, answer, &mut next(self.inner))
            }
            Err(error) => {
                self.send_deferred(sent);
                let (passing, busy) = (is_passing(&error), is_busy(&error));
                sent.refused = Some(error);
                if round == operation.round() {
                    if busy {
                        waiting.on_busy(Instant::now());
                    }
                    sent.away = self.away();
                    let replicas = self.replicas(sent, operation);
                    if !waiting.on_failure(Instant::now(), (to, round), passing, &replicas) {
                        return Vec::new();
                    }
                }
                operation.on_failure(to, round, &mut next(self.inner))
            }
        }
    }

    fn replicas(&self, sent: &Sent, operation: &Operation<Value>) -> Replicas<'_> {
        Replicas {
            quorums: &self.group.quorums,
            away: sent.away,
            open: sent.open_in(operation.round()),
            without: operation.goes_without(),
            round: operation.round(),
        }
    }

    /// Returns the replicas of suspected nodes.
    fn away(&self) -> ReplicaSet {
        let all = self.group.quorums.all().iter();
        let peers = self.inner.peers.as_ref();
        let away = |index: &usize| {
            let member = self.group.members.get(*index);
            member.is_some_and(|member| self.group.is_away(peers, &member.node.node))
        };
        all.filter(away).collect()
    }

    /// Sends a request to a replica, or defers it if it is a read that the quorum does not need.
    fn send(&self, sent: &mut Sent, to: usize, round: u32, request: Request<Value>) {
        let is_read = matches!(request, Request::Read { .. });
        let defer = is_read.then(|| self.defer_time(sent, round)).flatten();
        if self.group.address(to).is_none() || !sent.open.insert((to, round)) {
            return;
        }
        // No operation needs the deferred requests of an earlier round.
        sent.deferred.retain(|deferred| deferred.round == round);
        match defer {
            None => self.ask(sent, to, round, request),
            Some(time) => sent.deferred.push(Deferred {
                until: Instant::now() + time,
                to,
                round,
                request,
            }),
        }
    }

    /// Sends the deferred hedge requests.
    fn send_deferred(&self, sent: &mut Sent) {
        for deferred in std::mem::take(&mut sent.deferred) {
            self.ask(sent, deferred.to, deferred.round, deferred.request);
        }
    }

    /// Sends a request. It then runs to its end, also when enough other replicas have answered: a
    /// write should reach all replicas, and the time of an answer measures the replica's distance.
    fn ask(&self, sent: &Sent, to: usize, round: u32, request: Request<Value>) {
        let Some(address) = self.group.address(to) else {
            return;
        };
        let call = RowCall {
            guards: self.guards.iter().map(Guard::to_wire).collect(),
            pointing: self.pointing.map(PointingRow::pointer),
            buffered: self.durability == Durability::Buffered,
            with_payload: self.with_payload,
            background: self.background,
            frees: self.frees,
            about: match request {
                Request::Write { .. } => None,
                Request::Read { .. } | Request::Prepare { .. } => self.about.clone(),
            },
            taking: match request {
                Request::Prepare { asking: None, .. } => self.taking.cloned(),
                _ => None,
            },
            companions: self.companions_of(&request),
            ..RowCall::plain(address, self.key.key.clone(), request)
        };
        let (inner, group, bundle) = (self.inner.clone(), self.group.clone(), self.bundle.cloned());
        let route = self.upload.and_then(|upload| upload.route(&group, to));
        let wanted = matches!(call.request, Request::Read { with_value: true });
        let prefetch = self.prefetch.filter(|_| wanted && !group.is_local(to));
        let prefetch = prefetch.cloned();
        let is_write = matches!(call.request, Request::Write { .. });
        let asking = async move {
            // The rare cases are boxed, so that they do not enlarge the future of every request.
            let answer = match (route, prefetch) {
                (Some(route), _) => Box::pin(route.ask(call)).await,
                (None, Some(prefetch)) => Box::pin(prefetch.ask(&inner, &group, to, call)).await,
                (None, None) => inner.ask(&group, to, call, bundle.as_deref()).await,
            };
            if is_write && !is_settled(&answer) {
                inner.tell(|events| events.write_was_missed(&group, to));
            }
            (to, round, answer)
        };
        // A panic costs one operation. The panic hook logs it.
        let asking = AssertUnwindSafe(asking).catch_unwind();
        sent.replies.push(DetachOnDrop::new(asking.map(Result::ok)));
    }

    /// Returns how long the next request is deferred: see [`Group::defer_time`].
    fn defer_time(&self, sent: &Sent, round: u32) -> Option<Duration> {
        let asked = sent.open_in(round).without(sent.away);
        self.group.defer_time(self.inner.peers.as_ref(), asked)
    }

    /// Pauses for a random time, whose limit doubles with each attempt.
    async fn pause(&self, attempt: u32) {
        let far = self.inner.round_trip(&self.group);
        let times = &self.inner.options.times;
        let most = times.first_pause.max(far) * 2u32.pow(attempt.min(10));
        let most = most.min(times.longest_pause.max(2 * far)).as_micros() as u64;
        let micros = self.inner.options.random.next_u64() % most.max(1);
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}

fn next(inner: &Data) -> impl FnMut(Stamp) -> Stamp + '_ {
    |seen| inner.next_stamp(seen)
}
