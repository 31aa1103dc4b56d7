//! Replicas: their answers, the rows that they send to one another, and their floors.

use std::convert::Infallible;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::{Fence, fence};
use archipel_cluster::register::floor::{self, FloorAnswer, FloorRequest};
use archipel_cluster::register::{Answer, Request, Version, replica};

use super::{Action, Node, World};
use crate::model::floor::RunningFloor;
use crate::model::scenario::Scenario;

impl Scenario {
    pub(super) fn answer(&self, node: &mut Node, epoch: u64, request: Request<u32>) -> Answer<u32> {
        match fence(self.rules(), node.epoch, epoch) {
            Fence::Pass => {}
            Fence::Superseded => return Answer::Superseded { epoch: node.epoch },
            Fence::Learn => node.epoch = epoch,
        }
        let bounds = self.bounds(node);
        let step = replica::step(
            self.rules(),
            &bounds,
            &node.cell,
            &mut node.recent,
            request,
            true,
        );
        if let Some(cell) = step.cell {
            node.cell = cell;
        }
        step.answer
    }

    /// Returns true if a quorum holds this node's version.
    pub(super) fn is_settled(&self, world: &World, node: usize) -> bool {
        let node = &world.nodes[node];
        let same = |n: &usize| world.nodes[*n].cell.stamp == node.cell.stamp;
        let holders = (0..self.nodes).filter(same).collect();
        self.start(node.epoch).quorums.is_quorum(holders)
    }

    pub(super) fn take(&self, node: &mut Node, epoch: u64, version: Version<u32>, settled: bool) {
        if fence(self.rules(), node.epoch, epoch) != Fence::Pass {
            return;
        }
        let bounds = self.bounds(node);
        let taken = replica::spread(
            self.rules(),
            &bounds,
            &node.cell,
            &mut node.recent,
            version,
            settled,
        );
        if let Some(cell) = taken {
            node.cell = cell;
        }
    }

    pub(super) fn node_actions(&self, world: &World, n: usize, actions: &mut Vec<Action>) {
        let node = &world.nodes[n];
        if world.spreads < self.spreads && node.cell.stamp != Stamp::ZERO {
            let others = (0..self.nodes).filter(|o| *o != n);
            actions.extend(others.map(|o| Action::Spread(n, o)));
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
        let seen = world
            .nodes
            .iter()
            .map(|n| n.cell.stamp.max(n.cell.promised));
        let floor = seen.max().unwrap_or_default();
        let quorums = self.start(epoch).quorums;
        world.floor = RunningFloor::begin(self.rules(), epoch, quorums, floor);
    }

    pub(super) fn floor_step(&self, world: &mut World, n: usize) {
        let Some(floor) = world.floor.take() else {
            return;
        };
        let node = &mut world.nodes[n];
        let epoch = node.epoch;
        let answer = |asking| self.answer_floor(node, asking);
        world.floor = floor.step(self.rules(), n, epoch, answer);
    }

    fn answer_floor(
        &self,
        node: &mut Node,
        asking: FloorRequest<Option<Stamp>>,
    ) -> FloorAnswer<Option<Stamp>> {
        let cell = node.cell.clone();
        let rows_up_to = |floor: Stamp, gone: Stamp| {
            // There is only one key, so its stamp describes all rows.
            let void = cell.value.is_none() && cell.stamp <= gone;
            let counts = cell.stamp <= floor && cell.stamp != Stamp::ZERO && !void;
            Ok::<_, Infallible>(counts.then_some(cell.stamp))
        };
        let Ok(answer) = floor::answer(
            self.rules(),
            &mut node.floors,
            node.epoch,
            asking,
            rows_up_to,
        );
        // Void state is dropped at once: the strictest driver.
        let bounds = self.bounds(node);
        node.cell = replica::above_floor(&node.cell, &bounds);
        answer
    }
}
