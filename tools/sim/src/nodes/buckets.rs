//! Buckets that clients make, fill, empty and delete, all at once and through any machine.
//!
//! The deletion of a bucket is an operation on each of its keys: it succeeds only where the key is
//! absent, and nothing is written to the key afterwards. So the history of each key shows whether
//! an acknowledged write was lost with its bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::Id;
use archipel_model::{Bucket, Condition, Error, Model};

use super::client::{self, Fault, MOST};
use super::content::{content, value_of};
use super::history::{End, History};
use super::machine::Called;
use super::world::World;
use crate::linear::{self, Call, Reply};
use crate::rng::Rng;

/// The names of these buckets.
const NAMES: [&str; 2] = ["filled", "emptied"];
/// The keys of objects in them. They are in different partitions, mostly.
const KEYS: [&str; 2] = ["x", "y/1"];
/// The value of a key whose bucket is gone. No object has this number.
const GONE: u32 = u32::MAX;
const PATIENCE: Duration = Duration::from_secs(60);
/// The client that looks at rest.
const LAST: usize = 95;

/// The knowledge of clients about these buckets.
#[derive(Debug, Default)]
pub struct Buckets {
    /// Each bucket that was ever seen, by its id.
    all: BTreeMap<Id, Known>,
    /// The operations on keys, named by [`key_in`].
    history: History,
}

/// The knowledge of clients about a bucket.
#[derive(Debug)]
struct Known {
    name: &'static str,
    /// True if its creation was acknowledged, or a write to it. A node may know of a bucket that is
    /// being created, and then never is.
    exists: bool,
    /// True if a deletion was acknowledged.
    deleted: bool,
    /// True if a deletion may have taken effect.
    perhaps_deleted: bool,
}

impl Buckets {
    /// Returns true if the checker has no room for more operations on this key.
    fn is_full(&self, key: &str) -> bool {
        self.history.of(key) >= MOST
    }
}

fn key_in(bucket: &Id, key: &str) -> String {
    format!("{bucket}/{key}")
}

/// Makes, deletes, reads or changes a bucket.
pub async fn act(world: &World, client: usize, machine: usize, rng: &mut Rng) {
    let name = NAMES[rng.below(NAMES.len() as u64) as usize];
    let key = KEYS[rng.below(KEYS.len() as u64) as usize];
    let wish = match rng.below(100) {
        0..15 => return make(world, machine, name).await,
        15..35 => return delete(world, client, machine, name).await,
        35..60 => Wish::Put,
        60..80 => Wish::Delete,
        _ => Wish::Get,
    };
    operate(world, client, machine, (name, key), wish).await;
}

async fn make(world: &World, machine: usize, name: &'static str) {
    // A deletion after the beginning may come before the answer.
    let gone = deleted(world);
    world.note(format!("→ {machine}: makes {name}"));
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        let made = model.create_bucket(name, None).await;
        made.map(|bucket| bucket.id)
    });
    match called.await {
        Called::Answered(Ok(id)) => {
            world.note(format!("{machine} makes {name}: {id}"));
            see(world, id, name);
            if gone.contains(&id) {
                world.violation(format!("{name} was made a second time with the id {id}"));
            }
            note_that_it_exists(world, &id);
        }
        Called::Answered(Err(Error::BucketExists)) | Called::Down | Called::Lost => {}
        Called::Answered(Err(error)) => world.may_happen(&error),
    }
}

fn note_that_it_exists(world: &World, id: &Id) {
    if let Some(known) = world.record().buckets.all.get_mut(id) {
        known.exists = true;
    }
}

/// Returns the buckets whose deletion was acknowledged.
fn deleted(world: &World) -> BTreeSet<Id> {
    let record = world.record();
    let gone = record.buckets.all.iter().filter(|(_, known)| known.deleted);
    gone.map(|(id, _)| *id).collect()
}

/// Notes that there is a bucket.
fn see(world: &World, id: Id, name: &'static str) {
    let mut record = world.record();
    record.buckets.all.entry(id).or_insert(Known {
        name,
        exists: false,
        deleted: false,
        perhaps_deleted: false,
    });
}

