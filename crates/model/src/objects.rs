//! Operations on objects.

use std::sync::Arc;

use archipel_access::Acl;
use archipel_base::codec;
use archipel_cluster::{BlockWriter, Decision, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::pool::Pool;
use archipel_storage::{Payload, RowKey, UsageDelta, Value};
use bytes::Bytes;

use crate::Model;
use crate::bucket::Bucket;
use crate::content::ContentWriter;
use crate::error::{Error, damaged_row};
use crate::form::ContentForm;
use crate::object::{Condition, ObjectHead, ObjectMeta, Predicate, Tags};
use crate::owner::Owner;
use crate::reader::{Content, ObjectReader, keep};
use crate::rowkeys;

/// The longest key of an object, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 1024;

/// A writer of an object. It writes the content first; then everything becomes visible at once. A
/// dropped writer leaves nothing visible.
pub struct ObjectWriter {
    model: Model,
    bucket: Arc<Bucket>,
    row: RowKey,
    content: ContentWriter,
}

impl ObjectWriter {
    /// Returns the memory that content is buffered in.
    pub fn pool(&self) -> &Pool {
        self.content.pool()
    }

    /// Appends content. Waits while storage is slower than the client.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.content.write(bytes).await
    }

    /// Makes the object visible if the condition holds, and returns its metadata.
    ///
    /// # Errors
    /// The error of the condition's test; [`Error::NoSuchBucket`] if the bucket was deleted
    /// meanwhile.
    pub async fn finish(self, meta: ObjectMeta, condition: Condition) -> Result<ObjectHead, Error> {
        let durability = self.model.durability(&self.bucket);
        let written = self.content.finish().await?;
        let new = NewObject {
            head: ObjectHead {
                version: self.model.random_id(),
                size: written.size,
                etag: meta.etag,
                modified_ms: self.model.now_ms(),
                headers: meta.headers,
                checksum: meta.checksum,
                parts: 0,
                tags: meta.tags,
                acl: meta.acl,
                lock: meta.lock,
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
        let newer = self.model.put_row(&change, &condition).await?;
        new.head_in(newer.as_deref().unwrap_or(&self.bucket))
    }
}

/// A new object, before the settings of its bucket are applied to it.
pub(crate) struct NewObject {
    /// Its metadata. The lock is what the client asks for.
    pub head: ObjectHead,
    pub payload: Payload,
}

impl NewObject {
    /// Returns the metadata under the bucket's settings.
    ///
    /// # Errors
    /// [`Error::NoBucketLock`].
    pub fn head_in(&self, bucket: &Bucket) -> Result<ObjectHead, Error> {
        let asked = self.head.lock;
        let lock = match &bucket.lock {
            Some(lock) => lock.of_new(asked, self.head.modified_ms),
            None if asked.is_empty() => asked,
            None => return Err(Error::NoBucketLock),
        };
        Ok(ObjectHead {
            lock,
            ..self.head.clone()
        })
    }

    /// Returns the row's value under the bucket's settings.
    ///
    /// # Errors
    /// As [`head_in`](NewObject::head_in).
    pub fn value_in(&self, bucket: &Bucket) -> Result<Value, Error> {
        let head = self.head_in(bucket)?;
        Ok(object_value(bucket, &head, self.payload.clone()))
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

/// A write or a deletion of an object's row.
pub(crate) struct ObjectChange<'a> {
    pub bucket: &'a Bucket,
    pub row: &'a RowKey,
    /// The new object; `None` deletes the object.
    pub new: Option<&'a NewObject>,
    pub durability: Durability,
    /// True if the value refers to content in other rows: see [`WriteOptions::yields`].
    pub yields: bool,
    pub upload: Option<&'a BlockWriter>,
    /// True if no client waits for it.
    pub background: bool,
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

/// Returns the current object with other metadata that the client may change. Content, entity tag
/// and time stay.
fn changed(current: Option<&Value>, change: &(dyn Fn(&mut ObjectHead) + Sync)) -> Decision<Error> {
    let Some(current) = current else {
        return Decision::Abort(Error::NoSuchKey);
    };
    match codec::decode::<ObjectHead>(&current.metadata) {
        Ok(mut metadata) => {
            change(&mut metadata);
            Decision::Write(Some(Value {
                metadata: codec::encode(&metadata).into(),
                ..current.clone()
            }))
        }
        Err(error) => Decision::Abort(damaged_row(error)),
    }
}

/// Decides whether to write `new`: the current object must pass the test.
pub(crate) fn decide(
    current: Option<&Value>,
    test: &Predicate,
    new: &Option<Value>,
) -> Decision<Error> {
    let metadata = match current.map(|value| codec::decode::<ObjectHead>(&value.metadata)) {
        None => None,
        Some(Ok(metadata)) => Some(metadata),
        Some(Err(error)) => return Decision::Abort(damaged_row(error)),
    };
    match test(metadata.as_ref()) {
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
        )
    }

    /// Writes an object's row while its bucket's write fence is open: in one round trip, or in two
    /// if the write has a condition. Returns the bucket if it has newer settings than the change
    /// knew.
    pub(crate) async fn put_row(
        &self,
        change: &ObjectChange<'_>,
        condition: &Condition,
    ) -> Result<Option<Arc<Bucket>>, Error> {
        let commit = |newer: Option<Arc<Bucket>>| async move {
            let bucket = newer.as_deref().unwrap_or(change.bucket);
            let how = WriteOptions {
                durability: change.durability,
                guards: vec![self.fence_of(bucket, change.row)],
                yields: change.yields,
                pointing: None,
                upload: change.upload,
                background: change.background,
            };
            let value = match change.new.map(|new| new.value_in(bucket)).transpose() {
                Ok(value) => value,
                Err(error) => return Ok(Err(error)),
            };
            let row = change.row;
            let written = match condition {
                Condition::Always => {
                    self.cluster().write(row, value, how).await?;
                    Ok(())
                }
                Condition::Check(test) => {
                    let decide = |current: Option<&Value>| decide(current, test, &value);
                    self.cluster().update(row, how, decide).await?
                }
            };
            Ok(written.map(|()| newer))
        };
        let newer = self.commit_by_settings(change.bucket, commit).await??;
        self.wake_gc();
        Ok(newer)
    }

    /// Returns the metadata of an object.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`].
    pub async fn head_object(&self, bucket: &Bucket, key: &str) -> Result<ObjectHead, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let metadata = self
            .cluster()
            .metadata(&row)
            .await?
            .ok_or(Error::NoSuchKey)?;
        codec::decode(&metadata).map_err(damaged_row)
    }

    /// Opens an object for reading. Its content stays readable until the reader is dropped.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`].
    pub async fn open_object(&self, bucket: &Bucket, key: &str) -> Result<ObjectReader, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let found = self.cluster().open_row(&row).await?;
        let opened = found.ok_or(Error::NoSuchKey)?;
        let (value, pin) = (opened.value, opened.pin);
        let metadata: ObjectHead = codec::decode(&value.metadata).map_err(damaged_row)?;
        let content = Content::of(&row, metadata.form, value.payload)?;
        // From here on, GC does not drop content in rows of its own: it asks all nodes, and its
        // delay after a replacement is long enough for a node that has read the row before to get
        // here.
        let keep = keep(self.in_use(), &content, pin);
        let parts = match &content {
            Content::Parts(_, parts) => parts.clone(),
            _ => Vec::new(),
        };
        Ok(ObjectReader {
            cluster: self.cluster().clone(),
            row,
            metadata,
            content,
            parts,
            keep,
            following: opened.following.into(),
        })
    }

    /// Sets an object's tags, in two round trips. The object stays the same in all else.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`].
    pub async fn set_object_tags(
        &self,
        bucket: &Bucket,
        key: &str,
        tags: Tags,
    ) -> Result<(), Error> {
        let change = move |head: &mut ObjectHead| head.tags.clone_from(&tags);
        self.change_object(bucket, key, &change).await
    }

    /// Sets an object's access control list, in two round trips. The object stays the same in all
    /// else.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`].
    pub async fn set_object_acl(&self, bucket: &Bucket, key: &str, acl: Acl) -> Result<(), Error> {
        let change = move |head: &mut ObjectHead| head.acl = acl;
        self.change_object(bucket, key, &change).await
    }

    async fn change_object(
        &self,
        bucket: &Bucket,
        key: &str,
        change: &(dyn Fn(&mut ObjectHead) + Sync),
    ) -> Result<(), Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let fence = self.open_fence_of(&bucket.id, &row);
        let durability = self.durability(bucket);
        let commit = || async {
            let how = WriteOptions {
                guards: vec![fence.clone()],
                ..WriteOptions::durable(durability)
            };
            // The value refers to the content of the version that it is decided on, so an update
            // that others overtake decides once more and never brings dropped content back.
            let decide = |current: Option<&Value>| changed(current, change);
            self.cluster().update(&row, how, decide).await
        };
        self.commit_fenced(bucket, commit).await?
    }

    /// Deletes an object. A missing object is no error, unless the condition's test fails.
    pub async fn delete_object(
        &self,
        bucket: &Bucket,
        key: &str,
        condition: Condition,
    ) -> Result<(), Error> {
        self.delete_as(bucket, key, condition, false).await
    }

    /// Does the same where no client waits for it.
    pub(crate) async fn delete_object_in_background(
        &self,
        bucket: &Bucket,
        key: &str,
        condition: Condition,
    ) -> Result<(), Error> {
        self.delete_as(bucket, key, condition, true).await
    }

    async fn delete_as(
        &self,
        bucket: &Bucket,
        key: &str,
        condition: Condition,
        background: bool,
    ) -> Result<(), Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let durability = self.durability(bucket);
        let change = ObjectChange {
            bucket,
            row: &row,
            new: None,
            durability,
            yields: false,
            upload: None,
            background,
        };
        self.put_row(&change, &condition).await.map(|_| ())
    }
}
