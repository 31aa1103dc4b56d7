//! Drops the parts of an upload that is over. There may be many attempts at each, so their rows are
//! read page by page.

use std::collections::HashSet;

use archipel_base::{Id, PartitionId, codec};
use archipel_cluster::Cluster;
use archipel_storage::{RowKey, Value};
use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{drop_row, is_used_elsewhere, is_version, may_have, settle};
use crate::error::{Error, damaged_row};
use crate::form::{ContentForm, decode_parts};
use crate::gc::IsPlain;
use crate::object::ObjectHead;
use crate::owner::{Owner, PartsId, UploadName};
use crate::rowkeys;

/// The number of rows that a partition is asked for at once.
const ROWS: usize = 1000;

fn may_list_parts(metadata: &[u8]) -> bool {
    may_have(metadata, ContentForm::Parts)
}

/// Returns the attempts that the object lists, if `upload` became the object. A plain read proves
/// that they are needed. It does not prove that others are not.
pub(crate) async fn listed_parts(
    cluster: &Cluster,
    upload: &UploadName,
) -> Result<HashSet<Id>, Error> {
    let object = rowkeys::object(cluster, &upload.bucket, &upload.key);
    parts_in(cluster.read(&object).await?, &upload.id)
}

/// Returns the attempts that the first kept version of the object lists that `upload` became. It
/// proves as little as [`listed_parts`].
pub(crate) async fn listed_parts_of_kept(
    cluster: &Cluster,
    upload: &UploadName,
) -> Result<HashSet<Id>, Error> {
    let object = rowkeys::object(cluster, &upload.bucket, &upload.key);
    let mut kept = cluster.kept_versions(&object, may_list_parts);
    while let Some((_, value)) = kept.next().await? {
        let listed = parts_in(Some(value), &upload.id)?;
        if !listed.is_empty() {
            return Ok(listed);
        }
    }
    Ok(HashSet::new())
}

/// Drops the parts of an ended upload that neither the object nor a kept version lists. Only a
/// settled row proves that they are not needed and never will be again.
pub(super) async fn drop_unused_parts(
    cluster: &Cluster,
    upload: &UploadName,
    is_plain: IsPlain<'_>,
) -> Result<Option<u64>, Error> {
    let parts = &upload.parts();
    let mut listed = listed_parts(cluster, upload).await?;
    if !has_others(cluster, parts, &listed).await? {
        return Ok(Some(0));
    }
    let kept = listed_parts_of_kept(cluster, upload).await?;
    if !kept.is_empty() {
        listed.extend(kept);
        if !has_others(cluster, parts, &listed).await? {
            return Ok(Some(0));
        }
    }
    if is_used_elsewhere(cluster, &parts.0).await {
        return Ok(None);
    }
    let owner = Owner::Object {
        bucket: upload.bucket,
        key: upload.key.clone(),
    };
    // The upload may have become several versions, so all are looked at.
    let note = |value: Value| -> Result<bool, Error> {
        listed.extend(parts_in(Some(value), &upload.id)?);
        Ok(false)
    };
    let settled = settle(cluster, &owner, is_plain, may_list_parts, note);
    if settled.await?.is_none() {
        return Ok(None);
    }
    let dropped = rows_of(cluster, parts)
        .into_iter()
        .map(|rows| rows.drop_others(cluster, &listed));
    Ok(Some(try_join_all(dropped).await?.into_iter().sum()))
}

/// Returns true if an upload has parts that are not listed.
async fn has_others(
    cluster: &Cluster,
    parts: &PartsId,
    listed: &HashSet<Id>,
) -> Result<bool, Error> {
    let found = rows_of(cluster, parts)
        .into_iter()
        .map(|rows| rows.has_others(cluster, listed));
    Ok(try_join_all(found).await?.contains(&true))
}

fn rows_of(cluster: &Cluster, parts: &PartsId) -> Vec<Rows> {
    let (prefix, partitions) = rowkeys::parts(cluster, parts);
    let rows = partitions.into_iter().map(|partition| Rows {
        partition,
        prefix: prefix.clone(),
        after: None,
        is_over: false,
    });
    rows.collect()
}

