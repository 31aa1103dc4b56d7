//! A new object, and the value of its row.

use archipel_storage::{Payload, Value};

use super::object_value;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::object::ObjectHead;

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
