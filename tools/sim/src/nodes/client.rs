//! The clients: each runs one operation after another, each on a random machine.

mod listing;
mod parts;

use std::sync::Arc;
use std::time::Duration;

use archipel_model::{
    Bucket, Condition, Error, ListQuery, Model, ObjectHead, ObjectMeta, ObjectReader, Predicate,
};
use bytes::Bytes;
use parking_lot::Mutex;

use super::buckets;
use super::content::{content, etag, value_of};
use super::faults;
use super::history::End;
use super::loose;
use super::machine::Called;
use super::uploads;
use super::world::{BUCKET, World};
use crate::linear::{Call, MAX_EVENTS, Reply};
use crate::rng::Rng;

pub use listing::list_page;
use parts::upload;
pub use parts::{parts_of, send_part};

/// The keys of objects.
pub const KEYS: [&str; 8] = ["a/1", "a/2", "a", "b/1", "a/b/3", "b/2", "c", "c/"];
/// The largest number of operations on a key, so that the checker has room for the final reads.
pub const MOST: usize = MAX_EVENTS - 16;

/// A client's kind of request for a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Head,
    Get,
    Put,
    Upload,
    Delete,
}

/// Runs one client.
pub async fn run(world: Arc<World>, number: usize, mut rng: Rng) {
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(
            rng.between(1, world.style.think_millis),
        ))
        .await;
        let machine = rng.below(world.machines.len() as u64) as usize;
        if rng.chance(20) {
            list(&world, number, machine, &mut rng).await;
            continue;
        }
        if rng.chance(world.style.bucket_percent) {
            buckets::act(&world, number, machine, &mut rng).await;
            continue;
        }
        if rng.chance(world.style.loose_percent) {
            loose::act(&world, number, machine, &mut rng).await;
            continue;
        }
        let key = KEYS[rng.below(world.style.keys as u64) as usize];
        if rng.chance(world.style.upload_percent) {
            uploads::act(&world, number, machine, key, &mut rng).await;
            continue;
        }
        if world.record().history.of(key) < MOST {
            let order = order(&world, key, &mut rng);
            let end = operate(&world, number, machine, order).await;
            if end == End::Answered(Reply::Done) && rng.chance(world.style.blackout_percent) {
                faults::blackout(&world, &mut rng).await;
            }
        }
    }
}

fn wish(rng: &mut Rng) -> Wish {
    match rng.below(100) {
        0..15 => Wish::Head,
        15..40 => Wish::Get,
        40..70 => Wish::Put,
        70..80 => Wish::Upload,
        _ => Wish::Delete,
    }
}

/// Returns the longest time that a client waits.
fn patience(rng: &mut Rng) -> Duration {
    Duration::from_millis(if rng.chance(10) {
        rng.between(1, 500)
    } else {
        rng.between(20_000, 90_000)
    })
}

/// A request to a model, with everything that the judgement of its answer needs.
struct Order {
    bucket: &'static str,
    key: &'static str,
    wish: Wish,
    call: Call,
    /// The size of the pieces in which the content arrives.
    piece: usize,
    /// The longest time that the client waits.
    patience: Duration,
}

/// Returns a random order.
fn order(world: &World, key: &'static str, rng: &mut Rng) -> Order {
    let wish = wish(rng);
    Order {
        bucket: BUCKET,
        key,
        wish,
        call: call(world, key, wish, rng),
        piece: rng.between(1000, 400_000) as usize,
        patience: patience(rng),
    }
}

/// Reads a key after all faults are over. Returns true if there was an answer.
pub async fn read(
    world: &World,
    client: usize,
    machine: usize,
    (bucket, key): (&'static str, &'static str),
) -> bool {
    let order = Order {
        bucket,
        key,
        wish: Wish::Get,
        call: Call::Read,
        piece: 0,
        patience: Duration::from_secs(60),
    };
    matches!(
        operate(world, client, machine, order).await,
        End::Answered(_)
    )
}

