//! Two rows of which one decides: an object and an upload of its key.
//!
//! Clients put and read the object, complete and abort the upload, look at it and collect its
//! garbage, as `archipel_model::uploads` does. Messages are lost, delayed, reordered and repeated;
//! replicas restart and hand rows to one another, one row at a time; floors and a layout change
//! run; coordinators crash.

mod bringing;
mod catalogue;
mod check;
mod client;
mod rows;

use archipel_base::Stamp;
use archipel_cluster::register::{
    Answer, Decision, Intent, Outcome, Request, RowValue, Rules, Version,
};

pub use catalogue::{for_mutant, small, walks};
pub use check::{Call, Reply};
pub use client::Doing;
pub use rows::TwoRows;

use super::client::Client;
use super::network::Packet;
use super::protocol::{Protocol, Rows};
use super::scenario::Scenario;
use super::world::{Action, Node, World};

/// An object and an upload of its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Uploads {
    /// The lead of the clock that began the upload.
    pub upload_ahead: u64,
    /// True if the last replica of the first layout missed the beginning of the upload.
    pub is_missed: bool,
}

/// A client's task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Task {
    /// Puts the object.
    Put,
    /// Puts the object if there is none.
    Create,
    /// Reads the object.
    Read,
    /// Asks whether the upload is in progress.
    Look,
    /// Completes the upload.
    Complete,
    /// Completes the upload if there is no object.
    CompleteIfNone,
    /// Aborts the upload.
    Abort,
    /// Drops the upload's parts if nobody needs them.
    Collect,
}

/// A row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Row {
    /// The object's, which decides.
    Object,
    /// The upload's, which points.
    Upload,
}

/// The value of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Value {
    /// The number of the object's content; 0 for the upload.
    pub number: u32,
    /// Of an object: the completion that it is. Of an upload: the write that it points to.
    pub intent: Option<Intent>,
}

impl Value {
    /// An upload in progress that points to nothing.
    const LIVE: Value = Value {
        number: 0,
        intent: None,
    };
}

impl RowValue for Value {}

/// A step that only this protocol has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A replica makes a mark in a second transaction.
    MarkLater(usize),
}

impl Protocol for Uploads {
    type Task = Task;
    type Doing = Doing;
    type Memory = ();
    type Call = Call;
    type Reply = Reply;
    type Row = Row;
    type Value = Value;
    /// The row, and the intent of the operation if it changes both rows.
    type About = (Row, Option<Intent>);
    type Rows = TwoRows;
    type Digest = [Option<Stamp>; 2];
    type Extra = ();
    type Step = Step;

    fn first_rows(scenario: &Scenario<Uploads>, n: usize, is_member: bool) -> TwoRows {
        let settings = &scenario.protocol;
        let is_last = n + 1 == scenario.config(1).members().len();
        let holds_upload = is_member && !(settings.is_missed && is_last);
        let began = holds_upload.then_some(1 + settings.upload_ahead);
        TwoRows::new(scenario.rules, began)
    }

    fn may_begin(_: &Scenario<Uploads>, _: &World<Uploads>, _: usize, _: Task) -> bool {
        true
    }

    fn begin(scenario: &Scenario<Uploads>, world: &mut World<Uploads>, c: usize, task: Task) {
        scenario.begin_task(world, c, task);
    }

    fn about(
        world: &mut World<Uploads>,
        c: usize,
        _request: &Request<Value>,
    ) -> (Row, Option<Intent>) {
        let doing = world.clients[c].doing.as_ref();
        doing.map_or((Row::Object, None), Doing::about)
    }

    fn decide(
        _rules: Rules,
        client: &mut Client<Uploads>,
        version: &Version<Value>,
    ) -> Decision<Value> {
        let doing = client.doing.as_mut();
        doing.map_or(Decision::Keep, |doing| doing.decide(version.value))
    }

    fn done(
        scenario: &Scenario<Uploads>,
        world: &mut World<Uploads>,
        c: usize,
        outcome: Outcome<Value>,
    ) {
        scenario.continue_task(world, c, outcome);
    }

    fn is_linearizable(world: &World<Uploads>) -> bool {
        check::is_linearizable(world.history())
    }

    fn rows_to_send(_scenario: &Scenario<Uploads>, _n: usize, node: &Node<Uploads>) -> Vec<Row> {
        let is_there = |row: &Row| node.rows.decided(*row) != Some(Stamp::ZERO);
        let both = [Row::Object, Row::Upload].into_iter();
        both.filter(is_there).collect()
    }

    fn bring(
        scenario: &Scenario<Uploads>,
        world: &mut World<Uploads>,
        n: usize,
        packet: Packet<Uploads>,
    ) {
        scenario.begin_bringing(world, n, packet);
    }

    fn on_brought(
        scenario: &Scenario<Uploads>,
        world: &mut World<Uploads>,
        n: usize,
        from: usize,
        round: u32,
        answer: Answer<Value>,
    ) {
        scenario.drive_bringing(world, n, |operation, next| {
            operation.on_answer(from, round, answer, next)
        });
    }

    fn node_steps(world: &World<Uploads>, n: usize, actions: &mut Vec<Action<Uploads>>) {
        if world.nodes[n].rows.lacks_mark() {
            actions.push(Action::Own(Step::MarkLater(n)));
        }
    }

    fn step(scenario: &Scenario<Uploads>, world: &mut World<Uploads>, step: Step) {
        match step {
            Step::MarkLater(n) => world.nodes[n].rows.mark_later(scenario.rules),
        }
    }

    fn is_common(step: &Step) -> bool {
        match step {
            Step::MarkLater(_) => false,
        }
    }
}
