//! A transaction that waits for the committer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::options::Transact;
use crate::engine::Result;
use crate::error::Error;
use crate::rows::RowTxn;

/// A transaction as the committer sees it.
pub(crate) trait Job: Send {
    /// Returns how the transaction is to be run.
    fn transact(&self) -> Transact;

    /// Runs the closure. Returns true if its changes count.
    fn run(&mut self, txn: &mut RowTxn<'_>) -> bool;

    /// Replaces the result with an error.
    fn refuse(&mut self, error: Error);

    /// Sends the answer, once the outcome of the batch is known.
    fn finish(self: Box<Self>, batch: Result<()>);
}

/// A closure, and the channel for its answer.
pub(crate) struct Call<F, T> {
    transact: Transact,
    closure: Option<F>,
    result: Option<Result<T>>,
    answer: oneshot::Sender<Result<T>>,
}

impl<F, T> Call<F, T> {
    pub fn new(transact: Transact, closure: F) -> (Call<F, T>, oneshot::Receiver<Result<T>>) {
        let (answer, answered) = oneshot::channel();
        let call = Call {
            transact,
            closure: Some(closure),
            result: None,
            answer,
        };
        (call, answered)
    }
}

impl<F, T> Job for Call<F, T>
where
    F: FnOnce(&mut RowTxn<'_>) -> Result<T> + Send,
    T: Send,
{
    fn transact(&self) -> Transact {
        self.transact
    }

    fn run(&mut self, txn: &mut RowTxn<'_>) -> bool {
        let Some(closure) = self.closure.take() else {
            return false;
        };
        // After a panic the overlay is dropped, and half-done changes with it.
        let result = catch_unwind(AssertUnwindSafe(|| closure(txn)));
        let result =
            result.unwrap_or_else(|_| Err(Error::Refused("the transaction panicked".into())));
        let succeeded = result.is_ok();
        self.result = Some(result);
        succeeded
    }

    fn refuse(&mut self, error: Error) {
        self.result = Some(Err(error));
    }

    fn finish(self: Box<Self>, batch: Result<()>) {
        let missing = || Err(Error::Failed("the transaction was not run".into()));
        let result = match batch {
            Ok(()) => self.result.unwrap_or_else(missing),
            Err(error) => Err(error),
        };
        // An error means that the caller went away, so nobody needs the answer.
        let _ = self.answer.send(result);
    }
}
