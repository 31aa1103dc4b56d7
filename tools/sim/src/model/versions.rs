//! Versions of one key: the object's row decides, and replicas keep what they displace.
//!
//! Clients put versions with and without a condition, read, delete and change them by name, and
//! list them. Messages are lost, delayed, reordered and repeated; replicas restart and hand single
//! rows to one another; floors and a layout change run; coordinators crash. The decisions are the
//! product's, too.

mod catalogue;
mod check;
mod client;
mod moving;
mod rows;
mod settings;

use std::collections::BTreeMap;

use archipel_base::Stamp;
use archipel_cluster::register::versions::{self, Promises};
use archipel_cluster::register::{Answer, Decision, Outcome, Request, Rules, Version};
use archipel_storage::{Value, VersionName};

pub use catalogue::{for_mutant, small, walks};
use check::History;
pub use check::{Attempt, Call, Reply};
pub use client::Doing;
use moving::Moving;
pub use rows::VersionedRow;
use settings::Change;

use super::client::Client;
use super::protocol::{Protocol, Rows};
use super::scenario::Scenario;
use super::world::{Action, Node, World};

/// The versions of one key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Versions;

/// A client's task. Tasks on one version name it by its place among all attempts that were sent,
/// the latest first; attempts without an answer are among them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// Puts a version.
    Put,
    /// Puts a version if there is no object.
    Create,
    /// Puts the null version.
    PutNull,
    /// Reads the object.
    Get,
    /// Reads a version.
    Look(usize),
    /// Reads the null version.
    LookNull,
    /// Deletes a version.
    Kill(usize),
    /// Deletes the null version.
    KillNull,
    /// Deletes a version, on the condition that there is one.
    Remove(usize),
    /// Changes a version's metadata.
    Change(usize),
    /// Changes the null version's metadata.
    ChangeNull,
    /// Lists the versions.
    List,
    /// Enables versions. Until then a node that has not heard of them writes null versions only. A
    /// scenario with this task has fences.
    Enable,
    /// Protects the null version, and changes its metadata.
    HoldNull,
    /// Makes a tombstone of the object's row, once a floor was agreed above it and it holds no
    /// version.
    Retire,
    /// Adds a layout version, unless that was done.
    AddLayout,
    /// Moves all versions to the newest layout version, so that the oldest one may be dropped.
    Move,
}

/// A row of the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Row {
    /// The object's.
    Object,
    /// That of a kept version.
    Kept(VersionName),
}

/// The state of a client's node that outlives a task.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Memory {
    /// True once the node knows of the change of the settings.
    knows: bool,
}

/// A part of the world besides replicas, clients and messages.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Extra {
    /// All attempts of puts.
    sent: Vec<Attempt>,
    /// The change of the bucket's settings, once it began.
    change: Option<Change>,
    /// The move of all versions to the newest layout version, once it began.
    moving: Option<Moving>,
}

/// A step that only this protocol has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A replica's fence follows the change of the settings.
    Move(usize),
    /// A client's node hears of that change.
    Hear(usize),
    /// The change is answered.
    Confirm,
    /// A step of the move to the newest layout version.
    Rebalance(moving::Step),
}

impl Protocol for Versions {
    type Task = Task;
    type Doing = Doing;
    type Memory = Memory;
    type Call = Call;
    type Reply = Reply;
    type Row = Row;
    type Value = Value;
    /// The version that the request asks about, besides those that the replica holds. Then true if
    /// the request follows the settings after the change.
    type About = (Option<VersionName>, bool);
    type Rows = VersionedRow;
    type Digest = BTreeMap<Row, Stamp>;
    type Extra = Extra;
    type Step = Step;

    fn first_rows(scenario: &Scenario<Versions>, _n: usize, _is_member: bool) -> VersionedRow {
        VersionedRow::new(scenario.rules)
    }

