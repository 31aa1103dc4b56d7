//! The contents of a bucket: incomplete uploads, and single objects.

use std::sync::Arc;

use archipel_base::Id;
use archipel_model::{Bucket, Error, Upload, UploadQuery};
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{At, Json, Query, Read, Refusal};
use super::buckets::find;
use super::page::{self, MAX_ITEMS};
use super::types::{AbortUploads, AbortedUploads, NameValue, ObjectInfo, Page, UploadInfo};

/// The most uploads that one request aborts.
const MAX_ABORTS: u64 = 10_000;

/// The number of keys that an answer names.
const NAMED: usize = 100;

/// The filters of the list of uploads.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListUploads {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only uploads after this one: the `next` of the former page.
    after: Option<String>,
    /// Only uploads of keys that begin so.
    prefix: Option<String>,
}

/// Lists the incomplete uploads of a bucket, by key.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/uploads", tag = "buckets", operation_id = "list_uploads",
    params(("name" = String, Path, description = "The bucket"), ListUploads),
    responses((status = 200, description = "Uploads", body = Page<UploadInfo>)),
)]
pub(super) async fn uploads(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(query): Query<ListUploads>,
) -> Result<Json<Page<UploadInfo>>, Refusal> {
    let limit = page::size(query.limit, MAX_ITEMS)?;
    let after = query.after.as_deref().map(place).transpose()?;
    let bucket = find(&admin, &name).await?;
    let prefix = query.prefix.unwrap_or_default();
    let (uploads, more) = part(&admin, &bucket, &prefix, after, limit).await?;
    let last = uploads
        .last()
        .map(|last| format!("{}/{}", last.id, last.key));
    Ok(Json(Page {
        items: uploads.iter().map(describe).collect(),
        next: last.filter(|_| more),
    }))
}

/// Aborts the uploads of a bucket that began some time ago. With `dry_run` it only counts them.
#[utoipa::path(
    post, path = "/v1/buckets/{name}/uploads/abort", tag = "buckets", operation_id = "abort_uploads",
    params(("name" = String, Path, description = "The bucket")),
    request_body = AbortUploads,
    responses((status = 200, description = "The uploads that were aborted, or would be", body = AbortedUploads)),
)]
pub(super) async fn abort(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Read(ask): Read<AbortUploads>,
) -> Result<Json<AbortedUploads>, Refusal> {
    let bucket = find(&admin, &name).await?;
    let age_ms = ask.older_than_seconds.saturating_mul(1000);
    let before_ms = admin.model.cluster().now_ms().saturating_sub(age_ms);
    let (mut told, mut after) = (AbortedUploads::default(), None);
    told.done = !ask.dry_run;
    loop {
        let (uploads, more) = part(&admin, &bucket, "", after, MAX_ITEMS).await?;
        after = uploads.last().map(|last| (last.key.clone(), last.id));
        for upload in uploads.iter().filter(|one| one.initiated_ms <= before_ms) {
            if told.uploads == MAX_ABORTS {
                told.more = true;
                return Ok(Json(told));
            }
            if !ask.dry_run {
                match admin
                    .model
                    .abort_upload(&bucket, &upload.key, &upload.id)
                    .await
                {
                    // Its client completed or aborted it meanwhile.
                    Err(Error::NoSuchUpload) => continue,
                    other => other?,
                }
            }
            told.uploads += 1;
            if told.keys.len() < NAMED {
                told.keys.push(upload.key.clone());
            }
        }
        if !more {
            return Ok(Json(told));
        }
    }
}

/// The object to show.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OfObject {
    /// The object's key.
    key: String,
}

/// Shows the metadata of an object, whatever its permissions say. Its content is not read.
#[utoipa::path(
    get, path = "/v1/buckets/{name}/object", tag = "buckets", operation_id = "inspect_object",
    params(("name" = String, Path, description = "The bucket"), OfObject),
    responses((status = 200, description = "The object", body = ObjectInfo)),
)]
pub(super) async fn object(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(of): Query<OfObject>,
) -> Result<Json<ObjectInfo>, Refusal> {
    let bucket = find(&admin, &name).await?;
    let head = admin.model.head_object(&bucket, &of.key).await?;
    let pairs = |all: Vec<(String, String)>| {
        let pairs = all.into_iter();
        pairs
            .map(|(name, value)| NameValue { name, value })
            .collect()
    };
    Ok(Json(ObjectInfo {
        bucket: bucket.name.clone(),
        key: of.key,
        version: head.version.to_string(),
        bytes: head.size,
        etag: head.etag,
        modified_ms: head.modified_ms,
        parts: head.parts,
        headers: pairs(head.headers),
        tags: pairs(head.tags),
    }))
}

/// Returns uploads after a place, and whether more follow.
pub(super) async fn part(
    admin: &Admin,
    bucket: &Bucket,
    prefix: &str,
    after: Option<(String, Id)>,
    limit: usize,
) -> Result<(Vec<Upload>, bool), Refusal> {
    let (after_key, after_id) = after.unzip();
    let query = UploadQuery {
        prefix: prefix.to_owned(),
        delimiter: None,
        after_key,
        after_id,
        limit,
    };
    let page = admin.model.list_uploads(bucket, &query).await?;
    Ok((page.uploads, page.truncated))
}

/// Reads the place of an upload in the list: its id, a slash, its key.
fn place(text: &str) -> Result<(String, Id), Refusal> {
    let parsed = text.split_once('/').and_then(|(id, key)| {
        let id = id.parse().ok()?;
        Some((key.to_owned(), id))
    });
    parsed.ok_or_else(|| Refusal::invalid("after: it is not the `next` of a page"))
}

fn describe(upload: &Upload) -> UploadInfo {
    UploadInfo {
        id: upload.id.to_string(),
        key: upload.key.clone(),
        initiated_ms: upload.initiated_ms,
        initiator: upload.initiator.clone(),
    }
}
