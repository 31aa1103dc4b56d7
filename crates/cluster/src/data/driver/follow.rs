//! The actions that an operation asks its driver for.

use std::ops::ControlFlow;

use archipel_storage::Value;

use super::sent::Sent;
use super::{Decide, Run, next};
use crate::error::Error;
use crate::register::versions::Promises;
use crate::register::{Operation, Outcome, Output, Request, Rules, versions};

impl Run<'_> {
    /// Does what an output asks for. Continues with further outputs, or breaks with the outcome of
    /// the operation.
    pub(super) async fn follow(
        &mut self,
        output: Output<Value>,
        operation: &mut Operation<Value>,
        sent: &mut Sent,
        decide: &mut Decide<'_>,
    ) -> Result<ControlFlow<Outcome<Value>, Vec<Output<Value>>>, Error> {
        let more = match output {
            Output::Done(outcome) if operation.resolves() => {
                return Ok(ControlFlow::Break(outcome));
            }
            Output::Done(Outcome::Written { stamp }) => {
                self.bring_companions(operation, stamp).await?;
                return Ok(ControlFlow::Break(Outcome::Written { stamp }));
            }
            Output::Done(outcome) => {
                return ended(outcome, sent.refused.take()).map(ControlFlow::Break);
            }
            Output::Send {
                request: Request::Write { .. },
                ..
            } if !self.with_payload => {
                self.needs_payload = true;
                return Ok(ControlFlow::Break(Outcome::Unavailable));
            }
            Output::Send { to, round, request } => {
                self.ask_about_attempt(operation);
                self.note_attempt(&request);
                self.send(sent, to, round, request);
                Vec::new()
            }
            Output::Decide(version) => {
                let decision = decide(&Promises {
                    current: &version,
                    ballot: operation.deciding_under().unwrap_or_default(),
                    reports: operation.told(),
                });
                operation.decided(decision)
            }
            Output::Bury {
                newest,
                is_chosen,
                attempt,
            } => {
                let rules = Rules::CORRECT;
                operation.buried(versions::bury(rules, &newest, is_chosen, Some(attempt)))
            }
            Output::Pause { attempt } => {
                self.pause(attempt).await;
                operation.resume(&mut next(self.inner))
            }
            Output::Refresh { epoch } => {
                sent.leave();
                self.refresh(operation, epoch, sent.newer_at).await?
            }
        };
        Ok(ControlFlow::Continue(more))
    }
}

/// Returns the outcome. If it is a failure and a replica gave a reason of its own, that reason is
/// the error.
fn ended(outcome: Outcome<Value>, refused: Option<Error>) -> Result<Outcome<Value>, Error> {
    match (outcome, refused) {
        (Outcome::Unavailable | Outcome::Unknown, Some(error)) => Err(error),
        (outcome, _) => Ok(outcome),
    }
}
