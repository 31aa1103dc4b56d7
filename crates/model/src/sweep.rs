//! The sweep: content that nothing refers to any more is found by asking its owner, and dropped.
//!
//! Work stands in a durable queue that is filled in the very transaction that makes it
//! necessary: when a row that refers to content elsewhere is replaced, and before the first
//! extent of a tail is written. No timer decides: content is dropped if and only if the owner's
//! row does not refer to it and never will again (it is *settled*, so that no write that a minority
//! holds surfaces later), nothing in this process writes it, and nobody here reads it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use archipel_base::Id;
use archipel_base::codec::{self, Versioned};
use archipel_cluster::{Cluster, How};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::content::{Layout, damaged_row, decode_parts, decode_tail};
use crate::error::Error;
use crate::object::ObjectHead;
use crate::rowkeys::{self, Kind, Owner};
use crate::upload::Part;

/// How many queue entries are looked at in one go.
const BATCH: usize = 64;

/// A question to an owner: is this still yours?
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Check {
    /// The extents of a tail.
    #[serde(rename = "t")]
    Tail {
        #[serde(rename = "o")]
        owner: Owner,
        #[serde(rename = "g")]
        group: Id,
    },
    /// The parts of an upload: it was completed or aborted, or the object that they became was replaced.
    #[serde(rename = "u")]
    Upload {
        #[serde(rename = "b")]
        bucket: Id,
        #[serde(rename = "k")]
        key: String,
        #[serde(rename = "u")]
        upload: Id,
    },
    /// The uploads of a bucket that was deleted.
    #[serde(rename = "b")]
    Bucket {
        #[serde(rename = "b")]
        bucket: Id,
    },
}

impl Versioned for Check {
    const VERSION: u8 = 1;
}

/// What is being written or read in this process, by the name of the content (an extent group or an upload).
#[derive(Debug, Default)]
pub(crate) struct Active(Mutex<HashMap<Id, usize>>);

/// Keeps content from being swept while it lives.
#[derive(Debug)]
pub(crate) struct ActiveGuard {
    active: Arc<Active>,
    content: Id,
}

impl Active {
    /// Marks `content` as in use.
    pub fn enter(self: &Arc<Active>, content: Id) -> ActiveGuard {
        let mut in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *in_use.entry(content).or_default() += 1;
        ActiveGuard {
            active: self.clone(),
            content,
        }
    }

    fn contains(&self, content: &Id) -> bool {
        let in_use = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.contains_key(content)
    }
}

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        let mut in_use = self.active.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = in_use.get_mut(&self.content) {
            *count -= 1;
            if *count == 0 {
                in_use.remove(&self.content);
            }
        }
    }
}

/// What must be asked when the row `key` changes from `old` to `new`: called in the transaction of the change.
pub fn on_replace(key: &RowKey, old: &Value, new: Option<&Value>) -> Option<Bytes> {
    let check = match rowkeys::kind(&key.key) {
        Kind::Bucket => on_bucket_gone(old, new),
        Kind::Upload => on_upload_gone(key, new),
        Kind::Object => on_object_replaced(key, old, new),
        Kind::Part => on_part_replaced(key, old, new),
        Kind::AccessKey | Kind::Gate | Kind::Other => None,
    };
    check.map(|check| codec::encode(&check).into())
}

fn on_bucket_gone(old: &Value, new: Option<&Value>) -> Option<Check> {
    if new.is_some() {
        return None;
    }
    let bucket: Bucket = codec::decode(&old.head).ok()?;
    Some(Check::Bucket { bucket: bucket.id })
}

fn on_upload_gone(key: &RowKey, new: Option<&Value>) -> Option<Check> {
    if new.is_some() {
        return None;
    }
    let (bucket, key, upload) = rowkeys::upload_of(&key.key)?;
    Some(Check::Upload {
        bucket,
        key,
        upload,
    })
}

fn on_object_replaced(row: &RowKey, old: &Value, new: Option<&Value>) -> Option<Check> {
    let head: ObjectHead = codec::decode(&old.head).ok()?;
    if new.is_some_and(|new| new.body == old.body) {
        return None;
    }
    let owner = rowkeys::owner_of(&row.key)?;
    match (head.layout, owner) {
        (Layout::Inline | Layout::Blocks, _) => None,
        (Layout::Tail, owner) => Some(Check::Tail {
            owner,
            group: decode_tail(&old.body).ok()?.group,
        }),
        (Layout::Parts, Owner::Object { bucket, key }) => Some(Check::Upload {
            bucket,
            key,
            upload: decode_parts(&old.body).ok()?.upload,
        }),
        (Layout::Parts, Owner::Part { .. }) => None,
    }
}

fn on_part_replaced(row: &RowKey, old: &Value, new: Option<&Value>) -> Option<Check> {
    let part: Part = codec::decode(&old.head).ok()?;
    if part.layout != Layout::Tail || new.is_some_and(|new| new.body == old.body) {
        return None;
    }
    Some(Check::Tail {
        owner: rowkeys::owner_of(&row.key)?,
        group: decode_tail(&old.body).ok()?.group,
    })
}

/// What a pass over the queue did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepReport {
    /// Questions answered and removed from the queue.
    pub settled: u64,
    /// Questions put off because the content is in use.
    pub in_use: u64,
    /// Rows (extents, parts) dropped.
    pub dropped: u64,
}

