//! Tags: their limits, and their two spellings, a header and a document.
//!
//! Source: AWS, "Categorizing your objects using tags", "Tag restrictions", and the API pages of
//! PutObjectTagging, PutBucketTagging and PutObject.

use std::collections::HashSet;

use archipel_model::Tags;
use http::HeaderMap;

use super::call::single_header;
use super::error::{Code, S3Error, S3Result};
use super::uri::{self, Query};
use super::xml::{self, Element, Writer};

/// The header with the tags of a new object.
pub const TAGGING: &str = "x-amz-tagging";
/// The header that says where a copy's tags come from.
pub const DIRECTIVE: &str = "x-amz-tagging-directive";

/// The most tags of an object.
const MAX_OF_OBJECT: usize = 10;
/// The most tags of a bucket.
pub const MAX_OF_BUCKET: usize = 50;
/// The longest key, in characters.
const MAX_KEY: usize = 128;
/// The longest value, in characters.
const MAX_VALUE: usize = 256;

/// Reads the tags that a header gives to a new object; none without the header.
///
/// # Errors
/// [`Code::InvalidArgument`] for text that is no list of tags, and those of [`check_of_object`].
pub fn of_headers(headers: &HeaderMap) -> S3Result<Tags> {
    let name = TAGGING;
    let text = single_header(headers, name)?.unwrap_or_default();
    let malformed = || {
        let why = "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query \
                   parameters without tag name duplicates.";
        S3Error::argument(name, text, why)
    };
    let query = Query::parse(text).map_err(|_| malformed())?;
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let tags: Tags = query.iter().map(owned).collect();
    if repeated(&tags).is_some() {
        return Err(malformed());
    }
    check_of_object(&tags)?;
    Ok(tags)
}

/// Returns true if a copy takes its tags from the request, and false if it takes the source's.
///
/// # Errors
/// [`Code::InvalidArgument`] for an unknown directive.
pub fn replaces(headers: &HeaderMap) -> S3Result<bool> {
    let name = DIRECTIVE;
    match single_header(headers, name)? {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => Err(S3Error::argument(name, other, "Unknown tagging directive.")),
    }
}

/// Reads a document with the tags of an object.
///
/// # Errors
/// [`Code::MalformedXML`], and those of [`check_of_object`].
pub fn of_object(document: &[u8]) -> S3Result<Tags> {
    let tags = parse(document)?;
    check_of_object(&tags)?;
    Ok(tags)
}

/// Reads a document with the tags of a bucket.
///
/// # Errors
/// [`Code::MalformedXML`], [`Code::BadRequest`] for too many, [`Code::InvalidTag`].
pub fn of_bucket(document: &[u8]) -> S3Result<Tags> {
    check_of_bucket(parse(document)?)
}

/// Reads the element with the tags of a bucket that is created.
///
/// # Errors
/// As [`of_bucket`].
pub fn of_new_bucket(tags: &Element) -> S3Result<Tags> {
    let tags = tags.only(&["Tag"])?.iter().map(parse_tag);
    check_of_bucket(tags.collect::<S3Result<_>>()?)
}

fn check_of_bucket(tags: Tags) -> S3Result<Tags> {
    if tags.len() > MAX_OF_BUCKET {
        return Err(too_many_of_bucket());
    }
    check(&tags)?;
    Ok(tags)
}

/// Makes the error of a bucket with more tags than it may have.
pub fn too_many_of_bucket() -> S3Error {
    let why = "Bucket tag count cannot be greater than 50";
    S3Error::new(Code::BadRequest, why)
}

/// Reads a `Tag` element.
///
/// # Errors
/// [`Code::MalformedXML`].
pub fn parse_tag(tag: &Element) -> S3Result<(String, String)> {
    tag.only(&["Key", "Value"])?;
    let (key, value) = (tag.required_text("Key")?, tag.required_text("Value")?);
    Ok((key.to_owned(), value.to_owned()))
}

/// Checks a tag's characters and lengths.
///
/// # Errors
/// [`Code::InvalidTag`].
pub fn check_tag(key: &str, value: &str) -> S3Result<()> {
    let invalid = |why: &'static str| {
        let error = S3Error::new(Code::InvalidTag, why).with("TagKey", key);
        Err(error.with("TagValue", value))
    };
    if key.is_empty() || !is_text(key, MAX_KEY) {
        return invalid("The TagKey you have provided is invalid");
    }
    if !is_text(value, MAX_VALUE) {
        return invalid("The TagValue you have provided is invalid");
    }
    Ok(())
}

/// Writes a document with tags.
pub fn document(tags: &Tags) -> Writer {
    let mut xml = Writer::new("Tagging");
    xml.open("TagSet");
    tags.iter().for_each(|tag| write_tag(&mut xml, tag));
    xml
}

/// Writes a `Tag` element.
pub fn write_tag(xml: &mut Writer, (key, value): &(String, String)) {
    xml.open("Tag");
    xml.text("Key", key);
    xml.text("Value", value);
    xml.close();
}

/// Returns a key that several tags have.
pub fn repeated(tags: &Tags) -> Option<&str> {
    let mut seen = HashSet::new();
    let mut keys = tags.iter().map(|(key, _)| key.as_str());
    keys.find(|key| !seen.insert(*key))
}

fn parse(document: &[u8]) -> S3Result<Tags> {
    let root = xml::parse(document, "Tagging")?;
    root.only(&["TagSet"])?;
    let set = root.child("TagSet")?.ok_or(Code::MalformedXML)?;
    set.only(&["Tag"])?.iter().map(parse_tag).collect()
}

/// Checks the tags of an object.
///
/// # Errors
/// [`Code::BadRequest`] for too many, [`Code::InvalidTag`].
fn check_of_object(tags: &Tags) -> S3Result<()> {
    if tags.len() > MAX_OF_OBJECT {
        let why = "Object tags cannot be greater than 10";
        return Err(S3Error::new(Code::BadRequest, why));
    }
    check(tags)
}

fn check(tags: &Tags) -> S3Result<()> {
    if let Some(key) = repeated(tags) {
        let why = "Cannot provide multiple Tags with the same key";
        return Err(S3Error::new(Code::InvalidTag, why).with("TagKey", key));
    }
    for (key, value) in tags {
        check_tag(key, value)?;
        if uri::begins_with(key, "aws:") {
            let why = "System tags cannot be added/updated by requester";
            return Err(S3Error::new(Code::InvalidTag, why).with("TagKey", key));
        }
    }
    Ok(())
}

/// Returns true for at most `most` letters, digits, spaces and `+ - = . _ : / @`.
fn is_text(text: &str, most: usize) -> bool {
    let is_space = |c: char| c.is_whitespace() && !c.is_control();
    let allowed = |c: char| c.is_alphanumeric() || is_space(c) || "+-=._:/@".contains(c);
    text.chars().all(allowed) && text.chars().count() <= most
}

#[cfg(test)]
mod tests;
