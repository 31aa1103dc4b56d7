//! One node's durable state: disks, metadata engines, blocks and rows.
//!
//! | module | what it holds |
//! |---|---|
//! | [`error`] | the errors, named by what the caller should do |
//! | `checksum` | the checksum of metadata values and of record headers |
//! | [`disk`] | the `Disk` trait: the files of one disk, real or in memory |
//! | [`engine`] | metadata engines: ordered, transactional key-value stores; the journal before LMDB |
//! | [`pool`] | threads for blocking work, and the limit of memory for content |
//! | [`row`] | rows as the layers above see them |
//! | [`blocks`] | content, named by its hash, in segments on the disks |
//! | [`rows`] | rows in an engine, with what is derived from them |
//! | [`store`] | all of it behind one handle: transactions, reads, group commit |
//!
//! # Invariants
//! - No write is acknowledged before it is on stable storage, unless the caller asked for
//!   `Buffered`.
//! - An engine commit, buffered or not, names a block's record only after the record is synced on
//!   its disk. A power cut may keep any prefix of the buffered commits, and every row in that
//!   prefix is whole.
//! - A block is readable exactly as long as a committed row refers to it or a pin holds it.
//! - References, the change log, window digests and counters change only in the transaction
//!   that changes their row.
//! - Engine and disk calls never run on an async thread, except short reads of data in memory
//!   (`store::read_path`).

pub mod blocks;
mod checksum;
pub mod disk;
pub mod engine;
pub mod error;
pub mod pool;
pub mod row;
pub mod rows;
pub mod store;

pub use blocks::{BlockAppender, Pin, RebuildProgress};
pub use error::Error;
pub use row::{
    BlockRef, MAX_VERSION_CHANGES, Payload, Row, RowKey, RowVersion, UsageDelta, Value,
    VersionChange, VersionKind, VersionName, VersionState, name_bytes,
};
pub use rows::{
    KeptKeys, ListEntry, ListQuery, ListStart, Listing, RowMetadata, RowReader, RowTxn,
};
pub use store::{Counters, Growth, Limits, Status, Store, StoreOptions, Threads, Transact};
