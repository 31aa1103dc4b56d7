//! The operations, grouped by what they act on. Each takes what [`super::auth`] permitted.

mod acl;
mod attributes;
mod buckets;
mod complete;
mod copy;
mod cors;
mod delete;
mod encoding;
mod encryption;
pub(crate) mod get;
mod lifecycle;
mod listen;
mod listing;
mod lock;
mod made;
mod notification;
mod parts;
pub(crate) mod policy;
mod post;
mod put;
mod tagging;
mod unconfigured;
mod uploads;
mod versions;
mod website;

use archipel_model::{Bucket, Checksum, VersionId};

use super::auth::{self, Authorised, Caller, OnBucket, OnObject};
use super::call::Call;
use super::checksum::{self, Algorithm, Value};
use super::error::{Code, S3Error, S3Result};
use super::respond::{self, Answer};
use super::route::{BucketOp, ObjectOp, Operation};
use super::sse;
use super::xml::Writer;

pub use post::post_object;

/// The largest content of one request.
pub const MAX_PUT_BYTES: u64 = 5 << 30;

/// The header with the object ownership of a new bucket.
const OWNERSHIP_HEADER: &str = "x-amz-object-ownership";

/// Runs the operation if the caller has the permission.
pub async fn dispatch(
    call: &mut Call<'_>,
    caller: &Caller,
    operation: Operation,
) -> S3Result<Answer> {
    if !operation.reads_body() {
        call.check_unread_body().await?;
    }
    sse::refuse_headers(call, operation)?;
    let target = call.target;
    let bucket = target.bucket.as_deref().unwrap_or_default();
    let key = target.key.as_deref().unwrap_or_default();
    match operation {
        Operation::ListBuckets => buckets::list(call, &auth::service(call, caller)?),
        Operation::ListenNotification => {
            let on = auth::all_events(call, caller)?;
            Box::pin(listen::on_all(call, &on)).await
        }
        Operation::GetAccountPublicAccessBlock => {
            unconfigured::account_block(&auth::account_block(call, caller)?)
        }
        Operation::CreateBucket => {
            let asked = buckets::read(call).await?;
            let on = auth::create(call, caller, bucket, &asked)?;
            refuse_tags(call, operation)?;
            refuse_locks(call, operation)?;
            buckets::create(call, &on, asked).await
        }
        // PostObject authenticates by its form, not by the request.
        Operation::PostObject => Err(post::refuse_signed(call)),
        Operation::Bucket(op) => {
            if op == BucketOp::TagResource {
                tagging::read_resource_early(call, caller, bucket).await?;
            }
            let on = auth::bucket(call, caller, op, bucket)?;
            if op != BucketOp::PutBucketAcl {
                refuse_acls(call)?;
            }
            refuse_ownership(call)?;
            refuse_tags(call, operation)?;
            refuse_locks(call, operation)?;
            on_bucket(call, &on, op).await
        }
        Operation::Object(op) => {
            call.creates = auth::conditions::creates(op);
            match op {
                ObjectOp::PutObjectTagging => tagging::read_early(call, caller, bucket).await?,
                ObjectOp::PutObjectLegalHold | ObjectOp::PutObjectRetention => {
                    lock::read_early(call, caller, bucket, op).await?;
                }
                ObjectOp::CompleteMultipartUpload
                | ObjectOp::UploadPart
                | ObjectOp::UploadPartCopy => {
                    uploads::read_early(call, caller, bucket, key).await?;
                }
                _ => {}
            }
            let on = auth::object(call, caller, op, bucket, key).await?;
            if !op.makes_object() && op != ObjectOp::PutObjectAcl {
                refuse_acls(call)?;
            }
            refuse_ownership(call)?;
            refuse_tags(call, operation)?;
            refuse_locks(call, operation)?;
            on_object(call, &on, op).await
        }
    }
}

