//! The checks at the end of a run.

use archipel_model::ListQuery;

use super::client::{self, KEYS};
use super::history::{End, History};
use super::world::{BUCKET, OTHER, World};
use super::{buckets, k2v, listings, loose, proof, replicas, uploads, versions};
use crate::linear;
use crate::rng::Rng;
use crate::verdict;

/// Clients with numbers from here on read at rest.
const LAST: usize = 100;

/// Counts of what happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Operations whose result the client got.
    pub answered: u64,
    /// Operations whose result the client does not know.
    pub unknown: u64,
    /// Pages of listings.
    pub pages: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Disks lost.
    pub disks_lost: u64,
    /// Bits flipped on disks.
    pub flips: u64,
    /// Disks rolled back to an older state.
    pub rolled_back: u64,
    /// Changes of the layout.
    pub layouts: u64,
    /// Polls that told a change.
    pub told: u64,
    /// Disks that were slow for a while.
    pub slow_disks: u64,
    /// Disks that were full for a while.
    pub full_disks: u64,
}

impl Counts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Counts) {
        self.answered += other.answered;
        self.unknown += other.unknown;
        self.pages += other.pages;
        self.crashes += other.crashes;
        self.disks_lost += other.disks_lost;
        self.flips += other.flips;
        self.rolled_back += other.rolled_back;
        self.layouts += other.layouts;
        self.told += other.told;
        self.slow_disks += other.slow_disks;
        self.full_disks += other.full_disks;
    }

    /// Returns how often a machine's data was lost or spoiled. After the first time, no other
    /// machine's may be.
    pub(super) fn spoiled(&self) -> u64 {
        self.disks_lost + self.rolled_back + self.flips
    }

    pub(super) fn usage(&mut self, end: End) {
        match end {
            End::Answered(_) => self.answered += 1,
            End::Unknown => self.unknown += 1,
            End::Void => {}
        }
    }
}

/// The end of a run.
pub type Verdict = verdict::Verdict<Counts>;

/// Reads every key from every machine, and judges everything that clients got.
pub(super) async fn judge(world: &World) -> Verdict {
    uploads::judge(world).await;
    buckets::judge(world).await;
    k2v::judge(world).await;
    versions::judge(world).await;
    // This comes before the reads, because reads would bring rows, too.
    replicas::converge(world).await;
    versions::agree(world).await;
    // A write without an answer may take effect when a machine shows it.
    loose::judge(world).await;
    replicas::drop_tombstones(world).await;
    replicas::converge(world).await;
    proof::prove(world).await;
    let serving = world.serving();
    for machine in 0..world.machines.len() {
        rest(world, machine);
        is_what_it_was(world, machine);
        if serving.contains(&machine) {
            look_through(world, machine).await;
        } else {
            is_shut_out(world, machine).await;
        }
        verify(world, machine).await;
    }
    let record = world.record();
    let violation = record
        .violation
        .clone()
        .or_else(|| keys_fault(&record.history))
        .or_else(|| keys_fault(&record.other))
        .or_else(|| listings::fault(&record.history));
    let counts = record.counts;
    drop(record);
    Verdict {
        violation,
        hash: world.hash(),
        counts,
    }
}

/// Returns the keys of the buckets that are never deleted.
fn all_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = |bucket| KEYS.map(|key| (bucket, key));
    [BUCKET, OTHER].into_iter().flat_map(of)
}

/// Checks that no change of the layout is under way.
fn rest(world: &World, machine: usize) {
    let model = world.machines[machine].model();
    let epoch = model.and_then(|model| model.cluster().epoch());
    if let Some(epoch) = epoch.filter(|epoch| epoch.is_changing()) {
        let number = epoch.number();
        world.violation(format!(
            "machine {machine} is still in epoch {number}, which is a change"
        ));
    }
}

/// Checks that a store has another identity only if its disks were rolled back.
fn is_what_it_was(world: &World, machine: usize) {
    let Some(model) = world.machines[machine].model() else {
        return;
    };
    let (name, identity) = (
        model.cluster().me().store,
        model.cluster().store().identity(),
    );
    if name != identity && world.record().counts.rolled_back == 0 {
        world.violation(format!(
            "the store of machine {machine} counts as rolled back, and is not"
        ));
    }
}

/// Reads all keys and lists the whole bucket. At rest every machine answers.
async fn look_through(world: &World, machine: usize) {
    for (bucket, key) in all_keys() {
        if !client::read(world, LAST + machine, machine, (bucket, key)).await {
            world.violation(format!(
                "{key} of {bucket} cannot be read through machine {machine} at rest"
            ));
        }
    }
    let mut query = ListQuery {
        limit: 1000,
        ..ListQuery::default()
    };
    let pages = world.record().counts.pages;
    client::list_page(world, LAST, machine, &mut query, &mut Rng::new(0)).await;
    if world.record().counts.pages == pages {
        world.violation(format!("machine {machine} does not list at rest"));
    }
}

/// Checks that a machine that the layout dropped gets nothing from the others.
async fn is_shut_out(world: &World, machine: usize) {
    if world.style.admits {
        return world.violation(format!("machine {machine} is shut out, and was admitted"));
    }
    for (bucket, key) in all_keys() {
        if client::read(world, LAST + machine, machine, (bucket, key)).await {
            world.violation(format!(
                "{key} is read through machine {machine}, which is shut out"
            ));
        }
    }
}

/// Checks that the data derived from rows (references, counters, windows) is exact.
async fn verify(world: &World, machine: usize) {
    let Some(model) = world.machines[machine].model() else {
        return world.violation(format!("machine {machine} is off at rest"));
    };
    match model.cluster().store().verify().await {
        Ok(report) if report.is_clean() => {}
        other => world.violation(format!("the store of machine {machine}: {other:?}")),
    }
}

fn keys_fault(history: &History) -> Option<String> {
    history.keys.iter().find_map(|(key, happened)| {
        let events = History::events(happened);
        if linear::is_linearizable(&events) {
            return None;
        }
        let lines = happened.iter().map(|event| format!("\n    {event:?}"));
        let lines: String = lines.collect();
        Some(format!("the history of {key} is not linearizable:{lines}"))
    })
}
