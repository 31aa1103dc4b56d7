//! Replicas: the rules of versions, the rows that replicas send to one another, and floors.

use std::convert::Infallible;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::{Fence, fence};
use archipel_cluster::register::floor::{self, FloorAnswer, FloorRequest};
use archipel_cluster::register::replica::Cell;
use archipel_cluster::register::rules::Mutant;
use archipel_cluster::register::versions::{self, Copied, Kept, VersionReport};
use archipel_cluster::register::{Answer, Request, Version, replica};
use archipel_storage::{Value, VersionName};

use super::packet::Digest;
use super::{Action, Node, Row, Versions, World};
use crate::model::floor::RunningFloor;

impl Node {
    pub(super) fn kept(&self, name: VersionName) -> Cell<Value> {
        self.kept.get(&name).cloned().unwrap_or_default()
    }

    fn set_kept(&mut self, changes: Vec<(VersionName, Cell<Value>)>) {
        for (name, cell) in changes {
            if cell == Cell::default() {
                self.kept.remove(&name);
            } else {
                self.kept.insert(name, cell);
            }
        }
    }
}

impl Versions {
    pub(super) fn answer(
        &self,
        node: &mut Node,
        (epoch, by_new, about): (u64, bool, Option<VersionName>),
        request: Request<Value>,
    ) -> Answer<Value> {
        match fence(self.rules, node.epoch, epoch) {
            Fence::Pass => {}
            Fence::Superseded => return Answer::Superseded { epoch: node.epoch },
            Fence::Learn => node.epoch = epoch,
        }
        let bounds = self.bounds(node);
        let told = self.told(node, about);
        let written = match &request {
            Request::Write { version, .. } => Some(version.clone()),
            _ => None,
        };
        let mut recent = node.recent.clone();
        let step = replica::step(
            self.rules,
            &bounds,
            &node.current,
            &mut recent,
            request,
            by_new == node.has_moved,
        );
        if let (Some(cell), Some(version)) = (&step.cell, &written)
            && !self.keep(node, version)
        {
            return Answer::Lacking {
                name: versions::name_of(cell.value.as_ref()),
            };
        }
        node.recent = recent;
        if let Some(cell) = step.cell {
            node.current = cell;
        }
        step.answer.telling(told)
    }

    /// Copies a version to a replica. Returns true if it has that version, or a newer state of it.
    pub(super) fn copy(
        &self,
        node: &mut Node,
        epoch: u64,
        name: VersionName,
        version: &Version<Value>,
    ) -> bool {
        if fence(self.rules, node.epoch, epoch) == Fence::Superseded {
            return false;
        }
        node.epoch = epoch;
        let (bounds, held) = (self.bounds(node), node.kept(name));
        match versions::copy(self.rules, &bounds, &node.current, &held, name, version) {
            Copied::Taken(taken) => drop(node.kept.insert(name, taken)),
            Copied::Known => {}
            Copied::Frozen => return false,
        }
        true
    }

    /// Keeps what the acceptance of a value displaces. Returns false if the replica lacks something.
    fn keep(&self, node: &mut Node, version: &Version<Value>) -> bool {
        let bounds = self.bounds(node);
        let old = replica::above_floor(&node.current, &bounds);
        let kept = |name| Ok::<_, Infallible>(node.kept(name));
        let Ok(kept) = versions::keep(self.rules, &old, version, kept);
        match kept {
            Kept::Changes(changes) => {
                node.set_kept(changes);
                true
            }
            Kept::Lacks(_) => false,
        }
    }

    /// Returns what a replica tells of all versions that it holds, and of the one asked about.
    fn told(&self, node: &Node, about: Option<VersionName>) -> Vec<VersionReport> {
        let bounds = self.bounds(node);
        let current = node.current.value.as_ref().map(|v| v.version_name());
        let mut names: Vec<VersionName> = node.kept.keys().copied().collect();
        names.extend(about.into_iter().chain(current));
        names.sort_unstable();
        names.dedup();
        let view = |name| versions::view(name, &node.current, &node.kept(name), &bounds);
        names.into_iter().map(view).collect()
    }

    /// Returns true if a quorum holds this node's version of the object's row.
    pub(super) fn is_settled(&self, world: &World, node: usize) -> bool {
        let stamp = world.nodes[node].current.stamp;
        let same = |n: &usize| world.nodes[*n].current.stamp == stamp;
        let holders = (0..self.nodes).filter(same).collect();
        let quorums = self.start(world.nodes[node].epoch).quorums;
        quorums.is_quorum(holders)
    }

