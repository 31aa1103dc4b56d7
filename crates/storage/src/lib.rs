//! One node's durable state: disks, metadata engines, blocks and rows.
//!
//! # Invariants
//! - Nothing is acknowledged before it is on stable storage (unless asked for `Buffered`).
//! - A block is readable exactly as long as a row that was committed refers to it, or a pin holds it.
//! - References, the change log, window fingerprints and counters change only in the transaction
//!   that changes their row.
//! - Engine and disk calls never run on an async thread, but short reads of what is in memory (`store::place`).

pub mod blocks;
mod checksum;
pub mod disk;
pub mod engine;
pub mod error;
pub mod pool;
pub mod row;
pub mod rows;
pub mod store;

pub use blocks::{Pin, Upload};
pub use error::Error;
pub use row::{BlockRef, Body, Row, RowKey, Tally, Value};
pub use rows::{ListEntry, ListQuery, ListStart, Listing, RowHead, RowReader, RowTxn};
pub use store::{Counters, Growth, Limits, Status, Store, StoreOptions, Threads, Transact};
