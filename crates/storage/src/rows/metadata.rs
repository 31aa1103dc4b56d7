//! Rows without their payloads.

use archipel_base::{Id, Stamp};
use bytes::Bytes;

use super::codec::StoredRow;
use crate::row::{Payload, Row, RowVersion, UsageDelta, Value};

/// A row without its payload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowMetadata {
    /// The highest ballot that the replica promised.
    pub promised: Stamp,
    /// The stamp of the value; [`Stamp::ZERO`] if the row was only promised.
    pub stamp: Stamp,
    /// The identity of the write that made the value.
    pub write: Id,
    /// The value's metadata; `None` for a tombstone and for a row that was never written.
    pub metadata: Option<Bytes>,
    /// The row's share in a counter.
    pub usage: Option<UsageDelta>,
    /// Which version of an object the value is.
    pub version: Option<Box<RowVersion>>,
}

impl RowMetadata {
    /// Returns true if the row has a value that is no object: a delete marker, for example.
    pub fn is_hidden(&self) -> bool {
        let version = self.version.as_ref();
        version.is_some_and(|version| !version.kind.is_object())
    }

    /// Returns true if the row has a value.
    pub fn is_live(&self) -> bool {
        self.metadata.is_some()
    }

    /// Returns true if the row was ever written: it has a value or is a tombstone.
    pub fn is_written(&self) -> bool {
        self.stamp != Stamp::ZERO
    }
}

impl From<StoredRow> for RowMetadata {
    fn from(row: StoredRow) -> RowMetadata {
        RowMetadata {
            promised: row.promised,
            stamp: row.stamp,
            write: row.write,
            metadata: row.metadata,
            usage: row.usage,
            version: row.version,
        }
    }
}

/// Converts to a row with an empty payload. Do not write this row back.
impl From<RowMetadata> for Row {
    fn from(row: RowMetadata) -> Row {
        let (usage, version) = (row.usage, row.version);
        Row {
            promised: row.promised,
            stamp: row.stamp,
            write: row.write,
            value: row.metadata.map(|metadata| Value {
                metadata,
                payload: Payload::Empty,
                usage,
                version,
            }),
        }
    }
}