    pub(super) fn take(
        &self,
        node: &mut Node,
        epoch: u64,
        row: Row,
        version: Version<Value>,
        settled: bool,
    ) {
        if fence(self.rules, node.epoch, epoch) != Fence::Pass {
            return;
        }
        let bounds = self.bounds(node);
        match row {
            Row::Object => {
                let mut memory = node.recent.clone();
                let spread = replica::spread(
                    self.rules,
                    &bounds,
                    &node.current,
                    &mut memory,
                    version.clone(),
                    settled,
                );
                let Some(taken) = spread else { return };
                if self.rules.breaks(Mutant::SpreadUnkept) || self.keep(node, &version) {
                    node.current = taken;
                    node.recent = memory;
                }
            }
            Row::Kept(name) => {
                let held = node.kept(name);
                let current = &node.current;
                let taken = versions::copy(self.rules, &bounds, current, &held, name, &version);
                if let Copied::Taken(taken) = taken {
                    node.kept.insert(name, taken);
                }
            }
        }
    }

    pub(super) fn node_actions(&self, world: &World, n: usize, actions: &mut Vec<Action>) {
        let node = &world.nodes[n];
        // A node that no layout version names sends nothing.
        let members = self.config(node.epoch).members();
        let is_member = |n: usize| members.iter().any(|member| member.node == n);
        if world.spreads < self.spreads && is_member(n) {
            let others = || (0..self.nodes).filter(|o| *o != n);
            if node.current.stamp != Stamp::ZERO {
                actions.extend(others().map(|o| Action::Spread(n, o, Row::Object)));
            }
            for name in node.kept.keys() {
                actions.extend(others().map(|o| Action::Spread(n, o, Row::Kept(*name))));
            }
        }
        if let Some(floor) = &world.floor
            && floor.waits_for(n)
        {
            actions.push(Action::FloorStep(n));
        }
    }

    /// Returns the stamp of an object's row that a replica may retire.
    pub(super) fn void_row(&self, world: &World) -> Option<Stamp> {
        let may_go = |node: &&Node| {
            let kind = node.current.value.as_ref().map(Value::kind);
            let agreed = self.bounds(node).agreed;
            kind.is_some_and(|kind| versions::may_retire(kind, node.current.stamp, agreed))
        };
        world
            .nodes
            .iter()
            .find(may_go)
            .map(|node| node.current.stamp)
    }

    /// Begins a floor round at the highest stamp that any replica holds or promised.
    pub(super) fn begin_floor(&self, world: &mut World) {
        world.floors_begun += 1;
        let epoch = world.chosen;
        let cells = world.nodes.iter().map(|n| &n.current);
        let seen = cells.map(|cell| cell.stamp.max(cell.promised));
        let floor = seen.max().unwrap_or_default();
        let quorums = self.start(epoch).quorums;
        world.floor = RunningFloor::begin(self.rules, epoch, quorums, floor);
    }

    pub(super) fn floor_step(&self, world: &mut World, n: usize) {
        let Some(floor) = world.floor.take() else {
            return;
        };
        let node = &mut world.nodes[n];
        let epoch = node.epoch;
        let answer = |asking| self.answer_floor(node, asking);
        world.floor = floor.step(self.rules, n, epoch, answer);
    }

    fn answer_floor(&self, node: &mut Node, asking: FloorRequest<Digest>) -> FloorAnswer<Digest> {
        let kept = node
            .kept
            .iter()
            .map(|(name, cell)| (Row::Kept(*name), cell));
        let all = kept.chain([(Row::Object, &node.current)]);
        let all: Vec<(Row, Stamp, bool)> = all
            .map(|(row, cell)| (row, cell.stamp, cell.value.is_some()))
            .collect();
        let rows_up_to = |floor: Stamp, gone: Stamp| {
            let rows = all.iter().filter(|(_, stamp, live)| {
                *stamp <= floor && *stamp != Stamp::ZERO && (*live || *stamp > gone)
            });
            Ok::<Digest, Infallible>(rows.map(|(row, stamp, _)| (*row, *stamp)).collect())
        };
        let Ok(answer) =
            floor::answer(self.rules, &mut node.floors, node.epoch, asking, rows_up_to);
        let bounds = self.bounds(node);
        node.current = replica::above_floor(&node.current, &bounds);
        let gone = |cell: &Cell<Value>| cell.value.is_none() && cell.stamp <= bounds.gone;
        node.kept.retain(|_, cell| !gone(cell));
        answer
    }
}