async fn on_bucket(
    call: &mut Call<'_>,
    on: &Authorised<OnBucket>,
    op: BucketOp,
) -> S3Result<Answer> {
    match op {
        BucketOp::DeleteBucket => buckets::delete(call, on).await,
        BucketOp::DeleteBucketAnalyticsConfiguration
        | BucketOp::DeleteBucketIntelligentTieringConfiguration
        | BucketOp::DeleteBucketInventoryConfiguration
        | BucketOp::DeleteBucketMetricsConfiguration => unconfigured::delete(call, on),
        BucketOp::DeleteBucketCors => cors::delete(call, on).await,
        BucketOp::DeleteBucketEncryption => encryption::delete(call, on).await,
        BucketOp::DeleteBucketLifecycle => lifecycle::delete(call, on).await,
        BucketOp::DeleteBucketMetadataConfiguration
        | BucketOp::DeleteBucketMetadataTableConfiguration
        | BucketOp::GetBucketMetadataConfiguration
        | BucketOp::GetBucketMetadataTableConfiguration => unconfigured::metadata(on),
        BucketOp::DeleteBucketTagging => tagging::delete_of_bucket(call, on).await,
        BucketOp::DeleteBucketOwnershipControls => policy::delete_ownership(call, on).await,
        BucketOp::DeleteBucketPolicy => policy::delete(call, on).await,
        BucketOp::DeleteBucketReplication => Ok(unconfigured::delete_replication(on)),
        BucketOp::DeleteBucketWebsite => website::delete(call, on).await,
        BucketOp::DeleteObjects => delete::delete_objects(call, on).await,
        BucketOp::DeletePublicAccessBlock => policy::delete_block(call, on).await,
        BucketOp::GetBucketAbac => unconfigured::abac(on),
        BucketOp::GetBucketAccelerateConfiguration => unconfigured::accelerate(on),
        BucketOp::GetBucketAcl => acl::get_of_bucket(call, on),
        BucketOp::GetBucketCors => cors::get(on),
        BucketOp::GetBucketEncryption => encryption::get(on),
        BucketOp::GetBucketLifecycleConfiguration => lifecycle::get(on),
        BucketOp::GetBucketLocation => buckets::location(call, on),
        BucketOp::GetBucketLogging => unconfigured::logging(on),
        BucketOp::GetBucketNotificationConfiguration => Ok(notification::get(on)),
        BucketOp::GetBucketOwnershipControls => policy::get_ownership(on),
        BucketOp::GetBucketPolicy => policy::get(on),
        BucketOp::GetBucketPolicyStatus => policy::status(on),
        BucketOp::GetBucketReplication => unconfigured::replication(on),
        BucketOp::GetBucketRequestPayment => policy::payment(on),
        BucketOp::GetBucketTagging => tagging::get_of_bucket(on),
        BucketOp::GetBucketVersioning => lock::get_versioning(on),
        BucketOp::GetBucketWebsite => website::get(on),
        BucketOp::GetObjectLockConfiguration => lock::get_configuration(on),
        BucketOp::GetPublicAccessBlock => policy::get_block(on),
        BucketOp::HeadBucket => buckets::head(call, on),
        BucketOp::ListBucketAnalyticsConfigurations
        | BucketOp::ListBucketIntelligentTieringConfigurations
        | BucketOp::ListBucketInventoryConfigurations
        | BucketOp::ListBucketMetricsConfigurations => unconfigured::list(call, on, op),
        BucketOp::ListMultipartUploads => uploads::list(call, on).await,
        BucketOp::ListObjectVersions => Box::pin(versions::list(call, on)).await,
        BucketOp::ListObjects => listing::version_1(call, on).await,
        BucketOp::ListObjectsV2 => listing::version_2(call, on).await,
        BucketOp::PutBucketAbac => unconfigured::put_abac(call, on).await,
        BucketOp::PutBucketAccelerateConfiguration => unconfigured::put_accelerate(call, on).await,
        BucketOp::PutBucketAcl => acl::put_of_bucket(call, on).await,
        BucketOp::PutBucketCors => cors::put(call, on).await,
        BucketOp::PutBucketEncryption => encryption::put(call, on).await,
        BucketOp::PutBucketLifecycleConfiguration => lifecycle::put(call, on).await,
        BucketOp::PutBucketLogging => unconfigured::put_logging(call, on).await,
        BucketOp::PutBucketNotificationConfiguration => Box::pin(notification::put(call, on)).await,
        BucketOp::PutBucketOwnershipControls => policy::put_ownership(call, on).await,
        BucketOp::PutBucketPolicy => policy::put(call, on).await,
        BucketOp::PutBucketRequestPayment => policy::put_payment(call, on).await,
        BucketOp::PutBucketTagging => tagging::put_of_bucket(call, on).await,
        BucketOp::PutBucketVersioning => Box::pin(lock::put_versioning(call, on)).await,
        BucketOp::PutBucketWebsite => website::put(call, on).await,
        BucketOp::PutObjectLockConfiguration => Box::pin(lock::put_configuration(call, on)).await,
        BucketOp::PutPublicAccessBlock => policy::put_block(call, on).await,
        BucketOp::ListenBucketNotification => Box::pin(listen::on_bucket(call, on)).await,
        BucketOp::ListTagsForResource => Ok(tagging::list_of_resource(on)),
        BucketOp::TagResource => tagging::tag_resource(call, on).await,
        BucketOp::UntagResource => tagging::untag_resource(call, on).await,
    }
}

