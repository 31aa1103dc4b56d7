//! The sweep: content that nothing refers to any more is found by asking its owner, and dropped.
//!
//! Work stands in a durable queue that is filled in the very transaction that makes it
//! necessary: when a row that refers to content elsewhere is replaced, and before the first
//! extent of a tail is written. No timer decides: content is dropped if and only if the owner's
//! row does not refer to it and never will again (it is *settled*, so that no write that a minority
//! holds surfaces later), nothing in this process writes it, and nobody here reads it.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, PartitionId};
use archipel_cluster::{Cluster, How};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use bytes::Bytes;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::active::Active;
use crate::bucket::Bucket;
use crate::content::{Layout, damaged_row, decode_parts, decode_tail};
use crate::error::Error;
use crate::object::ObjectHead;
use crate::rowkeys::{self, Kind, Owner};
use crate::upload::Part;

/// How many queue entries are looked at in one go.
const BATCH: usize = 64;
/// How long a question waits, and again for each replica that comes before this one.
pub(crate) const TURN: Duration = Duration::from_secs(3);

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

/// When this node first saw the questions in its queue.
///
/// None is answered at once: who has just read an owner's row needs a moment to say that it [uses](Active) what it
/// refers to. And other replicas have the same question in their queues, but to settle an owner's row is to
/// rewrite it, which gets in the way of who writes it just then. So they ask in turn: who comes later mostly finds
/// nothing to do.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<BTreeMap<u64, Instant>>);

impl Turns {
    /// Whether a question of the queue is to be answered now.
    fn is_due(&self, cluster: &Cluster, sequence: u64, check: &Check) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = seen.entry(sequence).or_insert_with(Instant::now);
        since.elapsed() >= TURN * (1 + check.rank(cluster) as u32)
    }

    fn forget(&self, sequence: u64) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(&sequence);
    }
}

/// What a pass over the queue did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SweepReport {
    /// Questions answered and removed from the queue.
    pub settled: u64,
    /// Questions put off because the content is in use.
    pub in_use: u64,
    /// Questions whose turn has not come.
    pub waiting: u64,
    /// Rows (extents, parts) dropped.
    pub dropped: u64,
}

/// Goes once through the queue; through all of it without `turns`.
pub(crate) async fn pass(
    cluster: &Cluster,
    active: &Active,
    turns: Option<&Turns>,
) -> Result<SweepReport, Error> {
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
            if turns.is_some_and(|turns| !turns.is_due(cluster, sequence, &check)) {
                report.waiting += 1;
                continue;
            }
            let Some(dropped) = settle(cluster, &check).await? else {
                report.in_use += 1;
                continue;
            };
            cluster.queue_remove(sequence).await?;
            turns.inspect(|turns| turns.forget(sequence));
            report.dropped += dropped;
            report.settled += 1;
        }
    }
}

impl Check {
    pub fn content(&self) -> Id {
        match self {
            Check::Tail { group, .. } => *group,
            Check::Upload { upload, .. } => *upload,
            Check::Bucket { bucket } => *bucket,
        }
    }

    /// How many replicas that have the same question come before this one.
    fn rank(&self, cluster: &Cluster) -> usize {
        cluster.rank(match self {
            Check::Tail { owner, .. } => owner.row(cluster).partition,
            Check::Upload { bucket, key, .. } => rowkeys::object(cluster, bucket, key).partition,
            Check::Bucket { .. } => PartitionId::CONTROL,
        })
    }
}

/// Asks the owner and drops what is not its any more; tells how many rows were dropped, `None` if another node
/// still uses it.
async fn settle(cluster: &Cluster, check: &Check) -> Result<Option<u64>, Error> {
    match check {
        Check::Tail { owner, group } => drop_tail(cluster, owner, group).await,
        Check::Upload {
            bucket,
            key,
            upload,
        } => {
            let row = rowkeys::upload(cluster, bucket, key, upload);
            if cluster.head(&row).await?.is_some() {
                return Ok(Some(0));
            }
            drop_unused_parts(cluster, bucket, key, upload).await
        }
        Check::Bucket { bucket } => drop_uploads(cluster, bucket).await.map(Some),
    }
}

