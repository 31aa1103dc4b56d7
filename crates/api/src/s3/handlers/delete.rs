//! DeleteObject and DeleteObjects.

use archipel_access::Action;
use archipel_model::{Condition, Model};
use futures_util::{StreamExt, stream};
use http::StatusCode;

use super::with_key;
use crate::s3::auth::{Authorised, OnBucket, OnObject};
use crate::s3::call::{Call, NULL_VERSION, check_version_id};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::precondition;
use crate::s3::respond::{self, Answer};
use crate::s3::target::check_key;
use crate::s3::xml::{self, Element, Writer};

/// The largest body of DeleteObjects.
const MAX_DOCUMENT: usize = 2 << 20;

/// The most keys of one request.
const MAX_KEYS: usize = 1000;

/// The number of keys that are deleted at once: all keys of a request, so that distant nodes cost
/// one round trip for all.
const CONCURRENCY: usize = MAX_KEYS;

/// DeleteObject.
pub async fn delete_object(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    let condition = precondition::of_delete(call.headers)?;
    if let Some(version) = call.version()?
        && !is_there("versionId", version)?
    {
        return Ok(respond::empty(StatusCode::NO_CONTENT));
    }
    let deleted = call.model.delete_object(on.bucket(), on.key(), condition);
    deleted.await.map_err(|error| with_key(error, on.key()))?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Returns true if a version may exist. Only the null version does. The deletion of another one
/// has nothing to do, and S3 confirms it.
///
/// # Errors
/// [`Code::InvalidArgument`] for what cannot be an id.
fn is_there(name: &'static str, version: &str) -> S3Result<bool> {
    check_version_id(name, version)?;
    Ok(version == NULL_VERSION)
}

/// DeleteObjects.
pub async fn delete_objects(call: &mut Call<'_>, on: &Authorised<OnBucket>) -> S3Result<Answer> {
    let document = call.document(MAX_DOCUMENT).await?;
    let (entries, quiet) = parse(&document)?;
    let decided: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let action = match entry.version {
                Some(_) => Action::DeleteObjectVersion,
                None => Action::DeleteObject,
            };
            let permitted = on.key(call, action, &entry.key);
            (entry, permitted)
        })
        .collect();
    let results: Vec<_> = stream::iter(decided)
        .map(|(entry, permitted)| delete_one(call.model.clone(), entry, permitted))
        .buffered(CONCURRENCY)
        .collect()
        .await;
    let mut xml = Writer::new("DeleteResult");
    for (entry, result) in &results {
        match result {
            Ok(()) if quiet => {}
            Ok(()) => write_deleted(&mut xml, entry),
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
    let quiet = match root.child_text("Quiet")?.map(str::trim) {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Code::MalformedXML.into()),
    };
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
        return Err(Code::MalformedXML.into());
    }
    Ok(Entry {
        key: key.to_owned(),
        version: object.child_text("VersionId")?.map(str::to_owned),
        etag: object.child_text("ETag")?.map(str::to_owned),
        unknown_condition: object.child("LastModifiedTime")?.is_some()
            || object.child("Size")?.is_some(),
    })
}

async fn delete_one(
    model: Model,
    entry: Entry,
    permitted: S3Result<Authorised<OnObject>>,
) -> (Entry, S3Result<()>) {
    let result = match permitted {
        Ok(on) => try_delete(&model, &on, &entry).await,
        Err(error) => Err(error),
    };
    (entry, result)
}

async fn try_delete(model: &Model, on: &Authorised<OnObject>, entry: &Entry) -> S3Result<()> {
    check_key(&entry.key)?;
    if let Some(version) = &entry.version
        && !is_there("VersionId", version)?
    {
        return Ok(());
    }
    if entry.unknown_condition {
        return Err(S3Error::not_implemented("A condition on size or time"));
    }
    let condition = match &entry.etag {
        Some(etag) => precondition::if_match_condition(etag),
        None => Condition::Always,
    };
    Ok(model
        .delete_object(on.bucket(), on.key(), condition)
        .await?)
}

fn write_deleted(xml: &mut Writer, entry: &Entry) {
    xml.open("Deleted");
    xml.text("Key", &entry.key);
    xml.optional("VersionId", entry.version.as_deref());
    xml.close();
}

fn write_error(xml: &mut Writer, entry: &Entry, error: &S3Error) {
    xml.open("Error");
    xml.text("Key", &entry.key);
    xml.optional("VersionId", entry.version.as_deref());
    xml.text("Code", error.code().as_str());
    xml.text("Message", error.message());
    xml.close();
}
