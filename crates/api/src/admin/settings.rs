//! Settings of buckets: versions, object lock, quotas and tags.
//!
//! Tags are read back from the document of the S3 API, so that both have the same limits.

use std::sync::Arc;

use archipel_model::{
    Bucket, BucketLock, DefaultRetention, MAX_RETENTION_DAYS, RetentionMode, RetentionPeriod, Tags,
    Usage, Versioning,
};
use axum::extract::State;

use super::Admin;
use super::answer::{At, Json, Read, Refusal};
use super::buckets::find;
use super::precondition::{Precondition, Tag, Tagged};
use super::types::{
    BucketLockInfo, BucketTags, BucketVersioning, LockMode, NameValue, Quota, QuotaUse,
    VersioningState,
};
use crate::s3::error::{Code, S3Error};
use crate::s3::tagging;

/// Shows whether a bucket keeps versions.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/versioning", tag = "buckets", operation_id = "get_versioning",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The state", body = BucketVersioning)),
)]
pub(super) async fn versioning(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketVersioning>, Refusal> {
    Ok(Json(describe_versioning(&*find(&admin, &name).await?)))
}

/// Enables or suspends versioning. It counts for every write that begins after the answer.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/versioning", tag = "buckets", operation_id = "set_versioning",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketVersioning,
    responses((status = 200, description = "The state", body = BucketVersioning)),
)]
pub(super) async fn set_versioning(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<BucketVersioning>,
) -> Result<Json<BucketVersioning>, Refusal> {
    let versioning = match set.state {
        VersioningState::Enabled => Versioning::Enabled,
        VersioningState::Suspended => Versioning::Suspended,
        VersioningState::Never => {
            let why = "state: versioning can be enabled and suspended, but it never ends";
            return Err(Refusal::invalid(why));
        }
    };
    let bucket = find(&admin, &name).await?;
    let changed = admin.model.set_versioning(&bucket, versioning);
    Ok(Json(describe_versioning(&*changed.await?)))
}

fn describe_versioning(bucket: &Bucket) -> BucketVersioning {
    let state = match bucket.versioning {
        Versioning::Never => VersioningState::Never,
        Versioning::Enabled => VersioningState::Enabled,
        Versioning::Suspended => VersioningState::Suspended,
    };
    BucketVersioning { state }
}

/// Shows the object lock of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/lock", tag = "buckets", operation_id = "get_lock",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The object lock", body = BucketLockInfo)),
)]
pub(super) async fn lock(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<BucketLockInfo>, Refusal> {
    Ok(Json(describe_lock(&*find(&admin, &name).await?)))
}

/// Enables object lock, and sets the retention that new versions get. Needs a bucket with versioning
/// enabled.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/lock", tag = "buckets", operation_id = "set_lock",
    params(("name" = String, Path, description = "The bucket")),
    request_body = BucketLockInfo,
    responses((status = 200, description = "The object lock", body = BucketLockInfo)),
)]
pub(super) async fn set_lock(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<BucketLockInfo>,
) -> Result<Json<BucketLockInfo>, Refusal> {
    if !set.enabled {
        let why = "enabled: object lock cannot be taken back";
        return Err(Refusal::invalid(why));
    }
    let period = match (set.days, set.years) {
        (None, None) => None,
        (Some(days), None) => Some(RetentionPeriod::Days(days)),
        (None, Some(years)) => Some(RetentionPeriod::Years(years)),
        _ => return Err(Refusal::invalid("give days or years, not both")),
    };
    let default = match (set.mode, period) {
        (None, None) => None,
        (Some(mode), Some(period)) => {
            if !(1..=MAX_RETENTION_DAYS).contains(&period.days()) {
                return Err(Refusal::invalid("a retention lasts 1 day to 100 years"));
            }
            let mode = match mode {
                LockMode::Governance => RetentionMode::Governance,
                LockMode::Compliance => RetentionMode::Compliance,
            };
            Some(DefaultRetention { mode, period })
        }
        _ => {
            return Err(Refusal::invalid(
                "mode needs days or years, and they need mode",
            ));
        }
    };
    let lock = BucketLock { default };
    let bucket = find(&admin, &name).await?;
    let changed = admin.model.set_bucket_lock(&bucket, lock);
    Ok(Json(describe_lock(&*changed.await?)))
}

fn describe_lock(bucket: &Bucket) -> BucketLockInfo {
    let Some(lock) = &bucket.lock else {
        return BucketLockInfo::default();
    };
    let mut info = BucketLockInfo {
        enabled: true,
        ..BucketLockInfo::default()
    };
    if let Some(default) = lock.default {
        info.mode = Some(match default.mode {
            RetentionMode::Governance => LockMode::Governance,
            RetentionMode::Compliance => LockMode::Compliance,
        });
        match default.period {
            RetentionPeriod::Days(days) => info.days = Some(days),
            RetentionPeriod::Years(years) => info.years = Some(years),
        }
    }
    info
}

