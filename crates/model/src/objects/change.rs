//! A change of an object's row, and what it did.

use std::sync::Arc;

use archipel_base::Stamp;
use archipel_cluster::BlockWriter;
use archipel_storage::RowKey;
use archipel_storage::engine::Durability;

use super::NewObject;
use crate::bucket::Bucket;
use crate::events::Happening;
use crate::version::VersionId;

/// A write or a deletion of an object's row.
pub(crate) struct ObjectChange<'a> {
    pub bucket: &'a Bucket,
    pub row: &'a RowKey,
    /// The new object; `None` deletes the object.
    pub new: Option<&'a NewObject>,
    pub durability: Durability,
    /// True if the value refers to content in other rows: see
    /// [`WriteOptions::yields`](archipel_cluster::WriteOptions::yields).
    pub yields: bool,
    pub upload: Option<&'a BlockWriter>,
    /// True if no client waits for it.
    pub background: bool,
}

impl ObjectChange<'_> {
    /// Returns what the change is to events. If `is_marker`, a deletion makes a delete marker.
    pub fn happening(&self, is_marker: bool) -> Happening<'_> {
        match self.new {
            Some(new) => Happening::Created(&new.head),
            None if is_marker => Happening::Marked,
            None => Happening::Deleted(None),
        }
    }
}

/// The result of a write or a deletion of an object's row.
pub(crate) struct Put {
    /// The bucket, if its settings are newer than those that the change knew.
    pub bucket: Option<Arc<Bucket>>,
    /// The version that was written.
    pub id: VersionId,
    /// True if it is a delete marker.
    pub is_marker: bool,
    /// The stamp of the write.
    pub at: Stamp,
}
