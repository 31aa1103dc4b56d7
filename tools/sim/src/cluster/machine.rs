//! A machine: a replica on a disk that loses what was not synced, and the operations that it coordinates.

use std::collections::BTreeMap;
use std::rc::Rc;

use archipel_base::{Stamp, Writer};
use archipel_cluster::register::epoch::{Config, Fence, fence};
use archipel_cluster::register::floor::{self, FloorRound, Floors};
use archipel_cluster::register::replica::{self, Bounds, Cell, Recent};
use archipel_cluster::register::windows::{WindowId, Windows, differing, lacking};
use archipel_cluster::register::{Answer, Operation, Request, Rules, Version};

use super::message::{Body, Key, Message, StoreName, Value};

/// How far stamps may be ahead of a replica's clock.
const AHEAD_MILLIS: u64 = 5_000;
/// Wall clocks begin here.
const EPOCH_MILLIS: u64 = 1_700_000_000_000;
/// What is on disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The rows.
    pub rows: BTreeMap<Key, Cell<Value>>,
    /// The floors.
    pub floors: Floors,
    /// The newest epoch known.
    pub config: Rc<Config<StoreName>>,
    /// Which incarnation the machine is in; `None` before it is in any layout.
    pub incarnation: Option<usize>,
}

/// Why an operation runs.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// For a client: the index in its key's history.
    Client {
        /// Which key.
        key: u8,
        /// Which event of it.
        event: usize,
    },
    /// To choose the successor of an epoch.
    Succeed(Rc<Config<StoreName>>),
    /// To move a row before a layout version retires.
    Move,
    /// To settle a row that a promise keeps from spreading.
    Settle,
}

/// An operation in progress.
#[derive(Debug)]
pub struct Running {
    /// The state machine.
    pub operation: Operation<Value>,
    /// Of which row.
    pub key: Key,
    /// What for.
    pub purpose: Purpose,
    /// Under which layout.
    pub config: Rc<Config<StoreName>>,
}

/// A floor round in progress.
#[derive(Debug)]
pub struct Flooring {
    /// Its number, and that of its stage.
    pub id: u64,
    /// The state machine.
    pub round: FloorRound<BTreeMap<Key, Stamp>>,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    /// Its number, and which disk it has.
    pub name: StoreName,
    /// How often it was started.
    pub boots: u64,
    /// Whether it runs.
    pub up: bool,
    /// What survives a power cut.
    pub durable: Disk,
    /// What it works on; becomes durable with the next sync.
    pub disk: Disk,
    /// What accepted writes it remembers.
    pub recent: BTreeMap<Key, Recent>,
    /// Answers that wait for the next sync.
    pub waiting: Vec<Message>,
    /// Whether a sync is on its way.
    pub syncing: bool,
    /// How far the wall clock is off, in milliseconds.
    pub skew_millis: i64,
    /// The time of the last stamp issued.
    pub last_stamp: u64,
    /// What it coordinates.
    pub running: BTreeMap<u64, Running>,
    /// The floor round that it runs.
    pub flooring: Option<Flooring>,
    rules: Rules,
}

impl Machine {
    /// A machine with an empty disk that knows this layout.
    pub fn new(rules: Rules, name: StoreName, config: Rc<Config<StoreName>>) -> Machine {
        let named = config.incarnation_of(&name);
        let disk = Disk {
            rows: BTreeMap::new(),
            floors: Floors::joining(config.epoch),
            config,
            incarnation: named.map(|i| i as usize),
        };
        Machine {
            name,
            boots: 1,
            up: true,
            durable: disk.clone(),
            disk,
            recent: BTreeMap::new(),
            waiting: Vec::new(),
            syncing: false,
            skew_millis: 0,
            last_stamp: 0,
            running: BTreeMap::new(),
            flooring: None,
            rules,
        }
    }

    /// The power goes: what was not synced is lost.
    pub fn crash(&mut self) {
        self.up = false;
        self.disk = self.durable.clone();
        self.recent.clear();
        self.waiting.clear();
        self.syncing = false;
        self.running.clear();
        self.flooring = None;
        self.last_stamp = 0;
    }

