//! The part of a model that is its own: rows, the tasks of clients, and the check of a history.
//!
//! Scenarios, worlds, messages, coordinators, floors and walks are the same for all models.

use std::fmt::Debug;
use std::hash::Hash;

use archipel_base::Stamp;
use archipel_cluster::register::replica::Bounds;
use archipel_cluster::register::{Answer, Decision, Outcome, Request, RowValue, Rules, Version};

use super::client::Client;
use super::network::Packet;
use super::scenario::Scenario;
use super::world::{Action, Node, World};

/// Data of a state or of a step.
pub trait Data: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> Data for T {}

/// A protocol that is checked on a few replicas. A value of the type is the part of a scenario that
/// only this protocol has.
pub trait Protocol: Data + Ord {
    /// A client's task.
    type Task: Data + Copy;
    /// A task in progress.
    type Doing: Data;
    /// The state of a client's node that outlives a task.
    type Memory: Data + Default;
    /// A client's request, as the history shows it.
    type Call: Data;
    /// A client's answer.
    type Reply: Data;
    /// The name of a row.
    type Row: Data + Ord + Copy;
    /// The value of a row.
    type Value: RowValue + Data + Ord;
    /// The part of a message that the register's request lacks: the rows that it concerns.
    type About: Data + Ord;
    /// The rows of a replica.
    type Rows: Rows<Self>;
    /// A description of the rows of a replica up to a floor.
    type Digest: Data;
    /// A part of the world besides replicas, clients and messages.
    type Extra: Data + Default;
    /// A step that only this protocol has.
    type Step: Data;

    /// Returns the rows of a replica at first. `is_member` is true if the first layout names it.
    fn first_rows(scenario: &Scenario<Self>, n: usize, is_member: bool) -> Self::Rows;

    /// Returns true if a client may begin a task now.
    fn may_begin(
        scenario: &Scenario<Self>,
        world: &World<Self>,
        c: usize,
        task: Self::Task,
    ) -> bool;

    /// Begins a client's task.
    fn begin(scenario: &Scenario<Self>, world: &mut World<Self>, c: usize, task: Self::Task);

    /// Returns the rows that a request of a client's operation concerns.
    fn about(world: &mut World<Self>, c: usize, request: &Request<Self::Value>) -> Self::About;

    /// Evaluates the condition of a client's operation.
    fn decide(
        rules: Rules,
        client: &mut Client<Self>,
        version: &Version<Self::Value>,
    ) -> Decision<Self::Value>;

    /// Composes a version with the death of an attempt.
    fn bury(
        _rules: Rules,
        _newest: &Version<Self::Value>,
        _is_chosen: bool,
        _attempt: Stamp,
    ) -> Option<Self::Value> {
        unreachable!("no replica keeps anything here")
    }

    /// Notes a replica's answer before the client's operation handles it.
    fn note(_client: &mut Client<Self>, _from: usize, _answer: &Answer<Self::Value>) {}

    /// Goes on with a client's task after one of its operations.
    fn done(
        scenario: &Scenario<Self>,
        world: &mut World<Self>,
        c: usize,
        outcome: Outcome<Self::Value>,
    );

    /// Returns true if an order of the operations explains all answers.
    fn is_linearizable(world: &World<Self>) -> bool;

    /// Returns true if the next epoch may be chosen now.
    fn may_choose(scenario: &Scenario<Self>, world: &World<Self>) -> bool {
        world.chosen < scenario.epochs.len() as u64
    }

    /// Returns the rows that a replica may send to others.
    fn rows_to_send(scenario: &Scenario<Self>, n: usize, node: &Node<Self>) -> Vec<Self::Row>;

    /// Begins to read a row that a replica lacks. The replica handles the packet afterwards.
    fn bring(
        _scenario: &Scenario<Self>,
        _world: &mut World<Self>,
        _n: usize,
        _packet: Packet<Self>,
    ) {
    }

    /// Handles an answer to such a read.
    fn on_brought(
        _scenario: &Scenario<Self>,
        _world: &mut World<Self>,
        _n: usize,
        _from: usize,
        _round: u32,
        _answer: Answer<Self::Value>,
    ) {
    }

    /// Adds the steps of an idle client that only this protocol has.
    fn client_steps(_world: &World<Self>, _c: usize, _actions: &mut Vec<Action<Self>>) {}

    /// Adds the steps of a replica that only this protocol has.
    fn node_steps(_world: &World<Self>, _n: usize, _actions: &mut Vec<Action<Self>>) {}

    /// Adds the other steps that only this protocol has.
    fn world_steps(
        _scenario: &Scenario<Self>,
        _world: &World<Self>,
        _actions: &mut Vec<Action<Self>>,
    ) {
    }

    /// Makes a step that only this protocol has.
    fn step(scenario: &Scenario<Self>, world: &mut World<Self>, step: Self::Step);

    /// Returns true for a step that walks take often.
    fn is_common(step: &Self::Step) -> bool;
}

/// The rows of a replica, and the rules by which it answers.
pub trait Rows<P: Protocol>: Data {
    /// Answers a request of the replica's epoch.
    fn answer(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        about: &P::About,
        request: Request<P::Value>,
    ) -> Answer<P::Value>;

    /// Takes a row from another replica. Returns true if the replica must bring another row first.
    fn take(
        &mut self,
        rules: Rules,
        bounds: &Bounds,
        row: P::Row,
        version: Version<P::Value>,
        settled: bool,
    ) -> bool;

    /// Forgets everything that is not durable.
    fn restart(&mut self, rules: Rules, bounds: &Bounds);

    /// Returns true if a read of the replica's own waits for answers to this round.
    fn waits_for(&self, _operation: u32, _round: u32) -> bool {
        false
    }

    /// Returns the version of a row.
    fn version(&self, row: P::Row) -> Version<P::Value>;

    /// Returns the stamp of a row that quorums decide; `None` of a row that each replica keeps
    /// itself.
    fn decided(&self, row: P::Row) -> Option<Stamp>;

    /// Returns the highest stamp of the rows that quorums decide, held or promised.
    fn highest(&self) -> Stamp;

    /// Describes the rows up to a floor. Tombstones up to `gone` do not count.
    fn up_to(&self, floor: Stamp, gone: Stamp) -> P::Digest;

    /// Drops void state at once: the strictest driver.
    fn drop_void(&mut self, bounds: &Bounds);
}
