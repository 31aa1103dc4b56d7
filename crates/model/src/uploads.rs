//! Operations on multipart uploads.
//!
//! A part is a row of its own that refers to its content. A part counts only for the bucket, the
//! key and the upload that it was written for: its row key derives from all three.
//!
//! Completing an upload writes a list of parts into the object's row and moves no data. The
//! upload's row guards that write, and every replica that accepts the write deletes the upload's
//! row in the same transaction. So an upload is completed at most once, and an aborted upload is
//! never completed, whatever the order of concurrent requests. GC drops the parts that the object
//! does not list after the upload's row is gone.

mod known;
mod part;

use std::cmp::Reverse;
use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec;
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{Payload, RowKey, Value};
use futures_util::future::try_join_all;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::{Error, damaged_row};
use crate::form::{ContentForm, PartInfo, PartList, decode_parts};
use crate::object::{Condition, ObjectHead, ObjectMeta, Predicate};
use crate::objects::{check_key, decide, object_value};
use crate::owner::{Owner, UploadName};
use crate::rowkeys;
use crate::upload::{Part, Upload, UploadMeta, UploadPage, UploadQuery};

pub(crate) use known::KnownUploads;

pub use part::PartWriter;

impl Model {
    /// Begins an upload and returns it.
    pub async fn create_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        initiator: Option<&str>,
        meta: UploadMeta,
    ) -> Result<Upload, Error> {
        check_key(key)?;
        let upload = Upload {
            id: self.random_id(),
            key: key.to_owned(),
            initiated_ms: self.now_ms(),
            initiator: initiator.map(str::to_owned),
            meta,
        };
        let name = upload.name_in(&bucket.id);
        let row = rowkeys::upload(self.cluster(), &name);
        let value = Value {
            metadata: codec::encode(&upload).into(),
            ..Value::default()
        };
        let fence = self.fence_of(&bucket.id, &row);
        let commit = || {
            let how = WriteOptions {
                guards: vec![fence.clone()],
                ..WriteOptions::durable(Durability::Fsync)
            };
            self.cluster().write(&row, Some(value.clone()), how)
        };
        self.commit_fenced(bucket, commit).await?;
        self.0.uploads.insert(&name, &upload);
        Ok(upload)
    }

    /// Returns an upload for which a part will be written. If this node remembers the upload, it
    /// does not ask whether the upload has ended; [`PartWriter::finish`] does.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`].
    pub async fn upload_to_write(
        &self,
        bucket: &Bucket,
        key: &str,
        id: &Id,
    ) -> Result<Upload, Error> {
        let name = UploadName::new(&bucket.id, key, id);
        if let Some(upload) = self.0.uploads.get(&name) {
            return Ok(upload);
        }
        let upload = self.upload(bucket, key, id).await?;
        self.0.uploads.insert(&name, &upload);
        Ok(upload)
    }

    /// Returns the upload with that key and id.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`].
    pub async fn upload(&self, bucket: &Bucket, key: &str, id: &Id) -> Result<Upload, Error> {
        check_key(key)?;
        self.named_upload(&UploadName::new(&bucket.id, key, id))
            .await
    }

    async fn named_upload(&self, name: &UploadName) -> Result<Upload, Error> {
        let row = rowkeys::upload(self.cluster(), name);
        let metadata = self.cluster().metadata(&row).await?;
        let metadata = metadata.ok_or(Error::NoSuchUpload)?;
        codec::decode(&metadata).map_err(damaged_row)
    }

    /// Returns at most `limit` parts of an upload with numbers above `after`, in order, and true if
    /// more parts follow. Of a part that was sent several times, returns the newest attempt.
    pub async fn list_parts(
        &self,
        bucket: &Bucket,
        upload: &Upload,
        after: u16,
        limit: usize,
    ) -> Result<(Vec<Part>, bool), Error> {
        let mut parts = self.sent_parts(bucket, &upload.key, &upload.id).await?;
        parts.retain(|part| part.number > after);
        parts.dedup_by_key(|part| part.number);
        let truncated = parts.len() > limit;
        parts.truncate(limit);
        Ok((parts, truncated))
    }

    /// Returns all attempts of all parts of an upload, sorted by number, newest attempt first.
    /// Clocks decide which attempt is the newest, so it may not be the one that the client sent
    /// last.
    pub async fn sent_parts(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: &Id,
    ) -> Result<Vec<Part>, Error> {
        let name = UploadName::new(&bucket.id, key, upload);
        let (prefix, partitions) = rowkeys::parts(self.cluster(), &name.parts());
        let scans = partitions
            .into_iter()
            .map(|partition| self.cluster().scan_all(partition, &prefix));
        let rows = try_join_all(scans).await?.into_iter().flatten();
        let parts = rows.map(|row| {
            let part: Part = codec::decode(&row.metadata).map_err(damaged_row)?;
            let stamp = row.stamp;
            Ok(Part { stamp, ..part })
        });
        let mut parts = parts.collect::<Result<Vec<_>, Error>>()?;
        parts.sort_unstable_by_key(|part| (part.number, Reverse(part.stamp)));
        Ok(parts)
    }

    /// Completes an upload: the object consists of `parts` in their order, which come from
    /// [`sent_parts`](Model::sent_parts). Returns the object's metadata.
    ///
    /// A second completion with the same parts fails, because the upload's row is gone.
    /// [`completed_by`](Model::completed_by) tells the caller whether this upload became the
    /// object.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] if it was completed or aborted meanwhile; the error of the
    /// condition's test.
    pub async fn complete_upload(
        &self,
        bucket: &Bucket,
        upload: &Upload,
        parts: &[Part],
        meta: ObjectMeta,
        condition: Condition,
    ) -> Result<ObjectHead, Error> {
        let list = PartList {
            upload: upload.id,
            parts: parts.iter().map(part_info).collect(),
        };
        let metadata = ObjectHead {
            version: self.random_id(),
            size: parts.iter().map(|part| part.size).sum(),
            etag: meta.etag,
            modified_ms: self.now_ms(),
            headers: meta.headers,
            checksum: meta.checksum,
            parts: parts.len() as u32,
            tags: meta.tags,
            acl: meta.acl,
            form: ContentForm::Parts,
        };
        let value = object_value(
            bucket,
            &metadata,
            Payload::Inline(codec::encode(&list).into()),
        );
        let object = rowkeys::object(self.cluster(), &bucket.id, &upload.key);
        let name = upload.name_in(&bucket.id);
        let row = rowkeys::upload(self.cluster(), &name);
        let durability = self.durability(bucket);
        // GC must not drop the parts before the object's row lists them.
        let _in_use = self.in_use().mark(name.parts().0);
        let test = match condition {
            Condition::Check(test) => test,
            Condition::Always => Arc::new(|_: Option<&ObjectHead>| Ok(())) as Predicate,
        };
        for retries in 0.. {
            let how = WriteOptions {
                durability,
                guards: vec![row.clone(), self.fence_of(&bucket.id, &object)],
                yields: false,
                upload: None,
                background: false,
            };
            let decide = |current: Option<&Value>| decide(current, &test, &Some(value.clone()));
            match self.cluster().update(&object, how, decide).await {
                // One of the two guards does not hold: if it is not the upload, it is the fence.
                Err(archipel_cluster::Error::Guarded) => {
                    self.named_upload(&name).await?;
                    self.on_closed_fence(bucket, retries).await?;
                }
                decided => {
                    decided??;
                    break;
                }
            }
        }
        self.0.uploads.remove(&name);
        self.wake_gc();
        Ok(metadata)
    }

    /// Returns the object if this upload became the object, so that a repeated completion succeeds.
    pub async fn completed_by(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: &Id,
    ) -> Result<Option<ObjectHead>, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let Some(value) = self.cluster().read(&row).await? else {
            return Ok(None);
        };
        let metadata: ObjectHead = codec::decode(&value.metadata).map_err(damaged_row)?;
        if metadata.form != ContentForm::Parts {
            return Ok(None);
        }
        let same = decode_parts(&value.payload)?.upload == *upload;
        Ok(same.then_some(metadata))
    }

    /// Aborts an upload. GC drops its parts in the background.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`].
    pub async fn abort_upload(&self, bucket: &Bucket, key: &str, id: &Id) -> Result<(), Error> {
        // The conditional write leaves a promise even where it writes nothing, so read first: a
        // refused abort changes nothing.
        self.upload(bucket, key, id).await?;
        let name = UploadName::new(&bucket.id, key, id);
        let row = rowkeys::upload(self.cluster(), &name);
        let how = WriteOptions::durable(self.durability(bucket));
        // If a completion and an abort race, one of them finds the upload ended.
        let end = |current: Option<&Value>| match current {
            Some(_) => Decision::Write(None),
            None => Decision::Abort(Error::NoSuchUpload),
        };
        self.cluster().update(&row, how, end).await??;
        self.0.uploads.remove(&name);
        self.wake_gc();
        Ok(())
    }

    /// Returns a page of the uploads in progress.
    pub async fn list_uploads(
        &self,
        bucket: &Bucket,
        query: &UploadQuery,
    ) -> Result<UploadPage, Error> {
        let prefix = rowkeys::uploads(&bucket.id);
        let partitions = rowkeys::bucket_partitions(self.cluster(), &bucket.id);
        let scans = partitions
            .into_iter()
            .map(|partition| self.cluster().scan_all(partition, &prefix));
        let mut uploads = Vec::new();
        for row in try_join_all(scans).await?.into_iter().flatten() {
            let upload: Upload = codec::decode(&row.metadata).map_err(damaged_row)?;
            if upload.key.starts_with(&query.prefix) {
                uploads.push(upload);
            }
        }
        uploads.sort_by(|a, b| (&a.key, a.id).cmp(&(&b.key, b.id)));
        Ok(page_of_uploads(uploads, query))
    }
}

