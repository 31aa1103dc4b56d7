//! PutObject.

use archipel_model::{Checksum, Condition, Error, ObjectHead, ObjectMeta};
use http::StatusCode;

use super::made::{self, Made};
use super::{MAX_PUT_BYTES, set_checksum};
use crate::s3::acl;
use crate::s3::auth::{Authorised, OnObject};
use crate::s3::call::Call;
use crate::s3::checksum::Algorithm;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lock;
use crate::s3::metadata;
use crate::s3::precondition;
use crate::s3::respond::{self, Answer};
use crate::s3::sse;
use crate::s3::tagging;
use crate::s3::transfer::transfer;

/// Content up to this size is read before its condition is tested: an early test would cost more.
const EARLY_BYTES: u64 = 1 << 20;

/// Answers PutObject.
pub async fn put_object(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let length = call.content_length()?;
    check_size(length)?;
    let headers = metadata::of_headers(call.headers)?;
    let tags = tagging::of_headers(call.headers)?;
    let acl = acl::of_new(call.model, call.headers, on.bucket())?;
    let lock = lock::of_new(call.headers, call.now_ms(), on.bucket())?;
    let encryption = sse::of_new(call, on.bucket())?;
    let expected = call.expected()?;
    lock::check_digest(&expected, lock, on.bucket().lock.as_ref())?;
    let condition = precondition::of_write(call.headers)?;
    if length > EARLY_BYTES {
        fail_early(call, on, &condition).await?;
    }
    let mut writer = made::begin(call, on, encryption.as_ref()).await?;
    let wanted = expected.wanted(Algorithm::Crc64Nvme);
    let moved = transfer(&mut call.body, &mut writer, wanted, length).await?;
    if moved.size != length {
        return Err(Code::IncompleteBody.into());
    }
    expected.check(&moved.digests, call.body.trailers())?;
    let meta = ObjectMeta {
        lock,
        etag: moved.digests.etag(),
        headers,
        checksum: Some(moved.digests.checksum.stored()),
        tags,
        acl,
    };
    let head = writer.finish(meta, condition).await;
    let head = head.map_err(|error| on.missing(call, error))?;
    let mut answer = stored(&head.etag, head.checksum.as_ref())?;
    sse::headers_of_new(encryption.as_ref()).set_on(&mut answer)?;
    let made = Made::of(call.model, on.bucket(), on.key(), &head);
    made.set_on(&mut answer, on.bucket())?;
    Ok(answer)
}

/// Makes the answer to what was stored: its tag and checksum.
pub fn stored(etag: &str, checksum: Option<&Checksum>) -> S3Result<Answer> {
    let mut answer = respond::empty(StatusCode::OK);
    respond::set(&mut answer, "etag", &respond::quoted(etag))?;
    if let Some(checksum) = checksum {
        set_checksum(&mut answer, checksum)?;
    }
    Ok(answer)
}

/// Refuses content that is too large for one request.
///
/// # Errors
/// [`Code::EntityTooLarge`].
pub fn check_size(length: u64) -> S3Result<()> {
    if length <= MAX_PUT_BYTES {
        return Ok(());
    }
    Err(S3Error::from(Code::EntityTooLarge)
        .with("ProposedSize", length.to_string())
        .with("MaxSizeAllowed", MAX_PUT_BYTES.to_string()))
}

/// Tests a condition before the client sends content in vain. Only the test that the write itself
/// makes is decisive.
pub async fn fail_early(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    condition: &Condition,
) -> S3Result<()> {
    let Condition::Check(test) = condition else {
        return Ok(());
    };
    let current: Option<ObjectHead> = match call.model.head_object(on.bucket(), on.key()).await {
        Ok(head) => Some(head),
        Err(Error::NoSuchKey | Error::Deleted(_)) => None,
        Err(error) => return Err(error.into()),
    };
    test(current.as_ref()).map_err(|error| on.missing(call, error))
}
