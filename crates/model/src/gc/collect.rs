//! Runs one GC task: asks the owner, and drops the content that the owner does not need.

use std::collections::HashSet;

use archipel_base::{Id, boxed, codec};
use archipel_cluster::{Cluster, State, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value, VersionKind};
use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{GcTask, IsPlain};
use crate::bucket::Named;
use crate::error::{Error, damaged_row};
use crate::form::{ContentForm, decode_parts, decode_tail};
use crate::intents;
use crate::object::ObjectHead;
use crate::owner::{Owner, PartsId, UploadName};
use crate::rowkeys;
use crate::upload::Part;

/// Runs a task. Returns the number of dropped rows, or `None` if another node still uses the
/// content.
#[boxed]
pub async fn run(
    cluster: &Cluster,
    task: &GcTask,
    is_plain: IsPlain<'_>,
) -> Result<Option<u64>, Error> {
    match task {
        GcTask::Tail { owner, group } => drop_tail(cluster, (owner, group), is_plain).await,
        GcTask::Upload(upload) => {
            if intents::progress_of(cluster, upload).await?.is_some() {
                return Ok(Some(0));
            }
            drop_unused_parts(cluster, upload, is_plain).await
        }
        GcTask::Bucket { bucket, name } => drop_uploads(cluster, bucket, name).await.map(Some),
    }
}

/// Returns true if another node reads or writes the content.
async fn is_used_elsewhere(cluster: &Cluster, content: &Id) -> bool {
    let content = Bytes::copy_from_slice(content.as_bytes());
    cluster.ask_all(content).await
}

/// Returns true if the row of a bucket holds it. The name may belong to another bucket by now.
fn is_bucket(value: Option<Value>, bucket: &Id) -> Result<bool, Error> {
    let Some(value) = value else {
        return Ok(false);
    };
    let named = Named::bucket(&value.metadata).map_err(damaged_row)?;
    Ok(named.is_some_and(|named| named.id == *bucket))
}

/// Aborts the uploads of a deleted bucket. Each abort queues a task for the upload's parts.
///
/// Only the bucket's settled row proves that the bucket is gone: a deletion that a minority accepted queues the
/// task, too. A plain read proves that it is there.
async fn drop_uploads(cluster: &Cluster, bucket: &Id, name: &str) -> Result<u64, Error> {
    let row = rowkeys::bucket(name);
    if is_bucket(cluster.read(&row).await?, bucket)?
        || is_bucket(cluster.settle(&row).await?, bucket)?
    {
        return Ok(0);
    }
    let prefix = rowkeys::uploads(bucket);
    let mut dropped = 0;
    for partition in rowkeys::bucket_partitions(cluster, bucket) {
        for row in cluster.scan_all(partition, &prefix).await? {
            drop_row(cluster, &row.key).await?;
            dropped += 1;
        }
    }
    Ok(dropped)
}

async fn drop_row(cluster: &Cluster, row: &RowKey) -> Result<(), Error> {
    let how = WriteOptions::durable(Durability::Fsync);
    cluster.write(row, None, how).await?;
    Ok(())
}

/// Returns false for a value that only carries changes of versions: it refers to nothing.
fn is_version(value: &Value) -> bool {
    value.kind() != VersionKind::Void
}

/// Returns the tail that the value of the owner's row refers to.
fn tail_in(owner: &Owner, value: Option<Value>) -> Result<Option<Id>, Error> {
    let Some(value) = value.filter(is_version) else {
        return Ok(None);
    };
    let form = match owner {
        Owner::Object { .. } => {
            codec::decode::<ObjectHead>(&value.metadata).map(|metadata| metadata.form)
        }
        Owner::Part { .. } => codec::decode::<Part>(&value.metadata).map(|part| part.form),
    };
    match form.map_err(damaged_row)? {
        ContentForm::Tail => Ok(Some(decode_tail(&value.payload)?.group)),
        _ => Ok(None),
    }
}