async fn operate(world: &World, client: usize, machine: usize, order: Order) -> End {
    let Order {
        bucket,
        key,
        wish,
        call,
        patience,
        ..
    } = order;
    let index = world.record().of(bucket).begin(client, key, call);
    world.note(format!(
        "client {client} → {machine}: {key} {wish:?} {call:?} #{index}"
    ));
    let called = world.machines[machine].call(patience, |model| perform(model, order));
    let (end, why) = match called.await {
        Called::Answered(Ok(end)) => (end, String::new()),
        Called::Answered(Err(Fault::Error(error))) => {
            (world.judge(wish, &error), error.to_string())
        }
        Called::Answered(Err(Fault::Wrong(why))) => {
            world.violation(format!("{key}: {why}"));
            (End::Unknown, why)
        }
        Called::Down => (End::Void, "down".into()),
        Called::Lost => (End::Unknown, "lost".into()),
    };
    world.note(format!(
        "client {client} ← {machine}: {key} #{index} {end:?} {why}"
    ));
    let mut record = world.record();
    record.counts.usage(end);
    record.of(bucket).end(key, index, end);
    end
}

/// Returns the call as the checker of linearizability sees it.
fn call(world: &World, key: &str, wish: Wish, rng: &mut Rng) -> Call {
    let new = match wish {
        Wish::Head | Wish::Get => return Call::Read,
        Wish::Put | Wish::Upload => Some(world.next_value()),
        Wish::Delete => None,
    };
    match rng.below(100) {
        0..50 => Call::Write(new),
        50..70 => Call::Swap(None, new),
        _ => Call::Swap(likely(world, key, rng), new),
    }
}

/// Returns a value that the key may have.
pub fn likely(world: &World, key: &str, rng: &mut Rng) -> Option<u32> {
    let record = world.record();
    let all = record.history.keys.get(key)?;
    let recent = all.iter().rev().take(4);
    let values: Vec<_> = recent
        .filter_map(|happened| match (happened.call, happened.reply) {
            (_, Some(Reply::Saw(saw))) => Some(saw),
            (Call::Write(value) | Call::Swap(_, value), _) => Some(value),
            (Call::Read, _) => None,
        })
        .collect();
    if values.is_empty() {
        return None;
    }
    values[rng.below(values.len() as u64) as usize]
}

impl World {
    /// Returns the end of an operation that an error implies.
    fn judge(&self, wish: Wish, error: &Error) -> End {
        // The upload may have ended because nobody knows what became of the completion.
        if wish != Wish::Upload || *error != Error::NoSuchUpload {
            self.may_happen(error);
        }
        End::Unknown
    }

    /// Reports a violation, unless the error leaves open what happened.
    pub fn may_happen(&self, error: &Error) {
        use Error::{Busy, Conflict, Full, Unavailable, Unconfirmed};
        let may_fail = matches!(error, Unavailable(_) | Unconfirmed(_) | Busy(_) | Conflict);
        let may_be_full = self.style.fills && matches!(error, Full(_));
        if !may_fail && !may_be_full {
            self.violation(format!("an impossible error: {error:?}"));
        }
    }
}

