//! Floor rounds in progress, for all models of replicas.

use archipel_base::Stamp;
use archipel_cluster::register::epoch::{Fence, fence};
use archipel_cluster::register::floor::{FloorAnswer, FloorOutput, FloorRequest, FloorRound};
use archipel_cluster::register::{Quorums, Rules};

/// A floor round in progress. `D` describes the rows of a replica up to a floor.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RunningFloor<D> {
    epoch: u64,
    round: FloorRound<D>,
    asking: FloorRequest<D>,
}

impl<D: Clone + PartialEq> RunningFloor<D> {
    /// Begins a round of an epoch; `None` if it has nothing to ask.
    pub fn begin(rules: Rules, epoch: u64, quorums: Quorums, floor: Stamp) -> Option<Self> {
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

    /// Asks a replica that knows this epoch; `answer` is its answer to the current request. Returns the
    /// round as it goes on; `None` if it has ended.
    pub fn step(
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
