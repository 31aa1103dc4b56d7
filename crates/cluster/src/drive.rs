//! Drives one operation of the register: sends what it asks to be sent, and tells it what comes back.

use std::collections::{BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::Stamp;
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;

use crate::blocks::Prefetch;
use crate::error::Error;
use crate::group::Group;
use crate::heal::is_settled;
use crate::inner::Inner;
use crate::lasting::Lasting;
use crate::register::{self, Answer, Operation, Outcome, Output, ReplicaSet, Request, Version};
use crate::upload::Upload;
use crate::wire::RowCall;
use waiting::{Due, Replicas, Waiting, again_if_it_fails, is_passing};

pub(crate) mod waiting;

/// How long the first pause of a contended operation is at most; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// How long a pause is at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How long at least the value of a read is waited for when the others have answered, before all are asked for it.
const LEAST_HEDGE: Duration = Duration::from_millis(20);

/// One operation on one row, being driven.
pub(crate) struct Run<'a> {
    pub inner: &'a Arc<Inner>,
    pub key: &'a RowKey,
    pub guards: &'a [RowKey],
    pub durability: Durability,
    /// Whether a read gets the body; a head is cheaper.
    pub with_body: bool,
    /// A read without bodies found that the newest version must be written back: it ended as
    /// unavailable, and must be done with them.
    pub needs_body: bool,
    /// Brings the blocks of what is written.
    pub upload: Option<&'a Upload>,
    /// Takes the blocks of what is read, on the stream that brings the row.
    pub prefetch: Option<&'a Arc<Prefetch>>,
    /// Nobody waits for it.
    pub background: bool,
    pub group: Group,
}

/// An answer, or why there is none, to the request of a round.
type Reply = (usize, u32, Result<Answer<Value>, Error>);

/// A request that a replica is spared for a while.
struct Spared {
    until: Instant,
    to: usize,
    round: u32,
    request: Request<Value>,
}

/// What is under way.
struct Sent {
    /// `None` is a panic.
    replies: FuturesUnordered<Lasting<Option<Reply>>>,
    /// Those that are asked only if the others do not answer in time, or one of them fails.
    spared: Vec<Spared>,
    /// Who has been asked, or is to be, in which round, and has not answered.
    open: BTreeSet<(usize, u32)>,
    /// Who seemed to be away when it was looked at last.
    away: ReplicaSet,
    /// What a replica said, or why it did not, when it failed last.
    refused: Option<Error>,
    /// Who knows a newer layout.
    newer_at: Option<usize>,
}

impl Sent {
    /// Who has been asked in a round, and has not answered.
    fn open_in(&self, round: u32) -> ReplicaSet {
        let open = self.open.iter().filter(|(_, of)| *of == round);
        open.map(|(place, _)| *place).collect()
    }
}

