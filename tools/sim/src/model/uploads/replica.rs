//! Replicas: the rules of two rows, the rows that replicas send to one another, and floors.

use std::convert::Infallible;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::{Fence, fence};
use archipel_cluster::register::floor::{self, FloorAnswer, FloorRequest};
use archipel_cluster::register::intent::{self, Marking, Pointing};
use archipel_cluster::register::replica::Cell;
use archipel_cluster::register::rules::Mutant;
use archipel_cluster::register::{Answer, Intent, Request, Version, replica};

use super::{Action, Node, Row, Uploads, Value, World};
use crate::model::floor::RunningFloor;

fn pointing(row: &Cell<Value>) -> Pointing {
    match row.value {
        None if row.stamp == Stamp::ZERO => Pointing::Absent,
        None => Pointing::Over,
        Some(Value { intent: None, .. }) => Pointing::Live,
        Some(Value {
            intent: Some(intent),
            ..
        }) => Pointing::To(intent.write),
    }
}

/// Returns the intent that comes with a version: the one that its value names, or the one that its own
/// coordinator named. Then true if the replica may lack the upload, because the intent is of an earlier
/// write.
fn intent_of(version: &Version<Value>, own: Option<Intent>) -> Option<(Intent, bool)> {
    let named = version.value.and_then(|value| value.intent);
    // The operation also writes versions of others again.
    let own = own.filter(|own| own.write == version.write);
    let intent = named.or(own)?;
    Some((intent, intent.write != version.write))
}

fn marked(row: &Cell<Value>, intent: Intent, stamp: Stamp) -> Cell<Value> {
    Cell {
        promised: row.promised.max(stamp),
        stamp,
        write: intent.write,
        value: Some(Value {
            number: 0,
            intent: Some(intent),
        }),
    }
}

impl Uploads {
    pub(super) fn answer(
        &self,
        node: &mut Node,
        epoch: u64,
        row: Row,
        own: Option<Intent>,
        is_over: bool,
        request: Request<Value>,
    ) -> Answer<Value> {
        match fence(self.rules, node.epoch, epoch) {
            Fence::Pass => {}
            Fence::Superseded => return Answer::Superseded { epoch: node.epoch },
            Fence::Learn => node.epoch = epoch,
        }
        let bounds = self.bounds(node);
        let upload = replica::above_floor(&node.cells[Row::Upload as usize], &bounds);
        let state = pointing(&upload);
        let (mut beside, mut apart) = (None, None);
        match &request {
            Request::Prepare {
                ballot,
                guarded: true,
                ..
            } if row == Row::Object && own.is_some() => {
                match intent::promise(self.rules, &upload, state, *ballot) {
                    Ok(promise) => beside = Some(promise),
                    Err(refusal) => return refusal,
                }
            }
            Request::Write { version, .. } if row == Row::Object => {
                let mark = |(intent, is_earlier): (Intent, bool)| {
                    let (write, may_lack) = ((version.stamp, intent.write), is_over || is_earlier);
                    let marking = intent::mark(self.rules, &upload, state, write, may_lack);
                    (intent, marking)
                };
                match intent_of(version, own).map(mark) {
                    Some((_, Marking::Refuse(refusal))) => return refusal,
                    Some((intent, Marking::Mark)) if self.rules.breaks(Mutant::MarkApart) => {
                        apart = Some((intent, version.stamp));
                    }
                    Some((intent, Marking::Mark)) => {
                        beside = Some(marked(&upload, intent, version.stamp));
                    }
                    Some((_, Marking::Stay)) | None => {}
                }
            }
            _ => {}
        }
        let step = replica::step(
            self.rules,
            &bounds,
            &node.cells[row as usize],
            &mut node.recent[row as usize],
            request,
            true,
        );
        if let Some(cell) = step.cell {
            node.cells[row as usize] = cell;
        }
        if matches!(step.answer, Answer::Accepted | Answer::Promised { .. }) {
            if let Some(beside) = beside {
                node.cells[Row::Upload as usize] = beside;
            }
            node.unmarked = apart.or(node.unmarked);
        }
        step.answer
    }

