//! DeleteObject and DeleteObjects.

use std::collections::BTreeMap;

use archipel_access::{Action, Ownership};
use archipel_model::{Condition, Deleted, Error, GivenVersion, Governance, Model, NotAnId};
use futures_util::{StreamExt, stream};
use http::StatusCode;

use super::lock::{check_digest, governance_of};
use crate::s3::auth::{self, Authorised, OnBucket, OnObject};
use crate::s3::call::{Call, single_header};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::precondition;
use crate::s3::respond::{self, Answer};
use crate::s3::target::{MAX_KEY_BYTES, check_key};
use crate::s3::xml::{self, Element, Writer};

/// The largest body of DeleteObjects: 1000 keys of 1024 bytes fit, if each byte is escaped by six.
const MAX_DOCUMENT_BYTES: usize = 8 << 20;

/// The most keys of one request.
const MAX_KEYS: usize = 1000;

/// The beginning of condition keys about an object's tags.
const EXISTING_TAG: &str = "s3:existingobjecttag/";

/// The number of keys whose entries are deleted at once: all keys of a request, so that distant
/// nodes cost one round trip for all.
const CONCURRENCY: usize = MAX_KEYS;

/// Answers DeleteObject.
pub async fn delete_object(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let condition = precondition::of_delete(call.headers)?;
    let governance = governance_of(call, on)?;
    let tag = single_header(call.headers, "if-match")?;
    let deleted = delete_if(call, on, tag, condition, governance).await?;
    let mut answer = respond::empty(StatusCode::NO_CONTENT);
    if deleted.is_marker {
        respond::set(&mut answer, "x-amz-delete-marker", "true")?;
    }
    // The id of the delete marker that was written, or of the version that the request named.
    let id = deleted.id.map(|id| id.to_string());
    let named = call.target.query.single("versionId")?;
    if let Some(id) = named.or(id.as_deref()) {
        respond::set(&mut answer, "x-amz-version-id", id)?;
    }
    Ok(answer)
}

/// Deletes the object, or the version that the request names, under the condition that `tag` sets.
async fn delete_if(
    call: &Call<'_>,
    on: &Authorised<OnObject>,
    tag: Option<&str>,
    condition: Condition,
    governance: Governance,
) -> S3Result<Deleted> {
    let any = tag == Some("*") && on.named_version().is_none();
    let deleted = match delete_as(call.model, on, condition, governance).await {
        Err(Error::NoSuchKey) if any && Box::pin(is_deleted(call, on)).await => {
            Err(Error::PreconditionFailed)
        }
        deleted => deleted,
    };
    deleted.map_err(|error| on.missing(call, error))
}

/// Returns true if the current version is a delete marker. If it fails the condition "*", S3
/// documents another error than for a key without versions.
async fn is_deleted(call: &Call<'_>, on: &Authorised<OnObject>) -> bool {
    let head = call.model.head_object(on.bucket(), on.key());
    matches!(head.await, Err(Error::Deleted(_)))
}

/// Deletes the object, or the version that the request names.
async fn delete_as(
    model: &Model,
    on: &Authorised<OnObject>,
    condition: Condition,
    governance: Governance,
) -> Result<Deleted, Error> {
    let (bucket, key) = (on.bucket(), on.key());
    match on.named_version() {
        None => model.delete_object(bucket, key, condition).await,
        Some(GivenVersion::Id(id)) => {
            let deleted = model.delete_version(bucket, key, id, governance, condition);
            Box::pin(deleted).await
        }
        // S3 confirms the deletion of what does not exist, unless there is a condition.
        Some(GivenVersion::Foreign) => match condition {
            Condition::Always => Ok(Deleted::default()),
            Condition::Check(test) => test(None).map(|()| Deleted::default()),
        },
    }
}

/// Answers DeleteObjects.
pub async fn delete_objects(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    check_digest(call)?;
    let document = call.document(MAX_DOCUMENT_BYTES).await?;
    let (entries, quiet) = parse(&document)?;
    let call = &*call;
    let reading = Reading::of(call, on)?;
    let mut of_keys: BTreeMap<String, Vec<Decided>> = BTreeMap::new();
    for (place, entry) in entries.into_iter().enumerate() {
        let permitted = permit(call, on, &entry, &reading);
        let of_key = of_keys.entry(entry.key.clone()).or_default();
        of_key.push((place, entry, permitted));
        // Policies may make each decision long, and others want to be served meanwhile.
        tokio::task::yield_now().await;
    }
    let results: Vec<_> = stream::iter(of_keys.into_values())
        .map(|of_key| delete_in_order(call, of_key))
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    let results: BTreeMap<_, _> = results.into_iter().flatten().collect();
    let mut xml = Writer::new("DeleteResult");
    for (entry, result) in results.values() {
        match result {
            Ok(_) if quiet => {}
            Ok(deleted) => write_deleted(&mut xml, entry, deleted),
            Err(error) => write_error(&mut xml, entry, error),
        }
    }
    Ok(respond::xml(xml))
}

/// An object to delete.
struct Entry {
    key: String,
    version: Option<String>,
    etag: Option<String>,
    /// The entry has conditions that S3 defines for directory buckets only.
    unknown_condition: bool,
}