/// Returns the bucket as a machine knows it. That may be long ago.
async fn find(world: &World, machine: usize, name: &'static str) -> Option<Arc<Bucket>> {
    let found =
        world.machines[machine].call(
            PATIENCE,
            |model| async move { model.find_bucket(name).await },
        );
    match found.await {
        Called::Answered(Ok(found)) => {
            let bucket = found?;
            see(world, bucket.id, name);
            Some(bucket)
        }
        Called::Answered(Err(error)) => {
            world.may_happen(&error);
            None
        }
        Called::Down | Called::Lost => None,
    }
}

async fn delete(world: &World, client: usize, machine: usize, name: &'static str) {
    let Some(bucket) = find(world, machine, name).await else {
        return;
    };
    let id = bucket.id;
    let is_full = |key: &&str| world.record().buckets.is_full(&key_in(&id, key));
    if KEYS.iter().any(is_full) {
        return;
    }
    let call = Call::Swap(None, Some(GONE));
    let begun: Vec<_> = {
        let history = &mut world.record().buckets.history;
        let begin = |key: &&str| {
            let key = key_in(&id, key);
            let index = history.begin(client, &key, call);
            (key, index)
        };
        KEYS.iter().map(begin).collect()
    };
    world.note(format!("client {client} → {machine}: deletes {name} {id}"));
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        // The name may stand for another bucket by now.
        let now = model.find_bucket(name).await?;
        let now = now.filter(|now| now.id == id).ok_or(Error::NoSuchBucket)?;
        model.delete_bucket(&now).await
    });
    let called = called.await;
    if let Called::Answered(Err(why)) = &called {
        world.note(format!("client {client} ← {machine}: {name} {id}: {why}"));
    }
    let end = match called {
        Called::Answered(Ok(())) => End::Answered(Reply::Done),
        Called::Answered(Err(Error::BucketNotEmpty | Error::NoSuchBucket)) | Called::Down => {
            End::Void
        }
        Called::Answered(Err(error)) => {
            world.may_happen(&error);
            End::Unknown
        }
        Called::Lost => End::Unknown,
    };
    world.note(format!(
        "client {client} ← {machine}: deletes {name} {id}: {end:?}"
    ));
    let mut record = world.record();
    record.counts.usage(end);
    for (key, index) in begun {
        record.buckets.history.end(&key, index, end);
    }
    if end == End::Void {
        return;
    }
    if let Some(known) = record.buckets.all.get_mut(&id) {
        known.deleted |= end == End::Answered(Reply::Done);
        known.perhaps_deleted = true;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Put,
    Delete,
    Get,
}

async fn operate(
    world: &World,
    client: usize,
    machine: usize,
    (name, key): (&'static str, &'static str),
    wish: Wish,
) -> bool {
    let Some(bucket) = find(world, machine, name).await else {
        return false;
    };
    let id = bucket.id;
    let full = key_in(&id, key);
    let call = match wish {
        Wish::Put => Call::Write(Some(world.next_value())),
        Wish::Delete => Call::Write(None),
        Wish::Get => Call::Read,
    };
    if client < LAST && world.record().buckets.is_full(&full) {
        return false;
    }
    let index = world.record().buckets.history.begin(client, &full, call);
    world.note(format!(
        "client {client} → {machine}: {full} {call:?} #{index}"
    ));
    let called = world.machines[machine].call(PATIENCE, |model| perform(model, bucket, key, call));
    let end = match called.await {
        Called::Answered(Ok(end)) => end,
        Called::Answered(Err(Fault::Error(error))) => {
            world.may_happen(&error);
            End::Unknown
        }
        Called::Answered(Err(Fault::Wrong(why))) => {
            world.violation(format!("{full}: {why}"));
            End::Unknown
        }
        Called::Down => End::Void,
        Called::Lost => End::Unknown,
    };
    world.note(format!(
        "client {client} ← {machine}: {full} #{index} {end:?}"
    ));
    if let End::Answered(Reply::Done | Reply::Saw(Some(_))) = end {
        note_that_it_exists(world, &id);
    }
    let mut record = world.record();
    record.counts.usage(end);
    record.buckets.history.end(&full, index, end);
    matches!(end, End::Answered(_))
}

