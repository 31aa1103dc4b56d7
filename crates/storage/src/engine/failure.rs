//! The memory of a final failure: after it, an engine takes no more writes.

use std::sync::OnceLock;

use super::Result;
use crate::error::Error;

/// Remembers the first failure that is final. Reads go on; an operator must act.
///
/// After a failed sync the kernel may drop the pages and forget the error, so that trying again
/// would report success for data that is gone.
#[derive(Default)]
pub(super) struct Breaker(OnceLock<Error>);

impl Breaker {
    /// The failure, if there was one.
    pub(super) fn check(&self) -> Result<()> {
        self.0.get().cloned().map_or(Ok(()), Err)
    }

    /// Notes that `doing` failed with `error` and returns what to tell the caller.
    pub(super) fn trip(&self, doing: &str, error: impl std::fmt::Display) -> Error {
        let failed = Error::Failed(format!("metadata: {doing}: {error}"));
        if self.0.set(failed.clone()).is_ok() {
            tracing::error!("{failed}; no more writes are taken");
        }
        failed
    }
}
