//! The requests of clients, and the answers of machines.

use std::sync::Arc;
use std::time::Duration;

use archipel_model::{
    Bucket, BucketLock, Condition, Error, Governance, LockChange, Model, ObjectHead, Predicate,
    Retention, RetentionMode, VersionEntry, VersionId, VersionQuery, Versioning,
};
use parking_lot::Mutex;

use super::listings::{Page, Shown};
use super::reference::{Call, Reply, Stored};
use super::{BUCKET, KEYS, Kind, MOST_CHANGES, Of, expires, retained};
use crate::nodes::client::{self, Fault};
use crate::nodes::content::{content, value_of};
use crate::nodes::machine::Called;
use crate::nodes::world::World;
use crate::rng::Rng;

const PATIENCE: Duration = Duration::from_secs(60);
/// The longest retention. All end before the run is judged.
const LONGEST_RETENTION_MS: u64 = 60_000;

/// Runs a client.
pub async fn run(world: &World, kind: Kind, mut rng: Rng) {
    while !world.is_calm() {
        let think = rng.between(1, 2 * world.style.think_millis);
        tokio::time::sleep(Duration::from_millis(think)).await;
        let machine = rng.below(world.machines.len() as u64) as usize;
        if rng.chance(8) {
            change_settings(world, kind, machine, &mut rng).await;
            continue;
        }
        let key = KEYS[rng.below(KEYS.len() as u64) as usize];
        if rng.chance(12) {
            list(world, machine, key).await;
        } else if !world.record().versions.is_full(key) {
            let call = choose(world, key, &mut rng);
            operate(world, machine, Of::Key(key), call).await;
        }
    }
}

/// Chooses a request for a key.
fn choose(world: &World, key: &'static str, rng: &mut Rng) -> Call {
    let has_lock = world.record().versions.has_lock;
    match rng.below(100) {
        0..35 => Call::Put {
            value: world.next_value(),
            expected: match rng.below(100) {
                0..70 => None,
                70..80 => Some(None),
                _ => Some(some_object(world, key, rng)),
            },
        },
        35..47 => Call::Delete,
        47..57 => Call::Get,
        57..70 => Call::GetVersion(some_version(world, key, rng)),
        70..80 if has_lock => Call::Hold(some_version(world, key, rng), rng.chance(60)),
        80..85 if has_lock => {
            let until = retained::right_millis(world) + rng.between(1_000, LONGEST_RETENTION_MS);
            Call::Retain(some_version(world, key, rng), until)
        }
        // After a deletion nobody could tell which version is current, because a rule may have
        // removed some.
        _ if expires(world, key) => Call::Get,
        _ => Call::DeleteVersion(some_version(world, key, rng)),
    }
}

/// Returns a version that an answer named, or the null version.
fn some_version(world: &World, key: &'static str, rng: &mut Rng) -> VersionId {
    let record = world.record();
    let named = record.versions.shown(key);
    match named.get(rng.below(named.len() as u64 + 2) as usize) {
        Some((id, _)) => *id,
        None => VersionId::Null,
    }
}

fn some_object(world: &World, key: &'static str, rng: &mut Rng) -> Option<u32> {
    let record = world.record();
    let named = record.versions.shown(key);
    // Recent ones are most often current.
    let recent: Vec<_> = named
        .iter()
        .filter_map(|(_, stored)| *stored)
        .rev()
        .take(3)
        .collect();
    recent.get(rng.below(3) as usize).copied()
}

async fn change_settings(world: &World, kind: Kind, machine: usize, rng: &mut Rng) {
    if world.record().versions.settings.len() >= MOST_CHANGES {
        return;
    }
    if !kind.locks {
        let call = if rng.chance(60) {
            Call::Enable
        } else {
            Call::Suspend
        };
        operate(world, machine, Of::Settings, call).await;
    } else if !world.record().versions.has_lock
        && operate(world, machine, Of::Settings, Call::Enable).await
    {
        let called = world.machines[machine].call(PATIENCE, |model| async move {
            let bucket = model
                .find_bucket(BUCKET)
                .await?
                .ok_or(Error::NoSuchBucket)?;
            model.set_bucket_lock(&bucket, BucketLock::default()).await
        });
        match called.await {
            Called::Answered(Ok(_)) => {
                world.note("the bucket of versions has object lock");
                world.record().versions.has_lock = true;
            }
            // This machine may not know yet that versioning is enabled.
            Called::Answered(Err(Error::LockNeedsVersions)) | Called::Down | Called::Lost => {}
            Called::Answered(Err(error)) => world.may_happen(&error),
        }
    }
}

