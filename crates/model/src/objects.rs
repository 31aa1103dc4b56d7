//! Operations on objects.

mod change;
mod new_object;

use std::sync::Arc;

use archipel_base::{boxed, codec};
use archipel_cluster::{Current, Decision, Guard, OpenRow, WriteOptions};
use archipel_storage::pool::Pool;
use archipel_storage::{Payload, RowKey, RowVersion, UsageDelta, Value, VersionKind};
use bytes::Bytes;

use crate::Model;
use crate::bucket::Bucket;
use crate::content::ContentWriter;
use crate::error::Error;
use crate::events::Trigger;
use crate::form::ContentForm;
use crate::object::{Condition, ObjectHead, ObjectMeta, Predicate};
use crate::owner::Owner;
use crate::quota::Adding;
use crate::reader::{Content, ObjectReader, keep};
use crate::version::{VersionId, Versioning};
use crate::versions::{self, Deleted, head_of};
use crate::{rowkeys, version_rows};

use change::{ObjectChange, Put};
pub(crate) use new_object::NewObject;

/// The longest key of an object, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 1024;

/// A writer of an object. It writes the content first; then everything becomes visible at once. A
/// dropped writer leaves nothing visible.
pub struct ObjectWriter {
    model: Model,
    bucket: Arc<Bucket>,
    row: RowKey,
    pub(crate) content: ContentWriter,
}

impl ObjectWriter {
    /// Returns the memory that content is buffered in.
    pub fn pool(&self) -> &Pool {
        self.content.pool()
    }

    /// Appends content. Waits while storage is slower than the client.
    #[boxed]
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.content.write(bytes).await
    }

    /// Makes the object visible if the condition holds, and returns its metadata.
    ///
    /// # Errors
    /// The error of the condition's test; [`Error::NoSuchBucket`] if the bucket was deleted
    /// meanwhile.
    #[boxed]
    pub async fn finish(self, meta: ObjectMeta, condition: Condition) -> Result<ObjectHead, Error> {
        let durability = self.model.durability(&self.bucket);
        let written = self.content.finish().await?;
        let new = NewObject {
            head: ObjectHead {
                version: self.model.random_id(),
                size: written.size,
                etag: written.etag(meta.etag),
                modified_ms: self.model.now_ms(),
                headers: meta.headers,
                checksum: meta.checksum,
                parts: 0,
                tags: meta.tags,
                acl: meta.acl,
                lock: meta.lock,
                id: VersionId::Null,
                is_marker: false,
                encryption: (self.model).freshened(&self.row, written.encryption.clone()),
                form: written.form,
            },
            payload: written.payload.clone(),
        };
        let change = ObjectChange {
            bucket: &self.bucket,
            row: &self.row,
            new: Some(&new),
            durability,
            yields: written.form == ContentForm::Tail,
            upload: written.upload.as_ref(),
            background: false,
        };
        let put = self.model.put_row(&change, &condition).await?;
        let head = new.head_in(put.bucket.as_deref().unwrap_or(&self.bucket))?;
        Ok(ObjectHead { id: put.id, ..head })
    }
}

/// Returns the value of an object's row.
pub(crate) fn object_value(bucket: &Bucket, metadata: &ObjectHead, payload: Payload) -> Value {
    Value {
        metadata: codec::encode(metadata).into(),
        payload,
        usage: Some(UsageDelta {
            group: bucket.id,
            objects: 1,
            bytes: metadata.size,
        }),
        version: None,
    }
}

/// Checks that S3 allows a key.
pub(crate) fn check_key(key: &str) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::InvalidName("a key must not be empty".into()));
    }
    if key.len() > MAX_KEY_BYTES {
        let why = format!("a key has at most {MAX_KEY_BYTES} bytes");
        return Err(Error::InvalidName(why));
    }
    if key.contains('\0') {
        return Err(Error::InvalidName("a key must not contain NUL".into()));
    }
    Ok(())
}