/// Runs an operation on an object. Each one is boxed: together they would take too much of the
/// stack.
async fn on_object(
    call: &mut Call<'_>,
    on: &Authorised<OnObject>,
    op: ObjectOp,
) -> S3Result<Answer> {
    match op {
        ObjectOp::AbortMultipartUpload => Box::pin(uploads::abort(call, on)).await,
        ObjectOp::CompleteMultipartUpload => Box::pin(complete::complete(call, on)).await,
        ObjectOp::CopyObject => Box::pin(copy::copy_object(call, on)).await,
        ObjectOp::CreateMultipartUpload => Box::pin(uploads::create(call, on)).await,
        ObjectOp::DeleteObject => Box::pin(delete::delete_object(call, on)).await,
        ObjectOp::DeleteObjectTagging => Box::pin(tagging::delete_of_object(call, on)).await,
        ObjectOp::GetObject => Box::pin(get::get_object(call, on)).await,
        ObjectOp::GetObjectAcl => Box::pin(acl::get_of_object(call, on)).await,
        ObjectOp::GetObjectAttributes => Box::pin(attributes::get(call, on)).await,
        ObjectOp::GetObjectLegalHold => Box::pin(lock::get_legal_hold(call, on)).await,
        ObjectOp::GetObjectRetention => Box::pin(lock::get_retention(call, on)).await,
        ObjectOp::GetObjectTagging => Box::pin(tagging::get_of_object(call, on)).await,
        ObjectOp::HeadObject => Box::pin(get::head_object(call, on)).await,
        ObjectOp::ListParts => Box::pin(uploads::list_parts(call, on)).await,
        ObjectOp::PutObject => Box::pin(put::put_object(call, on)).await,
        ObjectOp::PutObjectAcl => Box::pin(acl::put_of_object(call, on)).await,
        ObjectOp::PutObjectLegalHold => Box::pin(lock::put_legal_hold(call, on)).await,
        ObjectOp::PutObjectRetention => Box::pin(lock::put_retention(call, on)).await,
        ObjectOp::PutObjectTagging => Box::pin(tagging::put_of_object(call, on)).await,
        ObjectOp::RestoreObject => Box::pin(unconfigured::restore_object(call, on)).await,
        ObjectOp::UploadPart => Box::pin(parts::upload_part(call, on)).await,
        ObjectOp::UploadPartCopy => Box::pin(parts::upload_part_copy(call, on)).await,
    }
}

/// Refuses headers about tags where they would be ignored.
fn refuse_tags(call: &Call<'_>, operation: Operation) -> S3Result<()> {
    use super::tagging::{DIRECTIVE, TAGGING};
    use ObjectOp::{CopyObject, CreateMultipartUpload, PutObject};
    let refused: &[&str] = match operation {
        Operation::Object(CopyObject) => &[],
        Operation::Object(CreateMultipartUpload | PutObject) => &[DIRECTIVE],
        _ => &[TAGGING, DIRECTIVE],
    };
    match refused
        .iter()
        .find(|name| call.headers.contains_key(**name))
    {
        Some(name) => Err(S3Error::from(Code::NotImplemented).with("Header", *name)),
        None => Ok(()),
    }
}

