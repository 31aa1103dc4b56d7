//! A machine: a replica on a disk that loses unsynced data, and the operations that it coordinates.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;

use archipel_base::{Stamp, Writer};
use archipel_cluster::register::epoch::{Config, Fence, fence};
use archipel_cluster::register::floor::{self, FloorRound, Floors};
use archipel_cluster::register::replica::{self, Bounds, Cell, Recent};
use archipel_cluster::register::windows::{WindowId, Windows, differing, lacking};
use archipel_cluster::register::{Answer, Operation, Request, Rules, Version};

use super::message::{Body, Key, Message, StoreName, Value};

/// The bound by which stamps may be ahead of a replica's clock.
const AHEAD_MILLIS: u64 = 5_000;
/// The time at which wall clocks begin.
const EPOCH_MILLIS: u64 = 1_700_000_000_000;
/// The content of a disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The rows.
    pub rows: BTreeMap<Key, Cell<Value>>,
    /// The floors.
    pub floors: Floors,
    /// The newest epoch known.
    pub config: Rc<Config<StoreName>>,
    /// The machine's incarnation; `None` before it is in any layout.
    pub incarnation: Option<usize>,
}

/// The purpose of an operation.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// A client's operation: its event in its key's history.
    Client {
        /// The key.
        key: u8,
        /// The index of the event.
        event: usize,
    },
    /// Chooses the successor of an epoch.
    Succeed(Rc<Config<StoreName>>),
    /// Moves a row before a layout version retires.
    Move,
    /// Settles a row that a promise keeps from spreading.
    Settle,
    /// To write a row again above a frozen floor, below which it cannot be applied.
    Rewrite,
}

/// An operation in progress.
#[derive(Debug)]
pub struct Running {
    /// The state machine.
    pub operation: Operation<Value>,
    /// Its row.
    pub key: Key,
    /// Its purpose.
    pub purpose: Purpose,
    /// Its layout.
    pub config: Rc<Config<StoreName>>,
}

/// A floor round in progress.
#[derive(Debug)]
pub struct RunningFloor {
    /// The number of the round and its stage.
    pub id: u64,
    /// The state machine.
    pub round: FloorRound<BTreeMap<Key, Stamp>>,
}

/// A machine.
#[derive(Debug)]
pub struct Machine {
    /// Its number, and the number of its disk.
    pub name: StoreName,
    /// The number of its starts.
    pub boots: u64,
    /// True if it runs.
    pub up: bool,
    /// The state that survives a power cut.
    pub durable: Disk,
    /// The current state. It becomes durable with the next sync.
    pub disk: Disk,
    /// The accepted writes that it remembers.
    pub recent: BTreeMap<Key, Recent>,
    /// Answers that wait for the next sync.
    pub waiting: Vec<Message>,
    /// True if a sync is under way.
    pub syncing: bool,
    /// The offset of its wall clock in milliseconds.
    pub skew_millis: i64,
    /// The time of the last stamp issued.
    pub last_stamp: u64,
    /// The operations that it coordinates.
    pub running: BTreeMap<u64, Running>,
    /// The floor round that it drives.
    pub floor_round: Option<RunningFloor>,
    rules: Rules,
}

impl Machine {
    /// Returns a machine with an empty disk that knows this layout.
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
            floor_round: None,
            rules,
        }
    }

    /// Cuts the power: unsynced data is lost.
    pub fn crash(&mut self) {
        self.up = false;
        self.disk = self.durable.clone();
        self.recent.clear();
        self.waiting.clear();
        self.syncing = false;
        self.running.clear();
        self.floor_round = None;
        self.last_stamp = 0;
    }

    /// Starts the machine again.
    pub fn start(&mut self) {
        self.up = true;
        self.boots += 1;
    }

    /// Syncs the disk. Returns the answers that may be sent now.
    pub fn sync(&mut self) -> Vec<Message> {
        self.durable = self.disk.clone();
        self.syncing = false;
        std::mem::take(&mut self.waiting)
    }

    fn wall_millis(&self, now: u64) -> u64 {
        (EPOCH_MILLIS + now / 1000).saturating_add_signed(self.skew_millis)
    }

    /// Returns a fresh stamp above `seen`.
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

    /// Learns a layout if it is newer than the known one. If it names the machine in a new
    /// incarnation, the machine begins again, empty.
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
            // The memory of accepted writes stays on purpose: a replica that has dropped a row must
            // accept it again nevertheless.
        }
    }

    /// Serves a message as the replica. Returns the answer, which may be sent once the changes are
    /// durable.
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
        ) = (&message.payload, same)
        {
            return Some(Body::Answer {
                operation: *operation,
                round: *round,
                answer: Answer::Superseded { epoch: known },
            });
        }
        if !meant || !same {
            return None;
        }
        match &message.payload {
            Body::Ask {
                operation,
                round,
                key,
                request,
            } => {
                let answer = self.step(now, *key, request.clone());
                Some(Body::Answer {
                    operation: *operation,
                    round: *round,
                    answer,
                })
            }
            Body::Floor(id, request) => {
                let rows = |disk: &Disk, floor: Stamp, gone: Stamp| {
                    data_rows(disk, gone)
                        .filter(|(_, s)| *s <= floor)
                        .collect::<BTreeMap<_, _>>()
                };
                let snapshot = self.disk.clone();
                let epoch = self.disk.config.epoch;
                let Ok(answer) = floor::answer(
                    self.rules,
                    &mut self.disk.floors,
                    epoch,
                    request.clone(),
                    |floor, gone| Ok::<_, Infallible>(rows(&snapshot, floor, gone)),
                );
                self.drop_void(now);
                Some(Body::FloorAnswer(*id, answer))
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

    /// Drops the rows that have neither a value nor a promise left.
    fn drop_void(&mut self, now: u64) {
        let bounds = self.bounds(now);
        let left = |cell: &Cell<Value>| replica::above_floor(cell, &bounds) != Cell::default();
        self.disk.rows.retain(|_, cell| left(cell));
    }

    /// Applies rows from a peer. Returns those that a promise keeps out.
    pub fn apply_rows(
        &mut self,
        now: u64,
        rows: &[(Key, Version<Value>)],
        settled: bool,
    ) -> Vec<Key> {
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
                None if cell.stamp < version.stamp
                    && (cell.promised > version.stamp || version.stamp <= bounds.frozen) =>
                {
                    kept_out.push(*key);
                }
                None => {}
            }
        }
        kept_out
    }

    /// Returns the digests of the rows.
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

    /// Answers the other side's stamps: offers the rows that it lacks, and it asks for the rest in
    /// turn.
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

/// Returns the stamps of the clients' rows that count.
pub fn data_rows(disk: &Disk, gone: Stamp) -> impl Iterator<Item = (Key, Stamp)> {
    let counts = move |(key, cell): &(&Key, &Cell<Value>)| {
        let void = cell.value.is_none() && cell.stamp <= gone;
        matches!(key, Key::Data(_)) && cell.stamp != Stamp::ZERO && !void
    };
    let rows = disk.rows.iter().filter(counts);
    rows.map(|(key, cell)| (*key, cell.stamp))
}
