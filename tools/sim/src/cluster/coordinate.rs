//! The driver of operations: the code of a node around [`Operation`].

use archipel_base::{Id, Stamp};
use archipel_cluster::register::epoch::succeed;
use archipel_cluster::register::{Decision, Operation, Outcome, Output, Quorums, Start};

use super::machine::{Purpose, Running};
use super::message::{Body, Key, Message, Value};
use super::run::{Cluster, Event, KEYS, MACHINES, MILLIS};
use crate::linear::{Call, Event as Happened, Reply};

const PATIENCE: u64 = 300 * MILLIS;
const DEADLINE: u64 = 8_000 * MILLIS;

impl Cluster {
    /// Begins a random operation of a client at a random machine.
    pub(super) fn begin_for_client(&mut self, client: usize) {
        let machine = self.rng.below(MACHINES as u64) as usize;
        if !self.machines[machine].up {
            return;
        }
        let key = self.rng.below(u64::from(KEYS)) as u8;
        self.next_value += 1;
        let value = self.next_value;
        let call = match self.rng.below(100) {
            0..30 => Call::Read,
            30..55 => Call::Write(Some(value)),
            55..70 => Call::Write(None),
            70..85 => Call::Swap(None, Some(value)),
            _ => Call::Swap(self.likely_value(key), Some(value)),
        };
        self.begun += 1;
        self.busy[client] = true;
        self.call(client, machine, key, call);
    }

    /// Returns a value that was written lately, as an `If-Match` would name.
    fn likely_value(&mut self, key: u8) -> Option<u32> {
        let back = self.rng.below(3) as usize;
        let events = self.history.get(&key)?.iter().rev();
        let written = events.filter_map(|e| match e.call {
            Call::Write(value) | Call::Swap(_, value) => value,
            Call::Read => None,
        });
        written.take(back + 1).last()
    }

    pub(super) fn call(&mut self, client: usize, machine: usize, key: u8, call: Call) {
        let happened = Happened {
            client,
            call,
            called: self.now,
            reply: None,
        };
        let events = self.history.entry(key).or_default();
        events.push(happened);
        let event = events.len() - 1;
        self.note(
            || format!("client {client} at machine {machine}: key {key} {call:?}"),
            (client, key),
        );
        let purpose = Purpose::Client { key, event };
        self.begin(machine, Key::Data(key), purpose, call);
    }

