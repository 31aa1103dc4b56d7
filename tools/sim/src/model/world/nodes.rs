//! Replicas: their answers, the rows that they send to one another, and their floors.

use std::convert::Infallible;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::{Fence, fence};
use archipel_cluster::register::floor::{self, FloorAnswer, FloorOutput, FloorRound};
use archipel_cluster::register::{Answer, Request, Version, replica};

use super::{Action, Node, RunningFloor, World};
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
            && floor.round.waiting().contains(n)
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
        let (round, output) = FloorRound::new(self.rules(), self.start(epoch).quorums, floor);
        if let FloorOutput::Ask(asking) = output {
            world.floor = Some(RunningFloor {
                epoch,
                round,
                asking,
            });
        }
    }

    pub(super) fn floor_step(&self, world: &mut World, n: usize) {
        let Some(mut flooring) = world.floor.take() else {
            return;
        };
        let node = &mut world.nodes[n];
        let output = match fence(self.rules(), node.epoch, flooring.epoch) {
            Fence::Pass => {
                let answer = self.answer_floor(node, &flooring);
                flooring.round.on_answer(n, answer)
            }
            Fence::Superseded => return,
            Fence::Learn => None,
        };
        match output {
            None => world.floor = Some(flooring),
            Some(FloorOutput::Ask(asking)) => {
                world.floor = Some(RunningFloor { asking, ..flooring })
            }
            Some(FloorOutput::Differ | FloorOutput::Agreed) => {}
        }
    }

    fn answer_floor(&self, node: &mut Node, flooring: &RunningFloor) -> FloorAnswer<Option<Stamp>> {
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
            flooring.asking,
            rows_up_to,
        );
        // Void state is dropped at once: the strictest driver.
        let bounds = self.bounds(node);
        node.cell = replica::above_floor(&node.cell, &bounds);
        answer
    }
}