/// Returns the row of the upload that a write of an object ends: the upload that became the object.
pub(crate) fn ended_by(key: &RowKey, value: &Value) -> Option<RowKey> {
    let Some(Owner::Object {
        bucket,
        key: object,
    }) = rowkeys::owner_of(&key.key)
    else {
        return None;
    };
    let metadata: ObjectHead = codec::decode(&value.metadata).ok()?;
    if metadata.form != ContentForm::Parts {
        return None;
    }
    let upload = decode_parts(&value.payload).ok()?.upload;
    let name = UploadName::new(&bucket, &object, &upload);
    Some(rowkeys::upload_in(key.partition, &name))
}

fn part_info(part: &Part) -> PartInfo {
    PartInfo {
        number: part.number,
        size: part.size,
        checksum: part.checksum.clone(),
        attempt: part.attempt,
    }
}

/// Returns the common prefix that a key is rolled up to.
fn rolled_up<'k>(key: &'k str, query: &UploadQuery) -> Option<&'k str> {
    let delimiter = query.delimiter.as_deref().filter(|d| !d.is_empty())?;
    let at = key[query.prefix.len()..].find(delimiter)?;
    Some(&key[..query.prefix.len() + at + delimiter.len()])
}

fn page_of_uploads(sorted: Vec<Upload>, query: &UploadQuery) -> UploadPage {
    let mut page = UploadPage::default();
    for upload in sorted {
        let prefix = rolled_up(&upload.key, query);
        if !is_after(&upload, prefix, query) {
            continue;
        }
        if prefix.is_some() && page.prefixes.last().map(String::as_str) == prefix {
            continue;
        }
        if page.uploads.len() + page.prefixes.len() >= query.limit {
            page.truncated = true;
            break;
        }
        match prefix {
            Some(prefix) => page.prefixes.push(prefix.to_owned()),
            None => page.uploads.push(upload),
        }
    }
    page
}

fn is_after(upload: &Upload, prefix: Option<&str>, query: &UploadQuery) -> bool {
    let Some(after) = query.after_key.as_deref() else {
        return true;
    };
    match (prefix, query.after_id) {
        (Some(prefix), _) => prefix > after,
        (None, Some(id)) => (upload.key.as_str(), upload.id) > (after, id),
        (None, None) => upload.key.as_str() > after,
    }
}
