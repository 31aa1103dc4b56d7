//! Floor rounds.

use std::convert::Infallible;

use archipel_base::Stamp;
use archipel_cluster::register::epoch::{Fence, fence};
use archipel_cluster::register::floor::{self, FloorAnswer, FloorOutput, FloorRequest, FloorRound};
use archipel_cluster::register::replica::Cell;
use archipel_cluster::register::{Quorums, Rules};

use super::protocol::{Protocol, Rows};
use super::scenario::Scenario;
use super::world::{Node, World};

/// A floor round in progress. `D` describes the rows of a replica up to a floor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RunningFloor<D> {
    epoch: u64,
    round: FloorRound<D>,
    asking: FloorRequest<D>,
}

impl<D: Clone + PartialEq> RunningFloor<D> {
    /// Begins a round of an epoch; `None` if it has nothing to ask.
    fn begin(rules: Rules, epoch: u64, quorums: Quorums, floor: Stamp) -> Option<Self> {
        let (round, output) = FloorRound::new(rules, quorums, floor);
        match output {
            FloorOutput::Ask(asking) => Some(RunningFloor {
                epoch,
                round,
                asking,
            }),
            FloorOutput::Differ | FloorOutput::Agreed => None,
        }
    }

    /// Returns true if the replica has not answered the current request.
    pub fn waits_for(&self, replica: usize) -> bool {
        self.round.waiting().contains(replica)
    }

    /// Asks a replica that knows this epoch; `answer` is its answer to the current request. Returns
    /// the round as it goes on; `None` if it has ended.
    fn step(
        mut self,
        rules: Rules,
        replica: usize,
        epoch: u64,
        answer: impl FnOnce(FloorRequest<D>) -> FloorAnswer<D>,
    ) -> Option<Self> {
        let output = match fence(rules, epoch, self.epoch) {
            Fence::Pass => {
                let answer = answer(self.asking.clone());
                self.round.on_answer(replica, answer)
            }
            Fence::Superseded => return None,
            Fence::Learn => None,
        };
        match output {
            None => Some(self),
            Some(FloorOutput::Ask(asking)) => Some(RunningFloor { asking, ..self }),
            Some(FloorOutput::Differ | FloorOutput::Agreed) => None,
        }
    }
}

impl<P: Protocol> Scenario<P> {
    /// Begins a floor round at the highest stamp that any replica holds or promised.
    pub(super) fn begin_floor(&self, world: &mut World<P>) {
        world.floors_begun += 1;
        let seen = world.nodes.iter().map(|node| node.rows.highest());
        let floor = seen.max().unwrap_or_default();
        let epoch = world.chosen;
        let quorums = self.start(epoch).quorums;
        world.floor = RunningFloor::begin(self.rules, epoch, quorums, floor);
    }

    /// Lets a replica receive and answer the floor round's request.
    pub(super) fn floor_step(&self, world: &mut World<P>, n: usize) {
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
        node: &mut Node<P>,
        asking: FloorRequest<P::Digest>,
    ) -> FloorAnswer<P::Digest> {
        let rows = &node.rows;
        let up_to = |floor: Stamp, gone: Stamp| Ok::<_, Infallible>(rows.up_to(floor, gone));
        let Ok(answer) = floor::answer(self.rules, &mut node.floors, node.epoch, asking, up_to);
        let bounds = node.bounds();
        node.rows.drop_void(&bounds);
        answer
    }
}

/// Returns true if a row counts when replicas compare their rows up to a floor. A tombstone up to
/// `gone` does not.
pub(super) fn counts<V>(cell: &Cell<V>, floor: Stamp, gone: Stamp) -> bool {
    let is_void = cell.value.is_none() && cell.stamp <= gone;
    cell.stamp <= floor && cell.stamp != Stamp::ZERO && !is_void
}
