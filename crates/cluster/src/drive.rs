//! Drives one operation of the register: sends what it asks to be sent, and tells it what comes back.

use std::collections::VecDeque;
use std::time::Duration;

use archipel_base::Stamp;
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};

use crate::error::Error;
use crate::local::Inner;
use crate::register::{self, Answer, Operation, Outcome, Output, Request, Version};

/// How long the first pause of a contended operation is at most; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// How long a pause is at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// One operation on one row, being driven.
pub(crate) struct Run<'a> {
    pub inner: &'a Inner,
    pub key: &'a RowKey,
    pub guard: Option<&'a RowKey>,
    pub durability: Durability,
    /// Whether a read needs the body; a head is cheaper.
    pub with_body: bool,
}

impl Run<'_> {
    /// Runs it to its end. `decide` is asked only by updates.
    pub async fn drive(
        &self,
        mut operation: Operation<Value>,
        outputs: Vec<Output<Value>>,
        decide: &mut (dyn FnMut(&Version<Value>) -> register::Decision<Value> + Send),
    ) -> Result<Outcome<Value>, Error> {
        let mut todo: VecDeque<_> = outputs.into();
        let mut refused = None;
        while let Some(output) = todo.pop_front() {
            let more = match output {
                Output::Done(outcome) => return self.end(outcome, refused),
                Output::Send { to, round, request } => match self.send(request).await {
                    Ok(answer) => operation.on_answer(to, round, answer, &mut self.next()),
                    Err(error) => {
                        refused = Some(error);
                        operation.on_failure(to, round, &mut self.next())
                    }
                },
                Output::Decide(version) => operation.decided(decide(&version)),
                Output::Pause { attempt } => {
                    self.pause(attempt).await;
                    operation.resume(&mut self.next())
                }
                // One node knows one layout.
                Output::Refresh { .. } => operation.give_up(),
            };
            todo.extend(more);
            if todo.is_empty() {
                todo.extend(operation.give_up());
            }
        }
        Err(Error::Unavailable("the operation did not end".into()))
    }

    fn next(&self) -> impl FnMut(Stamp) -> Stamp + '_ {
        |seen| self.inner.next_stamp(seen)
    }

    /// If the only replica failed for a reason of its own, that is what the caller is told.
    fn end(
        &self,
        outcome: Outcome<Value>,
        refused: Option<Error>,
    ) -> Result<Outcome<Value>, Error> {
        match (outcome, refused) {
            (Outcome::Unavailable | Outcome::Unknown, Some(error)) => Err(error),
            (outcome, _) => Ok(outcome),
        }
    }

    async fn send(&self, request: Request<Value>) -> Result<Answer<Value>, Error> {
        let replica = &self.inner.replica;
        match request {
            Request::Read { .. } => replica.read(self.key.clone(), self.with_body).await,
            change => {
                replica
                    .change(
                        self.key.clone(),
                        self.guard.cloned(),
                        self.durability,
                        change,
                    )
                    .await
            }
        }
    }

    /// A random time that doubles with each attempt.
    async fn pause(&self, attempt: u32) {
        let most = FIRST_PAUSE * 2u32.pow(attempt.min(10));
        let most = most.min(LONGEST_PAUSE).as_micros() as u64;
        let micros = self.inner.options.random.next_u64() % most.max(1);
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}
