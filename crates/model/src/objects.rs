//! Operations on objects.

use std::sync::Arc;

use archipel_base::codec;
use archipel_cluster::Decision;
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Tally, Value};
use bytes::Bytes;
use tokio::sync::RwLockReadGuard;

use crate::Model;
use crate::bucket::{Bucket, GateState};
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
        let _gate = enter(&self.bucket).await?;
        self.model
            .put_row(&self.row, None, Some(value), condition, durability)
            .await?;
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

/// Holds the bucket open for a commit.
pub(crate) async fn enter(bucket: &Bucket) -> Result<RwLockReadGuard<'_, GateState>, Error> {
    let gate = bucket.gate.0.read().await;
    match *gate {
        GateState::Open => Ok(gate),
        GateState::Closed => Err(Error::NoSuchBucket),
    }
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

fn decide(current: Option<&Value>, test: &Predicate, new: &Option<Value>) -> Decision<Error> {
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

    /// Writes an object's row: in one round, or in two if there is a condition or a guard.
    pub(crate) async fn put_row(
        &self,
        row: &RowKey,
        guard: Option<RowKey>,
        value: Option<Value>,
        condition: Condition,
        durability: Durability,
    ) -> Result<(), Error> {
        match (condition, guard) {
            (Condition::Always, None) => {
                self.cluster().write(row, value, durability).await?;
            }
            (condition, guard) => {
                let test = match condition {
                    Condition::Check(test) => test,
                    Condition::Always => Arc::new(|_: Option<&ObjectHead>| Ok(())) as Predicate,
                };
                self.cluster()
                    .update(row, guard, durability, move |current| {
                        decide(current, &test, &value)
                    })
                    .await??;
            }
        }
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
        loop {
            let found = self.cluster().read_pinned(&row).await?;
            let (value, pin) = found.ok_or(Error::NoSuchKey)?;
            let head: ObjectHead = codec::decode(&value.head).map_err(damaged_row)?;
            let content = Content::of(head.layout, value.body)?;
            let named = content.name().is_some();
            let keep = keep(self.active(), &content, pin);
            // Content in rows of its own is safe from the sweep only since `keep`: if the object
            // was replaced before that, its pieces may be gone already.
            if named && self.head_object(bucket, key).await?.version != head.version {
                continue;
            }
            let parts = match &content {
                Content::Parts(_, parts) => parts.clone(),
                _ => Vec::new(),
            };
            return Ok(ObjectReader {
                cluster: self.cluster().clone(),
                head,
                content,
                parts,
                keep,
            });
        }
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
        let _gate = enter(bucket).await?;
        self.put_row(&row, None, None, condition, durability).await
    }
}
