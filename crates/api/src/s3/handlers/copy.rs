//! CopyObject, and the opening of its source, which UploadPartCopy shares.

use std::sync::{Arc, OnceLock};

use archipel_access::Action;
use archipel_model::{
    Bucket, Condition, Error, Model, ObjectHead, ObjectMeta, ObjectReader, ObjectStream,
    ObjectWriter,
};

use super::made::{self, Made};
use super::put::fail_early;
use super::{MAX_PUT_BYTES, set_version_in, with_key, write_checksum};
use crate::s3::acl;
use crate::s3::auth::{self, Authorised, OnObject};
use crate::s3::call::Call;
use crate::s3::checksum::{Algorithm, Wanted};
use crate::s3::copy_source::CopySourceName;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lock;
use crate::s3::metadata::{self, REDIRECT, STORAGE_CLASS};
use crate::s3::precondition::{self, Verdict};
use crate::s3::respond::{self, Answer};
use crate::s3::slow;
use crate::s3::sse::{self, EncryptionHeaders};
use crate::s3::tagging;
use crate::s3::target::check_key;
use crate::s3::transfer::transfer;
use crate::s3::xml::Writer;

/// The header that names the version which was copied.
pub const SOURCE_VERSION: &str = "x-amz-copy-source-version-id";

/// The header that names a range of the source. Only parts are copied from ranges.
pub const SOURCE_RANGE: &str = "x-amz-copy-source-range";

/// The header that says where the metadata come from. Parts have none.
pub const METADATA_DIRECTIVE: &str = "x-amz-metadata-directive";

/// The source of a copy, which this caller may read.
pub struct CopySource {
    /// The object that is read.
    pub on: Authorised<OnObject>,
    /// Its content.
    pub reader: ObjectReader,
    /// The headers that say how it is encrypted.
    pub encryption: EncryptionHeaders,
}

impl CopySource {
    /// Returns true if the source is the current version of this object.
    fn is_at(&self, on: &Authorised<OnObject>) -> bool {
        self.on.bucket().id == on.bucket().id
            && self.on.key() == on.key()
            && self.on.named_version().is_none()
    }
}

