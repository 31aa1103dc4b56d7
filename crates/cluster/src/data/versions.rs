//! Versions of objects, over all replicas: see [`versions`](crate::register::versions).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archipel_base::Stamp;
use archipel_storage::{RowKey, RowVersion, Value, VersionKind, VersionName};
use bytes::Bytes;
use parking_lot::Mutex;

use super::Data;
use super::decision::{Current, Decision};
use super::rows::{start, unexpected};
use crate::data::options::WriteOptions;
use crate::error::Error;
use crate::node::clock::TOLERANCE_MS;
use crate::node::wire::About;
use crate::register::coordinator::Repeat;
use crate::register::versions::{self, Promises, VersionReport};
use crate::register::{self, Operation, Outcome, Rules};

mod consider;
mod kept;
mod look;
mod open;
mod promised;
mod settle;
#[cfg(test)]
mod tests;

use consider::{Considered, consider};
pub use kept::KeptVersions;
use promised::Asked;

/// The most times that a write or a decision begins again after others were faster.
pub(super) const TRIES: usize = 16;
/// The most times that a decision asks for more versions. Each time it passes over thousands that
/// are dead.
const MOST_ASKED: usize = 1024;

/// The versions that a decision about one of them is based on.
#[derive(Clone, Copy, Debug)]
pub struct VersionSeen<'a> {
    /// The version that the decision is about; `None` if there is none of that name.
    pub named: Option<&'a Value>,
    /// True if it is the current version.
    pub is_current: bool,
    /// The stamp under which a version that is there and not current was last current.
    pub last: Option<Stamp>,
    /// The current version; `None` if there is none.
    pub current: Option<&'a Value>,
    /// True if the key has no other version. Never true where others are not
    /// [listed](WriteOptions::unlisted).
    pub is_alone: bool,
}

/// A decision about one version.
pub enum VersionDecision<E> {
    /// Leave it as it is, for this reason.
    Abort(E),
    /// There is none, for this reason. Make sure that none of that name appears later.
    Absent(E),
    /// Delete it for good. If it is the current version, the newest other one becomes current.
    Kill,
    /// Give it this metadata.
    Change(Bytes),
}

/// The result of a look at a version.
pub(super) struct Look {
    /// The version's newest state.
    pub report: VersionReport,
    /// True if a quorum holds that state for good, or until an operation changes it.
    pub is_final: bool,
}

/// The end of one attempt at a decision.
enum Attempt<E> {
    Done(Result<(), E>),
    /// More must be asked.
    Ask(Asked),
    /// A replica lacked the version. Nothing was sent.
    Again,
    /// Another write overtook what was sent. If `killed` is true, it deleted a version that lived.
    Overtaken {
        killed: bool,
    },
}

/// The start of one attempt at a decision.
#[derive(Clone, Copy)]
struct Try {
    name: VersionName,
    asked: Asked,
    /// True if another write overtook an earlier attempt. A replica may hold the death that it
    /// sent.
    is_overtaken: bool,
    /// True if one of these attempts deleted a version that lived.
    killed: bool,
}

impl Try {
    fn first(name: VersionName, how: &WriteOptions<'_>) -> Try {
        Try {
            name,
            asked: Asked {
                unlisted: how.unlisted,
                ..Asked::default()
            },
            is_overtaken: false,
            killed: false,
        }
    }
}

impl Data {
    /// Writes a new version of an object without a condition, in one round. Returns its name.
    pub(super) async fn write_new(
        self: &Arc<Data>,
        key: &RowKey,
        value: Option<Value>,
        how: &WriteOptions<'_>,
    ) -> Result<Stamp, Error> {
        for _ in 0..TRIES {
            self.wait_for_time().await?;
            let at = self.next_stamp(Stamp::ZERO);
            let value = value.clone().map(|value| named(value, at));
            let (guarded, id) = (!how.guards.is_empty(), self.random_id());
            let mut run = self.run(key, how)?.writing(id);
            let start = start(&run.group);
            let (operation, outputs) = Operation::write(start, id, value, guarded, &mut |_| at);
            let mut never = |_: &Promises<'_>| register::Decision::Keep;
            let operation = operation.keeping(true);
            match run.drive(operation, outputs, &mut never).await? {
                Outcome::Written { .. } => return Ok(at),
                Outcome::Guarded => return Err(Error::Guarded),
                // Its content may be gone.
                Outcome::Overtaken if how.yields => return Err(Error::Overtaken),
                Outcome::Overtaken => {}
                other => return Err(unexpected(&other)),
            }
        }
        Err(Error::Overtaken)
    }

