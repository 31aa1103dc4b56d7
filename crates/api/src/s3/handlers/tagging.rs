//! Tags of objects and buckets.

use archipel_model::{Error, Tags};
use http::StatusCode;

use super::{set_version_header, unchanged};
use crate::s3::auth::{self, Authorised, Caller, OnBucket, OnObject};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::{s3_control, tagging};

/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// The beginning of the condition keys for tags of the request, in lower case.
const REQUEST_TAG: &str = "s3:requestobjecttag";

/// The beginnings of the condition keys for tags that a request gives to a bucket, in lower case.
const OF_RESOURCE: [&str; 2] = ["aws:requesttag", "aws:tagkeys"];

/// Answers PutObjectTagging.
pub async fn put_of_object(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let tags = match &call.tags {
        Some(tags) => tags.clone(),
        None => read(call).await?,
    };
    set_of_object(call, on, tags, StatusCode::OK).await
}

async fn read(call: &mut Call<'_>) -> S3Result<Tags> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    tagging::of_object(&document)
}

/// Reads the tags of PutObjectTagging before the decision, if a policy asks for them.
pub async fn read_early(call: &mut Call<'_>, caller: &Caller, bucket: &str) -> S3Result<()> {
    if auth::depends_on(call, caller, bucket, REQUEST_TAG)? {
        call.tags = Some(read(call).await?);
    }
    Ok(())
}

/// Answers GetObjectTagging.
pub async fn get_of_object(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let head = on.head(call).await?;
    let mut answer = respond::xml(tagging::document(&head.tags));
    set_version_header(&mut answer, on.bucket(), head.id)?;
    Ok(answer)
}

/// Answers DeleteObjectTagging.
pub async fn delete_of_object(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    set_of_object(call, on, Tags::new(), StatusCode::NO_CONTENT).await
}

async fn set_of_object(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    tags: Tags,
    status: StatusCode,
) -> S3Result<Answer> {
    let version = on.version()?;
    let test = on.test(call);
    let set = call
        .model
        .set_object_tags(on.bucket(), on.key(), version, tags, &test);
    let id = set.await.map_err(|error| unchanged(error, on.key()))?;
    let mut answer = respond::empty(status);
    set_version_header(&mut answer, on.bucket(), id)?;
    Ok(answer)
}

/// Answers PutBucketTagging.
pub async fn put_of_bucket(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let tags = tagging::of_bucket(&document)?;
    call.model.set_bucket_tags(on.bucket(), tags).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Answers GetBucketTagging.
pub fn get_of_bucket(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let bucket = on.bucket();
    if bucket.tags.is_empty() {
        return Err(S3Error::of_bucket(Code::NoSuchTagSet, &bucket.name));
    }
    Ok(respond::xml(tagging::document(&bucket.tags)))
}

/// Answers ListTagsForResource of S3 Control. No tags are no error there.
pub fn list_of_resource(on: &Authorised<OnBucket>) -> Answer {
    respond::xml(s3_control::document(&on.bucket().tags))
}

/// Reads the tags of TagResource before the decision, if a policy asks for them.
pub async fn read_resource_early(
    call: &mut Call<'_>,
    caller: &Caller,
    bucket: &str,
) -> S3Result<()> {
    for key in OF_RESOURCE {
        if call.tags.is_none() && auth::depends_on(call, caller, bucket, key)? {
            call.tags = Some(read_resource(call).await?);
        }
    }
    Ok(())
}

async fn read_resource(call: &mut Call<'_>) -> S3Result<Tags> {
    s3_control::tags(&call.document(MAX_DOCUMENT_BYTES).await?)
}

/// Answers TagResource of S3 Control: other tags stay.
pub async fn tag_resource(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let added = match call.tags.take() {
        Some(tags) => tags,
        None => read_resource(call).await?,
    };
    change_of_bucket(call, on, move |tags| {
        tags.retain(|(key, _)| !added.iter().any(|(new, _)| new == key));
        tags.extend(added.iter().cloned());
    })
    .await
}

/// Answers UntagResource of S3 Control.
pub async fn untag_resource(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let removed = s3_control::removed(&call.target.query)?;
    change_of_bucket(call, on, move |tags| {
        tags.retain(|(key, _)| !removed.contains(key));
    })
    .await
}

async fn change_of_bucket(
    call: &Call<'_>,
    on: &Authorised<OnBucket>,
    change: impl Fn(&mut Tags) + Send + Sync,
) -> S3Result<Answer> {
    let changed = call.model.change_bucket_tags(on.bucket(), |tags| {
        change(tags);
        match tags.len() > tagging::MAX_OF_BUCKET {
            true => Err(Error::LimitExceeded(String::new())),
            false => Ok(()),
        }
    });
    match changed.await {
        Err(Error::LimitExceeded(_)) => Err(tagging::too_many_of_bucket()),
        changed => Ok(changed.map(|()| respond::empty(StatusCode::NO_CONTENT))?),
    }
}

/// Answers DeleteBucketTagging.
pub async fn delete_of_bucket(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    call.model.set_bucket_tags(on.bucket(), Tags::new()).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}
