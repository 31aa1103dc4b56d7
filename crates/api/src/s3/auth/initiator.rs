//! The rights of a client who began an upload.

use std::sync::Arc;

use archipel_access::Action;
use archipel_model::{Bucket, Error};

use super::Caller;
use super::check::AccessCheck;
use crate::s3::call::Call;
use crate::s3::error::S3Result;

/// Returns true if the caller began the upload that the request names, and no policy denies the
/// actions. The initiator of an upload may list its parts and abort it, as on AWS.
pub async fn is_caller(
    call: &Call<'_>,
    caller: &Caller,
    bucket: &Arc<Bucket>,
    key: &str,
    actions: &[Action],
) -> S3Result<bool> {
    let Some(subject) = caller.subject() else {
        return Ok(false);
    };
    let is_denied = {
        let check = AccessCheck::new(call, caller, bucket, Some((key, None)));
        let mut decisions = actions.iter().map(|action| check.decide(*action, None));
        decisions.any(|decision| decision.is_explicit_deny())
    };
    let Some(id) = call.target.query.get("uploadId").filter(|_| !is_denied) else {
        return Ok(false);
    };
    let Ok(id) = id.parse() else {
        return Ok(false);
    };
    match call.model.upload(bucket, key, &id).await {
        Ok(upload) => Ok(upload.initiator.as_deref() == Some(subject.id())),
        Err(Error::NoSuchUpload | Error::InvalidName(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