/// Returns true if the owner's row or one of its kept versions refers to the tail. A plain read proves
/// that they do. It does not prove that they do not.
pub(crate) async fn has_tail(cluster: &Cluster, owner: &Owner, group: &Id) -> Result<bool, Error> {
    let row = rowkeys::owner(cluster, owner);
    if tail_in(owner, cluster.read(&row).await?)? == Some(*group) {
        return Ok(true);
    }
    if matches!(owner, Owner::Part { .. }) {
        return Ok(false);
    }
    for (_, _, kept) in cluster.kept_versions(&row).await? {
        if tail_in(owner, Some(kept))? == Some(*group) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Drops a tail, unless its owner refers to it. Only a settled row proves that the row does not refer to
/// the tail and never will again.
async fn drop_tail(
    cluster: &Cluster,
    (owner, group): (&Owner, &Id),
    is_plain: IsPlain<'_>,
) -> Result<Option<u64>, Error> {
    if has_tail(cluster, owner, group).await? {
        return Ok(Some(0));
    }
    if is_used_elsewhere(cluster, group).await {
        return Ok(None);
    }
    let row = rowkeys::owner(cluster, owner);
    let Some(settled) = settle(cluster, (owner, &row), is_plain).await? else {
        return Ok(None);
    };
    for value in settled {
        if tail_in(owner, Some(value))? == Some(*group) {
            return Ok(Some(0));
        }
    }
    drop_extents(cluster, group).await.map(Some)
}

/// Settles an owner's row. Returns its value and, if it is an object, the kept versions. Returns `None` if
/// the kept versions cannot be known now.
///
/// A replica may hold a version in the object's row that it has still to keep. So all replicas get the
/// row first, and the settled row then. Unless the bucket never had versions, nothing is known while one of
/// them is away. The row is not settled then: a task that waits would write it again and again, and a
/// current null version would be as young as the last write.
async fn settle(
    cluster: &Cluster,
    (owner, row): (&Owner, &RowKey),
    is_plain: IsPlain<'_>,
) -> Result<Option<Vec<Value>>, Error> {
    let Owner::Object { bucket, .. } = owner else {
        return Ok(Some(cluster.settle(row).await?.into_iter().collect()));
    };
    if !bring_everywhere(cluster, (bucket, row), is_plain).await? {
        return Ok(None);
    }
    let mut found: Vec<Value> = cluster.settle(row).await?.into_iter().collect();
    if !bring_everywhere(cluster, (bucket, row), is_plain).await? {
        return Ok(None);
    }
    let kept = cluster.kept_versions(row).await?;
    found.extend(kept.into_iter().map(|(_, _, value)| value));
    Ok(Some(found))
}

/// Brings an object's row to all replicas. Returns true if no replica holds a version that it has still to
/// keep.
async fn bring_everywhere(
    cluster: &Cluster,
    (bucket, row): (&Id, &RowKey),
    is_plain: IsPlain<'_>,
) -> Result<bool, Error> {
    if cluster.replicate(row).await?.everywhere {
        return Ok(true);
    }
    // This node may not have heard yet that the bucket has versions.
    let current = cluster.read(row).await?;
    let has_versions = current.is_some_and(|value| value.version.is_some())
        || !cluster.kept_versions(row).await?.is_empty();
    Ok(!has_versions && is_plain(bucket))
}

/// Drops the extents of a tail, the last one first. Extents are committed in order, so the first
/// absent one ends the tail. The order matters: an interrupted pass leaves the extents from 0 on,
/// and the next pass finds all of them even if the tombstones after them are gone by then.
async fn drop_extents(cluster: &Cluster, group: &Id) -> Result<u64, Error> {
    let mut live = Vec::new();
    for index in 0.. {
        let row = rowkeys::extent(cluster, group, index);
        match cluster.state(&row).await? {
            State::Absent => break,
            State::Tombstone => continue,
            State::Live => live.push(row),
        }
    }
    for row in live.iter().rev() {
        drop_row(cluster, row).await?;
    }
    Ok(live.len() as u64)
}

/// Returns the attempts that the object lists, if `upload` became the object. A plain read proves that they
/// are needed. It does not prove that others are not.
pub(crate) async fn listed_parts(
    cluster: &Cluster,
    upload: &UploadName,
) -> Result<HashSet<Id>, Error> {
    let object = rowkeys::object(cluster, &upload.bucket, &upload.key);
    parts_in(cluster.read(&object).await?, &upload.id)
}

/// Returns the attempts that a kept version of the object lists, if `upload` became one.
pub(crate) async fn listed_parts_of_kept(
    cluster: &Cluster,
    upload: &UploadName,
) -> Result<HashSet<Id>, Error> {
    let object = rowkeys::object(cluster, &upload.bucket, &upload.key);
    let mut listed = HashSet::new();
    for (_, _, kept) in cluster.kept_versions(&object).await? {
        listed.extend(parts_in(Some(kept), &upload.id)?);
    }
    Ok(listed)
}

/// Drops the parts of an ended upload that neither the object nor a kept version lists. Only a settled row
/// proves that they are not needed and never will be again.
async fn drop_unused_parts(
    cluster: &Cluster,
    upload: &UploadName,
    is_plain: IsPlain<'_>,
) -> Result<Option<u64>, Error> {
    let mut unused = parts_of(cluster, &upload.parts()).await?;
    let listed = listed_parts(cluster, upload).await?;
    unused.retain(|(_, attempt)| !listed.contains(attempt));
    if unused.is_empty() {
        return Ok(Some(0));
    }
    let listed = listed_parts_of_kept(cluster, upload).await?;
    unused.retain(|(_, attempt)| !listed.contains(attempt));
    if unused.is_empty() {
        return Ok(Some(0));
    }
    if is_used_elsewhere(cluster, &upload.parts().0).await {
        return Ok(None);
    }
    let row = rowkeys::object(cluster, &upload.bucket, &upload.key);
    let owner = Owner::Object {
        bucket: upload.bucket,
        key: upload.key.clone(),
    };
    let Some(settled) = settle(cluster, (&owner, &row), is_plain).await? else {
        return Ok(None);
    };
    for value in settled {
        let listed = parts_in(Some(value), &upload.id)?;
        unused.retain(|(_, attempt)| !listed.contains(attempt));
    }
    for (row, _) in &unused {
        drop_row(cluster, row).await?;
    }
    Ok(Some(unused.len() as u64))
}

/// Returns the rows of an upload's parts, each with its attempt.
async fn parts_of(cluster: &Cluster, parts: &PartsId) -> Result<Vec<(RowKey, Id)>, Error> {
    let (prefix, partitions) = rowkeys::parts(cluster, parts);
    let scans = partitions
        .into_iter()
        .map(|partition| cluster.scan_all(partition, &prefix));
    let rows = try_join_all(scans).await?.into_iter().flatten();
    rows.map(|row| {
        let part: Part = codec::decode(&row.metadata).map_err(damaged_row)?;
        Ok((row.key, part.attempt))
    })
    .collect()
}

/// Returns the attempts that the object lists, if `upload` became the object. `upload` is an upload
/// of the object's bucket and key.
fn parts_in(value: Option<Value>, upload: &Id) -> Result<HashSet<Id>, Error> {
    let Some(value) = value.filter(is_version) else {
        return Ok(HashSet::new());
    };
    let metadata: ObjectHead = codec::decode(&value.metadata).map_err(damaged_row)?;
    if metadata.form != ContentForm::Parts {
        return Ok(HashSet::new());
    }
    let list = decode_parts(&value.payload)?;
    if list.upload != *upload {
        return Ok(HashSet::new());
    }
    Ok(list.parts.iter().map(|part| part.attempt).collect())
}

#[cfg(test)]
mod tests {
    use archipel_storage::RowVersion;

    use super::*;

    #[test]
    fn a_value_without_a_version_refers_to_nothing() {
        let void = Value {
            version: Some(Box::new(RowVersion {
                kind: VersionKind::Void,
                ..RowVersion::default()
            })),
            ..Value::default()
        };
        let owner = Owner::Object {
            bucket: Id([1; 16]),
            key: "k".to_owned(),
        };
        assert_eq!(tail_in(&owner, Some(void.clone())).unwrap(), None);
        assert!(parts_in(Some(void), &Id([2; 16])).unwrap().is_empty());
    }
}
