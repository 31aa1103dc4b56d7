//! Versions of objects: lists, copies of old ones, protection.

use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::Deserialize;

use super::multipart::PartName;
use super::{Folder, Store, decode, document, parse};
use crate::backend::encode;
use crate::fault::Fault;

/// The largest object that one request copies.
const MAX_COPY_BYTES: u64 = 5 << 30;

/// The parts of larger copies: 10,000 of them hold the largest object.
const COPY_PART_BYTES: u64 = 1 << 30;

/// The headers that a copy in parts takes over from its source, besides the user's metadata.
const KEPT: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::EXPIRES,
];

/// A page of versions.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Versions {
    #[serde(rename = "Version")]
    pub versions: Vec<Entry>,
    #[serde(rename = "DeleteMarker")]
    markers: Vec<Entry>,
    #[serde(rename = "CommonPrefixes")]
    pub folders: Vec<Folder>,
    /// The key at which the next page begins.
    #[serde(rename = "NextKeyMarker")]
    pub next_key: Option<String>,
    /// The version after which it begins.
    #[serde(rename = "NextVersionIdMarker")]
    pub next_version: Option<String>,
}

/// A version, or a marker that says that the object is deleted.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub struct Entry {
    #[serde(rename = "Key")]
    pub key: String,
    #[serde(rename = "VersionId")]
    pub id: String,
    #[serde(rename = "IsLatest")]
    pub is_latest: bool,
    #[serde(rename = "LastModified")]
    pub modified: String,
    #[serde(rename = "Size")]
    pub size: u64,
    /// True for a delete marker.
    #[serde(skip)]
    pub is_marker: bool,
}