/// Opens the source that the headers name, if the caller may read it and its conditions hold.
///
/// # Errors
/// [`Code::InvalidArgument`], those of authorisation, [`Code::NoSuchKey`],
/// [`Code::PreconditionFailed`].
pub async fn open_source(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<CopySource> {
    let name = "x-amz-copy-source";
    let text = call.header(name)?.unwrap_or_default();
    let source = CopySourceName::parse(text).ok_or_else(|| {
        let why = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey";
        S3Error::argument(name, text, why)
    })?;
    check_key(&source.key)?;
    let source = auth::source(call, on.caller(), &source)?;
    let mut reader = match source.open(call).await {
        Err(error) if error.code() == Code::MethodNotAllowed => {
            let why = "The source of a copy request may not specifically refer to a delete marker by version id.";
            return Err(S3Error::new(Code::InvalidRequest, why));
        }
        opened => opened?,
    };
    let encryption = sse::unlock_source(call, &mut reader)?;
    let conditions = precondition::Read::of_copy_source(call.headers)?.at(call.now_ms());
    match conditions.check(reader.metadata()) {
        Verdict::Pass => Ok(CopySource {
            on: source,
            reader,
            encryption,
        }),
        Verdict::NotModified(header) | Verdict::Failed(header) => {
            Err(precondition::source_failed(header))
        }
    }
}

/// Refuses a header that only the other kind of copy has, and that this one would ignore.
///
/// # Errors
/// [`Code::InvalidArgument`], as in S3.
pub fn refuse_header(call: &Call<'_>, name: &str) -> S3Result<()> {
    let why = "The specified header is not valid in this context";
    match call.header(name)? {
        Some(value) => Err(S3Error::argument(name, value, why)),
        None => Ok(()),
    }
}

/// Answers CopyObject.
pub async fn copy_object(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    refuse_header(call, SOURCE_RANGE)?;
    let replaces = replaces_metadata(call)?;
    let new_tags = match tagging::replaces(call.headers)? {
        true => Some(tagging::of_headers(call.headers)?),
        false => None,
    };
    let condition = precondition::of_write(call.headers)?;
    let chosen = chosen_algorithm(call)?;
    let source = open_source(call, on).await?;
    let head = source.reader.metadata();
    let headers = copied_headers(call, head, replaces)?;
    let acl = acl::of_new(call.model, call.headers, on.bucket())?;
    let lock = lock::of_new(call.headers, call.now_ms(), on.bucket())?;
    let encryption = sse::of_new(call, on.bucket())?;
    let encrypted = sse::headers_of_new(encryption.as_ref());
    if new_tags.is_none() && !head.tags.is_empty() {
        permit_tags(call, on, (&source.on, head)).await?;
    }
    // S3 takes the same storage class once more for a change.
    let names_class = call.headers.contains_key(STORAGE_CLASS);
    let is_changed = replaces || headers != head.headers || encrypted != source.encryption;
    if !is_changed && chosen.is_none() && !names_class && source.is_at(on) {
        let why = "This copy request is illegal because it is trying to copy an object to itself \
                   without changing the object's metadata, storage class, website redirect \
                   location or encryption attributes.";
        return Err(S3Error::new(Code::InvalidRequest, why));
    }
    check_source_size(head.size)?;
    fail_early(call, on, &condition).await?;

    let kept = chosen.or_else(|| algorithm_of(head));
    let meta = ObjectMeta {
        lock,
        headers,
        tags: new_tags.unwrap_or_else(|| head.tags.clone()),
        acl,
        ..ObjectMeta::default()
    };
    let copying = Copying {
        model: call.model.clone(),
        bucket: on.bucket().clone(),
        key: on.key().to_owned(),
        size: head.size,
        writer: made::begin(call, on, encryption.as_ref()).await?,
        content: source.reader.stream(0..head.size),
        meta,
        condition,
        may_list: on.may_list(call),
        made: Arc::default(),
    };
    let made = copying.made.clone();
    let (source_bucket, source_id) = (source.on.bucket().clone(), head.id);
    let copied = copying.run(kept.unwrap_or(Algorithm::Crc64Nvme));
    let mut answer = slow::answer(copied).await?;
    set_version_in(&mut answer, SOURCE_VERSION, &source_bucket, source_id)?;
    encrypted.set_on(&mut answer)?;
    // An answer that had to begin before the copy was done does not tell the rest.
    if let Some(made) = made.get() {
        made.set_on(&mut answer, on.bucket())?;
    }
    Ok(answer)
}

/// Decides whether the caller may copy the tags of the source, too.
async fn permit_tags(
    call: &mut Call<'_>,
    on: &Authorised<OnObject>,
    (source, head): (&Authorised<OnObject>, &ObjectHead),
) -> S3Result<()> {
    let action = match source.named_version() {
        Some(_) => Action::GetObjectTagging.of_version(),
        None => Action::GetObjectTagging,
    };
    source.also(call, action, head)?;
    // Conditions look at the tags of the new object.
    call.tags = Some(head.tags.clone());
    on.replacing_action(call, Action::PutObjectTagging).await
}

/// A copy under way. It owns all that it needs, because it may go on after the answer has begun.
struct Copying {
    model: Model,
    bucket: Arc<Bucket>,
    key: String,
    size: u64,
    content: ObjectStream,
    writer: ObjectWriter,
    /// The metadata of the copy, which lack the tag and the checksum of the content.
    meta: ObjectMeta,
    condition: Condition,
    /// True if the caller may know that the key is missing.
    may_list: bool,
    made: Arc<OnceLock<Made>>,
}

impl Copying {
    /// Moves the content, and returns the document of the answer.
    async fn run(mut self, algorithm: Algorithm) -> S3Result<Writer> {
        let wanted = Wanted::of_copy(algorithm);
        let moved = transfer(&mut self.content, &mut self.writer, wanted, self.size).await?;
        if moved.size != self.size {
            return Err(Code::InternalError.into());
        }
        let meta = ObjectMeta {
            etag: moved.digests.etag(),
            checksum: Some(moved.digests.checksum.stored()),
            ..self.meta
        };
        let copied = self.writer.finish(meta, self.condition).await;
        let copied = copied.map_err(|error| match error {
            Error::NoSuchKey if !self.may_list => Code::AccessDenied.into(),
            error => with_key(error, &self.key),
        })?;
        self.made
            .get_or_init(|| Made::of(&self.model, &self.bucket, &self.key, &copied));
        Ok(copy_result(&copied))
    }
}

/// Refuses a source, or a range of one, that is larger than a copy may be.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_source_size(size: u64) -> S3Result<()> {
    if size <= MAX_PUT_BYTES {
        return Ok(());
    }
    let why = "The specified copy source is larger than the maximum allowable size for a copy \
               source: 5368709120";
    Err(S3Error::new(Code::InvalidRequest, why))
}

fn copy_result(copied: &ObjectHead) -> Writer {
    let mut xml = Writer::new("CopyObjectResult");
    xml.text("LastModified", &respond::iso_seconds(copied.modified_ms));
    xml.text("ETag", &respond::quoted(&copied.etag));
    if let Some(checksum) = &copied.checksum {
        write_checksum(&mut xml, checksum);
    }
    xml
}

fn replaces_metadata(call: &Call<'_>) -> S3Result<bool> {
    let name = METADATA_DIRECTIVE;
    match call.header(name)? {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => Err(S3Error::argument(
            name,
            other,
            "Unknown metadata directive.",
        )),
    }
}

/// Returns the checksum algorithm that a header asks for.
///
/// # Errors
/// [`Code::InvalidRequest`] for an unknown one.
pub fn chosen_algorithm(call: &Call<'_>) -> S3Result<Option<Algorithm>> {
    let Some(name) = call.header("x-amz-checksum-algorithm")? else {
        return Ok(None);
    };
    let why = "Checksum algorithm provided is unsupported. Please try again with any of the valid \
               types: [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH64, XXHASH3, \
               XXHASH128]";
    let algorithm = Algorithm::of_name(name);
    algorithm
        .map(Some)
        .ok_or(S3Error::new(Code::InvalidRequest, why))
}

fn algorithm_of(head: &ObjectHead) -> Option<Algorithm> {
    Algorithm::of_name(&head.checksum.as_ref()?.algorithm)
}

/// Returns the source's metadata or the request's; storage class and website redirect are always
/// the request's.
fn copied_headers(
    call: &Call<'_>,
    head: &ObjectHead,
    replaces: bool,
) -> S3Result<Vec<(String, String)>> {
    if replaces {
        return metadata::of_headers(call.headers);
    }
    let mut kept = head.headers.clone();
    kept.retain(|(name, _)| ![STORAGE_CLASS, REDIRECT].contains(&name.as_str()));
    metadata::finish(kept, call.headers)
}
