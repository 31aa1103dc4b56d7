//! The move of all versions to the newest layout version, and the retirement of the oldest one.
//!
//! The driver lists the rows of a majority, and brings each of them to all replicas. A replica
//! takes a copy and answers in one step: the time between them makes no difference.

use std::collections::BTreeMap;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::{Fence, Retirement, fence};
use archipel_cluster::register::versions;
use archipel_cluster::register::{Answer, Outcome, ReplicaSet, Request, Version};
use archipel_storage::{Value, VersionName};

use super::check::Call;
use super::client::Step as OfClient;
use super::{Row, Versions};
use crate::model::scenario::Scenario;
use crate::model::world::{Node, World};

/// A row that was listed, and the name of the version that stood in it.
type Listed = (Row, VersionName);

/// The number of times that a version is looked at.
const LOOKS: u8 = 3;

/// The move in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Moving {
    /// The client that is the driver.
    client: usize,
    retirement: Retirement<Listed>,
    /// The first page of the lists that are read: the objects' row.
    pages: BTreeMap<usize, Vec<Listed>>,
    doing: Option<Work>,
    /// True until all rows are moved, or the driver has crashed.
    runs: bool,
}

/// The work on a listed row.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Work {
    listed: Listed,
    /// The number of looks at the version.
    looks: u8,
    /// The copies for all replicas.
    copies: Option<Copies>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Copies {
    row: Row,
    version: Version<Value>,
    asked: ReplicaSet,
    holders: ReplicaSet,
    /// True if a quorum is known to hold it.
    is_final: bool,
}

/// A step of the move.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A replica lists its next page.
    List(usize),
    /// The driver begins with a listed row.
    Begin(Row, VersionName),
    /// A replica takes a copy, or refuses it.
    Copy(usize),
    /// The driver waits for no further replica.
    GoOn,
}

impl World<Versions> {
    /// Returns true if a client moves versions.
    pub(super) fn is_moving(&self, client: usize) -> bool {
        let moving = self.extra.moving.as_ref();
        moving.is_some_and(|moving| moving.client == client && moving.runs)
    }

    /// Notes that a client begins another task. A move that it had begun was given up.
    pub(super) fn stop_moving(&mut self, client: usize) {
        let moving = self.extra.moving.as_mut();
        if let Some(moving) = moving.filter(|moving| moving.client == client) {
            moving.runs = false;
        }
    }
}

impl Scenario<Versions> {
    /// Returns true if there is an older layout version that could be dropped.
    pub(super) fn may_move(&self, world: &World<Versions>) -> bool {
        self.config(world.chosen).live.len() > 1
    }

    /// Returns true if the next epoch may be chosen. The oldest version is dropped after the move
    /// only.
    pub(super) fn may_choose(&self, world: &World<Versions>) -> bool {
        let drops =
            || self.config(world.chosen + 1).live.len() < self.config(world.chosen).live.len();
        let moving = world.extra.moving.as_ref();
        let has_moved = || moving.is_some_and(|moving| moving.retirement.is_complete(self.rules));
        world.chosen < self.epochs.len() as u64 && (!drops() || has_moved())
    }

    /// Adds the next layout version, unless one is there.
    pub(super) fn add_layout(&self, world: &mut World<Versions>) {
        if world.chosen == 1 && self.may_choose(world) {
            world.chosen += 1;
        }
    }

    pub(super) fn begin_move(&self, world: &mut World<Versions>, c: usize) {
        world.clients[c].work_on(Call::Get, world.chosen);
        let oldest = self.config(world.chosen).oldest(self.rules, |m| m.node);
        world.extra.moving = Some(Moving {
            client: c,
            retirement: Retirement::of(oldest),
            pages: BTreeMap::new(),
            doing: None,
            runs: true,
        });
        self.end_if_complete(world);
    }

    /// Returns the possible steps of the move.
    pub(super) fn moving_steps(&self, world: &World<Versions>) -> Vec<Step> {
        let Some(moving) = &world.extra.moving else {
            return Vec::new();
        };
        if !moving.runs || world.clients[moving.client].is_idle() {
            return Vec::new();
        }
        match &moving.doing {
            None if !moving.retirement.is_listed() => {
                let oldest = &self.config(world.chosen).live[0];
                oldest
                    .iter()
                    .map(|member| Step::List(member.node))
                    .collect()
            }
            None => {
                let open = moving.retirement.open_keys(usize::MAX).into_iter();
                open.map(|(row, name)| Step::Begin(row, name)).collect()
            }
            Some(Work { copies: None, .. }) => Vec::new(),
            Some(Work {
                copies: Some(copies),
                ..
            }) => {
                let unasked = self.start(world.chosen).quorums.all().without(copies.asked);
                let copying = unasked.iter().map(Step::Copy);
                copying.chain([Step::GoOn]).collect()
            }
        }
    }

    /// Makes a step of the move.
    pub(super) fn moving_step(&self, world: &mut World<Versions>, step: Step) {
        match step {
            Step::List(n) => self.list(world, n),
            Step::Begin(row, name) => {
                if let Some(moving) = &mut world.extra.moving {
                    moving.doing = Some(Work {
                        listed: (row, name),
                        looks: 0,
                        copies: None,
                    });
                }
                match row {
                    Row::Object => self.work(world, Call::Get, OfClient::Main),
                    Row::Kept(name) => self.work(world, Call::Look(name), OfClient::Main),
                }
            }
            Step::Copy(n) => self.copy_to(world, n),
            Step::GoOn => self.go_on(world),
        }
    }

