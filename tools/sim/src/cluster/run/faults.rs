//! The faults of a run, and the limits on simultaneous faults.

use archipel_cluster::register::epoch::{Config, Member};

use super::{Cluster, Event, MACHINES, MILLIS, first_layout};
use crate::cluster::machine::Machine;
use crate::cluster::message::StoreName;

impl Cluster {
    pub(super) fn fault(&mut self) {
        if self.is_calm() {
            return;
        }
        let machine = self.rng.below(MACHINES as u64) as usize;
        match self.rng.below(100) {
            0..35 => self.crash(machine),
            35..55 => self.cut_links(machine),
            55..65 => {
                self.cut.clear();
                self.note(|| "links work again".into(), 3);
            }
            65..85 => {
                let jump = self.rng.between(0, 8000) as i64 - 4000;
                self.machines[machine].skew_millis = jump;
                self.note(
                    || format!("the clock of machine {machine} is off by {jump} ms"),
                    jump,
                );
            }
            85..92 => self.lose_disk(machine),
            _ => self.blackout(),
        }
        let wait = self.rng.between(100, 4000) * MILLIS;
        self.after(wait, Event::Fault);
    }

    /// Cuts the power of all machines at once. Every answered write must be on disk.
    pub(super) fn blackout(&mut self) {
        if !self.is_calm() {
            (0..MACHINES).for_each(|machine| self.crash(machine));
        }
    }

    fn crash(&mut self, machine: usize) {
        if !self.machines[machine].up {
            return;
        }
        self.machines[machine].crash();
        self.orphan();
        self.note(|| format!("machine {machine} loses power"), machine);
        let wait = self.rng.between(10, 6000) * MILLIS;
        self.after(wait, Event::Start(machine));
    }

    pub(super) fn start(&mut self, machine: usize) {
        if !self.machines[machine].up {
            self.machines[machine].start();
            self.note(|| format!("machine {machine} is back"), machine);
        }
    }

    /// Cuts one machine off the others: the messages that it sends, that it receives, or both.
    fn cut_links(&mut self, machine: usize) {
        let way = self.rng.below(3);
        for other in (0..MACHINES).filter(|o| *o != machine) {
            if way != 0 {
                self.cut.insert((machine, other));
            }
            if way != 1 {
                self.cut.insert((other, machine));
            }
        }
        self.note(
            || format!("links of machine {machine} are cut ({way})"),
            way,
        );
    }

    /// Loses a disk: the machine comes back empty. At most a minority of any live layout version
    /// loses its disk.
    fn lose_disk(&mut self, machine: usize) {
        let name = self.machines[machine].name;
        let gone =
            |m: &&Member<StoreName>| m.node == name || self.machines[m.node.machine].name != m.node;
        let hurt = |version: &Vec<Member<StoreName>>| {
            2 * version.iter().filter(gone).count() >= version.len()
        };
        if self.layouts_to_protect().any(hurt) {
            return;
        }
        self.crash(machine);
        let lost = &self.machines[machine];
        let name = StoreName {
            machine,
            disk: lost.name.disk + 1,
        };
        let mut replacement = Machine::new(self.options.rules, name, first_layout());
        replacement.up = false;
        replacement.skew_millis = lost.skew_millis;
        replacement.boots = lost.boots;
        self.machines[machine] = replacement;
        self.counts.disks_lost += 1;
        self.note(|| format!("machine {machine} loses its disk"), machine);
        self.after(3000 * MILLIS, Event::Start(machine));
    }

    /// Returns all layout versions that are live, or may become so.
    fn layouts_to_protect(&self) -> impl Iterator<Item = &Vec<Member<StoreName>>> {
        let known = self.machines.iter().map(|m| &m.durable.config);
        let settled = known.filter(|c| self.is_known_to_its_own(c));
        let newest = settled.map(|c| c.epoch).max().unwrap_or_default();
        let of_machines = self.machines.iter().map(|m| &m.disk.config);
        let configs = of_machines.chain(&self.proposed);
        configs
            .filter(move |c| c.epoch >= newest)
            .flat_map(|c| &c.live)
    }

    /// Returns true if a majority of each version of a layout knows it. Until then, replicas that
    /// it leaves out are still needed to find it.
    fn is_known_to_its_own(&self, config: &Config<StoreName>) -> bool {
        let knows = |m: &&Member<StoreName>| {
            let machine = &self.machines[m.node.machine];
            machine.name == m.node && machine.durable.config.epoch >= config.epoch
        };
        let majority = |version: &Vec<Member<StoreName>>| {
            2 * version.iter().filter(knows).count() > version.len()
        };
        config.live.iter().all(majority)
    }

    pub(super) fn reconnect(&mut self) {
        self.cut.clear();
        for machine in 0..MACHINES {
            self.start(machine);
            self.machines[machine].skew_millis = 0;
        }
        self.note(|| "faults are over".into(), 4);
    }
}
