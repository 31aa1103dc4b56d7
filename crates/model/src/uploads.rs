//! Operations on multipart uploads.
//!
//! A part is a row of its own that holds its content; completing an upload writes a list of
//! parts into the object's row and moves no data. That write is guarded by the upload's row, and
//! ends it in the same transaction at every replica that takes it: an upload is completed once, and
//! one that was aborted is not, however they race. Parts that the object does not list are
//! dropped by the sweep, once the upload's row is gone.

mod known;
mod part;

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec;
use archipel_cluster::How;
use archipel_storage::engine::Durability;
use archipel_storage::{Body, RowKey, Value};
use futures_util::future::try_join_all;

use crate::Model;
use crate::bucket::Bucket;
use crate::content::{Layout, PartList, damaged_row, decode_parts};
use crate::error::Error;
use crate::object::{Condition, ObjectHead, ObjectMeta, Predicate};
use crate::objects::{check_key, decide, object_value};
use crate::rowkeys::{self, Owner};
use crate::upload::{Part, PartInfo, Upload, UploadMeta, UploadPage, UploadQuery};

pub(crate) use known::KnownUploads;

pub use part::PartWriter;

impl Model {
    /// Begins an upload.
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
        let row = rowkeys::upload(self.cluster(), &bucket.id, key, &upload.id);
        let value = Value {
            head: codec::encode(&upload).into(),
            ..Value::default()
        };
        let gate = self.gate_of(&bucket.id, &row);
        let commit = || {
            let how = How {
                guards: vec![gate.clone()],
                ..How::durable(Durability::Fsync)
            };
            self.cluster().write(&row, Some(value.clone()), how)
        };
        self.through_gate(bucket, commit).await?;
        self.0.uploads.keep(&upload);
        Ok(upload)
    }

    /// An upload of which parts are to be written: as this node knows it, if it does, without asking whether it
    /// has ended. [`PartWriter::finish`] asks.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`].
    pub async fn upload_to_write(
        &self,
        bucket: &Bucket,
        key: &str,
        id: &Id,
    ) -> Result<Upload, Error> {
        if let Some(upload) = self.0.uploads.get(id).filter(|upload| upload.key == key) {
            return Ok(upload);
        }
        let upload = self.upload(bucket, key, id).await?;
        self.0.uploads.keep(&upload);
        Ok(upload)
    }

    /// The upload of that key and identity.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`].
    pub async fn upload(&self, bucket: &Bucket, key: &str, id: &Id) -> Result<Upload, Error> {
        check_key(key)?;
        let row = rowkeys::upload(self.cluster(), &bucket.id, key, id);
        let head = self.cluster().head(&row).await?;
        let head = head.ok_or(Error::NoSuchUpload)?;
        codec::decode(&head).map_err(damaged_row)
    }

    /// The parts of an upload with numbers above `after`, in order, at most `limit`; and whether there are more.
    pub async fn list_parts(
        &self,
        upload: &Id,
        after: u16,
        limit: usize,
    ) -> Result<(Vec<Part>, bool), Error> {
        let newest = self.newest_parts(upload).await?;
        let mut parts: Vec<_> = newest.into_values().filter(|p| p.number > after).collect();
        let truncated = parts.len() > limit;
        parts.truncate(limit);
        Ok((parts, truncated))
    }

    /// The newest part of each number.
    async fn newest_parts(&self, upload: &Id) -> Result<BTreeMap<u16, Part>, Error> {
        let (prefix, partitions) = rowkeys::parts(self.cluster(), upload);
        let scans = partitions
            .into_iter()
            .map(|partition| self.cluster().scan_all(partition, &prefix));
        let mut newest: BTreeMap<u16, Part> = BTreeMap::new();
        for row in try_join_all(scans).await?.into_iter().flatten() {
            let mut part: Part = codec::decode(&row.head).map_err(damaged_row)?;
            part.stamp = row.stamp;
            match newest.get(&part.number) {
                Some(other) if other.stamp > part.stamp => {}
                _ => {
                    newest.insert(part.number, part);
                }
            }
        }
        Ok(newest)
    }

    /// Completes an upload: the object is the `parts` (from [`list_parts`](Model::list_parts)) in their order.
    ///
    /// Doing it again with the same parts, after the upload's row has gone, is an error; the
    /// caller may ask [`completed_by`](Model::completed_by) whether it was this upload.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] if it was completed or aborted meanwhile; what the condition's test gives.
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
        let head = ObjectHead {
            version: self.random_id(),
            size: parts.iter().map(|part| part.size).sum(),
            etag: meta.etag,
            modified_ms: self.now_ms(),
            headers: meta.headers,
            checksum: meta.checksum,
            parts: parts.len() as u32,
            layout: Layout::Parts,
        };
        let value = object_value(bucket, &head, Body::Inline(codec::encode(&list).into()));
        let object = rowkeys::object(self.cluster(), &bucket.id, &upload.key);
        let row = rowkeys::upload(self.cluster(), &bucket.id, &upload.key, &upload.id);
        let durability = self.durability(bucket);
        // The parts are safe from the sweep until the object's row lists them.
        let _active = self.active().enter(upload.id);
        let test = match condition {
            Condition::Check(test) => test,
            Condition::Always => Arc::new(|_: Option<&ObjectHead>| Ok(())) as Predicate,
        };
        for look in 0.. {
            let how = How {
                durability,
                guards: vec![row.clone(), self.gate_of(&bucket.id, &object)],
                upload: None,
            };
            let decide = |current: Option<&Value>| decide(current, &test, &Some(value.clone()));
            match self.cluster().update(&object, how, decide).await {
                // One of the two: if it is not the upload, it is the gate.
                Err(archipel_cluster::Error::Guarded) => {
                    self.upload(bucket, &upload.key, &upload.id).await?;
                    self.gate_is_closed(bucket, look).await?;
                }
                decided => {
                    decided??;
                    break;
                }
            }
        }
        self.0.uploads.forget(&upload.id);
        self.wake_sweep();
        Ok(head)
    }

    /// The object, if it is the one that this upload became: a repeated completion succeeds.
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
        let head: ObjectHead = codec::decode(&value.head).map_err(damaged_row)?;
        if head.layout != Layout::Parts {
            return Ok(None);
        }
        let same = decode_parts(&value.body)?.upload == *upload;
        Ok(same.then_some(head))
    }

    /// Aborts an upload; its parts are dropped in the background.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`].
    pub async fn abort_upload(&self, bucket: &Bucket, key: &str, id: &Id) -> Result<(), Error> {
        self.upload(bucket, key, id).await?;
        let row = rowkeys::upload(self.cluster(), &bucket.id, key, id);
        let durability = self.durability(bucket);
        let how = How::durable(durability);
        self.cluster().write(&row, None, how).await?;
        self.0.uploads.forget(id);
        self.wake_sweep();
        Ok(())
    }

    /// A page of the uploads in progress.
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
            let upload: Upload = codec::decode(&row.head).map_err(damaged_row)?;
            if upload.key.starts_with(&query.prefix) {
                uploads.push(upload);
            }
        }
        uploads.sort_by(|a, b| (&a.key, a.id).cmp(&(&b.key, b.id)));
        Ok(page_of_uploads(uploads, query))
    }
}

/// The upload's row that an object's value ends: the upload that it was completed from.
pub(crate) fn ended_by(key: &RowKey, value: &Value) -> Option<RowKey> {
    let Some(Owner::Object { bucket, key: name }) = rowkeys::owner_of(&key.key) else {
        return None;
    };
    let head: ObjectHead = codec::decode(&value.head).ok()?;
    if head.layout != Layout::Parts {
        return None;
    }
    let upload = decode_parts(&value.body).ok()?.upload;
    Some(rowkeys::upload_in(key.partition, &bucket, &name, &upload))
}

fn part_info(part: &Part) -> PartInfo {
    PartInfo {
        number: part.number,
        size: part.size,
        checksum: part.checksum.clone(),
        attempt: part.attempt,
    }
}

/// The common prefix that a key is rolled up to.
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