/// Shows the quota of a bucket, and what is used of it.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/quota", tag = "buckets", operation_id = "get_bucket_quota",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The quota", body = QuotaUse)),
)]
pub(super) async fn quota(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<QuotaUse>, Refusal> {
    describe_quota(&admin, &*find(&admin, &name).await?)
        .await
        .map(Json)
}

/// Replaces the quota of a bucket. It counts for every write that begins after the answer. A bucket
/// that holds more keeps it.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/quota", tag = "buckets", operation_id = "set_bucket_quota",
    params(("name" = String, Path, description = "The bucket")),
    request_body = Quota,
    responses((status = 200, description = "The quota", body = QuotaUse)),
)]
pub(super) async fn set_quota(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(set): Read<Quota>,
) -> Result<Json<QuotaUse>, Refusal> {
    let set = admin.model.set_quota(&name, set.into()).await;
    let bucket = set.map_err(|error| Refusal::of_bucket(error, &name))?;
    describe_quota(&admin, &bucket).await.map(Json)
}

async fn describe_quota(admin: &Admin, bucket: &Bucket) -> Result<QuotaUse, Refusal> {
    let usage = admin.model.bucket_usage(bucket).await?;
    Ok(quota_use(bucket.quota, usage))
}

/// Shows a quota beside what is used of it.
pub(super) fn quota_use(quota: Option<archipel_model::Quota>, usage: Usage) -> QuotaUse {
    QuotaUse {
        quota: quota.unwrap_or_default().into(),
        bytes: usage.bytes,
        objects: usage.objects,
    }
}

impl From<archipel_model::Quota> for Quota {
    fn from(quota: archipel_model::Quota) -> Quota {
        Quota {
            bytes: quota.bytes,
            objects: quota.objects,
        }
    }
}

impl From<Quota> for archipel_model::Quota {
    fn from(quota: Quota) -> archipel_model::Quota {
        archipel_model::Quota {
            objects: quota.objects,
            bytes: quota.bytes,
        }
    }
}

/// Shows the tags of a bucket.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/tags", tag = "buckets", operation_id = "get_bucket_tags",
    params(("name" = String, Path, description = "The bucket")),
    responses((status = 200, description = "The tags", body = BucketTags)),
)]
pub(super) async fn tags(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Tagged<BucketTags>, Refusal> {
    Ok(tagged(&find(&admin, &name).await?.tags))
}

/// Replaces the tags of a bucket.
#[utoipa::path(
    put, path = "/v1/buckets/{name}/tags", tag = "buckets", operation_id = "set_bucket_tags",
    params(("name" = String, Path, description = "The bucket"), Precondition),
    request_body = BucketTags,
    responses((status = 200, description = "The tags", body = BucketTags)),
)]
pub(super) async fn set_tags(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    condition: Precondition,
    Read(set): Read<BucketTags>,
) -> Result<Tagged<BucketTags>, Refusal> {
    let document = tagging::document(&pairs(&set.tags)).finish();
    let tags = tagging::of_bucket(&document).map_err(|error| refused(&error))?;
    let bucket = find(&admin, &name).await?;
    let (model, answer) = (&admin.model, tagged(&tags));
    let test = |now: &Tags| condition.admits(tag(now));
    let set = model.set_bucket_tags_if(&bucket, tags, test).await;
    set.map_err(|error| condition.refusal(error))?;
    Ok(answer)
}

/// Returns the tag of the tags of a bucket; `None` if it has none.
fn tag(tags: &Tags) -> Option<Tag> {
    (!tags.is_empty()).then(|| Tag::of(tags))
}

fn tagged(tags: &Tags) -> Tagged<BucketTags> {
    Tagged(BucketTags { tags: named(tags) }, tag(tags))
}

/// Shows tags.
pub(super) fn named(tags: &Tags) -> Vec<NameValue> {
    let named = |(name, value): &(String, String)| NameValue {
        name: name.clone(),
        value: value.clone(),
    };
    tags.iter().map(named).collect()
}

/// Returns tags as the model has them.
pub(super) fn pairs(tags: &[NameValue]) -> Tags {
    let pair = |tag: &NameValue| (tag.name.clone(), tag.value.clone());
    tags.iter().map(pair).collect()
}

/// Checks that a document of the S3 API says what was asked for: it cannot hold control characters.
pub(super) fn same<T: PartialEq>(asked: &T, read: &T) -> Result<(), Refusal> {
    match asked == read {
        true => Ok(()),
        false => Err(Refusal::invalid("text with control characters")),
    }
}

/// Says what the S3 API finds wrong.
pub(super) fn refused(error: &S3Error) -> Refusal {
    match error.code() {
        Code::MalformedXML => Refusal::invalid("text with control characters, or a wrong number"),
        _ => Refusal::invalid(error.message()),
    }
}
