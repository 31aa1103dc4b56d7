//! Permissions. Handlers take [`Authorised`] values, and only this module makes them. No handler
//! can therefore bypass the signature or the permissions.

use std::sync::Arc;

use archipel_model::{AccessKey, Bucket, Model};

use super::error::{Code, S3Error, S3Result};
use super::route::{BucketOp, Need, ObjectOp};

/// A client whose signature was verified.
#[derive(Clone)]
pub struct Caller(Arc<AccessKey>);

impl Caller {
    /// Wraps a key that [`super::sigv4::Verifier`] returned for this request.
    pub fn verified(key: Arc<AccessKey>) -> Caller {
        Caller(key)
    }

    /// The access key.
    pub fn key(&self) -> &AccessKey {
        &self.0
    }
}

/// A resource on which the caller has the permission that its operation needs.
pub struct Authorised<T> {
    caller: Caller,
    on: T,
}

impl<T> Authorised<T> {
    /// Returns the caller.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }
}

/// The list of buckets; the handler filters it.
pub struct OnService(());

/// The name of a bucket that is to be created.
pub struct OnName(String);

/// A bucket.
pub struct OnBucket(Arc<Bucket>);

/// A key in a bucket.
pub struct OnObject {
    bucket: Arc<Bucket>,
    key: String,
}

impl Authorised<OnName> {
    /// The name.
    pub fn name(&self) -> &str {
        &self.on.0
    }
}

impl Authorised<OnBucket> {
    /// The bucket.
    pub fn bucket(&self) -> &Arc<Bucket> {
        &self.on.0
    }
}

impl Authorised<OnObject> {
    /// The bucket.
    pub fn bucket(&self) -> &Arc<Bucket> {
        &self.on.bucket
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.on.key
    }
}

fn denied() -> S3Error {
    Code::AccessDenied.into()
}

/// Permits every key to list buckets. The answer shows those that the key has a permission on.
pub fn service(caller: &Caller) -> Authorised<OnService> {
    Authorised {
        caller: caller.clone(),
        on: OnService(()),
    }
}

/// Checks that the caller may create a bucket.
///
/// # Errors
/// [`Code::AccessDenied`].
pub fn create(caller: &Caller, name: &str) -> S3Result<Authorised<OnName>> {
    if caller.0.may_create_buckets {
        Ok(Authorised {
            caller: caller.clone(),
            on: OnName(name.to_owned()),
        })
    } else {
        Err(denied())
    }
}

/// Checks that the caller may do `op` with a bucket.
///
/// # Errors
/// [`Code::NoSuchBucket`], [`Code::AccessDenied`].
pub fn bucket(
    model: &Model,
    caller: &Caller,
    op: BucketOp,
    name: &str,
) -> S3Result<Authorised<OnBucket>> {
    let bucket = permitted(model, caller, op.need(), name)?;
    Ok(Authorised {
        caller: caller.clone(),
        on: OnBucket(bucket),
    })
}

/// Checks that the caller may do `op` with a key.
///
/// # Errors
/// [`Code::NoSuchBucket`], [`Code::AccessDenied`].
pub fn object(
    model: &Model,
    caller: &Caller,
    op: ObjectOp,
    name: &str,
    key: &str,
) -> S3Result<Authorised<OnObject>> {
    let bucket = permitted(model, caller, op.need(), name)?;
    Ok(Authorised {
        caller: caller.clone(),
        on: OnObject {
            bucket,
            key: key.to_owned(),
        },
    })
}

/// Returns the bucket if the caller has the permission. No other function compares permissions.
pub fn permitted(model: &Model, caller: &Caller, need: Need, name: &str) -> S3Result<Arc<Bucket>> {
    let no_such = || S3Error::from(Code::NoSuchBucket).with("BucketName", name);
    let bucket = model.bucket_of_key(&caller.0, name)?;
    let bucket = bucket.ok_or_else(no_such)?;
    let has = bucket.permissions(&caller.0);
    let enough = match need {
        Need::Any => !has.is_empty(),
        Need::Read => has.read,
        Need::Write => has.write,
        Need::Owner => has.owner,
    };
    if enough { Ok(bucket) } else { Err(denied()) }
}
