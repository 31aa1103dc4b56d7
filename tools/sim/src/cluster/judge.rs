//! What must hold at the end of a run.

use std::collections::BTreeMap;

use archipel_base::{Id, Stamp};
use archipel_cluster::register::{Outcome, replica};

use super::machine::{Machine, data_rows};
use super::message::{Key, Value};
use super::run::{Cluster, KEYS, MACHINES};
use crate::linear::{self, Call, Event as Happened, Reply};

/// What happened in a run, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Operations that clients were told the result of.
    pub told: u64,
    /// Writes that clients were told nothing certain of.
    pub unknown: u64,
    /// Operations that were refused without effect.
    pub refused: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Disks lost.
    pub disks_lost: u64,
    /// Floors agreed.
    pub floors: u64,
    /// The last epoch.
    pub epochs: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.told += other.told;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.crashes += other.crashes;
        self.disks_lost += other.disks_lost;
        self.floors += other.floors;
        self.epochs += other.epochs;
    }

    pub(super) fn tally(&mut self, outcome: &Outcome<Value>) {
        match outcome {
            Outcome::Value(_) | Outcome::Kept(_) | Outcome::Written { .. } => self.told += 1,
            Outcome::Unknown => self.unknown += 1,
            Outcome::Unavailable | Outcome::Guarded => self.refused += 1,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What was wrong; `None` if nothing was.
    pub violation: Option<String>,
    /// A fingerprint of all that happened, in order.
    pub hash: u64,
    /// Numbers.
    pub counts: Counts,
}

impl Cluster {
    /// When all works again, every key is read through every machine.
    pub(super) fn final_reads(&mut self) {
        for machine in 0..MACHINES {
            for key in 0..KEYS {
                // A client of its own: these reads are concurrent with nothing.
                self.call(100 + machine, machine, key, Call::Read);
            }
        }
    }
}

pub(super) fn judge(cluster: &Cluster, hash: u64) -> Verdict {
    let violation = history_fault(cluster)
        .or_else(|| final_fault(cluster))
        .or_else(|| difference(cluster));
    Verdict {
        violation,
        hash,
        counts: cluster.counts,
    }
}

fn history_fault(cluster: &Cluster) -> Option<String> {
    for (key, history) in &cluster.history {
        if !linear::is_linearizable(history) {
            let mut text = format!("the history of key {key} is not linearizable:\n");
            for event in history {
                text.push_str(&format!("    {event:?}\n"));
            }
            return Some(text);
        }
    }
    None
}

/// With all machines up and all links working, reads must succeed.
fn final_fault(cluster: &Cluster) -> Option<String> {
    for (key, history) in &cluster.history {
        let mut last = history.iter().filter(|e| e.client >= 100);
        let unanswered = |e: &&Happened| !matches!(e.reply, Some((_, Reply::Saw(_))));
        if let Some(event) = last.find(unanswered) {
            return Some(format!("key {key} cannot be read at rest: {event:?}"));
        }
    }
    None
}

/// At rest all replicas of the newest layout hold the same rows, and what clients read.
fn difference(cluster: &Cluster) -> Option<String> {
    let newest = cluster
        .machines
        .iter()
        .max_by_key(|m| m.disk.config.epoch)?;
    let config = newest.disk.config.clone();
    let members: Vec<usize> = config
        .live
        .last()?
        .iter()
        .map(|m| m.incarnation as usize)
        .collect();
    let gone = cluster.machines.iter().map(|m| m.disk.floors.gone).max();
    type Held = BTreeMap<Key, (Stamp, Id, Option<Value>)>;
    let mut all: Vec<(usize, Held)> = Vec::new();
    let replica = |m: &&Machine| m.disk.incarnation.is_some_and(|id| members.contains(&id));
    for machine in cluster.machines.iter().filter(replica) {
        let stamps = data_rows(&machine.disk, gone.unwrap_or_default());
        let held = stamps.filter_map(|(key, stamp)| {
            let cell: &replica::Cell<Value> = machine.disk.rows.get(&key)?;
            Some((key, (stamp, cell.write, cell.value.clone())))
        });
        all.push((machine.name.machine, held.collect()));
    }
    let (first, held) = all.first()?;
    let (other, theirs) = all.iter().find(|(_, h)| h != held)?;
    Some(format!(
        "replicas {first} and {other} differ at rest:\n    {held:?}\n    {theirs:?}"
    ))
}
