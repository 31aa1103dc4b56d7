//! ListObjects, both versions of it.

use archipel_model::{ListEntry, ListQuery, Listing, ObjectHead};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::encoding::{Encoding, check_attributes, count_parameter};
use crate::s3::auth::{Authorised, OnBucket};
use crate::s3::call::Call;
use crate::s3::checksum;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::metadata;
use crate::s3::owner::Owner;
use crate::s3::respond::{self, Answer};
use crate::s3::xml::Writer;

/// The most entries of one answer.
pub(super) const MAX_KEYS: usize = 1000;

/// The approximate size of an entry without its name, in bytes.
pub(super) const ENTRY_BYTES: usize = 256;

/// One page of a listing, whatever document tells it.
struct Page<'a> {
    name: &'a str,
    prefix: &'a str,
    delimiter: Option<&'a str>,
    limit: usize,
    encoding: Encoding,
    listing: Listing,
}

impl<'a> Page<'a> {
    async fn of(
        call: &'a Call<'_>,
        on: &'a Authorised<OnBucket>,
        after: Option<&str>,
    ) -> S3Result<Page<'a>> {
        let query = &call.target.query;
        check_attributes(call)?;
        let limit = count_parameter(call, "max-keys", MAX_KEYS, MAX_KEYS)?;
        let encoding = Encoding::of(call)?;
        let prefix = query.single("prefix")?.unwrap_or_default();
        let delimiter = query.single_text("delimiter")?;
        let asked = ListQuery {
            prefix: prefix.to_owned(),
            delimiter: delimiter.map(str::to_owned),
            after: after.filter(|after| !after.is_empty()).map(str::to_owned),
            limit,
        };
        let listing = match limit {
            0 => Listing::default(),
            _ => call.model.list_objects(on.bucket(), &asked).await?,
        };
        Ok(Page {
            name: &on.bucket().name,
            prefix,
            delimiter,
            limit,
            encoding,
            listing,
        })
    }

    /// Returns the name after which the next page begins, if there is one.
    fn next(&self) -> Option<&str> {
        let last = self
            .listing
            .entries
            .last()
            .filter(|_| self.listing.truncated);
        last.map(ListEntry::name)
    }

    fn write_head(&self, xml: &mut Writer) {
        xml.text("Name", self.name);
        xml.text("Prefix", &self.encoding.name(self.prefix));
        self.encoding.write_delimiter(xml, self.delimiter);
        xml.value("MaxKeys", self.limit);
        self.encoding.write(xml);
        xml.value("IsTruncated", self.listing.truncated);
    }

    fn write_entries(&self, xml: &mut Writer, owner: Option<&Owner>) {
        let names = self.listing.entries.iter().map(|entry| entry.name().len());
        xml.reserve(names.map(|name| name + ENTRY_BYTES).sum());
        for entry in &self.listing.entries {
            if let ListEntry::Object {
                key,
                metadata: head,
            } = entry
            {
                write_object(xml, &self.encoding.name(key), head, owner);
            }
        }
        let prefixes = self.listing.entries.iter().filter_map(|entry| match entry {
            ListEntry::Prefix(prefix) => Some(prefix),
            ListEntry::Object { .. } => None,
        });
        self.encoding.write_prefixes(xml, prefixes);
    }
}

fn write_object(xml: &mut Writer, key: &str, head: &ObjectHead, owner: Option<&Owner>) {
    xml.open("Contents");
    xml.text("Key", key);
    write_fields(xml, head, owner);
    xml.close();
}

/// Writes what all listings tell of an object.
pub(super) fn write_fields(xml: &mut Writer, head: &ObjectHead, owner: Option<&Owner>) {
    xml.text("LastModified", &respond::iso_seconds(head.modified_ms));
    xml.text("ETag", &respond::quoted(&head.etag));
    if let Some(checksum) = &head.checksum {
        xml.text("ChecksumAlgorithm", &checksum.algorithm);
        xml.text("ChecksumType", checksum::kind_name(checksum.kind));
    }
    xml.value("Size", head.size);
    if let Some(owner) = owner {
        owner.write(xml, "Owner");
    }
    xml.text("StorageClass", metadata::storage_class(&head.headers));
}

