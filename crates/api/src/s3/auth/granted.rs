//! Decisions by grants alone.

use std::sync::Arc;

use archipel_access::{Action, Decision, Reason, Request, decide};
use archipel_model::{Bucket, Model};

use super::{Caller, Surroundings, check_owner, conditions, denied, named};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};

/// Decides by grants alone, for APIs whose actions no policy can name: a policy that denies the
/// action on the bucket itself denies it here, and none allows it.
///
/// # Errors
/// [`Code::NoSuchBucket`], [`Code::AccessDenied`].
pub fn granted(
    model: &Model,
    caller: &Caller,
    around: &Surroundings<'_>,
    action: Action,
    name: &str,
) -> S3Result<Arc<Bucket>> {
    let no_such = || S3Error::of_bucket(Code::NoSuchBucket, name);
    let bucket = named(model, caller, name)?.ok_or_else(no_such)?;
    let principal = bucket.principal(caller.subject(), caller.canonical_id());
    let context = conditions::of_surroundings(caller, around);
    let request = Request {
        principal,
        action,
        bucket: &bucket.name,
        key: None,
        context: &context,
    };
    let decision = decide(&request, &bucket.inputs(caller.subject()));
    match decision {
        Decision::Allow(Reason::Granted(_)) => Ok(bucket),
        _ => Err(denied()),
    }
}

/// Checks that the request expects an owner whom the bucket has, if it expects one.
///
/// # Errors
/// [`Code::AccessDenied`], [`Code::InvalidBucketOwnerAWSAccountID`].
pub fn check_expected_owner(call: &Call<'_>, bucket: &Bucket) -> S3Result<()> {
    check_owner(call, "x-amz-expected-bucket-owner", bucket)
}
