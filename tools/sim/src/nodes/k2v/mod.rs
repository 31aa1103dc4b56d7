//! K2V items that clients write with and without tokens, delete, read and poll, through any
//! machine.
//!
//! | module | what it holds |
//! |---|---|
//! | [`judge`] | the checks at rest |
//! | [`reference`] | a reference model of items: which values a client may see |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_model::k2v::{Insert, Item, ItemName, Polled, Range};
use archipel_model::{Error, Model};
use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::client::{self, Fault};
use super::machine::Called;
use super::world::{BUCKET, World};
use crate::rng::Rng;
use reference::{History, Read, Values, Write};

mod judge;
pub mod reference;

pub use judge::judge;

/// The partition key of all items.
const PK: &str = "p";
/// Their sort keys.
const SKS: [&str; 3] = ["a", "b", "c"];
/// The clients that read and write, and as many that poll items, and ranges.
const CLIENTS: u64 = 3;
/// The most writes to an item.
const MOST_WRITES: usize = 60;
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time after which a poll tells a change: a node that does not answer is found to be
/// lost after a call's 10 s, and then a poll looks again after 15 s at most.
const LATE: Duration = Duration::from_secs(30);

/// The histories of items.
#[derive(Debug, Default)]
pub struct Items {
    /// Counts the beginnings and ends of requests.
    moment: u64,
    histories: BTreeMap<&'static str, History>,
}

impl Items {
    fn next(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn of(&mut self, sk: &'static str) -> &mut History {
        self.histories.entry(sk).or_default()
    }
}

/// The state of an item that a client has seen.
#[derive(Clone, Default)]
struct Seen {
    token: Option<Bytes>,
    values: Values,
    /// Those of them that certainly were there.
    surely: Values,
    /// The moment at which it was answered.
    at: u64,
    /// True if nothing but deletions was left.
    is_tombstone: bool,
}

fn now(world: &World) -> u64 {
    world.record().items.next()
}

fn name(sk: &str) -> ItemName {
    ItemName {
        pk: PK.into(),
        sk: sk.into(),
    }
}

/// Calls a machine. Returns `None` if there was no answer.
async fn call<T>(
    world: &World,
    machine: usize,
    patience: Duration,
    call: impl AsyncFnOnce(&Model, &archipel_model::Bucket) -> Result<T, Error>,
) -> Option<T> {
    let called = world.machines[machine].call(patience, |model| async move {
        let bucket = client::bucket(&model, BUCKET).await?;
        call(&model, &bucket).await.map_err(Fault::Error)
    });
    match called.await {
        Called::Answered(Ok(done)) => Some(done),
        Called::Answered(Err(Fault::Error(error))) => {
            world.note(format!("k2v at {machine}: {error}"));
            world.may_happen(&error);
            None
        }
        Called::Answered(Err(Fault::Wrong(why))) => {
            world.violation(why);
            None
        }
        Called::Down | Called::Lost => None,
    }
}

/// Notes what a client sees of an item.
fn see(world: &World, sk: &'static str, called: u64, item: Option<&Item>, in_range: bool) -> Seen {
    let values = item.map(reference::values).unwrap_or_default();
    world.note(format!("k2v {sk}: {values:?}, in a range: {in_range}"));
    let items = &mut world.record().items;
    let ended = items.next();
    let history = items.of(sk);
    let is_sure = |value: &&u32| !in_range || history.was_there(**value, called);
    let surely = values.iter().filter(is_sure).copied().collect();
    history.reads.push(Read {
        called,
        ended,
        values: values.clone(),
        in_range,
    });
    Seen {
        token: item.map(|item| item.token.clone()),
        values,
        surely,
        at: ended,
        is_tombstone: item.is_none_or(Item::is_tombstone),
    }
}

async fn read(world: &World, machine: usize, sk: &'static str) -> Option<Seen> {
    let called = now(world);
    let item = call(world, machine, PATIENCE, async |model, bucket| {
        model.read_item(bucket, &name(sk)).await
    });
    let item = item.await?;
    Some(see(world, sk, called, item.as_ref(), false))
}

/// Reads all items as a range.
async fn read_range(world: &World, machine: usize) -> Option<BTreeMap<&'static str, Seen>> {
    let called = now(world);
    let range = Range {
        pk: PK.into(),
        tombstones: true,
        ..Range::default()
    };
    let pages = call(world, machine, PATIENCE, async |model, bucket| {
        model.read_ranges(bucket, &[range], usize::MAX).await
    });
    let items: BTreeMap<String, Item> = pages.await?.pop()?.items.into_iter().collect();
    let seen = |sk: &'static str| (sk, see(world, sk, called, items.get(sk), true));
    Some(SKS.into_iter().map(seen).collect())
}

