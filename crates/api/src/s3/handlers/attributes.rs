//! GetObjectAttributes.

use archipel_model::{Checksum, ChecksumKind, ObjectHead, PartInfo};

use super::get::not_modified;
use super::{set_version_header, write_checksum, write_part_checksum};
use crate::s3::auth::{Authorised, OnObject};
use crate::s3::call::Call;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::metadata;
use crate::s3::precondition::{self, Read, Verdict};
use crate::s3::respond::{self, Answer};
use crate::s3::sse;
use crate::s3::xml::Writer;

const ATTRIBUTES: [&str; 5] = [
    "ETag",
    "Checksum",
    "ObjectParts",
    "StorageClass",
    "ObjectSize",
];

/// The most parts of one answer.
const MAX_PARTS: u64 = 1000;

/// Answers GetObjectAttributes.
pub async fn get(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let asked = asked(call)?;
    let page = page(call)?;
    let mut reader = on.open(call).await?;
    sse::unlock(call, &mut reader)?;
    let head = reader.metadata();
    match Read::of(call.headers)?.at(call.now_ms()).check(head) {
        Verdict::Pass => {}
        Verdict::NotModified(_) => return not_modified(head),
        Verdict::Failed(header) => return Err(precondition::failed(header)),
    }
    let mut xml = Writer::new("GetObjectAttributesResponse");
    let has = |name: &str| asked.iter().any(|asked| asked == name);
    if has("ETag") {
        xml.text("ETag", &head.etag);
    }
    if has("Checksum")
        && let Some(checksum) = &head.checksum
    {
        xml.open("Checksum");
        write_checksum(&mut xml, &without_count(checksum));
        xml.close();
    }
    if has("ObjectParts") && head.parts > 0 {
        write_parts(&mut xml, head, reader.parts(), page);
    }
    if has("StorageClass") {
        xml.text("StorageClass", metadata::storage_class(&head.headers));
    }
    if has("ObjectSize") {
        xml.value("ObjectSize", head.size);
    }
    let mut answer = respond::xml(xml);
    let modified = respond::http_date(head.modified_ms);
    respond::set(&mut answer, "last-modified", &modified)?;
    set_version_header(&mut answer, on.bucket(), head.id)?;
    Ok(answer)
}

/// Returns the attributes that are asked for, of all headers of that name. Commas at the end of a
/// header are left out.
fn asked(call: &Call<'_>) -> S3Result<Vec<String>> {
    let name = "x-amz-object-attributes";
    let mut asked = Vec::new();
    for value in call.headers.get_all(name) {
        let text = value.to_str().unwrap_or_default();
        let text = match text.trim_end_matches([',', ' ']) {
            "" if !text.is_empty() => continue,
            named => named,
        };
        asked.extend(text.split(',').map(|attribute| attribute.trim().to_owned()));
    }
    if asked.is_empty() {
        let why = "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty";
        return Err(S3Error::new(Code::InvalidRequest, why));
    }
    let known = |attribute: &&String| ATTRIBUTES.contains(&attribute.as_str());
    match asked.iter().find(|attribute| !known(attribute)) {
        Some(unknown) => {
            let why = "Invalid attribute name specified.";
            Err(S3Error::argument(name, unknown, why))
        }
        None => Ok(asked),
    }
}

/// Returns a checksum without the number of parts that a composite one ends with: only here S3
/// leaves it out.
fn without_count(checksum: &Checksum) -> Checksum {
    let value = checksum.value.split('-').next().unwrap_or_default();
    Checksum {
        value: value.to_owned(),
        ..checksum.clone()
    }
}

/// Writes the number of parts, and the parts themselves where their checksums make that of the
/// object: S3 lists no others.
fn write_parts(xml: &mut Writer, head: &ObjectHead, parts: &[PartInfo], page: Page) {
    let kind = head.checksum.as_ref().map(|checksum| checksum.kind);
    xml.open("ObjectParts");
    xml.value("PartsCount", head.parts);
    if kind == Some(ChecksumKind::Composite) {
        write_page(xml, parts, page);
    }
    xml.close();
}

/// The parts to list: up to `limit` behind the one with the number `marker`.
struct Page {
    marker: u64,
    limit: u64,
}

/// Returns the page that is asked for. It must be one also if the object has no parts to list.
fn page(call: &Call<'_>) -> S3Result<Page> {
    let limit = number(call, "x-amz-max-parts")?.unwrap_or(MAX_PARTS);
    Ok(Page {
        marker: number(call, "x-amz-part-number-marker")?.unwrap_or(0),
        limit: limit.min(MAX_PARTS),
    })
}

fn write_page(xml: &mut Writer, parts: &[PartInfo], Page { marker, limit }: Page) {
    let numbered = (1u64..).zip(parts).filter(|(number, _)| *number > marker);
    let shown: Vec<_> = numbered.take(limit as usize).collect();
    let last = shown.last().map_or(marker, |(number, _)| *number);
    xml.value("PartNumberMarker", marker);
    xml.value("NextPartNumberMarker", last);
    xml.value("MaxParts", limit);
    xml.value("IsTruncated", limit > 0 && last < parts.len() as u64);
    for (number, part) in shown {
        xml.open("Part");
        xml.value("PartNumber", number);
        xml.value("Size", part.size);
        write_part_checksum(xml, part.checksum.as_ref());
        xml.close();
    }
}

fn number(call: &Call<'_>, name: &'static str) -> S3Result<Option<u64>> {
    let Some(text) = call.header(name)? else {
        return Ok(None);
    };
    let number = text
        .parse()
        .map_err(|_| S3Error::argument(name, text, "Not a number."))?;
    Ok(Some(number))
}
