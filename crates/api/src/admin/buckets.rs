//! Buckets and grants.

use archipel_model::{Bucket, Error, Permissions};

use super::Admin;
use super::answer::Refusal;
use super::types::{BucketInfo, BucketSummary, ChangeGrant, CreateBucket, Grant};

pub(super) fn list(admin: &Admin) -> Vec<BucketSummary> {
    let summary = |bucket: &Bucket| BucketSummary {
        name: bucket.name.clone(),
        created_ms: bucket.created_ms,
        grants: bucket.grants.len(),
    };
    admin.model.buckets().iter().map(|b| summary(b)).collect()
}

pub(super) async fn create(admin: &Admin, ask: CreateBucket) -> Result<BucketInfo, Refusal> {
    if let Some(owner) = &ask.owner
        && admin.model.access_key(owner).is_none()
    {
        return Err(Error::NoSuchAccessKey.into());
    }
    let bucket = admin
        .model
        .create_bucket(&ask.name, ask.owner.as_deref())
        .await?;
    describe(admin, &bucket).await
}

pub(super) async fn info(admin: &Admin, name: &str) -> Result<BucketInfo, Refusal> {
    let bucket = admin.model.bucket(name).ok_or(Error::NoSuchBucket)?;
    describe(admin, &bucket).await
}

async fn describe(admin: &Admin, bucket: &Bucket) -> Result<BucketInfo, Refusal> {
    let usage = admin.model.bucket_usage(bucket).await?;
    let grants = bucket.grants.iter();
    Ok(BucketInfo {
        id: bucket.id.to_string(),
        name: bucket.name.clone(),
        created_ms: bucket.created_ms,
        objects: usage.objects,
        bytes: usage.bytes,
        grants: grants.map(|(key, p)| grant(bucket, key, *p)).collect(),
    })
}

/// What `key` may do with `bucket`, as it is shown.
pub(super) fn grant(bucket: &Bucket, key: &str, permissions: Permissions) -> Grant {
    Grant {
        bucket: bucket.name.clone(),
        key: key.to_owned(),
        read: permissions.read,
        write: permissions.write,
        owner: permissions.owner,
    }
}

pub(super) async fn change_grant(
    admin: &Admin,
    name: &str,
    key: &str,
    change: ChangeGrant,
) -> Result<Grant, Refusal> {
    let _changing = admin.changing_grants.lock().await;
    let bucket = admin.model.bucket(name).ok_or(Error::NoSuchBucket)?;
    let now = bucket.permissions(key);
    let permissions = Permissions {
        read: change.read.unwrap_or(now.read),
        write: change.write.unwrap_or(now.write),
        owner: change.owner.unwrap_or(now.owner),
    };
    admin.model.set_grant(name, key, permissions).await?;
    Ok(grant(&bucket, key, permissions))
}
