//! Operations on objects.

use std::sync::Arc;

use archipel_base::codec;
use archipel_cluster::{Decision, How, Upload};
use archipel_storage::engine::Durability;
use archipel_storage::pool::Pool;
use archipel_storage::{RowKey, Tally, Value};
use bytes::Bytes;

use crate::Model;
use crate::bucket::Bucket;
use crate::content::{ContentWriter, damaged_row};
use crate::error::Error;
use crate::object::{Condition, ObjectHead, ObjectMeta, Predicate};
use crate::reader::{Content, ObjectReader, keep};
use crate::rowkeys::{self, Owner};

/// The longest key of an object, in bytes of UTF-8.
pub const MAX_KEY_BYTES: usize = 1024;

/// Writes an object: content first, then everything becomes visible at once. Dropping it leaves
/// nothing behind.
pub struct ObjectWriter {
    model: Model,
    bucket: Arc<Bucket>,
    row: RowKey,
    content: ContentWriter,
}

impl ObjectWriter {
    /// Where memory for content is taken.
    pub fn pool(&self) -> &Pool {
        self.content.pool()
    }

    /// Appends content; waits while storage is behind.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.content.write(bytes).await
    }

    /// Makes the object real, if the condition holds, and gives what is known of it.
    ///
    /// # Errors
    /// What the condition's test gives; [`Error::NoSuchBucket`] if the bucket was deleted meanwhile.
    pub async fn finish(self, meta: ObjectMeta, condition: Condition) -> Result<ObjectHead, Error> {
        let durability = self.model.durability(&self.bucket);
        let written = self.content.finish().await?;
        let head = ObjectHead {
            version: self.model.random_id(),
            size: written.size,
            etag: meta.etag,
            modified_ms: self.model.now_ms(),
            headers: meta.headers,
            checksum: meta.checksum,
            parts: 0,
            layout: written.layout,
        };
        let value = object_value(&self.bucket, &head, written.body.clone());
        let change = Change {
            bucket: &self.bucket,
            row: &self.row,
            value: Some(value),
            durability,
            upload: written.upload.as_ref(),
        };
        self.model.put_row(&change, condition).await?;
        Ok(head)
    }
}

/// The row of an object.
pub(crate) fn object_value(
    bucket: &Bucket,
    head: &ObjectHead,
    body: archipel_storage::Body,
) -> Value {
    Value {
        head: codec::encode(head).into(),
        body,
        tally: Some(Tally {
            group: bucket.id,
            objects: 1,
            bytes: head.size,
        }),
    }
}

/// A change of an object's row.
pub(crate) struct Change<'a> {
    pub bucket: &'a Bucket,
    pub row: &'a RowKey,
    /// `None` deletes.
    pub value: Option<Value>,
    pub durability: Durability,
    pub upload: Option<&'a Upload>,
}

/// Refuses keys that S3 does not allow.
pub(crate) fn check_key(key: &str) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::InvalidName("a key must not be empty".into()));
    }
    if key.len() > MAX_KEY_BYTES {
        let why = format!("a key has at most {MAX_KEY_BYTES} bytes");
        return Err(Error::InvalidName(why));
    }
    if key.contains('\0') {
        return Err(Error::InvalidName("a key must not hold a NUL".into()));
    }
    Ok(())
}

pub(crate) fn decide(
    current: Option<&Value>,
    test: &Predicate,
    new: &Option<Value>,
) -> Decision<Error> {
    let head = match current.map(|value| codec::decode::<ObjectHead>(&value.head)) {
        None => None,
        Some(Ok(head)) => Some(head),
        Some(Err(error)) => return Decision::Abort(damaged_row(error)),
    };
    match test(head.as_ref()) {
        Ok(()) => Decision::Write(new.clone()),
        Err(error) => Decision::Abort(error),
    }
}

impl Model {
    /// Begins to write an object.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for a key that is empty, too long, or holds a NUL.
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
            self.active().clone(),
            owner,
            self.durability(bucket),
        )
    }

    /// Writes an object's row while its bucket's gate is open: in one round, or in two if there
    /// is a condition.
    pub(crate) async fn put_row(
        &self,
        change: &Change<'_>,
        condition: Condition,
    ) -> Result<(), Error> {
        let gate = self.gate_of(&change.bucket.id, change.row);
        let commit = || async {
            let how = How {
                durability: change.durability,
                guards: vec![gate.clone()],
                upload: change.upload,
            };
            let (row, value) = (change.row, change.value.clone());
            match &condition {
                Condition::Always => {
                    self.cluster().write(row, value, how).await?;
                    Ok(Ok(()))
                }
                Condition::Check(test) => {
                    let decide = |current: Option<&Value>| decide(current, test, &value);
                    self.cluster().update(row, how, decide).await
                }
            }
        };
        self.through_gate(change.bucket, commit).await??;
        self.wake_sweep();
        Ok(())
    }

    /// What is known of an object.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`].
    pub async fn head_object(&self, bucket: &Bucket, key: &str) -> Result<ObjectHead, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let head = self.cluster().head(&row).await?.ok_or(Error::NoSuchKey)?;
        codec::decode(&head).map_err(damaged_row)
    }

    /// Opens an object for reading: what was opened stays readable until it is dropped.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`].
    pub async fn open_object(&self, bucket: &Bucket, key: &str) -> Result<ObjectReader, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let found = self.cluster().open_row(&row).await?;
        let opened = found.ok_or(Error::NoSuchKey)?;
        let (value, pin) = (opened.value, opened.pin);
        let head: ObjectHead = codec::decode(&value.head).map_err(damaged_row)?;
        let content = Content::of(row.partition, head.layout, value.body)?;
        // Content in rows of its own is safe from the sweep since here: it asks all nodes, and not so soon after a
        // replacement that one that has read the row before would not have come this far.
        let keep = keep(self.active(), &content, pin);
        let parts = match &content {
            Content::Parts(_, parts) => parts.clone(),
            _ => Vec::new(),
        };
        Ok(ObjectReader {
            cluster: self.cluster().clone(),
            row,
            head,
            content,
            parts,
            keep,
            following: opened.following.into(),
        })
    }

    /// Deletes an object; that there is none is no error, unless the condition says so.
    pub async fn delete_object(
        &self,
        bucket: &Bucket,
        key: &str,
        condition: Condition,
    ) -> Result<(), Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let durability = self.durability(bucket);
        let change = Change {
            bucket,
            row: &row,
            value: None,
            durability,
            upload: None,
        };
        self.put_row(&change, condition).await
    }
}