    /// Lets a replica list its next page: the object's row, then the kept versions.
    fn list(&self, world: &mut World<Versions>, n: usize) {
        let epoch = world.chosen;
        let Some(moving) = &mut world.extra.moving else {
            return;
        };
        let node = &mut world.nodes[n];
        node.epoch = node.epoch.max(epoch);
        match moving.pages.remove(&n) {
            None => {
                let current = node.rows.current();
                let name = versions::name_of(current.value.as_ref());
                let is_there = current.stamp != Stamp::ZERO;
                let page = is_there.then_some((Row::Object, name));
                moving.pages.insert(n, page.into_iter().collect());
            }
            Some(first) => {
                let kept = node.rows.names().map(|name| (Row::Kept(name), name));
                let all = first.into_iter().chain(kept);
                moving.retirement.on_listed(n, all);
            }
        }
        self.end_if_complete(world);
    }

    /// Lets a replica take a copy, or refuse it.
    fn copy_to(&self, world: &mut World<Versions>, n: usize) {
        let epoch = world.chosen;
        let work = world.extra.moving.as_mut().and_then(|m| m.doing.as_mut());
        let Some(copies) = work.and_then(|work| work.copies.as_mut()) else {
            return;
        };
        copies.asked.insert(n);
        let (node, version) = (&mut world.nodes[n], copies.version.clone());
        let is_held = node.rows.stamp(copies.row) >= version.stamp
            || match copies.row {
                Row::Object => {
                    let write = Request::Write {
                        version,
                        guarded: false,
                    };
                    self.answer(node, epoch, &(None, false), write) == Answer::Accepted
                }
                Row::Kept(name) => self.copy(node, epoch, name, &version),
            };
        if is_held {
            copies.holders.insert(n);
        }
    }

    /// Copies a version to a replica. Returns true if it has that version, or a newer state of it.
    fn copy(
        &self,
        node: &mut Node<Versions>,
        epoch: u64,
        name: VersionName,
        version: &Version<Value>,
    ) -> bool {
        if fence(self.rules, node.epoch, epoch) == Fence::Superseded {
            return false;
        }
        node.epoch = epoch;
        let bounds = node.bounds();
        node.rows.copy(self.rules, &bounds, name, version)
    }

    /// Begins an operation on the row that is being moved.
    fn work(&self, world: &mut World<Versions>, call: Call, step: OfClient) {
        let Some(moving) = &world.extra.moving else {
            return;
        };
        let c = moving.client;
        world.clients[c].work_on(call, world.chosen);
        self.run(world, c, step);
    }

    /// Goes on after an operation of the driver.
    pub(super) fn moved(&self, world: &mut World<Versions>, outcome: Outcome<Value>) {
        let Some(moving) = &mut world.extra.moving else {
            return;
        };
        let Some(work) = &mut moving.doing else {
            return;
        };
        let copies = |row, version, is_final| Copies {
            row,
            version,
            asked: ReplicaSet::EMPTY,
            holders: ReplicaSet::EMPTY,
            is_final,
        };
        let (_, name) = work.listed;
        match outcome {
            Outcome::Value(version) => work.copies = Some(copies(Row::Object, version, true)),
            Outcome::Seen(report) | Outcome::Open(report) if report.stamp == Stamp::ZERO => {
                self.finish(world);
            }
            Outcome::Seen(report) => {
                work.copies = Some(copies(Row::Kept(name), versions::copy_of(&report), true));
            }
            Outcome::Open(report) => {
                let version = versions::copy_of(&report);
                work.copies = Some(copies(Row::Kept(name), version, false));
            }
            Outcome::Written { .. } | Outcome::Kept(_) | Outcome::Overtaken => self.look(world),
            _ => world.clients[moving.client].end(),
        }
    }

    /// Looks at the version that was listed.
    fn look(&self, world: &mut World<Versions>) {
        let Some(moving) = &mut world.extra.moving else {
            return;
        };
        let Some(work) = &mut moving.doing else {
            return;
        };
        work.looks += 1;
        if work.looks > LOOKS {
            return world.clients[moving.client].end();
        }
        let (_, name) = work.listed;
        self.work(world, Call::Look(name), OfClient::Main);
    }

    /// Goes on once no further copy is awaited.
    fn go_on(&self, world: &mut World<Versions>) {
        let quorums = self.start(world.chosen).quorums;
        let Some(moving) = &mut world.extra.moving else {
            return;
        };
        let Some(work) = &mut moving.doing else {
            return;
        };
        let Some(copies) = work.copies.take() else {
            return;
        };
        let (_, listed) = work.listed;
        match copies.row {
            Row::Object => {
                let newest = versions::name_of(copies.version.value.as_ref());
                if versions::moves_apart(self.rules, listed, newest) {
                    self.look(world);
                } else {
                    self.finish(world);
                }
            }
            Row::Kept(_) if copies.is_final || quorums.is_quorum(copies.holders) => {
                self.finish(world)
            }
            Row::Kept(_) => self.work(world, Call::Look(listed), OfClient::Settle),
        }
    }

    /// Ends the work on a row.
    fn finish(&self, world: &mut World<Versions>) {
        let Some(moving) = &mut world.extra.moving else {
            return;
        };
        if let Some(work) = moving.doing.take() {
            moving.retirement.on_read(work.listed);
        }
        self.end_if_complete(world);
    }

    /// Lets the driver go on with its other tasks once all rows are moved.
    fn end_if_complete(&self, world: &mut World<Versions>) {
        if let Some(moving) = &mut world.extra.moving
            && moving.retirement.is_complete(self.rules)
        {
            moving.runs = false;
            world.clients[moving.client].end();
        }
    }
}