/// Refuses headers about object lock where they would be ignored.
fn refuse_locks(call: &Call<'_>, operation: Operation) -> S3Result<()> {
    use super::lock::{BYPASS, ENABLED, HEADERS};
    use ObjectOp::{DeleteObject, PutObjectRetention};
    let bypasses = matches!(
        operation,
        Operation::Bucket(BucketOp::DeleteObjects)
            | Operation::Object(DeleteObject | PutObjectRetention)
    );
    let makes_object = matches!(operation, Operation::Object(op) if op.makes_object());
    let makes_bucket = operation == Operation::CreateBucket;
    let asks = |name: &str| call.headers.get(name).is_some_and(|value| value != "false");
    let refused = HEADERS.into_iter().filter(|_| !makes_object);
    let refused = refused.chain((!bypasses).then_some(BYPASS));
    let mut refused = refused.chain((!makes_bucket).then_some(ENABLED));
    match refused.find(|name| asks(name)) {
        Some(name) => Err(S3Error::from(Code::NotImplemented).with("Header", name)),
        None => Ok(()),
    }
}

/// Sets `x-amz-version-id`, unless the bucket never had versions.
fn set_version_header(answer: &mut Answer, bucket: &Bucket, id: VersionId) -> S3Result<()> {
    set_version_in(answer, "x-amz-version-id", bucket, id)
}

/// Sets a header to the id of a version, unless the bucket never had versions.
fn set_version_in(
    answer: &mut Answer,
    header: &'static str,
    bucket: &Bucket,
    id: VersionId,
) -> S3Result<()> {
    if id == VersionId::Null && !bucket.versioning.has_versions() {
        return Ok(());
    }
    respond::set(answer, header, &id.to_string())
}

/// Refuses headers about access control lists where they would be ignored.
fn refuse_acls(call: &Call<'_>) -> S3Result<()> {
    use super::acl;
    let canned = acl::of_canned(call.headers)?;
    let sets = canned.is_some_and(|acl| !acl.is_private());
    match sets.then_some(acl::HEADER).or(acl::grants(call.headers)) {
        Some(name) => Err(S3Error::from(Code::NotImplemented).with("Header", name)),
        None => Ok(()),
    }
}

/// Refuses the header about object ownership where it would be ignored.
fn refuse_ownership(call: &Call<'_>) -> S3Result<()> {
    if call.headers.contains_key(OWNERSHIP_HEADER) {
        return Err(S3Error::from(Code::NotImplemented).with("Header", OWNERSHIP_HEADER));
    }
    Ok(())
}

/// Says why an object was not changed. A version that fails the test is one that the caller may not
/// change.
fn unchanged(error: archipel_model::Error, key: &str) -> S3Error {
    match error {
        archipel_model::Error::PreconditionFailed => Code::AccessDenied.into(),
        error => with_key(error, key),
    }
}

/// Adds the key to `NoSuchKey`.
fn with_key(error: archipel_model::Error, key: &str) -> S3Error {
    let error = S3Error::from(error);
    match error.code() {
        Code::NoSuchKey => error.with("Key", key),
        _ => error,
    }
}

/// Writes the checksum's element, and its kind.
fn write_checksum(xml: &mut Writer, checksum: &Checksum) {
    if let Some(algorithm) = Algorithm::of_name(&checksum.algorithm) {
        xml.text(algorithm.element(), &checksum.value);
        xml.text("ChecksumType", checksum::kind_name(checksum.kind));
    }
}

/// Writes the element of a part's checksum, if there is one. Parts have no kind.
fn write_part_checksum(xml: &mut Writer, checksum: Option<&Checksum>) {
    if let Some(value) = checksum.and_then(Value::of_stored) {
        xml.text(value.algorithm.element(), &value.to_base64());
    }
}

/// Sets the checksum's header, and its kind.
fn set_checksum(answer: &mut Answer, checksum: &Checksum) -> S3Result<()> {
    if let Some(algorithm) = Algorithm::of_name(&checksum.algorithm) {
        respond::set(answer, algorithm.header(), &checksum.value)?;
        respond::set(
            answer,
            "x-amz-checksum-type",
            checksum::kind_name(checksum.kind),
        )?;
    }
    Ok(())
}