async fn perform(
    model: Model,
    bucket: Arc<Bucket>,
    key: &'static str,
    call: Call,
) -> Result<End, Fault> {
    let done = match call {
        Call::Write(Some(value)) => {
            let mut writer = model.begin_object(&bucket, key)?;
            writer.write(content(value)).await?;
            let done = writer.finish(client::meta(value), Condition::Always);
            done.await.map(drop)
        }
        Call::Write(None) | Call::Swap(..) => {
            let done = model.delete_object(&bucket, key, Condition::Always);
            done.await.map(drop)
        }
        Call::Read => {
            let saw = match model.head_object(&bucket, key).await {
                Ok(head) => value_of(&head.etag),
                Err(Error::NoSuchKey | Error::NoSuchBucket) => None,
                Err(error) => return Err(error.into()),
            };
            return Ok(End::Answered(Reply::Saw(saw)));
        }
    };
    match done {
        Ok(()) => Ok(End::Answered(Reply::Done)),
        Err(Error::NoSuchBucket) => Ok(End::Void),
        Err(error) => Err(error.into()),
    }
}

/// Judges these buckets at rest.
pub async fn judge(world: &World) {
    let live = live_buckets(world).await;
    let faults = faults(&mut world.record().buckets, &live);
    for fault in faults {
        world.violation(fault);
    }
}

/// Returns the buckets that the first machine shows. All others must show the same, and all keys
/// must be readable.
async fn live_buckets(world: &World) -> Vec<Id> {
    let mut live = BTreeMap::new();
    let serving = world.serving();
    for name in NAMES {
        for machine in serving.iter().copied() {
            let id = find(world, machine, name).await.map(|bucket| bucket.id);
            if *live.entry(name).or_insert(id) != id {
                let first = live[name];
                world.violation(format!(
                    "{name} is {first:?} at the first machine and {id:?} at machine {machine} at rest"
                ));
            }
            if id.is_none() {
                continue;
            }
            for key in KEYS {
                let client = LAST + machine;
                if !operate(world, client, machine, (name, key), Wish::Get).await {
                    world.violation(format!(
                        "{key} of {name} cannot be read through machine {machine} at rest"
                    ));
                }
            }
        }
    }
    live.into_values().flatten().collect()
}

/// Returns what is impossible about the buckets and their keys, if these ones live.
fn faults(buckets: &mut Buckets, live: &[Id]) -> Vec<String> {
    let Buckets { all, history } = buckets;
    let mut faults = Vec::new();
    for (id, known) in all {
        let is_live = live.contains(id);
        let name = known.name;
        if !is_live && !known.exists {
            continue;
        }
        if is_live && known.deleted {
            faults.push(format!("{name} {id} was deleted and is there"));
        }
        if !is_live && !known.perhaps_deleted {
            faults.push(format!("{name} {id} is gone, and nobody deleted it"));
        }
        for key in KEYS {
            let key = key_in(id, key);
            if !is_live {
                let index = history.begin(LAST, &key, Call::Read);
                history.end(&key, index, End::Answered(Reply::Saw(Some(GONE))));
            }
            if let Some(fault) = fault(history, &key, known) {
                faults.push(fault);
            }
        }
    }
    faults
}

/// Returns why the history of a key is impossible.
fn fault(history: &History, key: &str, known: &Known) -> Option<String> {
    let happened = history.keys.get(key)?;
    // Nobody can tell an absent key from a bucket that is gone.
    let says = |event: &linear::Event| {
        let is_nothing = matches!(event.reply, Some((_, Reply::Saw(None))));
        !(is_nothing && event.call == Call::Read && known.perhaps_deleted)
    };
    let mut events = History::events(happened);
    events.retain(says);
    if linear::is_linearizable(&events) {
        return None;
    }
    let lines = happened.iter().map(|event| format!("\n    {event:?}"));
    let lines: String = lines.collect();
    Some(format!("the history of {key} is not linearizable:{lines}"))
}