/// The rows of an upload's parts in one partition.
struct Rows {
    partition: PartitionId,
    /// The beginning of the keys of the upload's rows.
    prefix: Bytes,
    /// The key of the row after which the next page begins.
    after: Option<Bytes>,
    is_over: bool,
}

impl Rows {
    async fn has_others(mut self, cluster: &Cluster, listed: &HashSet<Id>) -> Result<bool, Error> {
        while !self.is_over {
            if !self.next_others(cluster, listed).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn drop_others(mut self, cluster: &Cluster, listed: &HashSet<Id>) -> Result<u64, Error> {
        let mut dropped = 0;
        while !self.is_over {
            for row in self.next_others(cluster, listed).await? {
                drop_row(cluster, &row).await?;
                dropped += 1;
            }
        }
        Ok(dropped)
    }

    /// Returns those rows of the next page that are not listed.
    async fn next_others(
        &mut self,
        cluster: &Cluster,
        listed: &HashSet<Id>,
    ) -> Result<Vec<RowKey>, Error> {
        let after = self.after.clone();
        let page = cluster.scan_readable(self.partition, &self.prefix, after, ROWS);
        let page = page.await?;
        self.is_over = page.len() < ROWS;
        self.after = page.last().map(|row| row.key.key.clone());
        let rows = page.into_iter().map(|row| row.key);
        Ok(rows.filter(|row| !is_listed(row, listed)).collect())
    }
}

fn is_listed(row: &RowKey, listed: &HashSet<Id>) -> bool {
    match rowkeys::owner_of(&row.key) {
        Some(Owner::Part { attempt, .. }) => listed.contains(&attempt),
        // It cannot be said which attempt that is.
        _ => true,
    }
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
    use archipel_cluster::WriteOptions;
    use archipel_storage::engine::Durability;
    use archipel_storage::{RowVersion, VersionKind};

    use super::*;
    use crate::Model;
    use crate::upload::{Part, PartMeta, UploadMeta};

    /// There are listed attempts and others on both pages of one partition.
    #[tokio::test]
    async fn attempts_on_all_pages_are_dropped_unless_they_are_listed() {
        const ATTEMPTS: usize = ROWS + ROWS / 2;
        let cluster = Cluster::in_memory(1, crate::HOOKS).await.unwrap();
        let model = Model::open(cluster).await.unwrap();
        let cluster = model.cluster();
        let bucket = model.create_bucket("bucket", None).await.unwrap();
        let begun = model.create_upload(&bucket, "key", None, UploadMeta::default());
        let upload = begun.await.unwrap();
        let sent = model.begin_part(&bucket, &upload, 1).unwrap();
        let part = sent.finish(PartMeta::default()).await.unwrap();
        let of = upload.name_in(&bucket.id).parts();
        let mut listed = HashSet::from([part.attempt]);
        for number in 1..ATTEMPTS {
            let attempt = model.random_id();
            let again = Part {
                attempt,
                ..part.clone()
            };
            let value = Value {
                metadata: codec::encode(&again).into(),
                ..Value::default()
            };
            let row = rowkeys::part(cluster, &of, part.number, &attempt);
            let how = WriteOptions::durable(Durability::Fsync);
            cluster.write(&row, Some(value), how).await.unwrap();
            if number % 100 == 0 {
                listed.insert(attempt);
            }
        }
        assert_eq!(has_others(cluster, &of, &listed).await, Ok(true));
        let mut dropped = 0;
        for rows in rows_of(cluster, &of) {
            dropped += rows.drop_others(cluster, &listed).await.unwrap();
        }
        assert_eq!(dropped, (ATTEMPTS - listed.len()) as u64);
        assert_eq!(has_others(cluster, &of, &listed).await, Ok(false));
        let (prefix, partitions) = rowkeys::parts(cluster, &of);
        let mut left = 0;
        for partition in partitions {
            let rows = cluster.scan_whole(partition, &prefix).await;
            left += rows.unwrap().len();
        }
        assert_eq!(left, listed.len());
    }

    #[test]
    fn a_value_without_a_version_lists_no_parts() {
        let void = Value {
            version: Some(Box::new(RowVersion {
                kind: VersionKind::Void,
                ..RowVersion::default()
            })),
            ..Value::default()
        };
        assert!(parts_in(Some(void), &Id([2; 16])).unwrap().is_empty());
    }
}
