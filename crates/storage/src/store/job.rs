//! A transaction that waits for the committer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::options::Transact;
use crate::engine::Result;
use crate::error::Error;
use crate::rows::RowTxn;

/// What the committer sees of a transaction.
pub(crate) trait Job: Send {
    /// How it is to be run.
    fn transact(&self) -> Transact;

    /// Runs the closure; tells whether its changes count.
    fn run(&mut self, txn: &mut RowTxn<'_>) -> bool;

    /// Settles the answer: an error, whatever the closure said.
    fn refuse(&mut self, error: Error);

    /// Gives the answer, once the batch's outcome is known.
    fn finish(self: Box<Self>, batch: Result<()>);
}

/// A closure, and who waits for its answer.
pub(crate) struct Call<F, T> {
    transact: Transact,
    closure: Option<F>,
    result: Option<Result<T>>,
    answer: oneshot::Sender<Result<T>>,
    /// The share of the bounds, given back with the answer.
    _room: Vec<OwnedSemaphorePermit>,
}

impl<F, T> Call<F, T> {
    pub fn new(
        transact: Transact,
        closure: F,
        room: Vec<OwnedSemaphorePermit>,
    ) -> (Call<F, T>, oneshot::Receiver<Result<T>>) {
        let (answer, answered) = oneshot::channel();
        let call = Call {
            transact,
            closure: Some(closure),
            result: None,
            answer,
            _room: room,
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
        // The overlay is dropped after a panic, and with it all that may be half done.
        let result = catch_unwind(AssertUnwindSafe(|| closure(txn)));
        let result =
            result.unwrap_or_else(|_| Err(Error::Refused("the transaction panicked".into())));
        let good = result.is_ok();
        self.result = Some(result);
        good
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
        // An error means that the caller went away: nobody wants to know.
        let _ = self.answer.send(result);
    }
}
