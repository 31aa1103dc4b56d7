//! A bucket's CORS configuration.

use http::StatusCode;

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::cors;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};

/// The largest configuration.
const MAX_DOCUMENT_BYTES: usize = 64 << 10;

/// Answers PutBucketCors.
pub async fn put(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let rules = cors::parse(&document)?;
    call.model.set_cors(on.bucket(), rules).await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Answers DeleteBucketCors.
pub async fn delete(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    call.model.set_cors(on.bucket(), Vec::new()).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Answers GetBucketCors.
pub fn get(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let bucket = on.bucket();
    if bucket.cors.is_empty() {
        let none = Code::NoSuchCORSConfiguration;
        return Err(S3Error::of_bucket(none, &bucket.name));
    }
    Ok(respond::xml(cors::document(&bucket.cors)))
}