/// Goes once through the queue.
pub(crate) async fn pass(cluster: &Cluster, active: &Active) -> Result<SweepReport, Error> {
    let mut report = SweepReport::default();
    let mut after = 0;
    loop {
        let entries = cluster.queue_read(after, BATCH).await?;
        let Some((last, _)) = entries.last() else {
            return Ok(report);
        };
        after = *last;
        for (sequence, bytes) in entries {
            let check: Check = codec::decode(&bytes).map_err(damaged_row)?;
            if active.contains(&check.content()) {
                report.in_use += 1;
                continue;
            }
            report.dropped += settle(cluster, &check).await?;
            cluster.queue_remove(sequence).await?;
            report.settled += 1;
        }
    }
}

impl Check {
    fn content(&self) -> Id {
        match self {
            Check::Tail { group, .. } => *group,
            Check::Upload { upload, .. } => *upload,
            Check::Bucket { bucket } => *bucket,
        }
    }
}

/// Asks the owner and drops what is not its any more; tells how many rows were dropped.
async fn settle(cluster: &Cluster, check: &Check) -> Result<u64, Error> {
    match check {
        Check::Tail { owner, group } => {
            if tail_of(cluster, owner).await? == Some(*group) {
                return Ok(0);
            }
            drop_tail(cluster, group).await
        }
        Check::Upload {
            bucket,
            key,
            upload,
        } => {
            let row = rowkeys::upload(cluster, bucket, key, upload);
            if cluster.head(&row).await?.is_some() {
                return Ok(0);
            }
            drop_unused_parts(cluster, bucket, key, upload).await
        }
        Check::Bucket { bucket } => drop_uploads(cluster, bucket).await,
    }
}

/// Aborts the uploads of a deleted bucket, which in turn asks for their parts to be dropped.
async fn drop_uploads(cluster: &Cluster, bucket: &Id) -> Result<u64, Error> {
    let prefix = rowkeys::uploads(bucket);
    let mut dropped = 0;
    for partition in rowkeys::bucket_partitions(cluster, bucket) {
        for row in cluster.scan_all(partition, &prefix).await? {
            cluster
                .write(&row.key, None, How::durable(Durability::Fsync))
                .await?;
            dropped += 1;
        }
    }
    Ok(dropped)
}

/// The tail that the owner's row refers to.
async fn tail_of(cluster: &Cluster, owner: &Owner) -> Result<Option<Id>, Error> {
    let Some(value) = cluster.settle(&owner.row(cluster)).await? else {
        return Ok(None);
    };
    let layout = match owner {
        Owner::Object { .. } => codec::decode::<ObjectHead>(&value.head).map(|head| head.layout),
        Owner::Part { .. } => codec::decode::<Part>(&value.head).map(|part| part.layout),
    };
    match layout.map_err(damaged_row)? {
        Layout::Tail => Ok(Some(decode_tail(&value.body)?.group)),
        _ => Ok(None),
    }
}

/// Extents are committed in order, so the first that is missing ends the tail: drop from the end
/// would need their number, which a crashed writer did not leave. Dropping goes upwards, and a
/// pass that is interrupted goes on after the tombstones.
async fn drop_tail(cluster: &Cluster, group: &Id) -> Result<u64, Error> {
    let mut dropped = 0;
    for index in 0.. {
        let row = rowkeys::extent(cluster, group, index);
        match cluster.state(&row).await? {
            archipel_cluster::State::Absent => break,
            archipel_cluster::State::Tombstone => continue,
            archipel_cluster::State::Live => {
                cluster
                    .write(&row, None, How::durable(Durability::Fsync))
                    .await?;
                dropped += 1;
            }
        }
    }
    Ok(dropped)
}

/// Drops the parts of an ended upload that the object does not list.
async fn drop_unused_parts(
    cluster: &Cluster,
    bucket: &Id,
    key: &str,
    upload: &Id,
) -> Result<u64, Error> {
    let used = parts_in_use(cluster, bucket, key, upload).await?;
    let (prefix, partitions) = rowkeys::parts(cluster, upload);
    let mut dropped = 0;
    for partition in partitions {
        for row in cluster.scan_all(partition, &prefix).await? {
            let part: Part = codec::decode(&row.head).map_err(damaged_row)?;
            if !used.contains(&part.attempt) {
                cluster
                    .write(&row.key, None, How::durable(Durability::Fsync))
                    .await?;
                dropped += 1;
            }
        }
    }
    Ok(dropped)
}

async fn parts_in_use(
    cluster: &Cluster,
    bucket: &Id,
    key: &str,
    upload: &Id,
) -> Result<HashSet<Id>, Error> {
    let owner = rowkeys::object(cluster, bucket, key);
    let Some(value) = cluster.settle(&owner).await? else {
        return Ok(Default::default());
    };
    let head: ObjectHead = codec::decode(&value.head).map_err(damaged_row)?;
    if head.layout != Layout::Parts {
        return Ok(Default::default());
    }
    let list = decode_parts(&value.body)?;
    if list.upload != *upload {
        return Ok(Default::default());
    }
    Ok(list.parts.iter().map(|part| part.attempt).collect())
}
