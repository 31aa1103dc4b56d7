//! The background work of a cluster: anti-entropy, floors, and the operator's changes of the
//! layout.

use std::collections::BTreeMap;
use std::rc::Rc;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::{Config, Member, Retirement};
use archipel_cluster::register::floor::{FloorAnswer, FloorOutput, FloorRequest, FloorRound};
use archipel_cluster::register::{Outcome, ReplicaSet, Version};

use super::machine::{Purpose, RunningFloor};
use super::message::{Body, Key, StoreName, Value};
use super::run::{Cluster, Event, MACHINES, MILLIS};
use crate::linear::Call;

/// A layout version that retires.
#[derive(Debug)]
pub struct Retiring {
    machine: usize,
    boot: u64,
    epoch: u64,
    work: Retirement<Key>,
}

impl Cluster {
    /// Lets two random members compare their rows, and schedules the next comparison.
    pub(super) fn compare(&mut self) {
        let wait = if self.is_calm() { 200 } else { 1000 };
        self.after(wait * MILLIS, Event::Compare);
        let machine = self.rng.below(MACHINES as u64) as usize;
        let member = &self.machines[machine];
        let members: Vec<usize> = replicas_of(&member.disk.config);
        let peer = members[self.rng.below(members.len() as u64) as usize];
        let own = member.disk.incarnation;
        if member.up && own.is_some_and(|id| id != peer && members.contains(&id)) {
            let prints = member.windows().top();
            self.send(machine, peer, Body::Compare(None, prints));
        }
    }

    /// Offers a version that a read returned to every replica. A quorum holds it, so every replica
    /// may accept it.
    pub(super) fn offer_settled(
        &mut self,
        machine: usize,
        key: Key,
        epoch: u64,
        version: Version<Value>,
    ) {
        let config = self.machines[machine].disk.config.clone();
        if config.epoch != epoch || version.stamp == Stamp::ZERO {
            return;
        }
        for member in replicas_of(&config) {
            let rows = vec![(key, version.clone())];
            self.send(machine, member, Body::Rows(rows, true));
        }
    }

    /// Begins a floor round on a random machine, or repeats the requests that are not answered.
    pub(super) fn floor(&mut self) {
        self.after(700 * MILLIS, Event::Floor);
        let machine = self.rng.below(MACHINES as u64) as usize;
        if !self.machines[machine].up {
            return;
        }
        let back = self.rng.between(0, 3000);
        let now = self.now;
        let stamp = self.machines[machine].next_stamp(now, Stamp::ZERO);
        let floor = Stamp::new(stamp.millis().saturating_sub(back), 0, stamp.writer);
        let quorums = self.quorums(machine);
        let (round, output) = FloorRound::new(self.options.rules, quorums, floor);
        self.next_operation += 1;
        let id = self.next_operation;
        self.machines[machine].floor_round = Some(RunningFloor { id, round });
        self.floor_output(machine, output);
    }

    fn floor_output(&mut self, machine: usize, output: FloorOutput<BTreeMap<Key, Stamp>>) {
        let Some(floor_round) = &mut self.machines[machine].floor_round else {
            return;
        };
        match output {
            FloorOutput::Ask(request) => {
                // A number for each stage distinguishes answers.
                self.next_operation += 1;
                floor_round.id = self.next_operation;
                let (id, waiting) = (floor_round.id, floor_round.round.waiting());
                for to in waiting.iter() {
                    self.ask_floor(machine, to, id, request.clone());
                }
            }
            FloorOutput::Differ => self.machines[machine].floor_round = None,
            FloorOutput::Agreed => {
                self.machines[machine].floor_round = None;
                self.counts.floors += 1;
                self.note(|| "a floor is agreed".into(), 5);
            }
        }
    }

    fn ask_floor(
        &mut self,
        machine: usize,
        to: usize,
        id: u64,
        request: FloorRequest<BTreeMap<Key, Stamp>>,
    ) {
        self.send(machine, to, Body::Floor(id, request));
    }

    pub(super) fn floored(
        &mut self,
        machine: usize,
        from: Option<usize>,
        id: u64,
        answer: FloorAnswer<BTreeMap<Key, Stamp>>,
    ) {
        let Some(floor_round) = &mut self.machines[machine].floor_round else {
            return;
        };
        let Some(from) = from.filter(|_| floor_round.id == id) else {
            return;
        };
        if let Some(output) = floor_round.round.on_answer(from, answer) {
            self.floor_output(machine, output);
        }
    }

