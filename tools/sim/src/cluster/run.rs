//! The event loop: virtual time, the network, clients and faults.

use std::cmp::Reverse;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use archipel_cluster::register::Rules;
use archipel_cluster::register::epoch::Config;

mod faults;

use super::judge::{self, Verdict};
use super::machine::Machine;
use super::message::{Body, Message, StoreName};
use crate::linear::Event as Happened;
use crate::rng::Rng;

/// The options of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The rules in force.
    pub rules: Rules,
    /// Answers do not wait for the disk. A correct cluster never does this.
    pub answer_before_sync: bool,
    /// Prints what happens.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            rules: Rules::CORRECT,
            answer_before_sync: false,
            trace: false,
        }
    }
}

/// The number of machines.
pub const MACHINES: usize = 5;
/// The number of keys that clients write.
pub const KEYS: u8 = 3;
const CLIENTS: usize = 5;
const OPERATIONS: usize = 150;
/// Times are in microseconds.
pub const MILLIS: u64 = 1000;
const FAULTS_END: u64 = 60_000 * MILLIS;
const END: u64 = 120_000 * MILLIS;

/// An event at a point in time.
#[derive(Debug)]
pub enum Event {
    /// A message arrives.
    Arrive(Box<Message>),
    /// A machine's disk has synced.
    Synced(usize, u64),
    /// A client may begin an operation.
    Client(usize),
    /// An operation has waited for some time.
    Timeout(usize, u64, u64),
    /// An operation goes on after a pause.
    Resume(usize, u64, u64),
    /// The client stops waiting.
    GiveUp(usize, u64, u64),
    /// Something breaks.
    Fault,
    /// All machines lose power.
    Blackout,
    /// A machine comes back.
    Start(usize),
    /// Links work again.
    Reconnect,
    /// Machines compare their rows.
    Compare,
    /// A floor round begins, or repeats its requests.
    Floor,
    /// The operator checks the layout.
    Operate,
    /// The end of the run: clients read every key.
    FinalReads,
}

/// A cluster with its clients, network and faults.
pub struct Cluster {
    pub(super) options: Options,
    pub(super) rng: Rng,
    pub(super) now: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    pending: BTreeMap<usize, Event>,
    next_event: usize,
    /// The machines.
    pub(super) machines: Vec<Machine>,
    /// Every epoch that was ever proposed.
    pub(super) proposed: Vec<Rc<Config<StoreName>>>,
    cut: BTreeSet<(usize, usize)>,
    loss_percent: u64,
    repeat_percent: u64,
    far: u64,
    slowest_sync: u64,
    /// True for each client that waits for an answer.
    pub(super) busy: Vec<bool>,
    pub(super) begun: usize,
    pub(super) next_operation: u64,
    pub(super) next_value: u32,
    /// The operations on each key.
    pub(super) history: BTreeMap<u8, Vec<Happened>>,
    pub(super) retirement: Option<super::upkeep::Retiring>,
    pub(super) counts: judge::Counts,
    hash: DefaultHasher,
}

/// Returns the layout that every machine gets when it is set up.
fn first_layout() -> Rc<Config<StoreName>> {
    let store = |machine| StoreName { machine, disk: 0 };
    Rc::new(Config::first((0..3).map(store).collect()))
}

/// Runs the cluster of a seed to its end.
pub fn simulate(seed: u64, options: Options) -> Verdict {
    let mut cluster = Cluster::new(seed, options);
    cluster.schedule();
    while let Some(Reverse((at, _, slot))) = cluster.events.pop() {
        if at > END {
            break;
        }
        cluster.now = at;
        if let Some(event) = cluster.pending.remove(&slot) {
            cluster.happen(event);
        }
    }
    let hash = cluster.hash.finish();
    judge::judge(&cluster, hash)
}

impl Cluster {
    fn new(seed: u64, options: Options) -> Cluster {
        let mut rng = Rng::new(seed);
        let config = first_layout();
        let machines = (0..MACHINES).map(|machine| {
            Machine::new(
                options.rules,
                StoreName { machine, disk: 0 },
                config.clone(),
            )
        });
        let mut machines: Vec<Machine> = machines.collect();
        for machine in &mut machines {
            machine.skew_millis = rng.between(0, 400) as i64 - 200;
        }
        Cluster {
            options,
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            pending: BTreeMap::new(),
            next_event: 0,
            machines,
            proposed: Vec::new(),
            cut: BTreeSet::new(),
            loss_percent: if rng.chance(50) {
                rng.between(1, 10)
            } else {
                0
            },
            repeat_percent: if rng.chance(50) { rng.between(1, 5) } else { 0 },
            far: rng.between(1, 60) * MILLIS,
            slowest_sync: if rng.chance(30) {
                rng.between(100, 400) * MILLIS
            } else {
                rng.between(1, 30) * MILLIS
            },
            busy: vec![false; CLIENTS],
            begun: 0,
            next_operation: 0,
            next_value: 0,
            history: BTreeMap::new(),
            retirement: None,
            counts: judge::Counts::default(),
            hash: DefaultHasher::new(),
            rng,
        }
    }

    fn schedule(&mut self) {
        for client in 0..CLIENTS {
            self.after(client as u64 * MILLIS, Event::Client(client));
        }
        self.after(500 * MILLIS, Event::Fault);
        self.after(1000 * MILLIS, Event::Compare);
        self.after(3000 * MILLIS, Event::Floor);
        self.after(2000 * MILLIS, Event::Operate);
        self.after(FAULTS_END, Event::Reconnect);
        self.after(END - 10_000 * MILLIS, Event::FinalReads);
    }

