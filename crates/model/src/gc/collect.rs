//! Runs one GC task: asks the owner, and drops the content that the owner does not need.

use archipel_base::{Id, Stamp, boxed, codec};
use archipel_cluster::{Cluster, State, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value, VersionKind, VersionName};
use bytes::Bytes;

use super::{GcTask, IsPlain};
use crate::bucket::Named;
use crate::error::{Error, damaged_row};
use crate::form::{ContentForm, decode_tail};
use crate::intents;
use crate::object::ObjectHead;
use crate::owner::Owner;
use crate::rowkeys;
use crate::upload::Part;

mod parts;

pub(crate) use parts::{listed_parts, listed_parts_of_kept};

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
            parts::drop_unused_parts(cluster, upload, is_plain).await
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
/// Only the bucket's settled row proves that the bucket is gone: a deletion that a minority
/// accepted queues the task, too. A plain read proves that it is there.
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

/// Returns false if the metadata of a kept version shows that its content has another form.
fn may_have(metadata: &[u8], form: ContentForm) -> bool {
    !codec::decode::<ObjectHead>(metadata).is_ok_and(|head| head.form != form)
}

fn may_have_tail(metadata: &[u8]) -> bool {
    may_have(metadata, ContentForm::Tail)
}

/// Returns true if the owner's row or one of its kept versions refers to the tail. A plain read
/// proves that they do. It does not prove that they do not.
pub(crate) async fn has_tail(cluster: &Cluster, owner: &Owner, group: &Id) -> Result<bool, Error> {
    Ok(
        is_current_tail(cluster, owner, group).await?
            || is_kept_tail(cluster, owner, group).await?,
    )
}

async fn is_current_tail(cluster: &Cluster, owner: &Owner, group: &Id) -> Result<bool, Error> {
    let row = rowkeys::owner(cluster, owner);
    Ok(tail_in(owner, cluster.read(&row).await?)? == Some(*group))
}