/// The reason why an operation did not end well.
pub enum Fault {
    /// The model's error.
    Error(Error),
    /// The result contradicts the known content.
    Wrong(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

/// Returns a bucket that is never deleted.
pub async fn bucket(model: &Model, name: &str) -> Result<Arc<Bucket>, Fault> {
    let found = model.find_bucket(name).await?;
    found.ok_or_else(|| Fault::Wrong("the bucket is gone".into()))
}

async fn perform(model: Model, order: Order) -> Result<End, Fault> {
    let bucket = bucket(&model, order.bucket).await?;
    let saw: Saw = Arc::default();
    let done = match order.wish {
        Wish::Head => return metadata(&model, &bucket, order.key).await,
        Wish::Get => return get(&model, &bucket, order.key).await,
        Wish::Put => put(&model, &bucket, &order, condition(order.call, &saw)).await,
        Wish::Upload => upload(&model, &bucket, &order, condition(order.call, &saw)).await,
        Wish::Delete => {
            let condition = condition(order.call, &saw);
            let deleted = model.delete_object(&bucket, order.key, condition);
            deleted.await.map(|_| ())
        }
    };
    match done {
        Ok(()) => Ok(End::Answered(Reply::Done)),
        Err(Error::PreconditionFailed) => {
            let saw = *saw.lock();
            Ok(End::Answered(Reply::Saw(saw)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The value that a condition saw last.
pub type Saw = Arc<Mutex<Option<u32>>>;

/// Returns the condition of a swap: the current value equals the expected one.
pub fn condition(call: Call, saw: &Saw) -> Condition {
    let Call::Swap(expected, _) = call else {
        return Condition::Always;
    };
    let saw = saw.clone();
    let test: Predicate = Arc::new(move |metadata: Option<&ObjectHead>| {
        let current = metadata.and_then(|metadata| value_of(&metadata.etag));
        *saw.lock() = current;
        if current == expected {
            Ok(())
        } else {
            Err(Error::PreconditionFailed)
        }
    });
    Condition::Check(test)
}

async fn metadata(model: &Model, bucket: &Bucket, key: &str) -> Result<End, Fault> {
    let value = match model.head_object(bucket, key).await {
        Ok(metadata) => Some(named(&metadata)?),
        Err(Error::NoSuchKey) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(End::Answered(Reply::Saw(value)))
}

/// Reads an object, and checks its content.
pub async fn get(model: &Model, bucket: &Bucket, key: &str) -> Result<End, Fault> {
    let reader = match model.open_object(bucket, key).await {
        Ok(reader) => reader,
        Err(Error::NoSuchKey) => return Ok(End::Answered(Reply::Saw(None))),
        Err(error) => return Err(error.into()),
    };
    let value = read_whole(&reader).await?;
    Ok(End::Answered(Reply::Saw(Some(value))))
}

/// Reads the whole content of an object. Returns its number, which the content agrees with.
pub async fn read_whole(reader: &ObjectReader) -> Result<u32, Fault> {
    let value = named(reader.metadata())?;
    let mut all = Vec::new();
    let mut stream = reader.stream(0..u64::MAX);
    while let Some(piece) = stream.next().await {
        all.extend_from_slice(&piece?);
    }
    if all != content(value) {
        return Err(Fault::Wrong(format!("the content of {value} is wrong")));
    }
    Ok(value)
}

fn named(metadata: &ObjectHead) -> Result<u32, Fault> {
    let wrong = || {
        Fault::Wrong(format!(
            "an entity tag that no object has: {}",
            metadata.etag
        ))
    };
    value_of(&metadata.etag).ok_or_else(wrong)
}

/// Returns the value that a call writes.
pub fn new_value(call: Call) -> u32 {
    match call {
        Call::Write(value) | Call::Swap(_, value) => value.unwrap_or_default(),
        Call::Read => 0,
    }
}

/// Returns the metadata of the object with this number.
pub fn meta(value: u32) -> ObjectMeta {
    ObjectMeta {
        etag: etag(value),
        ..ObjectMeta::default()
    }
}

fn pieces(content: Bytes, size: usize) -> impl Iterator<Item = Bytes> {
    (0..content.len())
        .step_by(size)
        .map(move |at| content.slice(at..content.len().min(at + size)))
}

async fn put(
    model: &Model,
    bucket: &Arc<Bucket>,
    order: &Order,
    condition: Condition,
) -> Result<(), Error> {
    let value = new_value(order.call);
    let mut writer = model.begin_object(bucket, order.key)?;
    for piece in pieces(content(value), order.piece) {
        writer.write(piece).await?;
    }
    writer.finish(meta(value), condition).await.map(drop)
}

/// Lists the bucket, or a part of it, page by page.
async fn list(world: &World, client: usize, machine: usize, rng: &mut Rng) {
    let prefix = ["", "", "a", "a/", "b/", "c"][rng.below(6) as usize];
    let delimiter = rng.chance(50).then(|| "/".to_owned());
    let limit = if rng.chance(50) {
        1000
    } else {
        rng.between(1, 4) as usize
    };
    let mut query = ListQuery {
        prefix: prefix.into(),
        delimiter,
        after: None,
        limit,
    };
    while list_page(world, client, machine, &mut query, rng).await {}
}
