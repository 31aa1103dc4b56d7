//! Rows: their encodings, the transactions that change them, and the data derived from them.
//!
//! # Invariants
//! - [`RowTxn`] is the only way to change a row. In the same transaction it updates the change log,
//!   the window digests, the counters and the references to blocks.
//! - Nobody sees a closure's changes before it has returned `Ok`. If it fails or panics, its
//!   changes are dropped (`overlay`).
//! - A row that was only promised is in neither the log nor the windows. A tombstone is in both.
//!
//! | module | what it holds |
//! |---|---|
//! | [`codec`] | keys and values, byte by byte (see `docs/internals/data-format.md`) |
//! | `overlay` | changes on top of a transaction |
//! | `metadata` | rows without their payloads |
//! | [`reader`] | reading: rows, counters, windows, the log, the queue |
//! | [`txn`] | changing |
//! | `derived` | log, windows, counters: what follows from a row's change |
//! | [`window`] | windows of time, and their digests |
//! | [`list`] | listings with prefix and delimiter |
//! | [`mentions`] | from blocks back to the rows that refer to them |
//! | [`check`] | looks for damage in one partition |
//! | `references` | compares references to blocks with the index, in bounded memory |
//! | [`verify`] | recomputes everything that is derived and compares |

pub mod check;
pub mod codec;
pub(crate) mod derived;
pub mod list;
pub mod mentions;
mod metadata;
pub(crate) mod overlay;
pub mod reader;
mod references;
pub mod txn;
pub mod verify;
pub mod window;

pub use check::Checked;
pub use list::{KeptKeys, ListEntry, ListQuery, ListStart, Listing};
pub use mentions::Mention;
pub use metadata::RowMetadata;
pub use reader::RowReader;
pub use txn::RowTxn;
pub(crate) use txn::TxnContext;
pub use verify::Report;
pub use window::{Granularity, Window, WindowDigest};

#[cfg(test)]
mod tests;
