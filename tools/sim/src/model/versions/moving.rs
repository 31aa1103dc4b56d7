//! The move of all versions to the newest layout version, and the retirement of the oldest one.
//!
//! The driver lists the rows of a majority, and brings each of them to all replicas. A replica takes a copy and answers
//! in one step: the time between them makes no difference.

use std::collections::BTreeMap;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::Retirement;
use archipel_cluster::register::versions;
use archipel_cluster::register::{Answer, Outcome, ReplicaSet, Request, Version};
use archipel_storage::{Value, VersionName};

use super::check::Call;
use super::client::Step as OfClient;
use super::{Action, Row, Versions, World};

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

impl World {
    /// Returns true if a client moves versions.
    pub(super) fn is_moving(&self, client: usize) -> bool {
        let moving = self.moving.as_ref();
        moving.is_some_and(|moving| moving.client == client && moving.runs)
    }

    /// Notes that a client begins another task. A move that it had begun was given up.
    pub(super) fn stop_moving(&mut self, client: usize) {
        let moving = self.moving.as_mut();
        if let Some(moving) = moving.filter(|moving| moving.client == client) {
            moving.runs = false;
        }
    }
}

impl Versions {
    /// Returns true if there is an older layout version that could be dropped.
    pub(super) fn may_move(&self, world: &World) -> bool {
        self.config(world.chosen).live.len() > 1
    }

    /// Returns true if the next epoch may be chosen. The oldest version is dropped after the move only.
    pub(super) fn may_choose(&self, world: &World) -> bool {
        let drops =
            || self.config(world.chosen + 1).live.len() < self.config(world.chosen).live.len();
        let moving = world.moving.as_ref();
        let has_moved = || moving.is_some_and(|moving| moving.retirement.is_complete(self.rules));
        world.chosen < self.epochs.len() as u64 && (!drops() || has_moved())
    }

    pub(super) fn begin_move(&self, world: &mut World, c: usize) {
        world.clients[c].work_on(Call::Get, world.chosen);
        let oldest = self.config(world.chosen).oldest(self.rules, |m| m.node);
        world.moving = Some(Moving {
            client: c,
            retirement: Retirement::of(oldest),
            pages: BTreeMap::new(),
            doing: None,
            runs: true,
        });
        self.end_if_complete(world);
    }

    pub(super) fn moving_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let Some(moving) = &world.moving else {
            return;
        };
        if !moving.runs || world.clients[moving.client].is_idle() {
            return;
        }
        match &moving.doing {
            None if !moving.retirement.is_listed() => {
                let oldest = &self.config(world.chosen).live[0];
                let lists = oldest.iter().map(|member| Step::List(member.node));
                actions.extend(lists.map(Action::Rebalance));
            }
            None => {
                let open = moving.retirement.open_keys(usize::MAX).into_iter();
                actions.extend(open.map(|(row, name)| Action::Rebalance(Step::Begin(row, name))));
            }
            Some(work) => {
                let Some(copies) = &work.copies else {
                    return;
                };
                let all = self.start(world.chosen).quorums.all();
                let unasked = all.without(copies.asked);
                actions.extend(unasked.iter().map(|n| Action::Rebalance(Step::Copy(n))));
                actions.push(Action::Rebalance(Step::GoOn));
            }
        }
    }

    pub(super) fn moving_step(&self, world: &mut World, step: Step) {
        let epoch = world.chosen;
        let Some(moving) = &mut world.moving else {
            return;
        };
        match step {
            Step::List(n) => {
                let node = &mut world.nodes[n];
                node.epoch = node.epoch.max(epoch);
                match moving.pages.remove(&n) {
                    None => {
                        let name = versions::name_of(node.current.value.as_ref());
                        let is_there = node.current.stamp != Stamp::ZERO;
                        let page = is_there.then_some((Row::Object, name));
                        moving.pages.insert(n, page.into_iter().collect());
                    }
                    Some(first) => {
                        let kept = node.kept.keys().map(|name| (Row::Kept(*name), *name));
                        moving
                            .retirement
                            .on_listed(n, first.into_iter().chain(kept));
                    }
                }
                self.end_if_complete(world);
            }
            Step::Begin(row, name) => {
                moving.doing = Some(Work {
                    listed: (row, name),
                    looks: 0,
                    copies: None,
                });
                match row {
                    Row::Object => self.work(world, Call::Get, OfClient::Main),
                    Row::Kept(name) => self.work(world, Call::Look(name), OfClient::Main),
                }
            }
            Step::Copy(n) => {
                let copies = moving.doing.as_mut().and_then(|work| work.copies.as_mut());
                let Some(copies) = copies else {
                    return;
                };
                copies.asked.insert(n);
                let node = &mut world.nodes[n];
                let held = match copies.row {
                    Row::Object => node.current.stamp,
                    Row::Kept(name) => node.kept(name).stamp,
                };
                let version = copies.version.clone();
                let is_held = held >= version.stamp
                    || match copies.row {
                        Row::Object => {
                            let write = Request::Write {
                                version,
                                guarded: false,
                            };
                            self.answer(node, (epoch, false, None), write) == Answer::Accepted
                        }
                        Row::Kept(name) => self.copy(node, epoch, name, &version),
                    };
                if is_held {
                    copies.holders.insert(n);
                }
            }
            Step::GoOn => self.go_on(world),
        }
    }

    /// Begins an operation on the row that is being moved.
    fn work(&self, world: &mut World, call: Call, step: OfClient) {
        let Some(moving) = &world.moving else {
            return;
        };
        let c = moving.client;
        world.clients[c].work_on(call, world.chosen);
        self.run(world, c, step);
    }

    /// Goes on after an operation of the driver.
    pub(super) fn moved(&self, world: &mut World, outcome: Outcome<Value>) {
        let Some(moving) = &mut world.moving else {
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
            _ => world.clients[moving.client].crash(),
        }
    }

    /// Looks at the version that was listed.
    fn look(&self, world: &mut World) {
        let Some(moving) = &mut world.moving else {
            return;
        };
        let Some(work) = &mut moving.doing else {
            return;
        };
        work.looks += 1;
        if work.looks > LOOKS {
            return world.clients[moving.client].crash();
        }
        let (_, name) = work.listed;
        self.work(world, Call::Look(name), OfClient::Main);
    }

    /// Goes on once no further copy is awaited.
    fn go_on(&self, world: &mut World) {
        let quorums = self.start(world.chosen).quorums;
        let Some(moving) = &mut world.moving else {
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
    fn finish(&self, world: &mut World) {
        let Some(moving) = &mut world.moving else {
            return;
        };
        if let Some(work) = moving.doing.take() {
            moving.retirement.on_read(work.listed);
        }
        self.end_if_complete(world);
    }

    /// Lets the driver go on with its other tasks once all rows are moved.
    fn end_if_complete(&self, world: &mut World) {
        if let Some(moving) = &mut world.moving
            && moving.retirement.is_complete(self.rules)
        {
            moving.runs = false;
            world.clients[moving.client].crash();
        }
    }
}