/// Writes a value, or deletes, with what the client has seen. Returns true if it is acknowledged.
async fn write(world: &World, machine: usize, writes: Vec<(&'static str, Seen, bool)>) -> bool {
    let mut begun = Vec::new();
    let mut inserts = Vec::new();
    for (sk, seen, deletes) in writes {
        let value = (!deletes).then(|| world.next_value());
        let items = &mut world.record().items;
        let called = items.next();
        let history = items.of(sk);
        begun.push((sk, history.writes.len()));
        history.writes.push(Write {
            value,
            covers: seen.values,
            surely: seen.surely,
            called,
            ended: None,
            ended_at: None,
        });
        inserts.push(Insert {
            name: name(sk),
            token: seen.token,
            value: value.map(|value| value.to_string().into()),
        });
    }
    world.note(format!("k2v at {machine}: {inserts:?}"));
    let done = call(world, machine, PATIENCE, async |model, bucket| {
        let inserted = model.insert_items(bucket, inserts).await;
        inserted.map_err(|failed| failed.error)
    });
    let done = done.await.is_some();
    world.note(format!("k2v at {machine}: acknowledged: {done}"));
    let mut record = world.record();
    match done {
        true => record.counts.answered += 1,
        false => record.counts.unknown += 1,
    }
    let ended = record.items.next();
    for (sk, index) in begun.into_iter().filter(|_| done) {
        if let Some(write) = record.items.of(sk).writes.get_mut(index) {
            (write.ended, write.ended_at) = (Some(ended), Some(Instant::now()));
        }
    }
    done
}

/// Returns true if the run of a seed has K2V items. The choice leaves all other choices of the seed
/// as they are.
pub fn is_in(seed: u64) -> bool {
    Rng::new(!seed).chance(40)
}

/// Starts the clients, if the run has K2V items.
pub fn start(world: &Arc<World>) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    for number in 0..if world.style.k2v { CLIENTS } else { 0 } {
        let [clients, items, ranges] = [300, 400, 500].map(|first| world.rng(first + number));
        tasks.push(tokio::spawn(run(world.clone(), clients)));
        tasks.push(tokio::spawn(follow(world.clone(), items)));
        tasks.push(tokio::spawn(follow_range(world.clone(), ranges)));
    }
    tasks
}

/// Runs a client that reads and writes.
async fn run(world: Arc<World>, mut rng: Rng) {
    let mut seen: BTreeMap<&'static str, Seen> = BTreeMap::new();
    while !world.is_calm() {
        let think = rng.between(1, 2 * world.style.think_millis);
        tokio::time::sleep(Duration::from_millis(think)).await;
        let machine = rng.below(world.machines.len() as u64) as usize;
        let sk = SKS[rng.below(SKS.len() as u64) as usize];
        let is_full = |sk| world.record().items.of(sk).writes.len() >= MOST_WRITES;
        match rng.below(100) {
            0..30 => {
                if let Some(now) = read(&world, machine, sk).await {
                    seen.insert(sk, now);
                }
            }
            30..40 => {
                if let Some(now) = read_range(&world, machine).await {
                    seen.extend(now);
                }
            }
            40..50 if !SKS.iter().any(|sk| is_full(sk)) => {
                // The same item may occur twice.
                let mut one = || SKS[rng.below(SKS.len() as u64) as usize];
                let mut writes = Vec::new();
                for sk in [one(), one(), one()] {
                    writes.push((sk, seen.get(sk).cloned().unwrap_or_default(), false));
                }
                write(&world, machine, writes).await;
            }
            n if !is_full(sk) => {
                let known = match n {
                    // Also old tokens, of which others have replaced a part.
                    0..80 => seen.get(sk).cloned().unwrap_or_default(),
                    _ => Seen::default(),
                };
                let deletes = n < 62 && known.token.is_some();
                write(&world, machine, vec![(sk, known, deletes)]).await;
            }
            _ => {}
        }
    }
}