/// The protection of a version from deletion.
#[derive(Default)]
pub struct Protection {
    /// `GOVERNANCE` or `COMPLIANCE`; empty without a retention.
    pub mode: String,
    /// The end of the retention, as S3 writes times.
    pub until: String,
    pub legal_hold: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tagging {
    #[serde(rename = "TagSet")]
    set: TagSet,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TagSet {
    #[serde(rename = "Tag")]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    #[serde(rename = "Key")]
    key: String,
    #[serde(rename = "Value", default)]
    value: String,
}

/// Returns the query that names a version; the current one if `version` is empty.
pub fn query(version: &str) -> Vec<(&str, &str)> {
    let named = Some(("versionId", version)).filter(|_| !version.is_empty());
    named.into_iter().collect()
}

impl Versions {
    /// Reads a listing. Versions and markers come in the order of their keys, the newest first.
    fn read(xml: &[u8]) -> Result<Versions, Fault> {
        let mut listing: Versions = parse(xml)?;
        let markers = std::mem::take(&mut listing.markers);
        listing
            .versions
            .extend(markers.into_iter().map(|mut entry| {
                entry.is_marker = true;
                entry
            }));
        for entry in &mut listing.versions {
            entry.key = decode(&entry.key);
        }
        listing.versions.sort_by(|a, b| {
            let newest_first = b.is_latest.cmp(&a.is_latest);
            let newest_first = newest_first.then_with(|| b.modified.cmp(&a.modified));
            a.key.cmp(&b.key).then(newest_first)
        });
        for folder in &mut listing.folders {
            folder.prefix = decode(&folder.prefix);
        }
        listing.next_key = listing.next_key.map(|key| decode(&key));
        Ok(listing)
    }
}

impl Store<'_> {
    /// Lists one page of versions: those of a folder, or, without a delimiter, of all keys that begin
    /// so.
    pub async fn versions(
        &self,
        prefix: &str,
        is_folder: bool,
        (after_key, after_version): (&str, &str),
        limit: usize,
    ) -> Result<Versions, Fault> {
        let limit = limit.to_string();
        let mut query = vec![
            ("versions", ""),
            ("encoding-type", "url"),
            ("max-keys", &limit),
            ("prefix", prefix),
        ];
        if is_folder {
            query.push(("delimiter", "/"));
        }
        if !after_key.is_empty() {
            query.push(("key-marker", after_key));
        }
        if !after_version.is_empty() {
            query.push(("version-id-marker", after_version));
        }
        let answer = self.ask_bucket(Method::GET, &query, HeaderMap::new(), Body::empty());
        Versions::read(&document(answer.await?).await?)
    }

    /// Returns the headers of a version.
    pub async fn head(&self, key: &str, version: &str) -> Result<HeaderMap, Fault> {
        let query = query(version);
        let answer = self.ask(Method::HEAD, key, &query, HeaderMap::new(), Body::empty());
        Ok(answer.await?.headers().clone())
    }

    /// Deletes a version for good. `bypass` overrides a retention in the governance mode.
    pub async fn delete_version(
        &self,
        key: &str,
        version: &str,
        bypass: bool,
    ) -> Result<(), Fault> {
        let query = query(version);
        let answer = self.ask(
            Method::DELETE,
            key,
            &query,
            bypassing(bypass),
            Body::empty(),
        );
        answer.await?;
        Ok(())
    }

    /// Makes a copy of an old version the current one. The old one stays.
    pub async fn restore(&self, key: &str, version: &str) -> Result<(), Fault> {
        let found = self.head(key, version).await?;
        let bytes = found.get(header::CONTENT_LENGTH);
        let bytes = bytes.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let bytes = bytes.ok_or_else(|| Fault::internal(&"a version without a length"))?;
        let from = format!(
            "{}?versionId={}",
            crate::backend::path(&[&self.bucket, key]),
            encode(version)
        );
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-copy-source", value(&from)?);
        if bytes <= MAX_COPY_BYTES {
            let answer = self.ask(Method::PUT, key, &[], headers, Body::empty());
            return self.finish_copy(answer.await?).await;
        }
        let of_copy = self.headers_of_copy(key, version, &found).await?;
        let id = self.begin_upload(key, of_copy).await?;
        let copied = self.copy_parts(key, &id, bytes, &headers).await;
        if copied.is_err() {
            // The reason of the failure counts more than that of a cleanup that fails, too.
            let _ = self.abort_upload(key, &id).await;
        }
        copied
    }

    async fn copy_parts(
        &self,
        key: &str,
        id: &str,
        bytes: u64,
        headers: &HeaderMap,
    ) -> Result<(), Fault> {
        let (mut from, mut number) = (0, 0);
        while from < bytes {
            let end = bytes.min(from + COPY_PART_BYTES);
            number += 1;
            let mut headers = headers.clone();
            let range = format!("bytes={from}-{}", end - 1);
            headers.insert("x-amz-copy-source-range", value(&range)?);
            let answer = self.put_part(key, id, number, headers, Body::empty());
            self.finish_copy(answer.await?).await?;
            from = end;
        }
        let parts = self.parts(key, id).await?;
        let parts: Vec<PartName> = parts.into_iter().map(PartName::from).collect();
        self.complete_upload(key, id, &parts, bytes).await
    }

    async fn headers_of_copy(
        &self,
        key: &str,
        version: &str,
        found: &HeaderMap,
    ) -> Result<HeaderMap, Fault> {
        let kept = found.iter().filter(|(name, _)| {
            KEPT.contains(name)
                || name.as_str().starts_with("x-amz-meta-")
                || *name == "x-amz-website-redirect-location"
        });
        let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
        let mut headers: HeaderMap = kept.collect();
        let mut query = query(version);
        query.push(("tagging", ""));
        let answer = self.ask(Method::GET, key, &query, HeaderMap::new(), Body::empty());
        let tagging: Tagging = parse(&document(answer.await?).await?)?;
        let tags = tagging.set.tags.iter();
        let tags = tags.map(|tag| format!("{}={}", encode(&tag.key), encode(&tag.value)));
        let tags = tags.collect::<Vec<_>>().join("&");
        if !tags.is_empty() {
            headers.insert("x-amz-tagging", value(&tags)?);
        }
        Ok(headers)
    }

    /// Returns how a version is protected.
    pub async fn protection(&self, key: &str, version: &str) -> Result<Protection, Fault> {
        let headers = self.head(key, version).await?;
        let text = |name: &str| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        Ok(Protection {
            mode: text("x-amz-object-lock-mode"),
            until: text("x-amz-object-lock-retain-until-date"),
            legal_hold: text("x-amz-object-lock-legal-hold") == "ON",
        })
    }

    /// Protects a version until a day (`2026-01-31`), or ends its retention without a mode.
    pub async fn retain(
        &self,
        key: &str,
        version: &str,
        (mode, day): (&str, &str),
        bypass: bool,
    ) -> Result<(), Fault> {
        let is_mode = ["", "GOVERNANCE", "COMPLIANCE"].contains(&mode);
        if !is_mode || !day.chars().all(|c| c.is_ascii_digit() || c == '-') {
            return Err(Fault::invalid("a retention has a mode and a day"));
        }
        let inner = match mode {
            "" => String::new(),
            mode => {
                format!("<Mode>{mode}</Mode><RetainUntilDate>{day}T00:00:00Z</RetainUntilDate>")
            }
        };
        let text = format!("<Retention>{inner}</Retention>");
        let mut query = query(version);
        query.push(("retention", ""));
        self.put_document(key, &query, bypassing(bypass), text)
            .await
    }

    /// Puts a version under a legal hold, or ends it.
    pub async fn hold(&self, key: &str, version: &str, on: bool) -> Result<(), Fault> {
        let status = if on { "ON" } else { "OFF" };
        let text = format!("<LegalHold><Status>{status}</Status></LegalHold>");
        let mut query = query(version);
        query.push(("legal-hold", ""));
        self.put_document(key, &query, HeaderMap::new(), text).await
    }
}

fn bypassing(bypass: bool) -> HeaderMap {
    let name = HeaderName::from_static("x-amz-bypass-governance-retention");
    let header = bypass.then_some((name, HeaderValue::from_static("true")));
    header.into_iter().collect()
}

fn value(text: &str) -> Result<HeaderValue, Fault> {
    HeaderValue::from_str(text).map_err(|error| Fault::internal(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_markers_come_in_one_list_newest_first() {
        let xml = b"<ListVersionsResult><NextKeyMarker>b%2Bc</NextKeyMarker>\
            <Version><Key>a</Key><VersionId>1</VersionId><IsLatest>false</IsLatest>\
            <LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>7</Size></Version>\
            <DeleteMarker><Key>a</Key><VersionId>2</VersionId><IsLatest>true</IsLatest>\
            <LastModified>2026-01-01T00:00:00.000Z</LastModified></DeleteMarker>\
            <Version><Key>b</Key><VersionId>null</VersionId><IsLatest>true</IsLatest>\
            <LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>1</Size></Version>\
            </ListVersionsResult>";
        let listing = Versions::read(xml).unwrap();
        let ids: Vec<_> = listing.versions.iter().map(|v| v.id.as_str()).collect();
        assert_eq!(ids, ["2", "1", "null"]);
        assert!(listing.versions[0].is_marker && !listing.versions[1].is_marker);
        assert_eq!(listing.next_key.as_deref(), Some("b+c"));
    }
}
