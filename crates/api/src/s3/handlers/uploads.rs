//! Multipart uploads: beginning, aborting, listing them and their parts.

use archipel_base::Id;
use archipel_model::{Error, Sealing, Upload, UploadMeta, UploadPage, UploadQuery};
use http::StatusCode;

use super::copy::chosen_algorithm;
use super::encoding::{Encoding, count_parameter};
use super::write_part_checksum;
use crate::s3::acl;
use crate::s3::auth::{self, Authorised, Caller, OnBucket, OnObject, conditions};
use crate::s3::call::Call;
use crate::s3::checksum::{self, Algorithm};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lifecycle;
use crate::s3::lock;
use crate::s3::metadata;
use crate::s3::owner::Owner;
use crate::s3::respond::{self, Answer};
use crate::s3::sse;
use crate::s3::tagging;
use crate::s3::xml::Writer;

/// The beginnings of the condition keys of what a request asks for, in lower case.
const REQUEST_HEADER: &str = "s3:x-amz-";
const REQUEST_TAG: &str = "s3:requestobjecttag";

/// The most uploads or parts of one answer.
const MAX_ENTRIES: usize = 1000;

/// Answers CreateMultipartUpload.
pub async fn create(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let headers = metadata::of_headers(call.headers)?;
    let algorithm = chosen_algorithm(call)?;
    let kind = chosen_kind(call, algorithm)?;
    let encryption = sse::of_new(call, on.bucket())?;
    let sealing = match &encryption {
        Some(new) => Some(new.seal(call, on.bucket(), on.key()).await?),
        None => None,
    };
    let meta = UploadMeta {
        encryption: sealing.as_ref().map(Sealing::encryption),
        lock: lock::of_new(call.headers, call.now_ms(), on.bucket())?,
        headers,
        checksum_algorithm: algorithm.map(|a| a.name().to_owned()),
        checksum_kind: kind,
        tags: tagging::of_headers(call.headers)?,
        acl: acl::of_new(call.model, call.headers, on.bucket())?,
        asked: conditions::of_upload(call.headers),
    };
    let initiator = on.caller().subject().map(|subject| subject.id());
    let upload = call
        .model
        .create_upload(on.bucket(), on.key(), initiator, meta)
        .await?;
    let mut xml = Writer::new("InitiateMultipartUploadResult");
    xml.text("Bucket", &on.bucket().name);
    xml.text("Key", on.key());
    xml.text("UploadId", &upload.id.to_string());
    let mut answer = respond::xml(xml);
    tell_abort(call, on, &mut answer, &upload)?;
    sse::headers_of_new(encryption.as_ref()).set_on(&mut answer)?;
    if let (Some(algorithm), Some(kind)) = (algorithm, kind) {
        respond::set(&mut answer, "x-amz-checksum-algorithm", algorithm.name())?;
        respond::set(
            &mut answer,
            "x-amz-checksum-type",
            checksum::kind_name(kind),
        )?;
    }
    Ok(answer)
}

