//! Runs one GC task: asks the owner, and drops the content that the owner does not need.

use std::collections::HashSet;

use archipel_base::{Id, boxed, codec};
use archipel_cluster::{Cluster, State, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value, VersionKind};
use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{GcTask, IsPlain};
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
        GcTask::Bucket { bucket } => drop_uploads(cluster, bucket).await.map(Some),
    }
}

/// Returns true if another node reads or writes the content.
async fn is_used_elsewhere(cluster: &Cluster, content: &Id) -> bool {
    let content = Bytes::copy_from_slice(content.as_bytes());
    cluster.ask_all(content).await
}

/// Aborts the uploads of a deleted bucket. Each abort queues a task for the upload's parts.
async fn drop_uploads(cluster: &Cluster, bucket: &Id) -> Result<u64, Error> {
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
pub(crate) fn tail_in(owner: &Owner, value: Option<Value>) -> Result<Option<Id>, Error> {
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

/// Drops a tail, unless the owner's row refers to it. A plain read proves that the row refers to
/// the tail. Only a settled row proves that it does not and never will again.
async fn drop_tail(
    cluster: &Cluster,
    (owner, group): (&Owner, &Id),
    is_plain: IsPlain<'_>,
) -> Result<Option<u64>, Error> {
    let row = rowkeys::owner(cluster, owner);
    if tail_in(owner, cluster.read(&row).await?)? == Some(*group) {
        return Ok(Some(0));
    }
    if is_used_elsewhere(cluster, group).await {
        return Ok(None);
    }
    if tail_in(owner, cluster.settle(&row).await?)? == Some(*group) {
        return Ok(Some(0));
    }
    let Some(kept) = kept_of(cluster, (owner, &row), is_plain).await? else {
        return Ok(None);
    };
    for kept in kept {
        if tail_in(owner, Some(kept))? == Some(*group) {
            return Ok(Some(0));
        }
    }
    drop_extents(cluster, group).await.map(Some)
}

/// Returns the kept versions of an owner that is an object; `None` if they cannot be known now. The
/// replicas first get the object's row, so that none holds a version there that it has still to
/// keep. A replica that did not get it may hold one. Then nothing is known, unless the bucket never
/// had versions.
async fn kept_of(
    cluster: &Cluster,
    (owner, row): (&Owner, &RowKey),
    is_plain: IsPlain<'_>,
) -> Result<Option<Vec<Value>>, Error> {
    let Owner::Object { bucket, .. } = owner else {
        return Ok(Some(Vec::new()));
    };
    let have_it = cluster.replicate(row).await?;
    let kept = cluster.kept_versions(row).await?;
    if !have_it {
        // This node may not have heard yet that the bucket has versions.
        let current = cluster.read(row).await?;
        let has_one = !kept.is_empty() || current.is_some_and(|value| value.version.is_some());
        if has_one || !is_plain(bucket) {
            return Ok(None);
        }
    }
    Ok(Some(kept.into_iter().map(|(_, _, value)| value).collect()))
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

/// Drops the parts of an ended upload that the object does not list.
async fn drop_unused_parts(
    cluster: &Cluster,
    upload: &UploadName,
    is_plain: IsPlain<'_>,
) -> Result<Option<u64>, Error> {
    let owner = rowkeys::object(cluster, &upload.bucket, &upload.key);
    let mut unused = parts_of(cluster, &upload.parts()).await?;
    // A plain read proves which parts are needed. Only a settled row proves that the others are
    // not needed and never will be again.
    let listed = parts_in(cluster.read(&owner).await?, &upload.id)?;
    unused.retain(|(_, attempt)| !listed.contains(attempt));
    if unused.is_empty() {
        return Ok(Some(0));
    }
    if is_used_elsewhere(cluster, &upload.parts().0).await {
        return Ok(None);
    }
    let listed = parts_in(cluster.settle(&owner).await?, &upload.id)?;
    unused.retain(|(_, attempt)| !listed.contains(attempt));
    let named = Owner::Object {
        bucket: upload.bucket,
        key: upload.key.clone(),
    };
    let Some(kept) = kept_of(cluster, (&named, &owner), is_plain).await? else {
        return Ok(None);
    };
    for kept in kept {
        let listed = parts_in(Some(kept), &upload.id)?;
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
pub(crate) fn parts_in(value: Option<Value>, upload: &Id) -> Result<HashSet<Id>, Error> {
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