async fn is_kept_tail(cluster: &Cluster, owner: &Owner, group: &Id) -> Result<bool, Error> {
    if matches!(owner, Owner::Part { .. }) {
        return Ok(false);
    }
    let row = rowkeys::owner(cluster, owner);
    let mut kept = cluster.kept_versions(&row, may_have_tail);
    while let Some((_, value)) = kept.next().await? {
        if tail_in(owner, Some(value))? == Some(*group) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Drops a tail, unless its owner refers to it. Only a settled row proves that the row does not
/// refer to the tail and never will again.
async fn drop_tail(
    cluster: &Cluster,
    (owner, group): (&Owner, &Id),
    is_plain: IsPlain<'_>,
) -> Result<Option<u64>, Error> {
    if is_current_tail(cluster, owner, group).await? {
        return Ok(Some(0));
    }
    // Another replica of the owner's row had the same task before. The extents are in another
    // partition. If that cannot be reached, the kept versions may still show that the tail is
    // needed.
    let dropped = is_dropped(cluster, group).await;
    if matches!(dropped, Ok(true)) || is_kept_tail(cluster, owner, group).await? {
        return Ok(Some(0));
    }
    // The row is not settled for extents that cannot be dropped now.
    dropped?;
    if is_used_elsewhere(cluster, group).await {
        return Ok(None);
    }
    let is_it =
        |value: Value| -> Result<bool, Error> { Ok(tail_in(owner, Some(value))? == Some(*group)) };
    match settle(cluster, owner, is_plain, may_have_tail, is_it).await? {
        None => Ok(None),
        Some(true) => Ok(Some(0)),
        Some(false) => drop_extents(cluster, group).await.map(Some),
    }
}

/// Settles an owner's row. Shows its value to `is_it` and, if it is an object, the kept versions
/// whose metadata `wanted` accepts, until that returns true. Returns `None` if the kept versions
/// cannot be known now.
///
/// A replica may hold a version in the object's row that it has still to keep. So all replicas get
/// the row first, and the settled row then. Unless the bucket never had versions, nothing is known
/// while one of them is away. The row is not settled then: a task that waits would write it again
/// and again, and a current null version would be as young as the last write.
async fn settle(
    cluster: &Cluster,
    owner: &Owner,
    is_plain: IsPlain<'_>,
    wanted: fn(&[u8]) -> bool,
    mut is_it: impl FnMut(Value) -> Result<bool, Error> + Send,
) -> Result<Option<bool>, Error> {
    let row = &rowkeys::owner(cluster, owner);
    let Owner::Object { bucket, .. } = owner else {
        let settled = cluster.settle(row).await?;
        return settled.map_or(Ok(false), is_it).map(Some);
    };
    if !bring_everywhere(cluster, (bucket, row), is_plain).await? {
        return Ok(None);
    }
    cluster.settle(row).await?;
    if !bring_everywhere(cluster, (bucket, row), is_plain).await? {
        return Ok(None);
    }
    let current = cluster.read_stamped(row).await?;
    let has_versions = has_versions(current.value.as_ref()) || !is_plain(bucket);
    let before = (current.stamp, name_of(current.value.as_ref()));
    if let Some(value) = current.value
        && is_it(value)?
    {
        return Ok(Some(true));
    }
    let mut kept = cluster.kept_versions(row, wanted);
    while let Some((_, value)) = kept.next().await? {
        if is_it(value)? {
            return Ok(Some(true));
        }
    }
    if !has_versions {
        return Ok(Some(false));
    }
    // A kept version that became current meanwhile was nowhere to be seen: it left its kept row.
    let now = cluster.head_stamped(row).await?;
    let is_same = is_unchanged(before, (now.stamp, name_of(now.value.as_ref())));
    Ok(is_same.then_some(false))
}

/// Returns the name of the version that an object's row holds; `None` for a null version, a void
/// row and a row without a value.
fn name_of(value: Option<&Value>) -> VersionName {
    value.filter(|value| is_version(value))?.version_name()
}

/// Returns true if no kept version can have become current and kept again between two reads of an
/// object's row.
///
/// The same version with a name is enough. While it lives, a deletion makes another kept one
/// current only if that has a later place, and then it has to be deleted before the former one is
/// current again. A name that is deleted does not come back. The stamp changes more often: other
/// replicas settle the row for the same task, and clients change tags. Null versions have no names,
/// so their stamps count.
fn is_unchanged(before: (Stamp, VersionName), now: (Stamp, VersionName)) -> bool {
    before.0 == now.0 || before.1.is_some() && before.1 == now.1
}

/// Returns true if the value of an object's row was written where versions are kept.
fn has_versions(value: Option<&Value>) -> bool {
    value.is_some_and(|value| value.version.is_some())
}

/// Brings an object's row to all replicas. Returns true if no replica holds a version that it has
/// still to keep.
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
    let has_versions = has_versions(current.as_ref())
        || cluster.kept_versions(row, |_| true).next().await?.is_some();
    Ok(!has_versions && is_plain(bucket))
}

/// Returns true if no extent of a tail is left.
async fn is_dropped(cluster: &Cluster, group: &Id) -> Result<bool, Error> {
    // It is dropped last.
    let first = rowkeys::extent(cluster, group, 0);
    let is_live = cluster.state(&first).await? == State::Live;
    Ok(!is_live && live_extents(cluster, group).await?.is_empty())
}

/// Returns the extents of a tail that live. Extents are committed in order, so the first absent one
/// ends the tail.
async fn live_extents(cluster: &Cluster, group: &Id) -> Result<Vec<RowKey>, Error> {
    let mut live = Vec::new();
    for index in 0.. {
        let row = rowkeys::extent(cluster, group, index);
        match cluster.state(&row).await? {
            State::Absent => break,
            State::Tombstone => continue,
            State::Live => live.push(row),
        }
    }
    Ok(live)
}

/// Drops the extents of a tail, the last one first. The order matters: an interrupted pass leaves
/// the extents from 0 on, and the next pass finds all of them even if the tombstones after them are
/// gone by then.
async fn drop_extents(cluster: &Cluster, group: &Id) -> Result<u64, Error> {
    let live = live_extents(cluster, group).await?;
    for row in live.iter().rev() {
        drop_row(cluster, row).await?;
    }
    Ok(live.len() as u64)
}

#[cfg(test)]
mod tests {
    use archipel_base::Writer;
    use archipel_storage::RowVersion;
    use tokio::runtime::Handle;

    use super::*;
    use crate::{Condition, Governance, Model, ObjectMeta, Versioning};

    /// The newer version is deleted between the reads of the current version and of the kept ones.
    /// That makes the older one current, which so is in neither place.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_kept_version_that_becomes_current_meanwhile_is_not_taken_for_gone() {
        let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
        let model = Model::open(cluster).await.unwrap();
        let bucket = model.create_bucket("bucket", None).await.unwrap();
        let enabled = model.set_versioning(&bucket, Versioning::Enabled);
        let bucket = enabled.await.unwrap();
        let mut newer = None;
        for _ in 0..2 {
            let writer = model.begin_object(&bucket, "key").unwrap();
            let written = writer.finish(ObjectMeta::default(), Condition::Always);
            newer = Some(written.await.unwrap().id);
        }
        let (mut newer, mut seen) = (newer, 0);
        let here = Handle::current();
        let look = |_: Value| -> Result<bool, Error> {
            seen += 1;
            if let Some(newer) = newer.take() {
                let governance = Governance::Respect;
                let deleted =
                    model.delete_version(&bucket, "key", newer, governance, Condition::Always);
                tokio::task::block_in_place(|| here.block_on(deleted))?;
            }
            Ok(false)
        };
        let owner = Owner::Object {
            bucket: bucket.id,
            key: "key".to_owned(),
        };
        let settled = settle(model.cluster(), &owner, &|_| false, |_| true, look).await;
        assert_eq!(settled, Ok(None), "the older version was not looked at");
        assert_eq!(seen, 1, "it was, so this test shows nothing");
        model.head_object(&bucket, "key").await.unwrap();
    }

    #[test]
    fn another_stamp_of_a_version_with_a_name_is_no_change() {
        let stamp = |millis| Stamp::new(millis, 0, Writer::default());
        let named = |at| (stamp(at), Some(stamp(1)));
        assert!(is_unchanged(named(2), named(3)));
        assert!(!is_unchanged(named(2), (stamp(3), Some(stamp(2)))));
        assert!(!is_unchanged(named(2), (stamp(3), None)));
        assert!(is_unchanged((stamp(2), None), (stamp(2), None)));
        assert!(!is_unchanged((stamp(2), None), (stamp(3), None)));
    }

    #[test]
    fn a_value_without_a_version_refers_to_no_tail() {
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
        assert_eq!(tail_in(&owner, Some(void)).unwrap(), None);
    }
}
