//! A bucket's event notifications.

use archipel_model::Error;
use http::StatusCode;

use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::notification;
use crate::s3::respond::{self, Answer};

/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// Answers PutBucketNotificationConfiguration. A configuration without rules removes the one
/// before.
pub async fn put(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let known = |name: &str| call.model.event_target(name);
    let new_id = || call.model.cluster().random_id().to_string();
    let rules = notification::parse(&document, known, new_id)?;
    let skips = call.headers.get("x-amz-skip-destination-validation");
    let skips = skips.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"));
    if let Some(rules) = rules.as_ref().filter(|_| !skips) {
        let told = call.model.test_event_targets(&on.bucket().name, rules);
        let told = told.await;
        told.map_err(|(arn, why)| {
            // The reason names addresses of the operator's network.
            tracing::warn!(
                arn,
                why,
                "a target of events does not take the test message"
            );
            let text = "Unable to validate the following destination configurations";
            let shown = "the target does not take the test message; the log of the node says why";
            S3Error::argument(&arn, shown, text.to_owned())
        })?;
    }
    let set = call.model.set_notification(on.bucket(), rules);
    set.await.map_err(|error| -> S3Error {
        match error {
            Error::Conflict => Code::OperationAborted.into(),
            error => error.into(),
        }
    })?;
    Ok(respond::empty(StatusCode::OK))
}

/// Answers GetBucketNotificationConfiguration.
pub fn get(on: &Authorised<OnBucket>) -> Answer {
    respond::xml(notification::document(on.bucket().notification.as_ref()))
}
