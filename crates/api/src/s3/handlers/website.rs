//! A bucket's website configuration.

use archipel_model::Website;
use http::StatusCode;

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::website;

/// The largest configuration.
const MAX_DOCUMENT_BYTES: usize = 128 << 10;

/// Answers PutBucketWebsite.
pub async fn put(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let website = website::parse(&document)?;
    let replace = move |_: Option<&Website>| Some(website.clone());
    call.model.set_website(on.bucket(), replace).await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Answers DeleteBucketWebsite.
pub async fn delete(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    call.model.set_website(on.bucket(), |_| None).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Answers GetBucketWebsite.
pub fn get(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let bucket = on.bucket();
    let Some(website) = &bucket.website else {
        let none = Code::NoSuchWebsiteConfiguration;
        return Err(S3Error::of_bucket(none, &bucket.name));
    };
    Ok(respond::xml(website::document(website)))
}