    /// Schedules an event after a delay.
    pub(super) fn after(&mut self, micros: u64, event: Event) {
        self.next_event += 1;
        self.order += 1;
        self.pending.insert(self.next_event, event);
        let entry = (self.now + micros, self.order, self.next_event);
        self.events.push(Reverse(entry));
    }

    /// Notes what happens: always in the run's hash, and for the reader of a trace.
    pub(super) fn note(&mut self, what: impl FnOnce() -> String, essence: impl Hash) {
        (self.now, essence).hash(&mut self.hash);
        if self.options.trace {
            println!("{:>10.3} ms  {}", self.now as f64 / 1000.0, what());
        }
    }

    /// Returns true once faults are over and everything works.
    pub(super) fn is_calm(&self) -> bool {
        self.now >= FAULTS_END
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(message) => self.arrive(*message),
            Event::Synced(id, boot) => self.synced(id, boot),
            Event::Client(client) => self.client(client),
            Event::Timeout(id, boot, operation) => self.timeout(id, boot, operation),
            Event::Resume(id, boot, operation) => self.resume(id, boot, operation),
            Event::GiveUp(id, boot, operation) => self.give_up(id, boot, operation),
            Event::Fault => self.fault(),
            Event::Blackout => self.blackout(),
            Event::Start(machine) => self.start(machine),
            Event::Reconnect => self.reconnect(),
            Event::Compare => self.compare(),
            Event::Floor => self.floor(),
            Event::Operate => self.operate(),
            Event::FinalReads => self.final_reads(),
        }
    }

    pub(super) fn boot(&self, machine: usize) -> u64 {
        self.machines[machine].boots
    }

    /// Sends a message to a replica, under the layout that the machine knows.
    pub(super) fn send(&mut self, machine: usize, replica: usize, payload: Body) {
        let config = self.machines[machine].disk.config.clone();
        self.send_under(machine, replica, payload, config);
    }

    /// Sends a message to a replica under the given layout.
    pub(super) fn send_under(
        &mut self,
        machine: usize,
        replica: usize,
        payload: Body,
        config: Rc<Config<StoreName>>,
    ) {
        let mut members = config.live.iter().flatten();
        let Some(member) = members.find(|m| m.incarnation as usize == replica) else {
            return;
        };
        self.transmit(Message {
            from: machine,
            to: member.node.machine,
            sender: self.machines[machine].disk.incarnation,
            replica: Some(replica),
            config: config.clone(),
            payload,
        });
    }

    fn transmit(&mut self, message: Message) {
        let link = (message.from, message.to);
        let near = message.from == message.to;
        let calm = self.is_calm();
        if self.cut.contains(&link) || (!near && !calm && self.rng.chance(self.loss_percent)) {
            return;
        }
        let copies = 1 + u64::from(!near && !calm && self.rng.chance(self.repeat_percent));
        for _ in 0..copies {
            let delay = self.delay(near);
            self.after(delay, Event::Arrive(Box::new(message.clone())));
        }
    }

    /// Returns a delay: mostly the link's latency with some jitter. Now and then a message takes
    /// much longer.
    fn delay(&mut self, near: bool) -> u64 {
        if near {
            return 50;
        }
        let usual = self.far + self.rng.between(0, self.far / 2);
        if self.rng.chance(2) {
            return usual + self.rng.between(0, 1500 * MILLIS);
        }
        usual
    }

    fn arrive(&mut self, message: Message) {
        let (from, to) = (message.from, message.to);
        if !self.machines[to].up {
            return;
        }
        let essence = (from, to, message.config.epoch, message.replica);
        self.note(
            || {
                format!(
                    "{from} → {to}  epoch {}  {:?}",
                    message.config.epoch, message.payload
                )
            },
            essence,
        );
        let Some(payload) = self.machines[to].serve(self.now, &message) else {
            self.sync_soon(to);
            return self.receive(to, message);
        };
        let asks_back = matches!(
            payload,
            Body::Compare(..) | Body::Stamps(..) | Body::Want(_) | Body::Rows(..)
        );
        let answer = Message {
            from: to,
            to: from,
            sender: self.machines[to].disk.incarnation,
            replica: message.sender.filter(|_| asks_back),
            config: self.machines[to].disk.config.clone(),
            payload,
        };
        if self.options.answer_before_sync {
            self.transmit(answer);
        } else {
            self.machines[to].waiting.push(answer);
        }
        self.sync_soon(to);
    }

    /// Starts a sync. There is one at a time; later writes go with the next.
    pub(super) fn sync_soon(&mut self, machine: usize) {
        if !self.machines[machine].syncing {
            self.machines[machine].syncing = true;
            let delay = self.rng.between(200, self.slowest_sync);
            let boot = self.boot(machine);
            self.after(delay, Event::Synced(machine, boot));
        }
    }

    fn synced(&mut self, machine: usize, boot: u64) {
        if !self.machines[machine].up || self.boot(machine) != boot {
            return;
        }
        for answer in self.machines[machine].sync() {
            self.transmit(answer);
        }
    }

    /// Begins a client's next operation when the last has ended, until all are done.
    fn client(&mut self, client: usize) {
        if !self.busy[client] && self.begun < OPERATIONS && !self.is_calm() {
            self.begin_for_client(client);
        }
        let wait = self.rng.between(1, 800) * MILLIS;
        if !self.is_calm() {
            self.after(wait, Event::Client(client));
        }
    }
}
