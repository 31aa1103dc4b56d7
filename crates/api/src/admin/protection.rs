//! Settings that protect a bucket: encryption, public access, ownership.

use std::sync::Arc;

use archipel_access::{Ownership, PublicAccessBlock};
use archipel_model::{BlockedEncryption as Stored, Bucket, DefaultEncryption};
use axum::extract::State;

use super::Admin;
use super::answer::{At, Json, Read, Refusal};
use super::buckets::find;
use super::types::{
    BlockedEncryption, BucketEncryption, BucketOwnership, ChangePublicAccess, ObjectOwnership,
    PublicAccess,
};

/// Shows the default encryption of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/encryption", tag = "buckets",
    operation_id = "get_bucket_encryption",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The default encryption", body = BucketEncryption)),
)]
pub(super) async fn encryption(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketEncryption>, Refusal> {
    Ok(Json(describe_encryption(&*find(&admin, &name).await?)))
}

/// Sets the default encryption of a bucket. It counts for new objects; the others stay as they are.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/encryption", tag = "buckets",
    operation_id = "set_bucket_encryption",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketEncryption,
    responses((status = 200, description = "The default encryption", body = BucketEncryption)),
)]
pub(super) async fn set_encryption(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<BucketEncryption>,
) -> Result<Json<BucketEncryption>, Refusal> {
    if set.bucket_key && !set.enabled {
        return Err(Refusal::invalid("bucket_key needs enabled"));
    }
    let bucket = find(&admin, &name).await?;
    if set.blocked.is_some() && set.blocked != blocked(&bucket) {
        let why = "blocked: only PutBucketEncryption of the S3 API changes it";
        return Err(Refusal::invalid(why));
    }
    let model = &admin.model;
    let default = DefaultEncryption {
        is_enabled: Some(set.enabled),
        has_bucket_key: Some(set.bucket_key),
        blocked: None,
    };
    let changed = model.set_default_encryption(&bucket, default);
    Ok(Json(describe_encryption(&*changed.await?)))
}

fn describe_encryption(bucket: &Bucket) -> BucketEncryption {
    BucketEncryption {
        enabled: bucket.encrypts,
        // The S3 API keeps one also beside a block alone. A `PUT` of that would be refused.
        bucket_key: bucket.encrypts && bucket.has_bucket_key,
        blocked: blocked(bucket),
    }
}

fn blocked(bucket: &Bucket) -> Option<BlockedEncryption> {
    match bucket.blocked_encryption? {
        Stored::Customer => Some(BlockedEncryption::Customer),
        Stored::Nothing => None,
    }
}

/// Shows the Public Access Block of a bucket: which public permissions it refuses and ignores.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/public-access", tag = "buckets",
    operation_id = "get_public_access",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The Public Access Block", body = PublicAccess)),
)]
pub(super) async fn public_access(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<PublicAccess>, Refusal> {
    Ok(Json(describe_block(&*find(&admin, &name).await?)))
}

/// Replaces the Public Access Block of a bucket. Policies and lists stay as they are.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/public-access", tag = "buckets",
    operation_id = "set_public_access",
    params(("name" = String, Path, description = "The bucket")),
    request_body = PublicAccess,
    responses((status = 200, description = "The Public Access Block", body = PublicAccess)),
)]
pub(super) async fn set_public_access(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<PublicAccess>,
) -> Result<Json<PublicAccess>, Refusal> {
    let block = PublicAccessBlock {
        block_public_acls: set.block_public_acls,
        ignore_public_acls: set.ignore_public_acls,
        block_public_policy: set.block_public_policy,
        restrict_public_buckets: set.restrict_public_buckets,
    };
    let bucket = find(&admin, &name).await?;
    let model = &admin.model;
    let changed = model.set_public_access_block(&bucket, Some(block));
    Ok(Json(describe_block(&*changed.await?)))
}

/// Changes the Public Access Block of a bucket. Settings that the body does not name stay as they are.
#[utoipa::path(
    patch, path = "/v1/buckets/{name}/public-access", tag = "buckets",
    operation_id = "change_public_access",
    params(("name" = String, Path, description = "The bucket")),
    request_body = ChangePublicAccess,
    responses((status = 200, description = "The Public Access Block", body = PublicAccess)),
)]
pub(super) async fn change_public_access(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(change): Read<ChangePublicAccess>,
) -> Result<Json<PublicAccess>, Refusal> {
    let bucket = find(&admin, &name).await?;
    let change = move |block: &mut PublicAccessBlock| {
        let settings = [
            (&mut block.block_public_acls, change.block_public_acls),
            (&mut block.ignore_public_acls, change.ignore_public_acls),
            (&mut block.block_public_policy, change.block_public_policy),
            (
                &mut block.restrict_public_buckets,
                change.restrict_public_buckets,
            ),
        ];
        for (setting, named) in settings {
            *setting = named.unwrap_or(*setting);
        }
    };
    let changed = admin.model.change_public_access_block(&bucket, change);
    Ok(Json(describe_block(&*changed.await?)))
}

fn describe_block(bucket: &Bucket) -> PublicAccess {
    let block = bucket.blocked();
    PublicAccess {
        block_public_acls: block.block_public_acls,
        ignore_public_acls: block.ignore_public_acls,
        block_public_policy: block.block_public_policy,
        restrict_public_buckets: block.restrict_public_buckets,
    }
}

/// Shows who owns new objects of a bucket, and whether access control lists count.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/ownership", tag = "buckets",
    operation_id = "get_bucket_ownership",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The object ownership", body = BucketOwnership)),
)]
pub(super) async fn ownership(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketOwnership>, Refusal> {
    Ok(Json(describe_ownership(&*find(&admin, &name).await?)))
}

/// Sets who owns new objects of a bucket, and whether access control lists count. A bucket whose own
/// list grants something to others cannot ignore lists.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/ownership", tag = "buckets",
    operation_id = "set_bucket_ownership",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketOwnership,
    responses((status = 200, description = "The object ownership", body = BucketOwnership)),
)]
pub(super) async fn set_ownership(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<BucketOwnership>,
) -> Result<Json<BucketOwnership>, Refusal> {
    let ownership = match set.ownership {
        ObjectOwnership::BucketOwnerEnforced => Ownership::BucketOwnerEnforced,
        ObjectOwnership::BucketOwnerPreferred => Ownership::BucketOwnerPreferred,
        ObjectOwnership::ObjectWriter => Ownership::ObjectWriter,
    };
    let bucket = find(&admin, &name).await?;
    let changed = admin.model.set_ownership(&bucket, Some(ownership));
    Ok(Json(describe_ownership(&*changed.await?)))
}

fn describe_ownership(bucket: &Bucket) -> BucketOwnership {
    let ownership = match bucket.ownership() {
        Ownership::BucketOwnerEnforced => ObjectOwnership::BucketOwnerEnforced,
        Ownership::BucketOwnerPreferred => ObjectOwnership::BucketOwnerPreferred,
        Ownership::ObjectWriter => ObjectOwnership::ObjectWriter,
    };
    BucketOwnership { ownership }
}