/// Decides whether to write `new`: the current object must pass the test. A delete marker is no
/// object.
pub(crate) fn decide(
    current: Option<&Value>,
    test: &Predicate,
    new: &Option<Value>,
) -> Decision<Error> {
    let head = match current.map(head_of).transpose() {
        Ok(head) => head.flatten().filter(|head| !head.is_marker),
        Err(error) => return Decision::Abort(error),
    };
    match test(head.as_ref()) {
        Ok(()) => Decision::Write(new.clone()),
        Err(error) => Decision::Abort(error),
    }
}

impl Model {
    /// Returns a writer of an object.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for a key that is empty, too long, or contains NUL.
    pub fn begin_object(&self, bucket: &Arc<Bucket>, key: &str) -> Result<ObjectWriter, Error> {
        check_key(key)?;
        let owner = Owner::Object {
            bucket: bucket.id,
            key: key.to_owned(),
        };
        Ok(ObjectWriter {
            model: self.clone(),
            bucket: bucket.clone(),
            row: rowkeys::object(self.cluster(), &bucket.id, key),
            content: self.content_writer(owner, bucket),
        })
    }

    pub(crate) fn content_writer(&self, owner: Owner, bucket: &Bucket) -> ContentWriter {
        ContentWriter::new(
            self.cluster().clone(),
            self.in_use().clone(),
            owner,
            self.durability(bucket),
            self.inner.extent_blocks,
        )
    }

    /// Writes an object's row while its bucket's write fence is open: in one round trip, or in two
    /// if the write has a condition.
    pub(crate) async fn put_row(
        &self,
        change: &ObjectChange<'_>,
        condition: &Condition,
    ) -> Result<Put, Error> {
        let commit = |newer: Option<Arc<Bucket>>| async move {
            let bucket = newer.as_deref().unwrap_or(change.bucket);
            let value = match self.value_of(change, bucket) {
                Ok(value) => value,
                Err(error) => return Ok(Err(error)),
            };
            let (row, is_new) = (change.row, bucket.versioning == Versioning::Enabled);
            let is_marker = value.is_some() && change.new.is_none();
            let fence = self.fence_of(bucket, row);
            let guard = match change.new {
                Some(_) => fence,
                None => fence.unlimited(),
            };
            let happening = change.happening(is_marker);
            let trigger = Trigger::of_change(change.background);
            let how = WriteOptions {
                guards: vec![guard],
                yields: change.yields,
                upload: change.upload,
                background: change.background,
                companions: self.events_of(bucket, row, happening, trigger),
                ..WriteOptions::durable(change.durability)
            };
            let at = match condition {
                Condition::Always => Ok(version_rows::write(
                    self.cluster(),
                    row,
                    value,
                    how,
                    bucket.versioning.of_writes(),
                )
                .await?),
                Condition::Check(test) => {
                    let decide = |current: Current<'_>| decide(current.value, test, &value);
                    let updated = version_rows::update(
                        self.cluster(),
                        row,
                        how,
                        bucket.versioning.of_writes(),
                        decide,
                    );
                    Box::pin(updated).await?
                }
            };
            Ok(at.map(|at| Put {
                id: VersionId::of(is_new.then_some(at)),
                bucket: newer,
                is_marker,
                at,
            }))
        };
        let adding = change.new.map(|new| Adding::of(change.row, new.head.size));
        let put = self.commit_by_settings(change.bucket, adding, commit);
        let put = put.await??;
        let bucket = put.bucket.as_deref().unwrap_or(change.bucket);
        let (happening, written) = (change.happening(put.is_marker), (put.at, put.id));
        let trigger = Trigger::of_change(change.background);
        self.tell_listeners(bucket, change.row, happening, trigger, written);
        self.wake_gc();
        Ok(put)
    }

