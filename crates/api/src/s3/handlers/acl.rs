//! Access control lists of buckets and objects.

use archipel_access::Acl;
use archipel_model::Bucket;
use http::StatusCode;

use super::{set_version_header, unchanged};
use crate::s3::acl;
use crate::s3::auth::{Authorised, OnBucket, OnObject};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::owner::Owner;
use crate::s3::respond::{self, Answer};

/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 64 << 10;

/// Answers GetBucketAcl.
pub fn get_of_bucket(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let owner = Owner::of_bucket(call.model, on.bucket())?;
    Ok(respond::xml(acl::document(on.bucket().acl, &owner)))
}

/// Answers PutBucketAcl.
pub async fn put_of_bucket(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let owner = Owner::of_bucket(call.model, on.bucket())?;
    let acl = asked(call, on.bucket(), &owner).await?;
    call.model.set_bucket_acl(on.bucket(), acl).await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Answers GetObjectAcl.
pub async fn get_of_object(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let head = on.head(call).await?;
    let owner = Owner::of_bucket(call.model, on.bucket())?;
    // A list that was set before lists were disabled grants nothing.
    let list = match acl::disabled(on.bucket()) {
        Some(_) => Acl::default(),
        None => head.acl,
    };
    let mut answer = respond::xml(acl::document(list, &owner));
    set_version_header(&mut answer, on.bucket(), head.id)?;
    Ok(answer)
}

/// Answers PutObjectAcl.
pub async fn put_of_object(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let owner = Owner::of_bucket(call.model, on.bucket())?;
    let acl = asked(call, on.bucket(), &owner).await?;
    // As in S3, a grant to write an object is kept, and there is nothing that it could allow.
    on.bucket().check_acl(acl)?;
    let version = on.version()?;
    let test = on.test(call);
    let set = call
        .model
        .set_object_acl(on.bucket(), on.key(), version, acl, &test);
    let id = set.await.map_err(|error| unchanged(error, on.key()))?;
    let mut answer = respond::empty(StatusCode::OK);
    set_version_header(&mut answer, on.bucket(), id)?;
    Ok(answer)
}

/// Reads the list that a request sets: by its headers or its document, not by both.
async fn asked(call: &mut Call<'_>, bucket: &Bucket, owner: &Owner) -> S3Result<Acl> {
    let disabled = acl::disabled(bucket);
    let given = acl::of_headers(call.headers, disabled, || Ok(owner.clone()))?;
    let document = call.optional_document(MAX_DOCUMENT_BYTES).await?;
    match (given, document.is_empty()) {
        (Some(given), true) => Ok(given),
        (None, false) => acl::or_disabled(acl::parse(&document, owner), disabled),
        (Some(_), false) => {
            let why = "This request does not support content";
            Err(S3Error::new(Code::UnexpectedContent, why))
        }
        (None, true) => {
            let error = S3Error::from(Code::MissingSecurityHeader);
            Err(error.with("MissingHeaderName", acl::HEADER))
        }
    }
}
