//! The operation of each step of a task, and its condition.

use archipel_base::{Id, Stamp};
use archipel_cluster::register::coordinator::Repeat;
use archipel_cluster::register::versions::{self, Promises, VersionReport};
use archipel_cluster::register::{Decision, NextStamp, Operation, Rules, Start, Version};
use archipel_storage::{Payload, RowVersion, Value, VersionKind, VersionName};
use bytes::Bytes;

use super::{Doing, Step};
use crate::model::client::Begun;
use crate::model::network::Packet;
use crate::model::scenario::Scenario;
use crate::model::versions::check::{Call, Numbers, Reply};
use crate::model::versions::{Row, Versions};
use crate::model::world::World;

fn object(number: u32, at: VersionName) -> Value {
    Value {
        metadata: Bytes::copy_from_slice(&number.to_be_bytes()),
        payload: Payload::Inline(Bytes::copy_from_slice(&number.to_be_bytes())),
        version: at.is_some().then(|| {
            Box::new(RowVersion {
                at,
                ..RowVersion::default()
            })
        }),
        ..Value::default()
    }
}

/// Returns the numbers in the metadata and in the payload of an object.
pub(super) fn numbers_of(value: &Value) -> Option<Numbers> {
    let Payload::Inline(payload) = &value.payload else {
        return None;
    };
    let is_object = value.kind() == VersionKind::Object;
    let metadata = value.metadata[..].try_into().ok().filter(|_| is_object)?;
    let payload = payload[..].try_into().ok()?;
    Some((u32::from_be_bytes(metadata), u32::from_be_bytes(payload)))
}

/// Returns the state of the object's row that makes the death of a version final, if a promise
/// tells it.
fn final_death(rules: Rules, promises: &Promises<'_>, name: VersionName) -> Option<Option<Value>> {
    let dead = || versions::kill(rules, promises, name);
    promises.know(name).then(dead).flatten()
}

impl Doing {
    /// Returns the version that the requests ask about.
    pub(in crate::model::versions) fn about(&self) -> Option<VersionName> {
        match self.call {
            Call::Look(name) | Call::Kill(name) | Call::Remove(name) | Call::Change(name, _) => {
                Some(name)
            }
            Call::Hold(_) => Some(None),
            _ => self.attempt.map(Some),
        }
    }

    pub(in crate::model::versions) fn decide(
        &mut self,
        promises: &Promises<'_>,
        rules: Rules,
    ) -> Decision<Value> {
        let current = promises.current.value.as_ref();
        let (value, means) = match (self.step, self.call) {
            (Step::Main, Call::Create(number)) => {
                if current.is_some_and(|value| value.kind() != VersionKind::Void) {
                    (None, Reply::Failed)
                } else {
                    let at = Some(promises.ballot);
                    (Some(Some(object(number, at))), Reply::Done(at))
                }
            }
            (Step::Main, Call::Retire(stamp)) => {
                let is_same = promises.current.stamp == stamp;
                let retires = versions::retires(rules, current, is_same);
                (retires.then_some(None), Reply::Done(None))
            }
            (Step::Main, Call::Kill(name)) => {
                (versions::kill(rules, promises, name), Reply::Done(None))
            }
            (Step::Main, Call::Remove(name)) => match promises.state_of(name) {
                Some(_) => (versions::kill(rules, promises, name), Reply::Done(None)),
                None => (final_death(rules, promises, name), Reply::Gone),
            },
            (Step::Main, Call::Hold(number)) => {
                let metadata = Bytes::copy_from_slice(&number.to_be_bytes());
                let value = versions::change(promises, None, |_| metadata);
                let means = value.as_ref().map_or(Reply::Failed, |_| Reply::Done(None));
                (value.map(Some), means)
            }
            (Step::Main, Call::Change(name, number)) => {
                let metadata = Bytes::copy_from_slice(&number.to_be_bytes());
                match versions::change(promises, name, |_| metadata) {
                    Some(value) => (Some(Some(value)), Reply::Done(None)),
                    None => (final_death(rules, promises, name), Reply::Gone),
                }
            }
            (Step::Settle, Call::Look(name)) => {
                let numbers = promises.state_of(name).as_ref().and_then(numbers_of);
                let same = |value: &Value| value.metadata.clone();
                let value = versions::change(promises, name, same).map(Some);
                let value = value.or_else(|| versions::kill(rules, promises, name));
                (value, Reply::Saw(numbers))
            }
            _ => (None, Reply::Failed),
        };
        self.means = Some(means);
        match value {
            Some(value) => Decision::Write(value),
            None => Decision::Keep,
        }
    }
}

impl Scenario<Versions> {
    /// Begins the operation of a step.
    pub(super) fn operation_of(
        &self,
        (step, call): (Step, Call),
        start: Start,
        id: Id,
        next: &mut NextStamp<'_>,
    ) -> Begun<Value> {
        let guarded = self.has_fences();
        match (step, call) {
            (Step::Main, Call::Put(number)) => {
                let at = next(Stamp::ZERO);
                let value = Some(object(number, Some(at)));
                let (operation, outputs) = Operation::write(start, id, value, guarded, &mut |_| at);
                (operation.keeping(true), outputs)
            }
            (Step::Main, Call::PutNull(number)) => {
                let value = Some(object(number, None));
                let (operation, outputs) = Operation::write(start, id, value, guarded, next);
                (operation.repeating(Repeat::UnlessOvertaken), outputs)
            }
            (Step::Main, Call::Create(_)) => {
                let (operation, outputs) = Operation::update(start, id, guarded, next);
                (operation.keeping(true), outputs)
            }
            (Step::Main, Call::Get | Call::List) => Operation::read(start),
            (Step::Main, Call::Look(name)) => Operation::look(start, name),
            (Step::Main, Call::Retire(_)) => Operation::update(start, id, false, next),
            (step, call) => {
                // To settle a version follows no settings.
                let guarded = guarded && step == Step::Main;
                let by_all = matches!(call, Call::Hold(_));
                // The death of a version is written above its attempt.
                let name = match call {
                    Call::Look(name)
                    | Call::Kill(name)
                    | Call::Remove(name)
                    | Call::Change(name, _) => name,
                    _ => None,
                };
                let next = &mut |seen: Stamp| next(seen.max(name.unwrap_or_default()));
                let (operation, outputs) = Operation::update(start, id, guarded, next);
                let operation = operation.repeating(Repeat::Never);
                (operation.promised_by_all(by_all), outputs)
            }
        }
    }

    /// Brings a version that lives to replicas that may lack it.
    pub(super) fn hand_round(
        &self,
        world: &mut World<Versions>,
        c: usize,
        name: VersionName,
        report: VersionReport,
    ) {
        if report.value.is_none() {
            return;
        }
        let epoch = world.clients[c].epoch;
        for to in 0..self.nodes {
            world.network.insert(Packet::Spread {
                epoch,
                to,
                row: Row::Kept(name),
                version: Version {
                    stamp: report.stamp,
                    write: report.write,
                    value: report.value.clone(),
                },
                settled: false,
            });
        }
    }

    /// Merges what replicas told a listing.
    pub(super) fn listed(&self, told: &[(usize, Vec<VersionReport>, Stamp)]) -> Vec<VersionName> {
        let absent = Version::absent();
        let promises = Promises {
            current: &absent,
            ballot: Stamp::ZERO,
            reports: told,
        };
        let names = told.iter().flat_map(|(_, of, _)| of).map(|one| one.name);
        let mut names: Vec<VersionName> = names
            .filter(|name| promises.state_of(*name).is_some())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
