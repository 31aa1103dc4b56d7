//! The operation of each step of a task, and what it decides.

use archipel_base::{Id, Stamp, Writer};
use archipel_cluster::register::coordinator::Repeat;
use archipel_cluster::register::{Decision, Intent, NextStamp, Operation, Output, Start};

use super::{Doing, LIVE, Step};
use crate::model::uploads::{Row, Task, Value};

impl Doing {
    pub(super) fn decide(&mut self, current: Option<Value>) -> Decision<Value> {
        let points_to =
            |intent: Intent| current.and_then(|v| v.intent).map(|i| i.write) == Some(intent.write);
        match self.step {
            Step::Finish(intent, ends) if points_to(intent) => {
                Decision::Write((!ends).then_some(LIVE))
            }
            Step::Undo { .. } if points_to(self.own) => Decision::Write(Some(LIVE)),
            Step::Undo { .. } if current.is_some() => Decision::Write(current),
            Step::Finish(..) | Step::Undo { .. } => Decision::Keep,
            _ => {
                self.saw = current;
                match self.task {
                    Task::Create | Task::CompleteIfNone if current.is_some() => Decision::Keep,
                    Task::Abort | Task::Collect => {
                        self.sent = true;
                        Decision::Write(current)
                    }
                    _ => {
                        self.sent = true;
                        Decision::Write(object(self))
                    }
                }
            }
        }
    }
}

/// An operation that has begun, and its first requests.
type Begun = (Operation<Value>, Vec<Output<Value>>);

/// Begins the operation of a step. Returns its row, and the intent if it changes both rows.
pub(super) fn operation_of(
    start: Start,
    doing: &Doing,
    epoch: u64,
    id: Id,
    seen: Stamp,
    next: &mut NextStamp<'_>,
) -> (Row, Option<Intent>, Begun) {
    let update =
        |id, guarded, next: &mut NextStamp<'_>| Operation::update(start.clone(), id, guarded, next);
    match (doing.step, doing.task) {
        (Step::Write, Task::Put) => {
            let value = object(doing);
            let write = Operation::write(start, id, value, false, next);
            (Row::Object, None, write)
        }
        (Step::Write, Task::Complete | Task::CompleteIfNone | Task::Abort) => {
            let (operation, outputs) = update(doing.own.write, true, next);
            let operation = operation
                .repeating(Repeat::Never)
                .by_own_quorum(doing.task == Task::Abort);
            (Row::Object, Some(doing.own), (operation, outputs))
        }
        (Step::Write, _) => (Row::Object, None, update(id, false, next)),
        (Step::Read | Step::CompletedBy, _) => (Row::Object, None, Operation::read(start)),
        (Step::Look, _) => (Row::Upload, None, Operation::read(start)),
        (Step::Resolve(intent), _) => {
            let resolve = Operation::resolve(start, &intent, epoch, seen, next);
            (Row::Object, None, resolve)
        }
        (Step::Finish(..) | Step::Undo { .. }, _) => (Row::Upload, None, update(id, false, next)),
    }
}

fn object(doing: &Doing) -> Option<Value> {
    let completes = matches!(doing.task, Task::Complete | Task::CompleteIfNone);
    Some(Value {
        number: doing.number,
        intent: completes.then_some(doing.own),
    })
}

/// Returns the clock of a coordinator, by its index.
pub fn next_stamp(last: &mut u64, client: usize) -> impl FnMut(Stamp) -> Stamp + '_ {
    move |seen| {
        *last = (*last).max(seen.time) + 1;
        Stamp {
            time: *last,
            writer: Writer(client as u64 + 1),
        }
    }
}

pub(super) fn id(client: usize, operation: u32) -> Id {
    let mut id = [0; 16];
    id[0] = client as u8 + 1;
    id[1..5].copy_from_slice(&operation.to_be_bytes());
    Id(id)
}