    /// Makes the mark that a broken replica left out.
    pub(super) fn mark_later(&self, node: &mut Node) {
        let Some((intent, stamp)) = node.unmarked.take() else {
            return;
        };
        let upload = &node.cells[Row::Upload as usize];
        let state = pointing(upload);
        let write = (stamp, intent.write);
        if intent::mark(self.rules, upload, state, write, false) == Marking::Mark {
            node.cells[Row::Upload as usize] = marked(upload, intent, stamp);
        }
    }

    /// Returns true if a quorum holds this node's version of a row.
    pub(super) fn is_settled(&self, world: &World, node: usize, row: Row) -> bool {
        let stamp = world.nodes[node].cells[row as usize].stamp;
        let same = |n: &usize| world.nodes[*n].cells[row as usize].stamp == stamp;
        let holders = (0..self.nodes).filter(same).collect();
        let quorums = self.start(world.nodes[node].epoch).quorums;
        quorums.is_quorum(holders)
    }

    /// Takes a row from another replica. Returns true if the node must bring the upload first.
    pub(super) fn take(
        &self,
        node: &mut Node,
        epoch: u64,
        row: Row,
        version: Version<Value>,
        (settled, is_over): (bool, bool),
    ) -> bool {
        if fence(self.rules, node.epoch, epoch) != Fence::Pass {
            return false;
        }
        let bounds = self.bounds(node);
        let (cell, recent) = (&node.cells[row as usize], &mut node.recent[row as usize]);
        let (rules, stamp) = (self.rules, version.stamp);
        let named = intent_of(&version, None);
        let mut memory = recent.clone();
        let taken = replica::spread(rules, &bounds, cell, &mut memory, version, settled);
        let Some(taken) = taken else {
            return false;
        };
        if let Some((intent, is_earlier)) = named
            && row == Row::Object
            && !self.rules.breaks(Mutant::SpreadUnmarked)
        {
            let upload = replica::above_floor(&node.cells[Row::Upload as usize], &bounds);
            let (write, may_lack) = ((stamp, intent.write), is_over || is_earlier);
            match intent::mark(self.rules, &upload, pointing(&upload), write, may_lack) {
                Marking::Stay => {}
                Marking::Refuse::<Value>(refusal) => return refusal == Answer::LacksPointing,
                Marking::Mark if self.rules.breaks(Mutant::MarkApart) => {
                    node.unmarked = Some((intent, stamp));
                }
                Marking::Mark => {
                    node.cells[Row::Upload as usize] = marked(&upload, intent, stamp);
                }
            }
        }
        node.recent[row as usize] = memory;
        node.cells[row as usize] = taken;
        false
    }

    pub(super) fn node_actions(&self, world: &World, n: usize, actions: &mut Vec<Action>) {
        let node = &world.nodes[n];
        if world.spreads < self.spreads {
            for row in [Row::Object, Row::Upload] {
                if node.cells[row as usize].stamp != Stamp::ZERO {
                    let others = (0..self.nodes).filter(|o| *o != n);
                    actions.extend(others.map(|o| Action::Spread(n, o, row)));
                }
            }
        }
        if node.unmarked.is_some() {
            actions.push(Action::MarkLater(n));
        }
        if let Some(floor) = &world.floor
            && floor.waits_for(n)
        {
            actions.push(Action::FloorStep(n));
        }
    }

    /// Begins a floor round at the highest stamp that any replica holds or promised.
    pub(super) fn begin_floor(&self, world: &mut World) {
        world.floors_begun += 1;
        let epoch = world.chosen;
        let cells = world.nodes.iter().flat_map(|n| &n.cells);
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

    fn answer_floor(
        &self,
        node: &mut Node,
        asking: FloorRequest<[Option<Stamp>; 2]>,
    ) -> FloorAnswer<[Option<Stamp>; 2]> {
        let cells = node.cells.clone();
        let rows_up_to = |floor: Stamp, gone: Stamp| {
            Ok::<_, Infallible>([0, 1].map(|row: usize| {
                let cell = &cells[row];
                let void = cell.value.is_none() && cell.stamp <= gone;
                let counts = cell.stamp <= floor && cell.stamp != Stamp::ZERO && !void;
                counts.then_some(cell.stamp)
            }))
        };
        let Ok(answer) =
            floor::answer(self.rules, &mut node.floors, node.epoch, asking, rows_up_to);
        let bounds = self.bounds(node);
        for cell in &mut node.cells {
            *cell = replica::above_floor(cell, &bounds);
        }
        answer
    }
}