/// Calls a machine, and notes what happens. Returns true if there was an answer.
pub(super) async fn operate(world: &World, machine: usize, of: Of, call: Call) -> bool {
    let began = retained::right_millis(world);
    let index = world.record().versions.begin(of, call);
    world.note(format!("versions → {machine}: {of:?} {call:?} #{index}"));
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        match of {
            Of::Key(key) => {
                let bucket = client::bucket(&model, BUCKET).await?;
                perform(&model, &bucket, key, call).await
            }
            Of::Settings => set(&model, call).await,
        }
    });
    let mut is_void = false;
    let reply = match called.await {
        Called::Answered(Ok(reply)) => Some(reply),
        // The machine does not know yet that the bucket has object lock.
        Called::Answered(Err(Fault::Error(Error::NoBucketLock))) | Called::Down => {
            is_void = true;
            None
        }
        Called::Answered(Err(Fault::Error(error))) => {
            world.note(format!("versions ← {machine}: {error}"));
            world.may_happen(&error);
            None
        }
        Called::Answered(Err(Fault::Wrong(why))) => {
            world.violation(format!("{of:?}: {why}"));
            None
        }
        Called::Lost => None,
    };
    world.note(format!("versions ← {machine}: {of:?} #{index} {reply:?}"));
    let mut record = world.record();
    match reply {
        Some(_) => record.counts.answered += 1,
        None if is_void => {}
        None => record.counts.unknown += 1,
    }
    if reply.is_some() || is_void {
        record.versions.end(of, index, reply);
    }
    drop(record);
    if let (Of::Key(key), Some(reply)) = (of, reply) {
        retained::judge(world, key, call, reply, began);
        name_in(world, key, call, reply);
    }
    reply.is_some()
}

/// Notes the version that an answer names, if there is one.
fn name_in(world: &World, key: &'static str, call: Call, reply: Reply) {
    let (id, stored) = match (call, reply) {
        (Call::Put { value, .. }, Reply::Made(id)) => (id, Some(value)),
        (_, Reply::Made(id)) => (id, None),
        (_, Reply::Saw(Some((id, value)))) => (id, Some(value)),
        (Call::GetVersion(id), Reply::SawVersion(Some((stored, _)))) => (id, stored),
        _ => return,
    };
    name(world, key, id, stored);
}

/// Notes that an answer named a version.
fn name(world: &World, key: &'static str, id: VersionId, stored: Stored) {
    if world.record().versions.name(key, id, stored) {
        world.violation(format!("version {id} of {key} has changed to {stored:?}"));
    }
}

async fn set(model: &Model, call: Call) -> Result<Reply, Fault> {
    let versioning = match call {
        Call::Suspend => Versioning::Suspended,
        _ => Versioning::Enabled,
    };
    let bucket = client::bucket(model, BUCKET).await?;
    model.set_versioning(&bucket, versioning).await?;
    Ok(Reply::Done)
}

async fn perform(
    model: &Model,
    bucket: &Arc<Bucket>,
    key: &str,
    call: Call,
) -> Result<Reply, Fault> {
    match call {
        Call::Put { value, expected } => put(model, bucket, key, value, expected).await,
        Call::Delete => {
            let deleted = model.delete_object(bucket, key, Condition::Always).await?;
            Ok(deleted.id.map_or(Reply::Removed, Reply::Made))
        }
        Call::DeleteVersion(id) => match model
            .delete_version(bucket, key, id, Governance::Respect, Condition::Always)
            .await
        {
            Ok(_) => Ok(Reply::Done),
            Err(Error::ProtectedByLock) => Ok(Reply::Refused),
            Err(error) => Err(error.into()),
        },
        Call::Hold(id, on) => lock(model, bucket, (key, id), LockChange::LegalHold(on)).await,
        Call::Retain(id, until_ms) => {
            let retention = Some(Retention {
                mode: RetentionMode::Compliance,
                until_ms,
            });
            let change = LockChange::Retention(retention, Governance::Respect);
            match lock(model, bucket, (key, id), change).await {
                Err(Fault::Error(Error::ProtectedByLock)) => Ok(Reply::Refused),
                reply => reply,
            }
        }
        Call::Get => match model.open_object(bucket, key).await {
            Ok(reader) => {
                let id = reader.metadata().id;
                Ok(Reply::Saw(Some((id, client::read_whole(&reader).await?))))
            }
            Err(Error::NoSuchKey | Error::Deleted(_)) => Ok(Reply::Saw(None)),
            Err(error) => Err(error.into()),
        },
        Call::GetVersion(id) => get_version(model, bucket, key, id).await,
        Call::Enable | Call::Suspend => set(model, call).await,
    }
}

