//! A bucket's lifecycle configuration.

use archipel_model::Error;
use http::StatusCode;

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lifecycle;
use crate::s3::respond::{self, Answer};

/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// Answers PutBucketLifecycleConfiguration, and PutBucketLifecycle, which came before it.
pub async fn put(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let varies = lifecycle::minimum_size_varies(call.header(lifecycle::MINIMUM_SIZE)?)?;
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let mut rules = lifecycle::parse(&document)?;
    rules.minimum_size_varies = varies;
    let set = call.model.set_lifecycle(on.bucket(), Some(rules.clone()));
    set.await.map_err(|error| match error {
        Error::TooLarge => {
            let why = "The lifecycle configuration is too large.";
            S3Error::new(Code::MaxMessageLengthExceeded, why)
        }
        error => error.into(),
    })?;
    let mut answer = respond::empty(StatusCode::OK);
    lifecycle::tell_minimum_size(&mut answer, &rules)?;
    Ok(answer)
}

/// Answers GetBucketLifecycleConfiguration.
pub fn get(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let bucket = on.bucket();
    let Some(rules) = &bucket.lifecycle else {
        let none = Code::NoSuchLifecycleConfiguration;
        return Err(S3Error::of_bucket(none, &bucket.name));
    };
    let mut answer = respond::xml(lifecycle::document(rules));
    lifecycle::tell_minimum_size(&mut answer, rules)?;
    Ok(answer)
}

/// Answers DeleteBucketLifecycle.
pub async fn delete(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    call.model.set_lifecycle(on.bucket(), None).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}
