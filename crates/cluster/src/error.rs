//! Errors of the cluster, named by what the caller should do.

use archipel_storage as storage;

/// An error of a quorum operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Too few replicas answered, or nobody knows whether the write took effect. The client may
    /// retry.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The row that guards the write is gone.
    #[error("the guarding row is gone")]
    Guarded,
    /// A replica holds a version that does not permit the operation. Nothing was changed.
    #[error("a protected version does not permit it")]
    Held,
    /// Another write of the row came in between. This write took no effect and never will.
    #[error("unavailable: another write came in between")]
    Overtaken,
    /// A replica refused for a reason of its own.
    #[error(transparent)]
    Storage(#[from] storage::Error),
}