/// Whether another node reads or writes the content.
async fn is_used_elsewhere(cluster: &Cluster, content: &Id) -> bool {
    let question = Bytes::copy_from_slice(content.as_bytes());
    cluster.ask_all(question).await
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
pub(crate) fn tail_in(owner: &Owner, value: Option<Value>) -> Result<Option<Id>, Error> {
    let Some(value) = value else {
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

/// Drops a tail, unless the owner's row refers to it. That it does a plain read tells; that it does not, and never
/// will again, only a row that is settled.
async fn drop_tail(cluster: &Cluster, owner: &Owner, group: &Id) -> Result<Option<u64>, Error> {
    let row = owner.row(cluster);
    if tail_in(owner, cluster.read(&row).await?)? == Some(*group) {
        return Ok(Some(0));
    }
    if is_used_elsewhere(cluster, group).await {
        return Ok(None);
    }
    if tail_in(owner, cluster.settle(&row).await?)? == Some(*group) {
        return Ok(Some(0));
    }
    drop_extents(cluster, group).await.map(Some)
}

/// Extents are committed in order, so the first that is missing ends the tail. They are dropped from there downwards: what a pass
/// that is interrupted leaves is a tail as well, though the tombstones behind it may be gone when the next one comes.
async fn drop_extents(cluster: &Cluster, group: &Id) -> Result<u64, Error> {
    let mut live = Vec::new();
    for index in 0.. {
        let row = rowkeys::extent(cluster, group, index);
        match cluster.state(&row).await? {
            archipel_cluster::State::Absent => break,
            archipel_cluster::State::Tombstone => continue,
            archipel_cluster::State::Live => live.push(row),
        }
    }
    for row in live.iter().rev() {
        let how = How::durable(Durability::Fsync);
        cluster.write(row, None, how).await?;
    }
    Ok(live.len() as u64)
}

/// Drops the parts of an ended upload that the object does not list.
async fn drop_unused_parts(
    cluster: &Cluster,
    bucket: &Id,
    key: &str,
    upload: &Id,
) -> Result<Option<u64>, Error> {
    let owner = rowkeys::object(cluster, bucket, key);
    let mut unused = parts_of(cluster, upload).await?;
    // A plain read tells what is in use; that the rest is not, and never will be again, only a row that is settled.
    let listed = parts_in(cluster.read(&owner).await?, upload)?;
    unused.retain(|(_, attempt)| !listed.contains(attempt));
    if unused.is_empty() {
        return Ok(Some(0));
    }
    if is_used_elsewhere(cluster, upload).await {
        return Ok(None);
    }
    let listed = parts_in(cluster.settle(&owner).await?, upload)?;
    unused.retain(|(_, attempt)| !listed.contains(attempt));
    for (row, _) in &unused {
        cluster
            .write(row, None, How::durable(Durability::Fsync))
            .await?;
    }
    Ok(Some(unused.len() as u64))
}

/// The rows of an upload's parts, each with its attempt.
async fn parts_of(cluster: &Cluster, upload: &Id) -> Result<Vec<(RowKey, Id)>, Error> {
    let (prefix, partitions) = rowkeys::parts(cluster, upload);
    let scans = partitions
        .into_iter()
        .map(|partition| cluster.scan_all(partition, &prefix));
    let rows = try_join_all(scans).await?.into_iter().flatten();
    rows.map(|row| {
        let part: Part = codec::decode(&row.head).map_err(damaged_row)?;
        Ok((row.key, part.attempt))
    })
    .collect()
}

/// The attempts that the object lists if it is made of that upload.
pub(crate) fn parts_in(value: Option<Value>, upload: &Id) -> Result<HashSet<Id>, Error> {
    let Some(value) = value else {
        return Ok(HashSet::new());
    };
    let head: ObjectHead = codec::decode(&value.head).map_err(damaged_row)?;
    if head.layout != Layout::Parts {
        return Ok(HashSet::new());
    }
    let list = decode_parts(&value.body)?;
    if list.upload != *upload {
        return Ok(HashSet::new());
    }
    Ok(list.parts.iter().map(|part| part.attempt).collect())
}