async fn put(
    model: &Model,
    bucket: &Arc<Bucket>,
    key: &str,
    value: u32,
    expected: Option<Stored>,
) -> Result<Reply, Fault> {
    let saw = Arc::default();
    let mut writer = model.begin_object(bucket, key)?;
    writer.write(content(value)).await?;
    let done = writer.finish(client::meta(value), condition(expected, &saw));
    match done.await {
        Ok(head) => Ok(Reply::Made(head.id)),
        Err(Error::PreconditionFailed) => Ok(Reply::Saw(*saw.lock())),
        Err(error) => Err(error.into()),
    }
}

async fn get_version(
    model: &Model,
    bucket: &Bucket,
    key: &str,
    id: VersionId,
) -> Result<Reply, Fault> {
    match model.open_version(bucket, key, id).await {
        Ok(reader) => {
            let (named, held) = (reader.metadata().id, is_held(reader.metadata()));
            if named != id {
                return Err(Fault::Wrong(format!("{named} instead of version {id}")));
            }
            let content = client::read_whole(&reader).await?;
            Ok(Reply::SawVersion(Some((Some(content), held))))
        }
        Err(Error::IsMarker(_)) => Ok(Reply::SawVersion(Some((None, false)))),
        Err(Error::NoSuchVersion) => Ok(Reply::SawVersion(None)),
        Err(error) => Err(error.into()),
    }
}

/// Changes the hold or the retention of a version.
async fn lock(
    model: &Model,
    bucket: &Bucket,
    (key, id): (&str, VersionId),
    change: LockChange,
) -> Result<Reply, Fault> {
    match model.change_lock(bucket, key, Some(id), change).await {
        Ok(_) => Ok(Reply::Done),
        Err(Error::NoSuchVersion | Error::NoSuchKey | Error::IsMarker(_)) => Ok(Reply::Absent),
        Err(error) => Err(error.into()),
    }
}

fn is_held(head: &ObjectHead) -> bool {
    head.lock.legal_hold == Some(true)
}

/// Returns the condition that the current object has an expected number. `saw` gets its number.
fn condition(
    expected: Option<Option<u32>>,
    saw: &Arc<Mutex<Option<(VersionId, u32)>>>,
) -> Condition {
    let Some(expected) = expected else {
        return Condition::Always;
    };
    let saw = saw.clone();
    let test: Predicate = Arc::new(move |head: Option<&ObjectHead>| {
        let current = head.and_then(|head| Some((head.id, value_of(&head.etag)?)));
        *saw.lock() = current;
        match current.map(|(_, value)| value) == expected {
            true => Ok(()),
            false => Err(Error::PreconditionFailed),
        }
    });
    Condition::Check(test)
}

/// Lists the versions of a key. Returns them, if there was an answer.
pub(super) async fn list(world: &World, machine: usize, key: &'static str) -> Option<Vec<Shown>> {
    let began = retained::right_millis(world);
    let from = world.record().versions.next();
    let query = VersionQuery {
        prefix: key.into(),
        limit: 1000,
        ..VersionQuery::default()
    };
    let called = world.machines[machine].call(PATIENCE, |model| async move {
        let bucket = client::bucket(&model, BUCKET).await?;
        Ok::<_, Fault>(model.list_versions(&bucket, &query).await?)
    });
    let listing = match called.await {
        Called::Answered(Ok(listing)) => listing,
        Called::Answered(Err(Fault::Error(error))) => {
            world.may_happen(&error);
            return None;
        }
        Called::Answered(Err(Fault::Wrong(why))) => {
            world.violation(why);
            return None;
        }
        Called::Down | Called::Lost => return None,
    };
    let shown: Vec<Shown> = listing.entries.iter().filter_map(shown).collect();
    if shown.len() != listing.entries.len() || listing.truncated || listing.passed_over {
        world.violation(format!(
            "a listing of versions of {key} that cannot be: {listing:?}"
        ));
        return None;
    }
    world.note(format!("versions ← {machine}: {key} has {shown:?}"));
    let ids: Vec<VersionId> = shown.iter().map(|shown| shown.id).collect();
    retained::judge_listing(world, key, &ids, began);
    let mut record = world.record();
    record.counts.pages += 1;
    let to = record.versions.next();
    let page = Page {
        between: (from, to),
        shown: shown.clone(),
    };
    record.versions.pages.entry(key).or_default().push(page);
    drop(record);
    for Shown { id, stored, .. } in &shown {
        name(world, key, *id, *stored);
    }
    Some(shown)
}

/// Returns an entry of a listing, if it is a version with the content of a put.
fn shown(entry: &VersionEntry) -> Option<Shown> {
    let VersionEntry::Version {
        head, is_latest, ..
    } = entry
    else {
        return None;
    };
    let stored = match head.is_marker {
        true => None,
        false => Some(value_of(&head.etag)?),
    };
    Some(Shown {
        id: head.id,
        stored,
        held: is_held(head),
        is_latest: *is_latest,
    })
}
