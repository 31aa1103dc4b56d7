//! UploadPart and UploadPartCopy.

use std::ops::Range;

use archipel_model::{MAX_PART_NUMBER, Part, PartMeta, PartWriter, Upload};

use super::copy::{
    METADATA_DIRECTIVE, SOURCE_RANGE, SOURCE_VERSION, check_source_size, open_source, refuse_header,
};
use super::put::{check_size, stored};
use super::uploads::upload_id;
use super::{set_version_in, write_part_checksum};
use crate::s3::auth::{Authorised, OnObject};
use crate::s3::call::Call;
use crate::s3::checksum::{Algorithm, Digests, Expected, Value, Wanted};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lock;
use crate::s3::range;
use crate::s3::respond::{self, Answer};
use crate::s3::slow;
use crate::s3::sse::{self, PartKey};
use crate::s3::transfer::transfer;
use crate::s3::xml::Writer;

/// Answers UploadPart.
pub async fn upload_part(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let number = part_number(call)?;
    let length = call.content_length()?;
    check_size(length)?;
    let expected = call.expected()?;
    let upload = to_write(call, on).await?;
    check_algorithm(&upload, &expected)?;
    lock::check_part_digest(&expected, upload.meta.lock, on.bucket().lock.as_ref())?;
    let key = sse::of_part(call, on, &upload).await?;

    let mut writer = begin(call, on, &upload, number, key.as_ref())?;
    let wanted = expected.wanted_with(kept_algorithm(&upload));
    let moved = transfer(&mut call.body, &mut writer, wanted, length).await?;
    if moved.size != length {
        return Err(Code::IncompleteBody.into());
    }
    expected.check(&moved.digests, call.body.trailers())?;
    // The client is told of the checksum that it knows of.
    let shown = match (expected.algorithm(), &upload.meta.checksum_algorithm) {
        (Some(algorithm), _) => moved.digests.value(algorithm).map(Value::stored),
        _ => Some(moved.digests.checksum.stored()),
    };
    let part = writer.finish(meta_of(&moved.digests)).await?;
    let mut answer = stored(&part.etag, shown.as_ref())?;
    // The kind is of objects.
    answer.headers_mut().remove("x-amz-checksum-type");
    if let Some(key) = &key {
        key.headers.set_on(&mut answer)?;
    }
    Ok(answer)
}

async fn to_write(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Upload> {
    let id = upload_id(call)?;
    let found = call.model.upload_to_write(on.bucket(), on.key(), &id);
    Ok(found.await?)
}

/// Begins a part, encrypted as its upload is.
fn begin(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    upload: &Upload,
    number: u16,
    key: Option<&PartKey>,
) -> S3Result<PartWriter> {
    let mut writer = call.model.begin_part(on.bucket(), upload, number)?;
    if let Some(key) = key {
        writer.encrypt(&key.key, key.kind)?;
    }
    Ok(writer)
}

fn meta_of(digests: &Digests) -> PartMeta {
    PartMeta {
        etag: digests.etag(),
        checksum: Some(digests.checksum.stored()),
    }
}

fn part_number(call: &Call<'_>) -> S3Result<u16> {
    let text = call.target.query.single("partNumber")?.unwrap_or_default();
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    let number = text
        .parse()
        .ok()
        .filter(|n| plain && (1..=MAX_PART_NUMBER).contains(n));
    let why = "Part number must be an integer between 1 and 10000, inclusive";
    number.ok_or_else(|| S3Error::argument("partNumber", text, why))
}

/// Returns the algorithm of an upload's parts: the one that was chosen, or S3's default.
pub fn kept_algorithm(upload: &Upload) -> Algorithm {
    chosen_algorithm(upload).unwrap_or(Algorithm::Crc64Nvme)
}

/// Returns the algorithm that was chosen for an upload.
fn chosen_algorithm(upload: &Upload) -> Option<Algorithm> {
    let name = upload.meta.checksum_algorithm.as_deref();
    name.and_then(Algorithm::of_name)
}

/// Checks that a part's checksum is of the algorithm that was chosen for the upload.
fn check_algorithm(upload: &Upload, expected: &Expected) -> S3Result<()> {
    match (chosen_algorithm(upload), expected.algorithm()) {
        (Some(chosen), Some(declared)) if chosen != declared => {
            let lower = |algorithm: Algorithm| algorithm.name().to_ascii_lowercase();
            let why = format!(
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
                lower(chosen),
                lower(declared)
            );
            Err(S3Error::new(Code::InvalidRequest, why))
        }
        _ => Ok(()),
    }
}

/// Answers UploadPartCopy.
pub async fn upload_part_copy(call: &mut Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    refuse_header(call, METADATA_DIRECTIVE)?;
    let number = part_number(call)?;
    let upload = to_write(call, on).await?;
    let key = sse::of_part(call, on, &upload).await?;
    let source = open_source(call, on).await?;
    let range = copied_range(call, source.reader.metadata().size)?;
    let length = range.end - range.start;

    let (source_id, source_bucket) = (source.reader.metadata().id, source.on.bucket().clone());
    let mut content = source.reader.stream(range);
    let mut writer = begin(call, on, &upload, number, key.as_ref())?;
    let wanted = Wanted::of_copy(kept_algorithm(&upload));
    let copying = async move {
        let moved = transfer(&mut content, &mut writer, wanted, length).await?;
        if moved.size != length {
            return Err(Code::InternalError.into());
        }
        let part = writer.finish(meta_of(&moved.digests)).await?;
        Ok(copy_result(&part))
    };
    let mut answer = slow::answer(copying).await?;
    set_version_in(&mut answer, SOURCE_VERSION, &source_bucket, source_id)?;
    if let Some(key) = &key {
        key.headers.set_on(&mut answer)?;
    }
    Ok(answer)
}

fn copy_result(part: &Part) -> Writer {
    let mut xml = Writer::new("CopyPartResult");
    xml.text("LastModified", &respond::iso_seconds(part.modified_ms));
    xml.text("ETag", &respond::quoted(&part.etag));
    write_part_checksum(&mut xml, part.checksum.as_ref());
    xml
}

/// Returns the range that is copied: it must lie within the source.
fn copied_range(call: &Call<'_>, size: u64) -> S3Result<Range<u64>> {
    let name = SOURCE_RANGE;
    let range = match call.header(name)? {
        None => 0..size,
        Some(text) => {
            let exact = range::parse_exact(text).ok_or_else(|| {
                let why = "The x-amz-copy-source-range value must be of the form bytes=first-last \
                           where first and last are the zero-based offsets of the first and last \
                           bytes to copy";
                S3Error::argument(name, text, why)
            })?;
            if exact.end > size {
                let why = format!("Range specified is not valid for source object of size: {size}");
                return Err(S3Error::argument(name, text, why));
            }
            exact
        }
    };
    check_source_size(range.end - range.start)?;
    Ok(range)
}