/// Follows an item from change to change.
async fn follow(world: Arc<World>, mut rng: Rng) {
    let sk = SKS[rng.below(SKS.len() as u64) as usize];
    let mut seen = Seen::default();
    while !world.is_calm() {
        let machine = rng.below(world.machines.len() as u64) as usize;
        let Some(token) = seen.token.clone() else {
            tokio::time::sleep(Duration::from_millis(rng.between(1, 2000))).await;
            seen = read(&world, machine, sk).await.unwrap_or_default();
            continue;
        };
        let time = Duration::from_secs(rng.between(1, 90));
        let called = now(&world);
        let polled = call(&world, machine, PATIENCE * 3, async |model, bucket| {
            model.poll_item(bucket, &name(sk), &token, time).await
        });
        match polled.await {
            Some(Some(item)) => {
                world.record().counts.told += 1;
                seen = see(&world, sk, called, Some(&item), false);
            }
            // A tombstone that is dropped is no news, so an item that was there in between is none.
            Some(None) if !seen.is_tombstone => nothing_new(&world, &[sk], seen.at),
            Some(None) => {}
            None => tokio::time::sleep(Duration::from_millis(rng.between(1, 1000))).await,
        }
    }
}

/// Follows the range of all items from change to change.
async fn follow_range(world: Arc<World>, mut rng: Rng) {
    let mut seen: Option<(Bytes, u64)> = None;
    while !world.is_calm() {
        let machine = rng.below(world.machines.len() as u64) as usize;
        let time = Duration::from_secs(rng.between(1, 90));
        let called = now(&world);
        let marker = seen.as_ref().map(|(marker, _)| marker.clone());
        match poll_range(&world, machine, marker, time).await {
            Some(Some(polled)) => {
                world.record().counts.told += 1;
                let items: BTreeMap<String, Item> = polled.items.into_iter().collect();
                for sk in SKS {
                    if let Some(item) = items.get(sk) {
                        see(&world, sk, called, Some(item), true);
                    }
                }
                seen = Some((polled.marker, now(&world)));
            }
            Some(None) => {
                let at = seen.as_ref().map_or(0, |(_, at)| *at);
                nothing_new(&world, &never_deleted(&world), at);
            }
            None => tokio::time::sleep(Duration::from_millis(rng.between(1, 1000))).await,
        }
    }
}

/// Returns the items that nobody has deleted. Of others a tombstone may be dropped, which is no
/// news.
fn never_deleted(world: &World) -> Vec<&'static str> {
    let histories = &world.record().items.histories;
    let is_deletion = |write: &Write| write.value.is_none();
    let deleted = |sk: &&'static str| {
        let of_item = histories.get(sk);
        of_item.is_some_and(|history| history.writes.iter().any(is_deletion))
    };
    SKS.into_iter().filter(|sk| !deleted(sk)).collect()
}

async fn poll_range(
    world: &World,
    machine: usize,
    marker: Option<Bytes>,
    time: Duration,
) -> Option<Option<Polled>> {
    let range = Range {
        pk: PK.into(),
        ..Range::default()
    };
    let polled = call(world, machine, PATIENCE * 3, async |model, bucket| {
        model
            .poll_range(bucket, &range, marker.as_deref(), time)
            .await
    });
    polled.await
}

/// Checks that a poll that told nothing had nothing to tell.
fn nothing_new(world: &World, sks: &[&'static str], seen: u64) {
    let until = Instant::now() - LATE;
    for sk in sks {
        let missed = world.record().items.of(sk).missed(seen, until).cloned();
        if let Some(missed) = missed {
            world.violation(format!("a poll of {sk} missed {missed:?}"));
        }
    }
}