    /// Begins an operation. The value that `call` writes is data. An epoch is in the purpose.
    pub(super) fn begin(&mut self, machine: usize, key: Key, purpose: Purpose, call: Call) {
        self.next_operation += 1;
        let number = self.next_operation;
        let id = {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&number.to_be_bytes());
            Id(id)
        };
        let start = Start {
            rules: self.options.rules,
            quorums: self.quorums(machine),
        };
        let mut next = |seen: Stamp| self.machines[machine].next_stamp(self.now, seen);
        let (operation, outputs) = match (&purpose, call) {
            (Purpose::Succeed(_) | Purpose::Rewrite, _) | (_, Call::Swap(..)) => {
                Operation::update(start, id, false, &mut next)
            }
            (_, Call::Read) => Operation::read(start),
            (_, Call::Write(value)) => {
                Operation::write(start, id, value.map(Value::Data), false, &mut next)
            }
        };
        let running = Running {
            operation,
            key,
            purpose,
            config: self.machines[machine].disk.config.clone(),
        };
        self.machines[machine].running.insert(number, running);
        let boot = self.boot(machine);
        self.after(PATIENCE, Event::Timeout(machine, boot, number));
        self.after(DEADLINE, Event::GiveUp(machine, boot, number));
        self.carry_out(machine, number, outputs);
    }

    pub(super) fn quorums(&self, machine: usize) -> Quorums {
        self.machines[machine]
            .disk
            .config
            .quorums(self.options.rules, |m| m.incarnation as usize)
    }

    fn drive(
        &mut self,
        machine: usize,
        number: u64,
        step: impl FnOnce(&mut Operation<Value>, &mut dyn FnMut(Stamp) -> Stamp) -> Vec<Output<Value>>,
    ) {
        let now = self.now;
        let owner = &mut self.machines[machine];
        let Some(mut running) = owner.running.remove(&number) else {
            return;
        };
        let outputs = step(&mut running.operation, &mut |seen| {
            owner.next_stamp(now, seen)
        });
        owner.running.insert(number, running);
        self.carry_out(machine, number, outputs);
    }

    fn carry_out(&mut self, machine: usize, number: u64, outputs: Vec<Output<Value>>) {
        for output in outputs {
            let Some(running) = self.machines[machine].running.get(&number) else {
                return;
            };
            match output {
                Output::Send { to, round, request } => {
                    let payload = Body::Ask {
                        operation: number,
                        round,
                        key: running.key,
                        request,
                    };
                    let config = running.config.clone();
                    self.send_under(machine, to, payload, config);
                }
                Output::Decide(version) => {
                    let decision = self.decide(machine, number, version.value);
                    self.drive(machine, number, |operation, _| operation.decided(decision));
                }
                Output::Bury { .. } => unreachable!("no replica keeps anything here"),
                Output::Pause { attempt } => {
                    let longest = (20 * MILLIS) << attempt.min(7);
                    let wait = self.rng.between(MILLIS, longest);
                    let boot = self.boot(machine);
                    self.after(wait, Event::Resume(machine, boot, number));
                }
                Output::Refresh { .. } => self.refresh(machine, number),
                Output::Done(outcome) => self.done(machine, number, outcome),
            }
        }
    }

    /// Restarts an operation under the newer layout, which the answer brought along.
    fn refresh(&mut self, machine: usize, number: u64) {
        let quorums = self.quorums(machine);
        let config = self.machines[machine].disk.config.clone();
        let Some(running) = self.machines[machine].running.get_mut(&number) else {
            return;
        };
        if let Key::Successor(of) = running.key
            && of < config.epoch
        {
            self.machines[machine].running.remove(&number);
            return;
        }
        let successive = config.epoch == running.config.epoch + 1;
        running.config = config;
        self.drive(machine, number, |operation, next| {
            operation.restart(quorums, successive, next)
        });
    }

    fn decide(&self, machine: usize, number: u64, value: Option<Value>) -> Decision<Value> {
        match self.machines[machine]
            .running
            .get(&number)
            .map(|r| &r.purpose)
        {
            Some(Purpose::Succeed(config)) => {
                succeed(value.as_ref(), Value::Config(config.clone()))
            }
            Some(Purpose::Client { key, event }) => match self.history[key][*event].call {
                Call::Swap(expected, new) if expected == number_of(value.as_ref()) => {
                    Decision::Write(new.map(Value::Data))
                }
                _ => Decision::Keep,
            },
            Some(Purpose::Rewrite) => Decision::Write(value),
            _ => Decision::Keep,
        }
    }

    fn done(&mut self, machine: usize, number: u64, outcome: Outcome<Value>) {
        let Some(running) = self.machines[machine].running.remove(&number) else {
            return;
        };
        match running.purpose {
            Purpose::Client { key, event } => self.tell_client(key, event, &outcome),
            Purpose::Succeed(proposal) => match outcome {
                Outcome::Written { .. } => self.chosen(machine, &proposal),
                Outcome::Kept(version) => {
                    if let Some(Value::Config(config)) = version.value {
                        self.chosen(machine, &config);
                    }
                }
                _ => {}
            },
            Purpose::Move => self.moved(machine, running.key, running.config.epoch, &outcome),
            Purpose::Settle => {
                if let Outcome::Value(version) = outcome {
                    let key = running.key;
                    if version.stamp <= self.machines[machine].disk.floors.frozen {
                        return self.begin(machine, key, Purpose::Rewrite, Call::Read);
                    }
                    self.offer_settled(machine, key, running.config.epoch, version);
                }
            }
            Purpose::Rewrite => {}
        }
    }

    fn tell_client(&mut self, key: u8, event: usize, outcome: &Outcome<Value>) {
        let now = self.now;
        let Some(happened) = self.history.get_mut(&key).and_then(|h| h.get_mut(event)) else {
            return;
        };
        let client = happened.client;
        match outcome {
            Outcome::Value(version) | Outcome::Kept(version) => {
                let value = number_of(version.value.as_ref());
                happened.reply = Some((now, Reply::Saw(value)));
            }
            Outcome::Written { .. } => happened.reply = Some((now, Reply::Done)),
            // It had no effect, so it is as good as a read with an unknown result.
            Outcome::Unavailable | Outcome::Overtaken | Outcome::Held | Outcome::Guarded => {
                happened.call = Call::Read
            }
            Outcome::Unknown | Outcome::Seen(_) | Outcome::Open(_) => {}
        }
        self.counts.usage(outcome);
        if matches!(outcome, Outcome::Written { .. }) && self.rng.chance(3) {
            // This is the worst moment for a blackout.
            self.after(0, Event::Blackout);
        }
        self.note(
            || format!("client {client} gets an answer: key {key} {outcome:?}"),
            client,
        );
        self.free(client);
    }

    /// Frees a client for its next operation. Clients beyond the usual ones only read at the end.
    pub(super) fn free(&mut self, client: usize) {
        if let Some(busy) = self.busy.get_mut(client) {
            *busy = false;
        }
    }

    /// Orphans the operations of a machine that loses power: their clients get no answer.
    pub(super) fn orphan(&mut self) {
        self.counts.crashes += 1;
        for client in 0..self.busy.len() {
            if self.busy[client] && !self.has_operation(client) {
                self.busy[client] = false;
            }
        }
    }

    fn has_operation(&self, client: usize) -> bool {
        let running = self.machines.iter().flat_map(|m| m.running.values());
        let mut of_client = running.filter(|r| match r.purpose {
            Purpose::Client { key, event } => self.history[&key][event].client == client,
            _ => false,
        });
        of_client.next().is_some()
    }

    /// Handles an answer, or a message that needs none, at a running machine.
    pub(super) fn receive(&mut self, machine: usize, message: Message) {
        let epoch = self.machines[machine].disk.config.epoch;
        match message.payload {
            Body::Answer {
                operation,
                round,
                answer,
            } => {
                let from = message.sender.unwrap_or(usize::MAX);
                self.drive(machine, operation, |running, next| {
                    running.on_answer(from, round, answer, next)
                });
            }
            _ if message.config.epoch != epoch => {}
            Body::Rows(rows, settled)
                if message.replica.is_some()
                    && message.replica == self.machines[machine].disk.incarnation =>
            {
                let kept_out = self.machines[machine].apply_rows(self.now, &rows, settled);
                self.sync_soon(machine);
                for key in kept_out {
                    self.settle(machine, key);
                }
            }
            Body::FloorAnswer(id, answer) => self.floored(machine, message.sender, id, answer),
            Body::Keys(keys) => self.listed(machine, message.sender, keys),
            _ => {}
        }
    }

    /// Reads a row that a promise keeps out, to offer the result. Runs one read at a time.
    fn settle(&mut self, machine: usize, key: Key) {
        let mut running = self.machines[machine].running.values();
        let same = |r: &Running| r.key == key && matches!(r.purpose, Purpose::Settle);
        if !running.any(same) {
            self.begin(machine, key, Purpose::Settle, Call::Read);
        }
    }

    /// Returns true if the operation is still running.
    fn is_alive(&self, machine: usize, boot: u64, number: u64) -> bool {
        let owner = &self.machines[machine];
        owner.up && owner.boots == boot && owner.running.contains_key(&number)
    }

    pub(super) fn timeout(&mut self, machine: usize, boot: u64, number: u64) {
        if self.is_alive(machine, boot, number) {
            self.drive(machine, number, |operation, next| {
                operation.on_timeout(next)
            });
            self.after(PATIENCE, Event::Timeout(machine, boot, number));
        }
    }

    pub(super) fn resume(&mut self, machine: usize, boot: u64, number: u64) {
        if self.is_alive(machine, boot, number) {
            self.drive(machine, number, |operation, next| operation.resume(next));
        }
    }

    pub(super) fn give_up(&mut self, machine: usize, boot: u64, number: u64) {
        if self.is_alive(machine, boot, number) {
            self.drive(machine, number, |operation, _| operation.give_up());
        }
    }
}

fn number_of(value: Option<&Value>) -> Option<u32> {
    match value {
        Some(Value::Data(number)) => Some(*number),
        Some(Value::Config(_)) | None => None,
    }
}
