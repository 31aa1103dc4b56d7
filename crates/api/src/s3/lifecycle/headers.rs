//! The headers about lifecycle rules.

use archipel_model::{Bucket, Due, Lifecycle, Model, ObjectHead};

use super::argument;
use crate::s3::error::S3Result;
use crate::s3::respond::{self, Answer};
use crate::s3::uri;

/// The header about the smallest object of a transition, and its values.
pub const MINIMUM_SIZE: &str = "x-amz-transition-default-minimum-object-size";
const MINIMUM_SIZES: [(&str, bool); 2] = [
    ("all_storage_classes_128K", false),
    ("varies_by_storage_class", true),
];

const EXPIRATION: &str = "x-amz-expiration";

/// Reads the header about the smallest object of a transition.
///
/// # Errors
/// [`Code::InvalidArgument`].
pub fn minimum_size_varies(header: Option<&str>) -> S3Result<bool> {
    let Some(text) = header else {
        return Ok(false);
    };
    let known = MINIMUM_SIZES.iter().find(|(name, _)| *name == text);
    match known {
        Some((_, varies)) => Ok(*varies),
        None => argument(MINIMUM_SIZE, text, "Unknown minimum object size."),
    }
}

/// Tells the smallest object of a transition.
pub fn tell_minimum_size(answer: &mut Answer, lifecycle: &Lifecycle) -> S3Result<()> {
    let told = MINIMUM_SIZES
        .iter()
        .find(|(_, varies)| *varies == lifecycle.minimum_size_varies);
    match told {
        Some((name, _)) => respond::set(answer, MINIMUM_SIZE, name),
        None => Ok(()),
    }
}

/// Returns what `x-amz-expiration` says of an object, if it will expire.
pub fn expiration(model: &Model, bucket: &Bucket, key: &str, head: &ObjectHead) -> Option<String> {
    let rules = bucket.lifecycle.as_ref()?;
    let Due { at_ms, rule } = rules.expiry(key, head, model.day_ms())?;
    let id = uri::encode(&rule.id);
    Some(format!(
        "expiry-date=\"{}\", rule-id=\"{id}\"",
        respond::http_date(at_ms)
    ))
}

/// Tells when an object expires, if it does.
pub fn set_expiration_header(answer: &mut Answer, expiration: Option<&str>) -> S3Result<()> {
    match expiration {
        Some(text) => respond::set(answer, EXPIRATION, text),
        None => Ok(()),
    }
}

/// Tells when an incomplete upload is aborted, if it is.
pub fn tell_abort(
    answer: &mut Answer,
    model: &Model,
    bucket: &Bucket,
    key: &str,
    initiated_ms: u64,
) -> S3Result<()> {
    let rules = bucket.lifecycle.as_ref();
    let due = rules.and_then(|rules| rules.abort(key, initiated_ms, model.day_ms()));
    let Some(Due { at_ms, rule }) = due else {
        return Ok(());
    };
    respond::set(answer, "x-amz-abort-date", &respond::http_date(at_ms))?;
    respond::set(answer, "x-amz-abort-rule-id", &uri::encode(&rule.id))
}