    /// The machine comes back.
    pub fn start(&mut self) {
        self.up = true;
        self.boots += 1;
    }

    /// What was written is durable; these answers may go.
    pub fn sync(&mut self) -> Vec<Message> {
        self.durable = self.disk.clone();
        self.syncing = false;
        std::mem::take(&mut self.waiting)
    }

    fn wall_millis(&self, now: u64) -> u64 {
        (EPOCH_MILLIS + now / 1000).saturating_add_signed(self.skew_millis)
    }

    /// A fresh stamp above `seen`.
    pub fn next_stamp(&mut self, now: u64, seen: Stamp) -> Stamp {
        let wall = self.wall_millis(now) << 16;
        self.last_stamp = wall.max(self.last_stamp + 1).max(seen.time + 1);
        Stamp {
            time: self.last_stamp,
            writer: Writer((self.name.machine as u64) << 16 | self.boots),
        }
    }

    fn bounds(&self, now: u64) -> Bounds {
        Bounds::without_floors(self.wall_millis(now), AHEAD_MILLIS).with_floors(&self.disk.floors)
    }

    /// Takes note of a layout that is newer than the one known. If it names the machine in a new
    /// incarnation, the machine begins anew, empty.
    pub fn learn(&mut self, config: &Rc<Config<StoreName>>) {
        if config.epoch <= self.disk.config.epoch {
            return;
        }
        self.disk.config = config.clone();
        let named = config.incarnation_of(&self.name).map(|i| i as usize);
        if named.is_some() && named > self.disk.incarnation {
            self.disk.incarnation = named;
            self.disk.rows.clear();
            self.disk.floors = Floors::joining(config.epoch);
            // What is remembered of its rows stays: whoever has forgotten a row must take it again nevertheless.
        }
    }

    /// The replica's part: what to answer to a message, once what changed is durable.
    pub fn serve(&mut self, now: u64, message: &Message) -> Option<Body> {
        let known = self.disk.config.epoch;
        let passes = fence(self.rules, known, message.config.epoch) == Fence::Pass;
        self.learn(&message.config);
        let same = passes || known < message.config.epoch;
        let meant = message.replica.is_some() && message.replica == self.disk.incarnation;
        if let (
            Body::Ask {
                operation, round, ..
            },
            false,
        ) = (&message.body, same)
        {
            return Some(Body::Tell {
                operation: *operation,
                round: *round,
                answer: Answer::Superseded { epoch: known },
            });
        }
        if !meant || !same {
            return None;
        }
        match &message.body {
            Body::Ask {
                operation,
                round,
                key,
                request,
            } => {
                let answer = self.step(now, *key, request.clone());
                Some(Body::Tell {
                    operation: *operation,
                    round: *round,
                    answer,
                })
            }
            Body::Floor(id, request) => {
                let rows = |disk: &Disk, floor: Stamp, gone: Stamp| {
                    data_rows(disk, gone).filter(|(_, s)| *s <= floor).collect()
                };
                let snapshot = self.disk.clone();
                let epoch = self.disk.config.epoch;
                let answer = floor::answer(
                    self.rules,
                    &mut self.disk.floors,
                    epoch,
                    *request,
                    |floor, gone| rows(&snapshot, floor, gone),
                );
                self.drop_void(now);
                Some(Body::Floored(*id, answer))
            }
            Body::List => Some(Body::Keys(self.disk.rows.keys().copied().collect())),
            Body::Compare(scope, theirs) => self.compare(scope.as_deref(), theirs),
            Body::Stamps(hours, theirs) => self.exchange(hours, theirs),
            Body::Want(keys) => Some(self.rows(keys)),
            _ => None,
        }
    }

    fn step(&mut self, now: u64, key: Key, request: Request<Value>) -> Answer<Value> {
        let bounds = self.bounds(now);
        let cell = self.disk.rows.get(&key).cloned().unwrap_or_default();
        let forgotten = || Recent::forgotten(self.rules, &cell, &bounds);
        let recent = self.recent.entry(key).or_insert_with(forgotten);
        let step = replica::step(self.rules, &bounds, &cell, recent, request, true);
        if let Some(cell) = step.cell {
            self.disk.rows.insert(key, cell);
        }
        step.answer
    }