    fn may_begin(
        scenario: &Scenario<Versions>,
        world: &World<Versions>,
        c: usize,
        task: Task,
    ) -> bool {
        match task {
            Task::Retire => world.void_row().is_some(),
            Task::Move => scenario.may_move(world),
            _ => !world.is_changing(c),
        }
    }

    fn begin(scenario: &Scenario<Versions>, world: &mut World<Versions>, c: usize, task: Task) {
        scenario.begin_task(world, c, task);
    }

    fn about(
        world: &mut World<Versions>,
        c: usize,
        request: &Request<Value>,
    ) -> (Option<VersionName>, bool) {
        world.note_attempt(c);
        let Some(doing) = &world.clients[c].doing else {
            return (None, false);
        };
        match request {
            Request::Write { .. } => (None, doing.by_new),
            _ => (doing.about(), doing.by_new),
        }
    }

    fn decide(
        rules: Rules,
        client: &mut Client<Versions>,
        version: &Version<Value>,
    ) -> Decision<Value> {
        let (Some(running), Some(doing)) = (&client.running, &mut client.doing) else {
            return Decision::Keep;
        };
        let promises = Promises {
            current: version,
            ballot: running.deciding_under().unwrap_or_default(),
            reports: running.told(),
        };
        doing.decide(&promises, rules)
    }

    fn bury(
        rules: Rules,
        newest: &Version<Value>,
        is_chosen: bool,
        attempt: Stamp,
    ) -> Option<Value> {
        versions::bury(rules, newest, is_chosen, Some(attempt))
    }

    fn note(client: &mut Client<Versions>, from: usize, answer: &Answer<Value>) {
        if let Some(doing) = &mut client.doing {
            doing.note(from, answer);
        }
    }

    fn done(
        scenario: &Scenario<Versions>,
        world: &mut World<Versions>,
        c: usize,
        outcome: Outcome<Value>,
    ) {
        scenario.continue_task(world, c, outcome);
    }

    fn is_linearizable(world: &World<Versions>) -> bool {
        let history = History {
            events: world.history(),
            sent: &world.extra.sent,
        };
        history.is_linearizable()
    }

    fn may_choose(scenario: &Scenario<Versions>, world: &World<Versions>) -> bool {
        scenario.may_choose(world)
    }

    fn rows_to_send(scenario: &Scenario<Versions>, n: usize, node: &Node<Versions>) -> Vec<Row> {
        // A node that no layout version names sends nothing.
        let members = scenario.config(node.epoch).members();
        if members.iter().all(|member| member.node != n) {
            return Vec::new();
        }
        let is_there = node.rows.decided(Row::Object) != Some(Stamp::ZERO);
        let object = is_there.then_some(Row::Object).into_iter();
        object.chain(node.rows.names().map(Row::Kept)).collect()
    }

    fn world_steps(
        scenario: &Scenario<Versions>,
        world: &World<Versions>,
        actions: &mut Vec<Action<Versions>>,
    ) {
        let steps = scenario.settings_steps(world).into_iter();
        let moving = scenario.moving_steps(world).into_iter();
        actions.extend(steps.chain(moving.map(Step::Rebalance)).map(Action::Own));
    }

    fn step(scenario: &Scenario<Versions>, world: &mut World<Versions>, step: Step) {
        match step {
            Step::Move(n) => world.nodes[n].rows.move_fence(),
            Step::Hear(c) => world.clients[c].memory.knows = true,
            Step::Confirm => world.confirm(),
            Step::Rebalance(step) => scenario.moving_step(world, step),
        }
    }

    fn is_common(step: &Step) -> bool {
        matches!(step, Step::Rebalance(_))
    }
}

impl Scenario<Versions> {
    /// Returns true if the bucket's settings change, so that replicas have write fences.
    fn has_fences(&self) -> bool {
        let mut tasks = self.clients.iter().flat_map(|client| &client.tasks);
        tasks.any(|task| *task == Task::Enable)
    }
}
