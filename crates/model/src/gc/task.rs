//! GC tasks, and the replacements of rows that queue one.

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, PartitionId};
use archipel_cluster::Cluster;
use archipel_storage::{RowKey, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::form::{ContentForm, decode_parts, decode_tail};
use crate::intents;
use crate::object::ObjectHead;
use crate::owner::{Owner, UploadName};
use crate::rowkeys::{self, Kind};
use crate::upload::Part;

/// An entry of the queue: content whose owner may not need it any more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum GcTask {
    /// The extents of a tail.
    #[serde(rename = "t")]
    Tail {
        #[serde(rename = "o")]
        owner: Owner,
        #[serde(rename = "g")]
        group: Id,
    },
    /// The parts of an upload that was completed or aborted, or whose object was replaced.
    #[serde(rename = "u")]
    Upload(UploadName),
    /// The uploads of a deleted bucket.
    #[serde(rename = "b")]
    Bucket {
        #[serde(rename = "b")]
        bucket: Id,
        #[serde(rename = "n")]
        name: String,
    },
}

impl Versioned for GcTask {
    const VERSION: u8 = 1;
}

impl GcTask {
    /// Returns the name of the content, under which it is marked as in use.
    pub fn content(&self) -> Id {
        match self {
            GcTask::Tail { group, .. } => *group,
            GcTask::Upload(upload) => upload.parts().0,
            GcTask::Bucket { bucket, .. } => *bucket,
        }
    }

    /// Returns the partition whose replicas queued the task.
    pub fn partition(&self, cluster: &Cluster) -> PartitionId {
        match self {
            GcTask::Tail { owner, .. } => rowkeys::owner(cluster, owner).partition,
            GcTask::Upload(upload) => rowkeys::upload(cluster, upload).partition,
            GcTask::Bucket { .. } => PartitionId::CONTROL,
        }
    }
}

/// Returns the encoded task to queue when the row `key` changes from `old` to `new`. Storage calls
/// this in the transaction of the change.
pub fn on_replace(key: &RowKey, old: &Value, new: Option<&Value>) -> Option<Bytes> {
    let task = match rowkeys::kind(&key.key) {
        Kind::Bucket => on_bucket_deleted(key, old, new),
        Kind::Upload => on_upload_changed(key, old, new),
        Kind::Object => on_object_replaced(key, old, new),
        Kind::Part => on_part_replaced(key, old, new),
        Kind::Version => on_version_replaced(key, old, new),
        Kind::AccessKey
        | Kind::AdminToken
        | Kind::WriteFence
        | Kind::Item
        | Kind::Identity
        | Kind::Event
        | Kind::Other => None,
    };
    task.map(|task| codec::encode(&task).into())
}

/// Returns a task for a bucket whose deletion this replica accepted. The deletion may be one that
/// never takes effect.
fn on_bucket_deleted(key: &RowKey, old: &Value, new: Option<&Value>) -> Option<GcTask> {
    if new.is_some() {
        return None;
    }
    let bucket: Bucket = codec::decode(&old.metadata).ok()?;
    Some(GcTask::Bucket {
        bucket: bucket.id,
        name: rowkeys::name_of(&key.key)?.to_owned(),
    })
}

/// Returns a task for an upload that ends, and for one that a completion or an abort has marked:
/// its coordinator may crash. The mark's task does for the end that follows it.
fn on_upload_changed(key: &RowKey, old: &Value, new: Option<&Value>) -> Option<GcTask> {
    let has_intent = |value: &Value| intents::intent(&value.metadata).is_some();
    if has_intent(old) || !new.is_none_or(has_intent) {
        return None;
    }
    rowkeys::upload_of(&key.key).map(GcTask::Upload)
}

fn on_object_replaced(row: &RowKey, old: &Value, new: Option<&Value>) -> Option<GcTask> {
    let metadata: ObjectHead = codec::decode(&old.metadata).ok()?;
    if new.is_some_and(|new| new.payload == old.payload) {
        return None;
    }
    let owner = rowkeys::owner_of(&row.key)?;
    match (metadata.form, owner) {
        (ContentForm::Inline | ContentForm::Blocks, _) => None,
        (ContentForm::Tail, owner) => Some(GcTask::Tail {
            owner,
            group: decode_tail(&old.payload).ok()?.group,
        }),
        (ContentForm::Parts, Owner::Object { bucket, key }) => Some(GcTask::Upload(UploadName {
            bucket,
            key,
            id: decode_parts(&old.payload).ok()?.upload,
        })),
        (ContentForm::Parts, Owner::Part { .. }) => None,
    }
}

/// Returns the task of a kept version. Its content belongs to the object.
fn on_version_replaced(row: &RowKey, old: &Value, new: Option<&Value>) -> Option<GcTask> {
    let (object, _) = rowkeys::kept_in(row)?;
    on_object_replaced(&object, old, new)
}

fn on_part_replaced(row: &RowKey, old: &Value, new: Option<&Value>) -> Option<GcTask> {
    let part: Part = codec::decode(&old.metadata).ok()?;
    if part.form != ContentForm::Tail || new.is_some_and(|new| new.payload == old.payload) {
        return None;
    }
    Some(GcTask::Tail {
        owner: rowkeys::owner_of(&row.key)?,
        group: decode_tail(&old.payload).ok()?.group,
    })
}