impl Run<'_> {
    /// Runs it to its end. `decide` is asked only by updates.
    pub async fn drive(
        &mut self,
        mut operation: Operation<Value>,
        outputs: Vec<Output<Value>>,
        decide: &mut (dyn FnMut(&Version<Value>) -> register::Decision<Value> + Send),
    ) -> Result<Outcome<Value>, Error> {
        let mut waiting = Waiting::new(Instant::now());
        let mut todo: VecDeque<_> = outputs.into();
        let mut sent = Sent {
            replies: FuturesUnordered::new(),
            spared: Vec::new(),
            open: BTreeSet::new(),
            away: self.away(),
            refused: None,
            newer_at: None,
        };
        loop {
            while let Some(output) = todo.pop_front() {
                let more = match output {
                    Output::Done(outcome) => return ended(outcome, sent.refused),
                    Output::Send {
                        request: Request::Write { .. },
                        ..
                    } if !self.with_body => {
                        self.needs_body = true;
                        return Ok(Outcome::Unavailable);
                    }
                    Output::Send { to, round, request } => {
                        self.send(&mut sent, to, round, request);
                        Vec::new()
                    }
                    Output::Decide(version) => operation.decided(decide(&version)),
                    Output::Pause { attempt } => {
                        self.pause(attempt).await;
                        operation.resume(&mut next(self.inner))
                    }
                    Output::Refresh { epoch } => {
                        self.refresh(&mut operation, epoch, sent.newer_at).await?
                    }
                };
                todo.extend(more);
            }
            let more = match self.reply(&mut sent, &waiting, operation.round()).await {
                Came::Reply(reply) => {
                    let hedge = || (self.inner.round_trip(&self.group) / 2).max(LEAST_HEDGE);
                    waiting.on_answer(Instant::now(), operation.is_reading().then(hedge));
                    self.take(&mut operation, &mut sent, &mut waiting, *reply)
                }
                Came::Panic => return Err(Error::Unavailable("a request broke off".into())),
                Came::Time => {
                    self.ask_spared(&mut sent);
                    Vec::new()
                }
                Came::Silence => {
                    sent.away = self.away();
                    let replicas = self.replicas(&sent, operation.round());
                    match waiting.on_silence(Instant::now(), &replicas) {
                        Due::Again => operation.on_timeout(&mut next(self.inner)),
                        Due::Over => operation.give_up(),
                    }
                }
                // Everybody has answered, or failed for long enough, and it is not enough.
                Came::End => operation.give_up(),
            };
            todo.extend(more);
        }
    }

    /// Waits for the next reply, for as long as that makes sense.
    async fn reply(&self, sent: &mut Sent, waiting: &Waiting, round: u32) -> Came {
        let until = match self.group.is_local_alone() {
            // There is nothing to do about a local disk but to wait for it.
            true => None,
            false => match waiting.until(Instant::now(), &self.replicas(sent, round)) {
                None => return Came::End,
                until => until,
            },
        };
        let spared = sent.spared.iter().map(|spared| spared.until).min();
        let first = until.into_iter().chain(spared).min();
        let reply = match (first, sent.replies.is_empty()) {
            (None, _) => sent.replies.next().await,
            (Some(first), true) => {
                tokio::time::sleep_until(first).await;
                return Came::nothing(first, spared);
            }
            (Some(first), false) => {
                match tokio::time::timeout_at(first, sent.replies.next()).await {
                    Ok(reply) => reply,
                    Err(_) => return Came::nothing(first, spared),
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

    /// Tells the operation what came, unless it is a failure that may pass.
    fn take(
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
                self.ask_spared(sent);
                let passing = is_passing(&error) && round == operation.round();
                sent.refused = Some(error);
                if passing {
                    sent.away = self.away();
                    let replicas = self.replicas(sent, round);
                    if !waiting.on_failure(Instant::now(), to, round, &replicas) {
                        return Vec::new();
                    }
                }
                operation.on_failure(to, round, &mut next(self.inner))
            }
        }
    }

    fn replicas(&self, sent: &Sent, round: u32) -> Replicas<'_> {
        Replicas {
            quorums: &self.group.quorums,
            away: sent.away,
            open: sent.open_in(round),
        }
    }

    /// Who seems to be away.
    fn away(&self) -> ReplicaSet {
        let all = self.group.quorums.all().iter();
        let peers = self.inner.peers.as_ref();
        let away = |place: &usize| {
            let member = self.group.members.get(*place);
            member.is_some_and(|member| self.group.is_away(peers, &member.node.node))
        };
        all.filter(away).collect()
    }

    /// Asks a replica. A read goes to who should not be needed only after a while.
    fn send(&self, sent: &mut Sent, to: usize, round: u32, request: Request<Value>) {
        let is_read = matches!(request, Request::Read { .. });
        let spare = is_read.then(|| self.spare_time(sent, round)).flatten();
        if self.group.address(to).is_none() || !sent.open.insert((to, round)) {
            return;
        }
        // What is left of an earlier round nobody needs any more.
        sent.spared.retain(|spared| spared.round == round);
        match spare {
            None => self.ask(sent, to, round, request),
            Some(time) => sent.spared.push(Spared {
                until: Instant::now() + time,
                to,
                round,
                request,
            }),
        }
    }

    /// Asks who was to be spared.
    fn ask_spared(&self, sent: &mut Sent) {
        for spared in std::mem::take(&mut sent.spared) {
            self.ask(sent, spared.to, spared.round, spared.request);
        }
    }

    /// Asks a replica. Once it is asked that goes on to its end, also when enough others have answered: a write shall reach all, and how
    /// long an answer takes is how far the replica is.
    fn ask(&self, sent: &Sent, to: usize, round: u32, request: Request<Value>) {
        let Some(address) = self.group.address(to) else {
            return;
        };
        let call = RowCall {
            address,
            key: self.key.key.clone(),
            guards: self.guards.iter().map(|guard| guard.key.clone()).collect(),
            buffered: self.durability == Durability::Buffered,
            with_body: self.with_body,
            background: self.background,
            request,
        };
        let (inner, group) = (self.inner.clone(), self.group.clone());
        let route = self.upload.and_then(|upload| upload.route(&group, to));
        let wanted = matches!(call.request, Request::Read { with_value: true });
        let prefetch = self.prefetch.filter(|_| wanted && !group.is_local(to));
        let prefetch = prefetch.cloned();
        let is_write = matches!(call.request, Request::Write { .. });
        let asking = async move {
            // What is rarely needed is kept out of what each request carries about.
            let answer = match (route, prefetch) {
                (Some(route), _) => Box::pin(route.ask(call)).await,
                (None, Some(prefetch)) => Box::pin(prefetch.ask(&inner, &group, to, call)).await,
                (None, None) => inner.ask(&group, to, call).await,
            };
            if is_write && !is_settled(&answer) {
                inner.missed(&group, to);
            }
            (to, round, answer)
        };
        // A defect costs one operation, and is in the log by the panic hook.
        let asking = AssertUnwindSafe(asking).catch_unwind();
        sent.replies.push(Lasting::new(asking.map(Result::ok)));
    }

    /// How long who is asked next is spared: see [`Group::spare_time`].
    fn spare_time(&self, sent: &Sent, round: u32) -> Option<Duration> {
        let asked = sent.open_in(round).without(sent.away);
        self.group.spare_time(self.inner.peers.as_ref(), asked)
    }

    /// Goes on under the layout that a replica knows.
    async fn refresh(
        &mut self,
        operation: &mut Operation<Value>,
        epoch: u64,
        known_at: Option<usize>,
    ) -> Result<Vec<Output<Value>>, Error> {
        let inner = self.inner;
        if inner.epochs.number() < epoch {
            let member = known_at.and_then(|place| self.group.members.get(place));
            let Some(member) = member else {
                return Ok(operation.give_up());
            };
            let node = member.node.node;
            let away = || self.group.is_away(inner.peers.as_ref(), &node);
            again_if_it_fails(away, || inner.learn_from(&node)).await?;
        }
        inner.epochs.settled().await;
        let before = self.group.epoch;
        self.group = self.group.renewed(&inner.epochs, inner.peers.as_ref())?;
        let successive = self.group.epoch == before + 1;
        let quorums = self.group.quorums.clone();
        Ok(operation.restart(quorums, successive, &mut next(inner)))
    }

    /// A random time that doubles with each attempt.
    async fn pause(&self, attempt: u32) {
        let far = self.inner.round_trip(&self.group);
        let most = FIRST_PAUSE.max(far) * 2u32.pow(attempt.min(10));
        let most = most.min(LONGEST_PAUSE.max(2 * far)).as_micros() as u64;
        let micros = self.inner.options.random.next_u64() % most.max(1);
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}

/// What came while an operation waited.
enum Came {
    Reply(Box<Reply>),
    /// Time to ask who was to be spared.
    Time,
    /// Nothing, for as long as was to be waited.
    Silence,
    /// Nothing, and nothing is to be expected.
    End,
    Panic,
}

impl Came {
    /// Nothing came until `at`, which is when somebody is not spared any longer, or was silent for long enough.
    fn nothing(at: Instant, spared: Option<Instant>) -> Came {
        match spared == Some(at) {
            true => Came::Time,
            false => Came::Silence,
        }
    }
}

fn next(inner: &Inner) -> impl FnMut(Stamp) -> Stamp + '_ {
    |seen| inner.next_stamp(seen)
}

/// If a replica failed for a reason of its own, that is what the caller is told.
fn ended(outcome: Outcome<Value>, refused: Option<Error>) -> Result<Outcome<Value>, Error> {
    match (outcome, refused) {
        (Outcome::Unavailable | Outcome::Unknown, Some(error)) => Err(error),
        (outcome, _) => Ok(outcome),
    }
}
