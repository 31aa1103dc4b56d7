//! One row: reads, writes and conditional writes.

mod catalogue;
mod client;
mod rows;

use archipel_base::Stamp;
use archipel_cluster::register::{Decision, Outcome, Request, Rules, Version};

pub use catalogue::{everything, for_mutant, large, small, stuck_change, tiny, walks};
pub use rows::OneRow;

use super::client::Client;
use super::protocol::{Protocol, Rows};
use super::scenario::Scenario;
use super::world::{Action, Node, World};
use crate::linear::{self, Call, Reply};

/// The register alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Register {
    /// Epochs up to this one may be chosen at any time.
    pub free_epochs: u64,
}

/// A client's task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// Reads.
    Read,
    /// Writes a value (`None` deletes).
    Write(Option<u32>),
    /// Writes the second value if the first is the current one.
    Swap(Option<u32>, Option<u32>),
    /// Writes the value if its condition is asked once, and leaves the row alone if it is asked
    /// again.
    Fickle(u32),
    /// Reads the row under the last epoch but one, then retires the oldest layout version.
    Retire,
}

/// The state of a client's node that outlives a task.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory {
    /// True if the condition of the last task was asked.
    asked: bool,
}

/// A step that only the register has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// An idle client learns the newest epoch.
    Catch(usize),
}

impl Protocol for Register {
    type Task = Task;
    type Doing = Task;
    type Memory = Memory;
    type Call = Call;
    type Reply = Reply;
    type Row = ();
    type Value = u32;
    type About = ();
    type Rows = OneRow;
    /// There is only one key, so its stamp describes all rows.
    type Digest = Option<Stamp>;
    type Extra = ();
    type Step = Step;

    fn first_rows(scenario: &Scenario<Register>, _n: usize, _is_member: bool) -> OneRow {
        OneRow::new(scenario.rules)
    }

    fn may_begin(
        scenario: &Scenario<Register>,
        world: &World<Register>,
        _c: usize,
        task: Task,
    ) -> bool {
        // A client must know an epoch before it can propose the next.
        task != Task::Retire || world.chosen == scenario.retiring()
    }

    fn begin(scenario: &Scenario<Register>, world: &mut World<Register>, c: usize, task: Task) {
        scenario.begin_task(world, c, task);
    }

    fn about(_world: &mut World<Register>, _c: usize, _request: &Request<u32>) {}

    fn decide(
        _rules: Rules,
        client: &mut Client<Register>,
        version: &Version<u32>,
    ) -> Decision<u32> {
        client.decide(version.value)
    }

    fn done(
        scenario: &Scenario<Register>,
        world: &mut World<Register>,
        c: usize,
        outcome: Outcome<u32>,
    ) {
        scenario.finish(world, c, &outcome);
    }

    fn is_linearizable(world: &World<Register>) -> bool {
        linear::is_linearizable(world.history())
    }

    fn may_choose(scenario: &Scenario<Register>, world: &World<Register>) -> bool {
        world.chosen < scenario.protocol.free_epochs
    }

    fn rows_to_send(_scenario: &Scenario<Register>, _n: usize, node: &Node<Register>) -> Vec<()> {
        let is_there = node.rows.decided(()) != Some(Stamp::ZERO);
        is_there.then_some(()).into_iter().collect()
    }

    fn client_steps(world: &World<Register>, c: usize, actions: &mut Vec<Action<Register>>) {
        if world.clients[c].epoch < world.chosen {
            actions.push(Action::Own(Step::Catch(c)));
        }
    }

    fn step(_scenario: &Scenario<Register>, world: &mut World<Register>, step: Step) {
        match step {
            Step::Catch(c) => world.clients[c].epoch = world.chosen,
        }
    }

    fn is_common(step: &Step) -> bool {
        match step {
            Step::Catch(_) => true,
        }
    }
}
