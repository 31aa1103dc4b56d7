//! ListObjectVersions.

use archipel_model::{GivenVersion, VersionEntry, VersionListing, VersionQuery};

use super::encoding::{Encoding, check_attributes, count_parameter};
use super::listing::{ENTRY_BYTES, MAX_KEYS, write_fields};
use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::{Call, version_of};
use crate::s3::error::{S3Error, S3Result};
use crate::s3::owner::Owner;
use crate::s3::respond::{self, Answer};
use crate::s3::xml::Writer;

/// Answers ListObjectVersions. In a bucket that never had versions, each object is the version
/// `null`.
pub async fn list(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let query = &call.target.query;
    check_attributes(call)?;
    let key_marker = query.single_text("key-marker")?;
    let version_marker = query.single("version-id-marker")?;
    if version_marker == Some("") {
        let why = "A version-id marker cannot be empty.";
        return Err(S3Error::argument("version-id-marker", "", why));
    }
    let asked = VersionQuery {
        prefix: query.single("prefix")?.unwrap_or_default().to_owned(),
        delimiter: query.single_text("delimiter")?.map(str::to_owned),
        after_key: key_marker.map(str::to_owned),
        after_version: None,
        limit: count_parameter(call, "max-keys", MAX_KEYS, MAX_KEYS)?,
    };
    let encoding = Encoding::of(call)?;
    let after_version = match version_marker {
        None => None,
        Some(text) => match version_of("version-id-marker", text)? {
            _ if key_marker.is_none() => {
                let why = "A version-id marker cannot be specified without a key marker.";
                return Err(S3Error::argument("version-id-marker", text, why));
            }
            GivenVersion::Id(id) => Some(id),
            GivenVersion::Foreign => {
                let why = "Invalid version id specified";
                return Err(S3Error::argument("version-id-marker", text, why));
            }
        },
    };
    let asked = VersionQuery {
        after_version,
        ..asked
    };
    let mut page = call.model.list_versions(on.bucket(), &asked).await?;
    encoding.end_earlier(page.truncated, &mut page.entries, VersionEntry::name);
    let mut xml = Writer::new("ListVersionsResult");
    xml.text("Name", &on.bucket().name);
    xml.text("Prefix", &encoding.name(&asked.prefix));
    encoding.write_delimiter(&mut xml, asked.delimiter.as_deref());
    xml.value("MaxKeys", asked.limit);
    encoding.write(&mut xml);
    xml.value("IsTruncated", page.truncated);
    xml.text("KeyMarker", &encoding.name(key_marker.unwrap_or_default()));
    xml.text("VersionIdMarker", version_marker.unwrap_or_default());
    write_next(&mut xml, &page, encoding)?;
    let owner = Owner::of_bucket(call.model, on.bucket())?;
    write_entries(&mut xml, &page, encoding, &owner);
    Ok(respond::xml(xml))
}

/// Writes where the next page begins, if there is one.
fn write_next(xml: &mut Writer, page: &VersionListing, encoding: Encoding) -> S3Result<()> {
    let Some(last) = page.entries.last().filter(|_| page.truncated) else {
        return Ok(());
    };
    xml.text("NextKeyMarker", &encoding.marker(last.name())?);
    if let VersionEntry::Version { head, .. } = last {
        xml.text("NextVersionIdMarker", &head.id.to_string());
    }
    Ok(())
}

fn write_entries(xml: &mut Writer, page: &VersionListing, encoding: Encoding, owner: &Owner) {
    let names = page.entries.iter().map(|entry| entry.name().len());
    xml.reserve(names.map(|name| name + ENTRY_BYTES).sum());
    for entry in &page.entries {
        let VersionEntry::Version {
            key,
            head,
            is_latest,
        } = entry
        else {
            continue;
        };
        xml.open(match head.is_marker {
            true => "DeleteMarker",
            false => "Version",
        });
        xml.text("Key", &encoding.name(key));
        xml.text("VersionId", &head.id.to_string());
        xml.value("IsLatest", *is_latest);
        match head.is_marker {
            true => {
                xml.text("LastModified", &respond::iso_seconds(head.modified_ms));
                owner.write(xml, "Owner");
            }
            false => write_fields(xml, head, Some(owner)),
        }
        xml.close();
    }
    let prefixes = page.entries.iter().filter_map(|entry| match entry {
        VersionEntry::Prefix(prefix) => Some(prefix),
        VersionEntry::Version { .. } => None,
    });
    encoding.write_prefixes(xml, prefixes);
}