    /// Returns the value that a change writes; `None` removes the row.
    fn value_of(&self, change: &ObjectChange<'_>, bucket: &Bucket) -> Result<Option<Value>, Error> {
        match change.new {
            Some(new) => new.value_in(bucket).map(Some),
            // Where there are versions, a deletion is a version, too.
            None if bucket.versioning.has_versions() => Ok(Some(self.new_marker())),
            None => Ok(None),
        }
    }

    /// Returns the value of a delete marker.
    pub(crate) fn new_marker(&self) -> Value {
        let head = ObjectHead {
            version: self.random_id(),
            ..ObjectHead::empty("", self.now_ms())
        };
        Value {
            metadata: codec::encode(&head).into(),
            version: Some(Box::new(RowVersion {
                kind: VersionKind::Marker,
                ..RowVersion::default()
            })),
            ..Value::default()
        }
    }

    /// Returns the metadata of an object.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`]; [`Error::Deleted`] if the current version is a delete marker.
    #[boxed]
    pub async fn head_object(&self, bucket: &Bucket, key: &str) -> Result<ObjectHead, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let at = &row;
        let read = |guards: Vec<Guard>| async move { self.cluster().head(at, &guards).await };
        let value = self.read_fenced(bucket, &row, read).await?;
        versions::current(&value.ok_or(Error::NoSuchKey)?)
    }

    /// Opens an object for reading. Its content stays readable until the reader is dropped.
    ///
    /// # Errors
    /// As [`head_object`](Model::head_object).
    #[boxed]
    pub async fn open_object(&self, bucket: &Bucket, key: &str) -> Result<ObjectReader, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let at = &row;
        let read = |guards: Vec<Guard>| async move { self.cluster().open_row(at, &guards).await };
        let found = self.read_fenced(bucket, &row, read).await?;
        let opened = found.ok_or(Error::NoSuchKey)?;
        let head = versions::current(&opened.value)?;
        self.reader_of(row, head, opened).await
    }

    /// Returns a reader of an object that was opened.
    pub(crate) async fn reader_of(
        &self,
        row: RowKey,
        metadata: ObjectHead,
        opened: OpenRow,
    ) -> Result<ObjectReader, Error> {
        let content = Content::of(&row, metadata.form, opened.value.payload)?;
        // From here on, GC does not drop content in rows of its own: it asks all nodes, and its
        // delay after a replacement is long enough for a node that has read the row before to get
        // here.
        let keep = keep(self.in_use(), &content, opened.pin);
        Ok(ObjectReader {
            cluster: self.cluster().clone(),
            access: self.content_key_of(&row, &metadata).await?,
            row,
            metadata,
            content,
            keep,
            following: opened.following.into(),
        })
    }

    /// Deletes an object. A missing object is no error, unless the condition's test fails. If the
    /// bucket has versions, a delete marker becomes the current version, and nothing is removed but
    /// a null version that the marker replaces.
    #[boxed]
    pub async fn delete_object(
        &self,
        bucket: &Bucket,
        key: &str,
        condition: Condition,
    ) -> Result<Deleted, Error> {
        self.delete_as(bucket, key, condition, false).await
    }

    /// Deletes an object as [`delete_object`](Model::delete_object) does, as work that no client
    /// waits for.
    pub(crate) async fn delete_object_in_background(
        &self,
        bucket: &Bucket,
        key: &str,
        condition: Condition,
    ) -> Result<Deleted, Error> {
        self.delete_as(bucket, key, condition, true).await
    }

    async fn delete_as(
        &self,
        bucket: &Bucket,
        key: &str,
        condition: Condition,
        background: bool,
    ) -> Result<Deleted, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let change = ObjectChange {
            bucket,
            row: &row,
            new: None,
            durability: self.durability(bucket),
            yields: false,
            upload: None,
            background,
        };
        let put = self.put_row(&change, &condition).await?;
        Ok(Deleted {
            id: put.is_marker.then_some(put.id),
            is_marker: put.is_marker,
        })
    }
}