    /// Acts as the operator: replaces lost stores, moves replicas, and retires versions whose rows
    /// have moved. It may ask any machine, and may ask two machines for different changes at once.
    pub(super) fn operate(&mut self) {
        let wait = self.rng.between(500, 6000) * MILLIS;
        self.after(wait, Event::Operate);
        for _ in 0..1 + self.rng.below(2) {
            let machine = self.rng.below(MACHINES as u64) as usize;
            if self.machines[machine].up {
                self.operate_at(machine);
            }
        }
    }

    fn operate_at(&mut self, machine: usize) {
        let config = self.machines[machine].disk.config.clone();
        if config.live.len() > 1 {
            return self.retire(machine, &config);
        }
        let newest = config.live.last().cloned().unwrap_or_default();
        let lost = |m: &Member<StoreName>| self.machines[m.node.machine].name != m.node;
        if !newest.iter().any(lost) && (self.is_calm() || self.rng.chance(50)) {
            return;
        }
        if config.incarnations < 60 {
            let stores = self.three_stores();
            self.propose(machine, config.with_next(stores));
        }
    }

    fn three_stores(&mut self) -> Vec<StoreName> {
        let mut stores: Vec<StoreName> = self.machines.iter().map(|m| m.name).collect();
        while stores.len() > 3 {
            let out = self.rng.below(stores.len() as u64) as usize;
            stores.remove(out);
        }
        stores
    }

    fn propose(&mut self, machine: usize, next: Config<StoreName>) {
        let epoch = next.epoch - 1;
        self.note(|| format!("machine {machine} proposes {next:?}"), epoch);
        let next = Rc::new(next);
        self.proposed.push(next.clone());
        let purpose = Purpose::Succeed(next);
        self.begin(machine, Key::Successor(epoch), purpose, Call::Read);
    }

    /// Handles the choice of an epoch's successor.
    pub(super) fn chosen(&mut self, machine: usize, config: &Rc<Config<StoreName>>) {
        self.machines[machine].learn(config);
        self.sync_soon(machine);
        self.counts.epochs = self.counts.epochs.max(config.epoch);
        for replica in replicas_of(config) {
            self.send(machine, replica, Body::Announce);
        }
        self.note(
            || format!("epoch {} is chosen: {:?}", config.epoch, config.live),
            config.epoch,
        );
    }

    fn retire(&mut self, machine: usize, config: &Config<StoreName>) {
        let oldest = config.live[0].iter().map(|m| m.incarnation as usize);
        let oldest: ReplicaSet = oldest.collect();
        let work = Retirement::new(oldest);
        if work.is_complete(self.options.rules) {
            // Only a mutant retires a version with nothing left to do.
            if let Some(next) = config.without_oldest() {
                self.propose(machine, next);
            }
            return;
        }
        self.retirement = Some(Retiring {
            machine,
            boot: self.boot(machine),
            epoch: config.epoch,
            work,
        });
        for replica in oldest.iter() {
            self.send(machine, replica, Body::List);
        }
    }

    fn retiring_at(&mut self, machine: usize) -> Option<&mut Retiring> {
        let boot = self.boot(machine);
        let epoch = self.machines[machine].disk.config.epoch;
        let fits = |r: &&mut Retiring| (r.machine, r.boot, r.epoch) == (machine, boot, epoch);
        self.retirement.as_mut().filter(fits)
    }

    pub(super) fn listed(&mut self, machine: usize, from: Option<usize>, keys: Vec<Key>) {
        let (Some(retiring), Some(from)) = (self.retiring_at(machine), from) else {
            return;
        };
        let data = keys.into_iter().filter(|k| matches!(k, Key::Data(_)));
        retiring.work.on_listed(from, data);
        self.move_on(machine);
    }

    /// Handles the read of a row under both layouts.
    pub(super) fn moved(&mut self, machine: usize, key: Key, epoch: u64, outcome: &Outcome<Value>) {
        if let (Outcome::Value(_), Some(retiring)) = (outcome, self.retiring_at(machine))
            && retiring.epoch == epoch
        {
            retiring.work.on_read(key);
            self.move_on(machine);
        }
    }

    fn move_on(&mut self, machine: usize) {
        let rules = self.options.rules;
        let Some(retiring) = self.retiring_at(machine) else {
            return;
        };
        if retiring.work.is_complete(rules) {
            self.retirement = None;
            let config = self.machines[machine].disk.config.clone();
            if let Some(next) = config.without_oldest() {
                self.propose(machine, next);
            }
        } else if let Some(key) = retiring.work.next_key() {
            self.begin(machine, key, Purpose::Move, Call::Read);
        }
    }
}

fn replicas_of(config: &Config<StoreName>) -> Vec<usize> {
    let members = config.members().into_iter();
    members.map(|m| m.incarnation as usize).collect()
}