    /// Drops the rows of which nothing is left.
    fn drop_void(&mut self, now: u64) {
        let bounds = self.bounds(now);
        let left = |cell: &Cell<Value>| replica::above_floor(cell, &bounds) != Cell::default();
        self.disk.rows.retain(|_, cell| left(cell));
    }

    /// Takes rows from a peer; gives those that a promise keeps out.
    pub fn take(&mut self, now: u64, rows: &[(Key, Version<Value>)], settled: bool) -> Vec<Key> {
        let bounds = self.bounds(now);
        let mut kept_out = Vec::new();
        for (key, version) in rows {
            let cell = self.disk.rows.get(key).cloned().unwrap_or_default();
            let forgotten = || Recent::forgotten(self.rules, &cell, &bounds);
            let recent = self.recent.entry(*key).or_insert_with(forgotten);
            let taken =
                replica::spread(self.rules, &bounds, &cell, recent, version.clone(), settled);
            match taken {
                Some(cell) => drop(self.disk.rows.insert(*key, cell)),
                None if cell.promised > version.stamp && cell.stamp < version.stamp => {
                    kept_out.push(*key);
                }
                None => {}
            }
        }
        kept_out
    }

    /// The fingerprints of the rows.
    pub fn windows(&self) -> Windows {
        let mut windows = Windows::default();
        for (key, stamp) in data_rows(&self.disk, self.disk.floors.gone) {
            windows.change(&key.bytes(), None, Some(stamp));
        }
        windows
    }

    fn compare(
        &self,
        scope: Option<&[WindowId]>,
        theirs: &archipel_cluster::register::windows::Prints,
    ) -> Option<Body> {
        let windows = self.windows();
        let mine = scope.map_or_else(|| windows.top(), |scope| windows.within(scope));
        let differ = differing(&mine, theirs);
        if differ.is_empty() {
            return None;
        }
        if differ.iter().all(|w| w.parts().next().is_none()) {
            let stamps = self.stamps_in(&differ);
            return Some(Body::Stamps(differ, stamps));
        }
        let parts = windows.within(&differ);
        Some(Body::Compare(Some(differ), parts))
    }

    fn stamps_in(&self, hours: &[WindowId]) -> BTreeMap<Key, Stamp> {
        let inside = |s: Stamp| hours.iter().any(|h| WindowId::of(h.granularity, s) == *h);
        data_rows(&self.disk, self.disk.floors.gone)
            .filter(|(_, s)| inside(*s))
            .collect()
    }

    /// The other side told its stamps: offer what it lacks; it asks for the rest in turn.
    fn exchange(&self, hours: &[WindowId], theirs: &BTreeMap<Key, Stamp>) -> Option<Body> {
        let mine = self.stamps_in(hours);
        let wanted = lacking(&mine, theirs);
        if wanted.is_empty() {
            let offered = lacking(theirs, &mine);
            return (!offered.is_empty()).then(|| self.rows(&offered));
        }
        Some(Body::Want(wanted))
    }

    fn rows(&self, keys: &[Key]) -> Body {
        let row = |key: &Key| Some((*key, self.disk.rows.get(key)?.version()));
        let rows: Vec<_> = keys.iter().filter_map(row).collect();
        let held = rows.into_iter().filter(|(_, v)| v.stamp != Stamp::ZERO);
        Body::Rows(held.collect(), false)
    }
}

/// The rows of clients that count: their stamps.
pub fn data_rows(disk: &Disk, gone: Stamp) -> impl Iterator<Item = (Key, Stamp)> {
    let counts = move |(key, cell): &(&Key, &Cell<Value>)| {
        let void = cell.value.is_none() && cell.stamp <= gone;
        matches!(key, Key::Data(_)) && cell.stamp != Stamp::ZERO && !void
    };
    let rows = disk.rows.iter().filter(counts);
    rows.map(|(key, cell)| (*key, cell.stamp))
}