fn parse(document: &[u8]) -> S3Result<(Vec<Entry>, bool)> {
    let root = xml::parse(document, "Delete")?;
    let elements = root.only(&["Object", "Quiet"])?;
    let quiet = root.child_text("Quiet")?;
    let quiet = quiet.is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
    let objects: Vec<_> = elements.iter().filter(|e| e.name == "Object").collect();
    if objects.is_empty() || objects.len() > MAX_KEYS {
        return Err(Code::MalformedXML.into());
    }
    let entries: S3Result<_> = objects.into_iter().map(parse_entry).collect();
    Ok((entries?, quiet))
}

fn parse_entry(object: &Element) -> S3Result<Entry> {
    object.only(&["Key", "VersionId", "ETag", "LastModifiedTime", "Size"])?;
    let key = object.required_text("Key")?;
    if key.is_empty() {
        return Err(Code::UserKeyMustBeSpecified.into());
    }
    Ok(Entry {
        key: key.to_owned(),
        version: object.child_text("VersionId")?.map(str::to_owned),
        etag: object.child_text("ETag")?.map(str::to_owned),
        unknown_condition: object.child("LastModifiedTime")?.is_some()
            || object.child("Size")?.is_some(),
    })
}

/// The right to learn from a condition what an object is, as far as it is the same for all keys.
struct Reading {
    /// The tags of an object may decide.
    by_tags: bool,
    /// The access control list of an object may allow it.
    by_list: bool,
}

impl Reading {
    fn of(call: &Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Reading> {
        let name = call.target.bucket.as_deref().unwrap_or_default();
        Ok(Reading {
            by_tags: auth::depends_on(call, on.caller(), name, EXISTING_TAG)?,
            by_list: on.bucket().ownership() != Ownership::BucketOwnerEnforced,
        })
    }

    /// Decides without the object. Returns true if the object decides.
    fn decide(&self, call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<bool> {
        match on.key_action(call, reads(on)) {
            _ if self.by_tags => Ok(true),
            Ok(()) => Ok(false),
            Err(_) if self.by_list => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Returns the action that shows what a condition is about.
fn reads(on: &Authorised<OnObject>) -> Action {
    match on.named_version() {
        Some(_) => Action::GetObject.of_version(),
        None => Action::GetObject,
    }
}

/// An entry, its place in the request, and whether it may be deleted.
type Decided = (usize, Entry, S3Result<Permitted>);

/// The permission to delete an object.
struct Permitted {
    on: Authorised<OnObject>,
    governance: Governance,
    /// The object decides about the condition.
    by_object: bool,
}

fn permit(
    call: &Call<'_>,
    on: &Authorised<OnBucket>,
    entry: &Entry,
    reading: &Reading,
) -> S3Result<Permitted> {
    let version = entry.version.as_deref();
    // Here S3 knows no wrong ids, only those that no version has; the empty one is one of them.
    let version = version.map(|text| text.parse().map_err(|NotAnId| Code::NoSuchVersion));
    let action = match version {
        Some(_) => Action::DeleteObjectVersion,
        None => Action::DeleteObject,
    };
    let version = version.transpose()?;
    let on = on.key(call, action, &entry.key, version)?;
    let governance = governance_of(call, &on)?;
    let tells = entry.etag.as_deref().is_some_and(|etag| etag != "*") && !entry.unknown_condition;
    let by_object = tells && reading.decide(call, &on)?;
    Ok(Permitted {
        on,
        governance,
        by_object,
    })
}

/// Deletes what the entries of one key name, one after the other. At the same time, they would be
/// in each other's way, and some of them would fail.
async fn delete_in_order(
    call: &Call<'_>,
    of_key: Vec<Decided>,
) -> Vec<(usize, (Entry, S3Result<Deleted>))> {
    let mut results = Vec::with_capacity(of_key.len());
    for (place, entry, permitted) in of_key {
        let result = match permitted {
            Ok(permitted) => try_delete(call, &permitted, &entry).await,
            Err(error) => Err(error),
        };
        results.push((place, (entry, result)));
    }
    results
}

async fn try_delete(call: &Call<'_>, permitted: &Permitted, entry: &Entry) -> S3Result<Deleted> {
    let Permitted {
        on,
        governance,
        by_object,
    } = permitted;
    check_key(&entry.key)?;
    if entry.unknown_condition {
        return Err(S3Error::not_implemented("A condition on size or time"));
    }
    if *by_object {
        let object = Box::pin(on.head(call)).await?;
        on.also(call, reads(on), &object)?;
    }
    let condition = match &entry.etag {
        Some(etag) => precondition::if_match_condition(etag),
        None => Condition::Always,
    };
    let tag = entry.etag.as_deref();
    delete_if(call, on, tag, condition, *governance).await
}

fn write_deleted(xml: &mut Writer, entry: &Entry, deleted: &Deleted) {
    xml.open("Deleted");
    xml.text("Key", &entry.key);
    xml.optional("VersionId", entry.version.as_deref());
    if let Some(id) = deleted.id.filter(|_| deleted.is_marker) {
        xml.value("DeleteMarker", true);
        xml.text("DeleteMarkerVersionId", &id.to_string());
    }
    xml.close();
}

fn write_error(xml: &mut Writer, entry: &Entry, error: &S3Error) {
    xml.open("Error");
    xml.text("Key", shown(&entry.key));
    xml.optional("VersionId", entry.version.as_deref().map(shown));
    xml.text("Code", error.code().as_str());
    xml.text("Message", error.message());
    xml.close();
}

/// Cuts what no key or id of a version can be, so that the answer does not become much larger than
/// the request.
fn shown(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_KEY_BYTES))
        .unwrap_or_default()
}
