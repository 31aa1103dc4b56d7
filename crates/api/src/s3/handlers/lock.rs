//! Versioning and object lock: the settings of a bucket, and the protection of a version.

use archipel_access::Action;
use archipel_model::{Governance, LockChange, ObjectLock, Versioning};
use http::StatusCode;

use super::{set_version_header, with_key};
use crate::s3::auth::{self, Authorised, Caller, OnBucket, OnObject};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lock;
use crate::s3::respond::{self, Answer};
use crate::s3::route::ObjectOp;
use crate::s3::xml::{self, Writer};

/// The largest document.
const MAX_DOCUMENT_BYTES: usize = 64 << 10;

/// Answers GetBucketVersioning. A bucket that never had versions has an empty document.
pub fn get_versioning(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let mut xml = Writer::new("VersioningConfiguration");
    match on.bucket().versioning {
        Versioning::Never => {}
        Versioning::Enabled => xml.text("Status", "Enabled"),
        Versioning::Suspended => xml.text("Status", "Suspended"),
    }
    Ok(respond::xml(xml))
}

/// Answers PutBucketVersioning.
pub async fn put_versioning(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let root = xml::parse(&document, "VersioningConfiguration")?;
    root.only(&["Status", "MfaDelete"])?;
    match root.child_text("MfaDelete")?.map(str::trim) {
        None | Some("Disabled") => {}
        Some("Enabled") => return Err(S3Error::not_implemented("MFA delete")),
        Some(_) => return Err(Code::MalformedXML.into()),
    }
    let versioning = match root.child_text("Status")?.map(str::trim) {
        Some("Enabled") => Versioning::Enabled,
        Some("Suspended") => Versioning::Suspended,
        None => {
            let why = "The Versioning element must be specified";
            return Err(S3Error::new(
                Code::IllegalVersioningConfigurationException,
                why,
            ));
        }
        Some(_) => return Err(Code::MalformedXML.into()),
    };
    call.model.set_versioning(on.bucket(), versioning).await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Answers GetObjectLockConfiguration.
pub fn get_configuration(on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let bucket = on.bucket();
    match &bucket.lock {
        Some(lock) => Ok(respond::xml(lock::configuration_document(lock))),
        None => {
            let none = Code::ObjectLockConfigurationNotFoundError;
            Err(S3Error::of_bucket(none, &bucket.name))
        }
    }
}

/// Answers PutObjectLockConfiguration.
pub async fn put_configuration(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    check_digest(call)?;
    if call.header("x-amz-bucket-object-lock-token")?.is_some() {
        return Err(S3Error::not_implemented("x-amz-bucket-object-lock-token"));
    }
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let lock = lock::configuration(&document)?;
    call.model.set_bucket_lock(on.bucket(), lock).await?;
    Ok(respond::empty(StatusCode::OK))
}

/// Checks that a document comes with a checksum.
pub(super) fn check_digest(call: &Call<'_>) -> S3Result<()> {
    match call.expected()?.has_digest() {
        true => Ok(()),
        false => {
            let why = "Missing required header for this request: Content-MD5 OR x-amz-checksum-*";
            Err(S3Error::new(Code::InvalidRequest, why))
        }
    }
}

/// Checks that the bucket has object lock. The answer is about the bucket as this node knows it; a
/// change is judged again when it is made.
fn check_lock(on: &Authorised<OnObject>) -> S3Result<()> {
    match on.bucket().lock {
        Some(_) => Ok(()),
        None => Err(archipel_model::Error::NoBucketLock.into()),
    }
}

/// Answers GetObjectRetention.
pub async fn get_retention(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    check_lock(on)?;
    let head = on.head(call).await?;
    match head.lock.retention {
        Some(retention) => Ok(respond::xml(lock::retention_document(retention))),
        None => Err(Code::NoSuchObjectLockConfiguration.into()),
    }
}

/// Reads what PutObjectRetention or PutObjectLegalHold ask for.
async fn read(call: &mut Call<'_>, op: ObjectOp) -> S3Result<ObjectLock> {
    check_digest(call)?;
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let mut asked = ObjectLock::default();
    match op {
        ObjectOp::PutObjectLegalHold => asked.legal_hold = Some(lock::legal_hold(&document)?),
        _ => asked.retention = lock::retention(&document, call.now_ms())?,
    }
    Ok(asked)
}

/// Returns what was read before the decision, or else reads it.
async fn asked(call: &mut Call<'_>, op: ObjectOp) -> S3Result<ObjectLock> {
    match call.asked_lock {
        Some(asked) => Ok(asked),
        None => read(call, op).await,
    }
}

/// Reads it before the decision, if a policy depends on it.
pub async fn read_early(
    call: &mut Call<'_>,
    caller: &Caller,
    bucket: &str,
    op: ObjectOp,
) -> S3Result<()> {
    if auth::depends_on(call, caller, bucket, lock::CONDITIONS)? {
        call.asked_lock = Some(read(call, op).await?);
    }
    Ok(())
}

/// Answers PutObjectRetention.
pub async fn put_retention(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    check_lock(on)?;
    let asked = asked(call, ObjectOp::PutObjectRetention).await?;
    let retention = asked.retention;
    let governance = governance_of(call, on)?;
    change(call, on, LockChange::Retention(retention, governance)).await
}

/// Answers GetObjectLegalHold.
pub async fn get_legal_hold(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    check_lock(on)?;
    let head = on.head(call).await?;
    match head.lock.legal_hold {
        Some(hold) => Ok(respond::xml(lock::legal_hold_document(hold))),
        None => Err(Code::NoSuchObjectLockConfiguration.into()),
    }
}

/// Answers PutObjectLegalHold.
pub async fn put_legal_hold(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    check_lock(on)?;
    let asked = asked(call, ObjectOp::PutObjectLegalHold).await?;
    let hold = asked.legal_hold == Some(true);
    change(call, on, LockChange::LegalHold(hold)).await
}

async fn change(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    change: LockChange,
) -> S3Result<Answer> {
    let id = on.version()?;
    let changed = call
        .model
        .change_lock(on.bucket(), on.key(), id, change)
        .await;
    let id = changed.map_err(|error| with_key(error, on.key()))?;
    let mut answer = respond::empty(StatusCode::OK);
    set_version_header(&mut answer, on.bucket(), id)?;
    Ok(answer)
}

/// Returns the effect of governance: a bypass if the request asks for it, and the caller may.
pub fn governance_of(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Governance> {
    let asks = lock::asks_bypass(call.headers)?;
    let may = || on.key_action(call, Action::BypassGovernanceRetention);
    Ok(match asks && may().is_ok() {
        true => Governance::Bypass,
        false => Governance::Respect,
    })
}