    /// Writes the null version of an object without a condition, in two rounds.
    ///
    /// All null versions have one name, so an attempt that others overtook cannot be sent again.
    /// The first round makes sure that a node whose clock is behind overtakes what is there.
    pub(super) async fn write_null(
        self: &Arc<Data>,
        key: &RowKey,
        value: Option<Value>,
        how: WriteOptions<'_>,
    ) -> Result<Stamp, Error> {
        let at = Mutex::new(Stamp::ZERO);
        let write = |current: Current<'_>| {
            *at.lock() = current.own;
            Decision::Write::<Infallible>(value.clone())
        };
        match self.update_stamped(key, how, write).await? {
            Ok(()) => Ok(at.into_inner()),
            Err(never) => match never {},
        }
    }

    /// Does the same as [`update_stamped`](Data::update_stamped) for a new version of an object.
    /// Returns its name.
    ///
    /// # Errors
    /// As [`update`](Data::update). With a pointing row, [`Error::Overtaken`] is left to the
    /// caller.
    pub async fn update_versioned<E>(
        self: &Arc<Data>,
        key: &RowKey,
        how: WriteOptions<'_>,
        decide: impl Fn(Current<'_>) -> Decision<E> + Send + Sync,
    ) -> Result<Result<Stamp, E>, Error>
    where
        E: Send,
    {
        let _turn = self.queues.turn(key).await;
        for _ in 0..TRIES {
            self.wait_for_time().await?;
            let pointing = how.pointing.as_ref();
            let id = pointing.map_or_else(|| self.random_id(), |row| row.intent.write);
            let guarded = !how.guards.is_empty() || pointing.is_some();
            let mut run = self.run(key, &how)?.writing(id);
            let next = &mut |seen| self.next_stamp(seen);
            let (operation, outputs) = Operation::update(start(&run.group), id, guarded, next);
            let operation = operation
                .keeping(true)
                .by_own_quorum(pointing.is_some_and(|pointing| !pointing.is_named));
            let (mut at, mut aborted) = (Stamp::ZERO, None);
            let mut adapter = |promises: &Promises<'_>| {
                let current = promises.current.value.as_ref();
                let current = Current {
                    value: current.filter(|value| value.kind() != VersionKind::Void),
                    stamp: promises.current.stamp,
                    write: promises.current.write,
                    own: promises.ballot,
                };
                match decide(current) {
                    Decision::Write(value) => {
                        at = promises.ballot;
                        register::Decision::Write(value.map(|value| named(value, at)))
                    }
                    Decision::Abort(error) => {
                        aborted = Some(error);
                        register::Decision::Keep
                    }
                }
            };
            match (run.drive(operation, outputs, &mut adapter).await?, aborted) {
                (Outcome::Written { .. }, _) => return Ok(Ok(at)),
                (Outcome::Kept(_), Some(error)) => return Ok(Err(error)),
                (Outcome::Guarded, _) => return Err(Error::Guarded),
                (Outcome::Overtaken, _) if how.pointing.is_some() || how.yields => {
                    return Err(Error::Overtaken);
                }
                (Outcome::Overtaken, _) => {}
                (other, _) => return Err(unexpected(&other)),
            }
        }
        Err(Error::Overtaken)
    }

    /// Decides about one version of an object, in two rounds.
    ///
    /// `decide` may be called more than once; the last answer counts.
    ///
    /// # Errors
    /// Outside: [`Error::Guarded`], [`Error::Held`], [`Error::Unavailable`]. Inside: what `decide`
    /// aborted with.
    pub async fn decide_version<E>(
        self: &Arc<Data>,
        row: &RowKey,
        name: VersionName,
        how: WriteOptions<'_>,
        decide: impl Fn(&VersionSeen<'_>) -> VersionDecision<E> + Send + Sync,
    ) -> Result<Result<(), E>, Error>
    where
        E: Send,
    {
        let _turn = self.queues.turn(row).await;
        let first = Try::first(name, &how);
        let (mut tries, mut asks, mut now) = (0, 0, first);
        while tries < TRIES && asks < MOST_ASKED {
            match self.decide_once(row, now, &how, &decide).await {
                // An earlier attempt may have taken effect, or may yet.
                Ok(Attempt::Done(Err(_))) | Err(Error::Guarded | Error::Held)
                    if !versions::may_be_refused(Rules::CORRECT, now.is_overtaken) =>
                {
                    return Err(unexpected(&Outcome::Unknown));
                }
                Ok(Attempt::Done(done)) => return Ok(done),
                Ok(Attempt::Ask(more)) => {
                    asks += 1;
                    now.asked = more;
                }
                Ok(Attempt::Again) => {
                    tries += 1;
                    now.asked = Asked::default();
                }
                Ok(Attempt::Overtaken { killed }) => {
                    tries += 1;
                    now = Try {
                        is_overtaken: true,
                        killed: killed || now.killed,
                        ..first
                    };
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::Unavailable("too much contention".into()))
    }

    /// Returns a stamp that the ballot of a decision about this version must exceed. The name of a
    /// version is the stamp of the write that made it, and its death is written above that.
    ///
    /// A client may send any name. So a name from further ahead than clocks differ moves no clock.
    fn least_ballot(&self, name: VersionName) -> Stamp {
        let latest = self.now_ms().saturating_add_signed(TOLERANCE_MS);
        name.filter(|at| at.millis() <= latest).unwrap_or_default()
    }

    /// Makes one attempt at a decision about a version.
    async fn decide_once<E: Send>(
        self: &Arc<Data>,
        row: &RowKey,
        now: Try,
        how: &WriteOptions<'_>,
        decide: &(impl Fn(&VersionSeen<'_>) -> VersionDecision<E> + Send + Sync),
    ) -> Result<Attempt<E>, Error> {
        self.wait_for_time().await?;
        let Try { name, asked, .. } = now;
        let (guarded, id) = (!how.guards.is_empty(), self.random_id());
        let refused = AtomicBool::new(false);
        let mut run = self.run(row, how)?.writing(id).unless(&refused);
        // The null version comes before all others in the rows.
        let null = asked.below.map(|_| None);
        let mut names: Vec<VersionName> = vec![name];
        for other in asked.other.into_iter().chain(null) {
            if !names.contains(&other) {
                names.push(other);
            }
        }
        run.about = Some(About {
            names,
            newest: !asked.unlisted,
            below: asked.below,
        });
        let least = self.least_ballot(name);
        let next = &mut |seen: Stamp| self.next_stamp(seen.max(least));
        let (operation, outputs) = Operation::update(start(&run.group), id, guarded, next);
        let operation = operation
            .repeating(Repeat::Never)
            .promised_by_all(how.by_all);
        let most_dead = self.replica.hooks().most_dead;
        let mut considered = Considered::nothing();
        let mut adapter = |promises: &Promises<'_>| {
            let (decision, mut latest) = consider(promises, name, (asked, most_dead), decide);
            // The absence may be the deletion's own work. So it counts as done, and its event is
            // sent.
            if now.killed && latest.is_absence() {
                latest.refusal = None;
            }
            refused.store(latest.refusal.is_some(), Ordering::Relaxed);
            considered.follow_with(latest);
            decision
        };
        let outcome = run.drive(operation, outputs, &mut adapter).await?;
        if let (Outcome::Kept(_), Some(report)) = (&outcome, &considered.lacking) {
            self.hand_round(row, report, how.background).await?;
            return Ok(Attempt::Again);
        }
        match (outcome, considered.ask) {
            (Outcome::Kept(_), Some(more)) => Ok(Attempt::Ask(more)),
            (Outcome::Written { .. } | Outcome::Kept(_), _) => {
                Ok(Attempt::Done(considered.refusal.map_or(Ok(()), Err)))
            }
            (Outcome::Overtaken, _)
                if considered.repeats && versions::is_decided_again(Rules::CORRECT, name) =>
            {
                let killed = considered.refusal.is_none();
                Ok(Attempt::Overtaken { killed })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }
}

/// Returns the value as the version of this name.
fn named(value: Value, at: Stamp) -> Value {
    let kind = value.kind();
    Value {
        version: Some(Box::new(RowVersion {
            at: Some(at),
            kind,
            ..RowVersion::default()
        })),
        ..value
    }
}
