//! A bucket whose commits are buffered: a power cut may undo what was acknowledged in the last
//! second.
//!
//! A write that was acknowledged counts if no machine lost power since it began until a second
//! after its answer. All other acknowledged writes may have been undone, wholly: content that is
//! read is whole in any case. Each read is judged like a page of a listing with one key.

use std::time::Duration;

use archipel_model::{Condition, Model};

use super::client::{self, Fault, MOST};
use super::content::content;
use super::history::{End, History, Page};
use super::listings;
use super::machine::Called;
use super::world::World;
use crate::linear::{Call, Reply};
use crate::rng::Rng;

/// The name of the bucket.
pub const LOOSE: &str = "loose";
/// The keys in it. No one begins with another.
const KEYS: [&str; 3] = ["p", "q", "r/1"];
/// The interval of syncs, and the time of one.
const WINDOW_MILLIS: u64 = 1_100;
/// The interval of syncs of a store that has nothing to commit.
const SYNC: Duration = Duration::from_secs(1);
/// The client that reads at rest.
const LAST: usize = 97;
const PATIENCE: Duration = Duration::from_secs(60);

/// The history of the bucket.
#[derive(Debug, Default)]
pub struct Loose {
    history: History,
    /// The writes that were acknowledged, with the virtual times between which a power cut undoes
    /// them.
    acknowledged: Vec<(&'static str, usize, (u64, u64))>,
    /// The virtual times of power cuts.
    cuts: Vec<u64>,
}

impl Loose {
    /// Notes a read that began at the time `from`, as a page with one key.
    fn saw(&mut self, key: &'static str, from: u64, saw: Option<u32>) {
        let entry = saw.map(|value| (key.to_owned(), Some(value)));
        let between = (from, self.history.tick());
        self.history.pages.push(Page {
            between,
            prefix: key.into(),
            delimiter: None,
            after: None,
            truncated: false,
            entries: entry.into_iter().collect(),
        });
    }

    /// Notes that a machine lost power.
    pub fn cut(&mut self, now_millis: u64) {
        self.cuts.push(now_millis);
    }
}

/// Syncs a machine's store now and then, as the thread does that commits.
pub async fn sync_forever(store: archipel_storage::Store) {
    loop {
        tokio::time::sleep(SYNC).await;
        // A failure makes the store read-only, and the next request reports it.
        let _ = store.sync().await;
    }
}

/// Puts, deletes or reads an object.
pub async fn act(world: &World, client: usize, machine: usize, rng: &mut Rng) {
    let key = KEYS[rng.below(KEYS.len() as u64) as usize];
    if world.record().loose.history.of(key) >= MOST {
        return;
    }
    let call = match rng.below(100) {
        0..45 => Call::Write(Some(world.next_value())),
        45..60 => Call::Write(None),
        _ => Call::Read,
    };
    operate(world, client, machine, (key, call)).await;
}

/// Returns the answer, if there was one.
async fn operate(
    world: &World,
    client: usize,
    machine: usize,
    (key, call): (&'static str, Call),
) -> Option<Reply> {
    let (index, from) = {
        let history = &mut world.record().loose.history;
        (history.begin(client, key, call), history.tick())
    };
    let began = world.now_millis();
    world.note(format!(
        "client {client} → {machine}: loose {key} {call:?} #{index}"
    ));
    let asked = &world.machines[machine];
    let called = asked.call(
        PATIENCE,
        |model| async move { perform(&model, key, call).await },
    );
    let end = match called.await {
        Called::Answered(Ok(end)) => end,
        Called::Answered(Err(Fault::Error(error))) => {
            world.may_happen(&error);
            End::Unknown
        }
        Called::Answered(Err(Fault::Wrong(why))) => {
            world.violation(format!("loose {key}: {why}"));
            End::Unknown
        }
        Called::Down => End::Void,
        Called::Lost => End::Unknown,
    };
    world.note(format!(
        "client {client} ← {machine}: loose {key} #{index} {end:?}"
    ));
    let now = world.now_millis();
    let mut record = world.record();
    record.counts.usage(end);
    let loose = &mut record.loose;
    loose.history.end(key, index, end);
    let End::Answered(reply) = end else {
        return None;
    };
    match reply {
        Reply::Done => {
            let undone_by = (began, now + WINDOW_MILLIS);
            loose.acknowledged.push((key, index, undone_by));
        }
        Reply::Saw(saw) => loose.saw(key, from, saw),
    }
    Some(reply)
}

async fn perform(model: &Model, key: &'static str, call: Call) -> Result<End, Fault> {
    let bucket = client::bucket(model, LOOSE).await?;
    match call {
        Call::Write(Some(value)) => {
            let mut writer = model.begin_object(&bucket, key)?;
            writer.write(content(value)).await?;
            let done = writer.finish(client::meta(value), Condition::Always);
            done.await?;
            Ok(End::Answered(Reply::Done))
        }
        Call::Write(None) | Call::Swap(..) => {
            let done = model.delete_object(&bucket, key, Condition::Always);
            done.await?;
            Ok(End::Answered(Reply::Done))
        }
        Call::Read => client::get(model, &bucket, key).await,
    }
}

/// Reads all objects through all machines at rest, and judges all reads.
pub async fn judge(world: &World) {
    for key in KEYS {
        let mut seen = Vec::new();
        for machine in world.serving() {
            let saw = operate(world, LAST, machine, (key, Call::Read)).await;
            if saw.is_none() {
                world.violation(format!(
                    "loose {key} cannot be read through machine {machine} at rest"
                ));
            }
            seen.push(saw);
        }
        seen.dedup();
        if seen.len() > 1 {
            world.violation(format!(
                "machines show different versions of loose {key}: {seen:?}"
            ));
        }
    }
    let mut record = world.record();
    let Loose {
        history,
        acknowledged,
        cuts,
    } = &mut record.loose;
    let trusts = world.trusts_buffered();
    for (key, index, (from, to)) in acknowledged.iter() {
        let is_cut = cuts.iter().any(|cut| (*from..=*to).contains(cut));
        if is_cut && !trusts {
            history.forget(key, *index);
        }
    }
    let fault = listings::fault(history);
    drop(record);
    if let Some(fault) = fault {
        world.violation(format!("a buffered bucket: {fault}"));
    }
}
