//! Buckets and grants.

use archipel_model::{Bucket, Error, GrantChange, Permissions};

use super::Admin;
use super::answer::Refusal;
use super::types::{BucketInfo, BucketSummary, ChangeGrant, CreateBucket, Grant};

pub(super) fn list(admin: &Admin) -> Result<Vec<BucketSummary>, Refusal> {
    let summary = |bucket: &Bucket| {
        Ok(BucketSummary {
            name: bucket.name.clone(),
            created_ms: bucket.created_ms,
            grants: admin.model.grants_of(bucket)?.len(),
        })
    };
    let buckets = admin.model.buckets()?;
    buckets.iter().map(|bucket| summary(bucket)).collect()
}

pub(super) async fn create(admin: &Admin, ask: CreateBucket) -> Result<BucketInfo, Refusal> {
    let bucket = admin
        .model
        .create_bucket(&ask.name, ask.owner.as_deref())
        .await?;
    describe(admin, &bucket).await
}

pub(super) async fn info(admin: &Admin, name: &str) -> Result<BucketInfo, Refusal> {
    let bucket = admin.model.find_bucket(name).await?;
    describe(admin, &*bucket.ok_or(Error::NoSuchBucket)?).await
}

async fn describe(admin: &Admin, bucket: &Bucket) -> Result<BucketInfo, Refusal> {
    let usage = admin.model.bucket_usage(bucket).await?;
    let grants = admin.model.grants_of(bucket)?.into_iter();
    Ok(BucketInfo {
        id: bucket.id.to_string(),
        name: bucket.name.clone(),
        created_ms: bucket.created_ms,
        objects: usage.objects,
        bytes: usage.bytes,
        grants: grants
            .map(|(key, permissions)| grant(&bucket.name, &key.id, permissions))
            .collect(),
    })
}

/// Describes the permissions of `key` on `bucket`.
pub(super) fn grant(bucket: &str, key: &str, permissions: Permissions) -> Grant {
    Grant {
        bucket: bucket.to_owned(),
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
    let change = GrantChange {
        read: change.read,
        write: change.write,
        owner: change.owner,
    };
    let (bucket, permissions) = admin.model.change_grant(name, key, change).await?;
    Ok(grant(&bucket.name, key, permissions))
}
