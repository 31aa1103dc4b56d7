//! The operation of each step of a task, and its condition.

use archipel_base::{Id, Stamp};
use archipel_cluster::register::coordinator::Repeat;
use archipel_cluster::register::{Decision, Intent, NextStamp, Operation, Start};

use super::{Doing, Step};
use crate::model::client::Begun;
use crate::model::uploads::{Row, Task, Value};

impl Doing {
    pub(in crate::model::uploads) fn decide(&mut self, current: Option<Value>) -> Decision<Value> {
        let points_to =
            |intent: Intent| current.and_then(|v| v.intent).map(|i| i.write) == Some(intent.write);
        match self.step {
            Step::Finish(intent, ends) if points_to(intent) => {
                Decision::Write((!ends).then_some(Value::LIVE))
            }
            Step::Undo { .. } if points_to(self.own) => Decision::Write(Some(Value::LIVE)),
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
                        Decision::Write(Some(self.object()))
                    }
                }
            }
        }
    }

    /// Returns the row of the current operation, and the intent if the operation changes both rows.
    pub(in crate::model::uploads) fn about(&self) -> (Row, Option<Intent>) {
        match (self.step, self.task) {
            (Step::Write, Task::Complete | Task::CompleteIfNone | Task::Abort) => {
                (Row::Object, Some(self.own))
            }
            (Step::Look | Step::Finish(..) | Step::Undo { .. }, _) => (Row::Upload, None),
            (Step::Write | Step::Read | Step::Resolve(_) | Step::CompletedBy, _) => {
                (Row::Object, None)
            }
        }
    }

    /// Begins the operation of the current step.
    pub(super) fn operation(
        &self,
        start: Start,
        epoch: u64,
        id: Id,
        seen: Stamp,
        next: &mut NextStamp<'_>,
    ) -> Begun<Value> {
        match (self.step, self.task) {
            (Step::Write, Task::Put) => {
                Operation::write(start, id, Some(self.object()), false, next)
            }
            (Step::Write, Task::Complete | Task::CompleteIfNone | Task::Abort) => {
                let (operation, outputs) = Operation::update(start, self.own.write, true, next);
                let operation = operation
                    .repeating(Repeat::Never)
                    .by_own_quorum(self.task == Task::Abort);
                (operation, outputs)
            }
            (Step::Write | Step::Finish(..) | Step::Undo { .. }, _) => {
                Operation::update(start, id, false, next)
            }
            (Step::Read | Step::Look | Step::CompletedBy, _) => Operation::read(start),
            (Step::Resolve(intent), _) => Operation::resolve(start, &intent, epoch, seen, next),
        }
    }

    /// Returns the object that the task writes.
    fn object(&self) -> Value {
        let completes = matches!(self.task, Task::Complete | Task::CompleteIfNone);
        Value {
            number: self.number,
            intent: completes.then_some(self.own),
        }
    }
}