/// Answers ListObjects.
pub async fn version_1(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let query = &call.target.query;
    for (name, called) in [
        ("continuation-token", "continuation-token"),
        ("start-after", "startAfter"),
    ] {
        if query.has(name) {
            let why = format!("{called} only supported in REST.GET.BUCKET with list-type=2");
            return Err(of_other_version(name, why));
        }
    }
    let marker = query.single("marker")?;
    let mut page = Page::of(call, on, marker).await?;
    let listing = &mut page.listing;
    page.encoding
        .end_earlier(listing.truncated, &mut listing.entries, ListEntry::name);
    let mut xml = Writer::new("ListBucketResult");
    page.write_head(&mut xml);
    xml.text("Marker", &page.encoding.name(marker.unwrap_or_default()));
    if let Some(next) = page.next() {
        let marker = page.encoding.marker(next)?;
        // Without a delimiter the last key is the marker, and S3 does not repeat it.
        if page.delimiter.is_some() {
            xml.text("NextMarker", &marker);
        }
    }
    page.write_entries(&mut xml, Some(&Owner::of_bucket(call.model, on.bucket())?));
    answer(call, xml)
}

/// Answers ListObjectsV2.
pub async fn version_2(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let query = &call.target.query;
    if let Some(version) = query.single("list-type")?.filter(|version| *version != "2") {
        return Err(S3Error::argument(
            "list-type",
            version,
            "Invalid List Type specified in Request",
        ));
    }
    if query.has("marker") {
        let why = "Marker unsupported with REST.GET.BUCKET in list-type=2";
        return Err(of_other_version("marker", why));
    }
    let start_after = query.single("start-after")?;
    let token = query.single("continuation-token")?;
    let after = match token {
        Some(token) => Some(read_token(token)?),
        None => start_after.map(str::to_owned),
    };
    let page = Page::of(call, on, after.as_deref()).await?;
    let mut xml = Writer::new("ListBucketResult");
    page.write_head(&mut xml);
    xml.value("KeyCount", page.listing.entries.len());
    if let Some(start_after) = start_after {
        xml.text("StartAfter", &page.encoding.name(start_after));
    }
    xml.optional("ContinuationToken", token);
    xml.optional(
        "NextContinuationToken",
        page.next().map(write_token).as_deref(),
    );
    let with_owner = query.single("fetch-owner")? == Some("true");
    let owner = with_owner
        .then(|| Owner::of_bucket(call.model, on.bucket()))
        .transpose()?;
    page.write_entries(&mut xml, owner.as_ref());
    answer(call, xml)
}

/// Returns the error for a parameter of the other version.
fn of_other_version(name: &str, why: impl Into<String>) -> S3Error {
    S3Error::new(Code::InvalidArgument, why.into()).with("ArgumentName", name)
}

/// Answers with a page. As in S3, a header tells the region.
fn answer(call: &Call<'_>, page: Writer) -> S3Result<Answer> {
    let mut answer = respond::xml(page);
    respond::set(&mut answer, "x-amz-bucket-region", call.region)?;
    Ok(answer)
}

/// Writes a token. It only says where to go on: a client that forges one sees no more than
/// `start-after` shows.
fn write_token(after: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("1{after}"))
}

fn read_token(token: &str) -> S3Result<String> {
    let wrong = || {
        let why = "The continuation token provided is incorrect";
        S3Error::argument("continuation-token", token, why)
    };
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
    let text = String::from_utf8(bytes).map_err(|_| wrong())?;
    let after = text.strip_prefix('1').ok_or_else(wrong)?;
    if after.is_empty() {
        Err(wrong())
    } else {
        Ok(after.to_owned())
    }
}