/// Reads what the request asked for that began the upload, if a policy of this caller or bucket has
/// a condition on it.
///
/// # Errors
/// Those of the model. An upload that there is not has asked for nothing.
pub async fn read_early(
    call: &mut Call<'_>,
    caller: &Caller,
    bucket: &str,
    key: &str,
) -> S3Result<()> {
    let asks = |prefix| auth::depends_on(call, caller, bucket, prefix);
    if !asks(REQUEST_HEADER)? && !asks(REQUEST_TAG)? {
        return Ok(());
    }
    let (Ok(id), Some(found)) = (upload_id(call), auth::named(call.model, caller, bucket)?) else {
        return Ok(());
    };
    match call.model.upload_to_write(&found, key, &id).await {
        Ok(upload) => call.begun = Some(upload.meta),
        Err(Error::NoSuchUpload) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn chosen_kind(
    call: &Call<'_>,
    algorithm: Option<Algorithm>,
) -> S3Result<Option<archipel_model::ChecksumKind>> {
    let text = call.header("x-amz-checksum-type")?;
    let refuse = |why: String| Err(S3Error::new(Code::InvalidRequest, why));
    match (algorithm, text) {
        (None, None) => Ok(None),
        (None, Some(_)) => refuse(
            "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.".into(),
        ),
        (Some(algorithm), None) => Ok(Some(algorithm.default_kind())),
        (Some(algorithm), Some(text)) => match checksum::parse_kind(text) {
            Some(kind) if algorithm.has_kind(kind) => Ok(Some(kind)),
            Some(_) => refuse(format!(
                "The {text} checksum type cannot be used with the {} checksum algorithm.",
                algorithm.name().to_ascii_lowercase()
            )),
            None => refuse("Value for x-amz-checksum-type header is invalid.".into()),
        },
    }
}

/// Returns the upload that a request names, by its id and its key.
///
/// # Errors
/// [`Code::NoSuchUpload`].
pub async fn named(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Upload> {
    let id = upload_id(call)?;
    Ok(call.model.upload(on.bucket(), on.key(), &id).await?)
}

/// Returns the id that a request names.
///
/// # Errors
/// [`Code::NoSuchUpload`] for what cannot be one.
pub fn upload_id(call: &Call<'_>) -> S3Result<Id> {
    let text = call.target.query.single("uploadId")?.unwrap_or_default();
    Ok(text.parse().map_err(|_| Code::NoSuchUpload)?)
}

/// Answers AbortMultipartUpload.
pub async fn abort(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let id = upload_id(call)?;
    call.model.abort_upload(on.bucket(), on.key(), &id).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Answers ListParts.
pub async fn list_parts(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let limit = count_parameter(call, "max-parts", MAX_ENTRIES, MAX_ENTRIES)?;
    let after = count_parameter(call, "part-number-marker", 0, u16::MAX.into())? as u16;
    let encoding = Encoding::of(call)?;
    let upload = named(call, on).await?;
    sse::check_upload(call, on, &upload).await?;
    let (parts, truncated) = call
        .model
        .list_parts(on.bucket(), &upload, after, limit)
        .await?;

    let owner = Owner::of_bucket(call.model, on.bucket())?;
    let mut xml = Writer::new("ListPartsResult");
    xml.text("Bucket", &on.bucket().name);
    xml.text("Key", &encoding.name(on.key()));
    xml.text("UploadId", &upload.id.to_string());
    initiator(&upload, &owner).write(&mut xml, "Initiator");
    owner.write(&mut xml, "Owner");
    xml.text(
        "StorageClass",
        metadata::storage_class(&upload.meta.headers),
    );
    xml.value("PartNumberMarker", after);
    // The SDK for JavaScript asks for another page as long as it is told where one begins.
    if let Some(last) = parts.last() {
        xml.value("NextPartNumberMarker", last.number);
    }
    xml.value("MaxParts", limit);
    encoding.write(&mut xml);
    // Of a page without entries there is no next one: a client would ask for it forever.
    xml.value("IsTruncated", truncated && limit > 0);
    write_algorithm(&mut xml, &upload);
    for part in &parts {
        xml.open("Part");
        xml.value("PartNumber", part.number);
        xml.text("LastModified", &respond::iso_seconds(part.modified_ms));
        xml.text("ETag", &respond::quoted(&part.etag));
        xml.value("Size", part.size);
        write_part_checksum(&mut xml, part.checksum.as_ref());
        xml.close();
    }
    let mut answer = respond::xml(xml);
    tell_abort(call, on, &mut answer, &upload)?;
    Ok(answer)
}

/// Tells when an upload is aborted, if it is.
fn tell_abort(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    answer: &mut Answer,
    upload: &Upload,
) -> S3Result<()> {
    let begun_ms = upload.initiated_ms;
    lifecycle::tell_abort(answer, call.model, on.bucket(), on.key(), begun_ms)
}

fn initiator(upload: &Upload, owner: &Owner) -> Owner {
    match &upload.initiator {
        Some(id) => Owner::of_key(id),
        None => owner.clone(),
    }
}

fn write_algorithm(xml: &mut Writer, upload: &Upload) {
    xml.optional(
        "ChecksumAlgorithm",
        upload.meta.checksum_algorithm.as_deref(),
    );
    xml.optional(
        "ChecksumType",
        upload.meta.checksum_kind.map(checksum::kind_name),
    );
}

/// Answers ListMultipartUploads.
pub async fn list(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let query = &call.target.query;
    let limit = count_parameter(call, "max-uploads", MAX_ENTRIES, MAX_ENTRIES)?;
    let encoding = Encoding::of(call)?;
    let key_marker = query.single_text("key-marker")?;
    // A marker of an upload says nothing without that of its key.
    let id_marker = query.single_text("upload-id-marker")?;
    let id_marker = id_marker.filter(|_| key_marker.is_some());
    let after_id = id_marker.map(str::parse).transpose().map_err(|_| {
        S3Error::argument(
            "upload-id-marker",
            id_marker.unwrap_or_default(),
            "Invalid uploadId marker",
        )
    })?;
    let asked = UploadQuery {
        prefix: query.single("prefix")?.unwrap_or_default().to_owned(),
        delimiter: query.single_text("delimiter")?.map(str::to_owned),
        after_key: key_marker.map(str::to_owned),
        after_id,
        limit,
    };
    let mut page = match limit {
        0 => UploadPage::default(),
        _ => call.model.list_uploads(on.bucket(), &asked).await?,
    };
    end_earlier(&mut page, encoding);
    let mut xml = Writer::new("ListMultipartUploadsResult");
    xml.text("Bucket", &on.bucket().name);
    xml.text("KeyMarker", &encoding.name(key_marker.unwrap_or_default()));
    xml.text("UploadIdMarker", id_marker.unwrap_or_default());
    write_next(&mut xml, &page, encoding)?;
    xml.text("Prefix", &encoding.name(&asked.prefix));
    encoding.write_delimiter(&mut xml, asked.delimiter.as_deref());
    xml.value("MaxUploads", limit);
    encoding.write(&mut xml);
    xml.value("IsTruncated", page.truncated);
    write_page(call, on, &mut xml, &page, encoding)?;
    Ok(respond::xml(xml))
}

/// Ends a page where the next one can begin. The uploads and prefixes left out come first there.
fn end_earlier(page: &mut UploadPage, encoding: Encoding) {
    if !page.truncated {
        return;
    }
    let keys = page.uploads.iter().map(|upload| &upload.key);
    let names = keys.chain(&page.prefixes);
    let Some(end) = names.filter(|name| encoding.holds(name)).max().cloned() else {
        return;
    };
    page.uploads.retain(|upload| upload.key <= end);
    page.prefixes.retain(|prefix| *prefix <= end);
}

/// Returns the later of the last upload and the last prefix: its name, and the id of an upload.
fn end(page: &UploadPage) -> Option<(&str, Option<Id>)> {
    let upload = page
        .uploads
        .last()
        .map(|upload| (upload.key.as_str(), Some(upload.id)));
    let prefix = page.prefixes.last().map(|prefix| (prefix.as_str(), None));
    upload.max(prefix)
}

/// Writes the markers of the next page. S3 writes them on the last page, too.
fn write_next(xml: &mut Writer, page: &UploadPage, encoding: Encoding) -> S3Result<()> {
    let (key, id) = end(page).unwrap_or_default();
    let marker = match page.truncated {
        true => encoding.marker(key)?,
        false => encoding.name(key),
    };
    xml.text("NextKeyMarker", &marker);
    xml.text(
        "NextUploadIdMarker",
        &id.map(|id| id.to_string()).unwrap_or_default(),
    );
    Ok(())
}

fn write_page(
    call: &Call<'_>,
    on: &Authorised<OnBucket>,
    xml: &mut Writer,
    page: &UploadPage,
    encoding: Encoding,
) -> S3Result<()> {
    let owner = Owner::of_bucket(call.model, on.bucket())?;
    for upload in &page.uploads {
        xml.open("Upload");
        xml.text("Key", &encoding.name(&upload.key));
        xml.text("UploadId", &upload.id.to_string());
        initiator(upload, &owner).write(xml, "Initiator");
        owner.write(xml, "Owner");
        xml.text(
            "StorageClass",
            metadata::storage_class(&upload.meta.headers),
        );
        xml.text("Initiated", &respond::iso_seconds(upload.initiated_ms));
        write_algorithm(xml, upload);
        xml.close();
    }
    encoding.write_prefixes(xml, page.prefixes.iter());
    Ok(())
}
