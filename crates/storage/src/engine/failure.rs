//! The record of a final failure. After one, an engine takes no more writes.

use std::sync::OnceLock;

use super::Result;
use crate::error::Error;

/// A breaker that keeps the first final failure. Reads go on, and an operator must act.
///
/// After a failed sync the kernel may drop the pages and forget the error. A second sync would then
/// report success for lost data.
#[derive(Default)]
pub(super) struct Breaker(OnceLock<Error>);

impl Breaker {
    /// Returns the failure, if there was one.
    pub(super) fn check(&self) -> Result<()> {
        self.0.get().cloned().map_or(Ok(()), Err)
    }

    /// Records that `doing` failed with `error`. Returns the error for the caller.
    pub(super) fn trip(&self, doing: &str, error: impl std::fmt::Display) -> Error {
        let failed = Error::Failed(format!("metadata: {doing}: {error}"));
        if self.0.set(failed.clone()).is_ok() {
            tracing::error!("{failed}; the engine takes no more writes");
        }
        failed
    }
}
