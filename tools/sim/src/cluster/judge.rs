//! The checks at the end of a run.

use std::collections::BTreeMap;

use archipel_base::{Id, Stamp};
use archipel_cluster::register::{Outcome, replica};

use super::machine::{Machine, data_rows};
use super::message::{Key, Value};
use super::run::{Cluster, KEYS, MACHINES};
use crate::linear::{self, Call, Event as Happened, Reply};
use crate::verdict;

/// Counts of what happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Operations whose result the client got.
    pub answered: u64,
    /// Writes whose result the client does not know.
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
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Counts) {
        self.answered += other.answered;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.crashes += other.crashes;
        self.disks_lost += other.disks_lost;
        self.floors += other.floors;
        self.epochs += other.epochs;
    }

    pub(super) fn usage(&mut self, outcome: &Outcome<Value>) {
        match outcome {
            Outcome::Value(_) | Outcome::Kept(_) | Outcome::Written { .. } => self.answered += 1,
            Outcome::Unknown | Outcome::Seen(_) | Outcome::Open(_) => self.unknown += 1,
            Outcome::Unavailable | Outcome::Overtaken | Outcome::Held | Outcome::Guarded => {
                self.refused += 1
            }
        }
    }
}

/// The end of a run.
pub type Verdict = verdict::Verdict<Counts>;

impl Cluster {
    /// Reads every key through every machine, after all faults are over.
    pub(super) fn final_reads(&mut self) {
        for machine in 0..MACHINES {
            for key in 0..KEYS {
                // Each machine has a client of its own here, and these reads overlap with no other
                // operation.
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

/// Returns a fault if a read fails although all machines are up and all links work.
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

/// Returns a difference between replicas at rest. All replicas of the newest layout must hold the
/// same rows, and those that clients read.
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
