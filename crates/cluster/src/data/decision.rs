//! The decision of an update, and the version that it decides about.

use archipel_base::{Id, Stamp};
use archipel_storage::Value;

/// The decision of an update about the current value.
pub enum Decision<E> {
    /// Write this value; `None` deletes.
    Write(Option<Value>),
    /// Leave the row as it is, for this reason.
    Abort(E),
}

/// The version of a row that an update decides about.
#[derive(Clone, Copy, Debug)]
pub struct Current<'a> {
    /// The value; `None` if the row is a tombstone or absent.
    pub value: Option<&'a Value>,
    /// The stamp of the version; [`Stamp::ZERO`] if the row is absent.
    pub stamp: Stamp,
    /// The write that made the version. A rewrite under a higher stamp keeps it.
    pub write: Id,
    /// The stamp that the new version gets. It is above `stamp`, and above the tombstones of this
    /// row that were dropped. A rewrite of the same value may raise the version's stamp later.
    pub own: Stamp,
}
