//! What must hold at the end of a run.

use archipel_model::ListQuery;

use super::client::{self, KEYS};
use super::history::{End, History};
use super::world::World;
use super::{listings, proof, replicas};
use crate::linear;
use crate::rng::Rng;

/// Clients with numbers from here on read when all is at rest.
const LAST: usize = 100;

/// What happened in a run, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Operations that clients were told the result of.
    pub told: u64,
    /// Those of which they were told nothing certain.
    pub unknown: u64,
    /// Pages of listings.
    pub pages: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Disks lost.
    pub disks_lost: u64,
    /// Bits flipped in what disks hold.
    pub flips: u64,
    /// Disks put back to an older state.
    pub put_back: u64,
    /// Changes of the layout.
    pub layouts: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.told += other.told;
        self.unknown += other.unknown;
        self.pages += other.pages;
        self.crashes += other.crashes;
        self.disks_lost += other.disks_lost;
        self.flips += other.flips;
        self.put_back += other.put_back;
        self.layouts += other.layouts;
    }

    /// Whether what a machine keeps was lost or spoiled: of another one it must not be then.
    pub(super) fn spoiled(&self) -> u64 {
        self.disks_lost + self.put_back + self.flips
    }

    pub(super) fn tally(&mut self, end: End) {
        match end {
            End::Told(_) => self.told += 1,
            End::Unknown => self.unknown += 1,
            End::Void => {}
        }
    }
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// What was wrong; `None` if nothing was.
    pub violation: Option<String>,
    /// A fingerprint of all that happened, in order.
    pub hash: u64,
    /// Numbers.
    pub counts: Counts,
}

impl Verdict {
    pub(super) fn failed(why: String) -> Verdict {
        Verdict {
            violation: Some(why),
            hash: 0,
            counts: Counts::default(),
        }
    }
}

/// Reads everything from everywhere, and judges all that was seen.
pub(super) async fn judge(world: &World) -> Verdict {
    // Before anything is read, which would bring rows, too.
    replicas::come_together(world).await;
    replicas::forget_what_was_deleted(world).await;
    replicas::come_together(world).await;
    proof::prove(world).await;
    for machine in 0..world.machines.len() {
        rest(world, machine);
        is_what_it_was(world, machine);
        look_through(world, machine).await;
        verify(world, machine).await;
    }
    let record = world.record();
    let violation = record
        .violation
        .clone()
        .or_else(|| keys_fault(&record.history))
        .or_else(|| listings::fault(&record.history));
    let counts = record.counts;
    drop(record);
    Verdict {
        violation,
        hash: world.hash(),
        counts,
    }
}

/// A change of the layout that began is over.
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

/// A store was given another name only if its disks were put back.
fn is_what_it_was(world: &World, machine: usize) {
    let Some(model) = world.machines[machine].model() else {
        return;
    };
    let (name, identity) = (
        model.cluster().me().store,
        model.cluster().store().identity(),
    );
    if name != identity && world.record().counts.put_back == 0 {
        world.violation(format!(
            "the store of machine {machine} is taken for an older state of itself, and is not"
        ));
    }
}

/// All keys, and all of the bucket: at rest every machine answers.
async fn look_through(world: &World, machine: usize) {
    for key in KEYS {
        if !client::read(world, LAST + machine, machine, key).await {
            world.violation(format!(
                "{key} cannot be read through machine {machine} at rest"
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

/// What a store derives from rows (references, counters, windows) is what they say.
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
