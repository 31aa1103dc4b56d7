//! The `If-*` headers: on reads as RFC 9110 orders them, on writes as S3 defines them.
//!
//! Source: AWS, "Conditional requests", and the API pages of GetObject, PutObject, CopyObject,
//! CompleteMultipartUpload and DeleteObject.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use archipel_model::{Condition, Error, ObjectHead};
use http::HeaderMap;

use super::error::{Code, S3Error, S3Result};

/// The conditions of a read, of the object itself or of the source of a copy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Read {
    if_match: Option<String>,
    if_none_match: Option<String>,
    if_modified_since: Option<SystemTime>,
    if_unmodified_since: Option<SystemTime>,
    /// The time of the server, if dates in the future are ignored.
    now: Option<SystemTime>,
}

/// The result of a read's conditions for an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The conditions hold.
    Pass,
    /// The client has it already, as this header says: 304 for GET and HEAD, 412 for a copy.
    NotModified(&'static str),
    /// 412, because of this header.
    Failed(&'static str),
}

/// The beginning of the names of the conditions on the source of a copy.
const OF_SOURCE: &str = "x-amz-copy-source-";

/// Makes a `PreconditionFailed` that names the header.
pub fn failed(header: impl Into<String>) -> S3Error {
    S3Error::from(Code::PreconditionFailed).with("Condition", header)
}

/// Makes a `PreconditionFailed` that names the header about the source of a copy.
pub fn source_failed(header: &str) -> S3Error {
    failed(format!("{OF_SOURCE}{header}"))
}

/// Returns the header whose condition a refused write did not meet: a write has one at most.
pub fn of_write_name(headers: &HeaderMap) -> Option<&'static str> {
    let names = ["If-Match", "If-None-Match"];
    names.into_iter().find(|name| headers.contains_key(*name))
}

impl Read {
    /// Returns the conditions of GET and HEAD.
    pub fn of(headers: &HeaderMap) -> S3Result<Read> {
        Read::with_prefix(headers, "")
    }

    /// Returns the conditions on the source of a copy.
    pub fn of_copy_source(headers: &HeaderMap) -> S3Result<Read> {
        Read::with_prefix(headers, OF_SOURCE)
    }

    fn with_prefix(headers: &HeaderMap, prefix: &str) -> S3Result<Read> {
        let header = |name: &str| text(headers, &format!("{prefix}{name}"));
        // A date that cannot be read is ignored (RFC 9110, 13.1.3 and 13.1.4).
        let date = |name: &str| -> S3Result<Option<SystemTime>> {
            Ok(header(name)?.and_then(|text| httpdate::parse_http_date(text).ok()))
        };
        Ok(Read {
            if_match: header("if-match")?.map(str::to_owned),
            if_none_match: header("if-none-match")?.map(str::to_owned),
            if_modified_since: date("if-modified-since")?,
            if_unmodified_since: date("if-unmodified-since")?,
            now: None,
        })
    }

    /// Returns the conditions as S3 takes them at a time: it ignores `If-Modified-Since` with a
    /// date in the future.
    pub fn at(self, now_ms: u64) -> Read {
        Read {
            now: Some(UNIX_EPOCH + Duration::from_millis(now_ms)),
            ..self
        }
    }

    /// Evaluates the conditions for an object, in the order of RFC 9110, 13.2.2.
    pub fn check(&self, head: &ObjectHead) -> Verdict {
        let modified = whole_seconds(head.modified_ms);
        match (&self.if_match, self.if_unmodified_since) {
            (Some(tags), _) if !matches_any(tags, &head.etag) => {
                return Verdict::Failed("If-Match");
            }
            (None, Some(since)) if modified > since => {
                return Verdict::Failed("If-Unmodified-Since");
            }
            _ => {}
        }
        match (&self.if_none_match, self.if_modified_since) {
            (Some(tags), _) if matches_any(tags, &head.etag) => {
                Verdict::NotModified("If-None-Match")
            }
            (None, Some(since)) if modified <= since && self.counts(since, modified) => {
                Verdict::NotModified("If-Modified-Since")
            }
            _ => Verdict::Pass,
        }
    }

    /// Returns true if a date is not in the future. The object's own always counts: the clock of
    /// the node that stored it may be ahead.
    fn counts(&self, since: SystemTime, modified: SystemTime) -> bool {
        since == modified || self.now.is_none_or(|now| since <= now)
    }
}

/// Cuts a time to whole seconds, which HTTP dates have.
pub fn whole_seconds(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(millis / 1000)
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> S3Result<Option<&'h str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(S3Error::argument(
            name,
            "",
            "The header is given more than once.",
        ));
    }
    let value = value
        .to_str()
        .map_err(|_| S3Error::argument(name, "", "The header is not text."))?;
    Ok(Some(value.trim()))
}

/// Returns true if an entity tag is in a list, or if the list is `*`. Weak tags compare as strong
/// ones: S3 has no others.
fn matches_any(list: &str, etag: &str) -> bool {
    list.split(',').any(|tag| {
        let tag = tag.trim();
        tag == "*" || unquoted(tag) == etag
    })
}

/// Returns an entity tag without its quotes; clients leave them out, and S3 does not mind.
pub fn unquoted(tag: &str) -> &str {
    let tag = tag.trim();
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    tag.strip_prefix('"')
        .and_then(|tag| tag.strip_suffix('"'))
        .unwrap_or(tag)
}

/// Conditions that S3 does not know on writes.
const DATES: [&str; 2] = ["if-modified-since", "if-unmodified-since"];

/// Conditions that S3 does not know on deletions in general purpose buckets.
const OF_DIRECTORIES: [&str; 3] = [
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size",
    "if-none-match",
];

/// Refuses conditions that would be ignored.
fn refuse(headers: &HeaderMap, names: &[&str]) -> S3Result<()> {
    match names.iter().find(|name| headers.contains_key(**name)) {
        Some(name) => Err(S3Error::from(Code::NotImplemented).with("Header", *name)),
        None => Ok(()),
    }
}

/// Returns the condition of PutObject, CopyObject and CompleteMultipartUpload.
///
/// # Errors
/// `NotImplemented` for an `If-None-Match` other than `*`, and for a date; `InvalidRequest` for
/// both headers.
pub fn of_write(headers: &HeaderMap) -> S3Result<Condition> {
    refuse(headers, &DATES)?;
    let if_match = text(headers, "if-match")?;
    let if_none_match = text(headers, "if-none-match")?;
    match (if_match, if_none_match) {
        (None, None) => Ok(Condition::Always),
        (Some(_), Some(_)) => Err(S3Error::new(
            Code::InvalidRequest,
            "If-Match and If-None-Match cannot be given together.",
        )),
        (None, Some("*")) => Ok(Condition::Check(Arc::new(|current| match current {
            None => Ok(()),
            Some(_) => Err(Error::PreconditionFailed),
        }))),
        (None, Some(_)) => Err(S3Error::not_implemented(
            "If-None-Match with a value other than *",
        )),
        (Some(tag), None) => Ok(if_match_condition(tag)),
    }
}

/// Returns the condition that an object exists and, unless it is `*`, has this entity tag.
pub fn if_match_condition(tag: &str) -> Condition {
    // In quotes the asterisk is a tag that no object has.
    let is_any = tag == "*";
    let tag = unquoted(tag).to_owned();
    Condition::Check(Arc::new(move |current| match current {
        None => Err(Error::NoSuchKey),
        Some(head) if is_any || head.etag == tag => Ok(()),
        Some(_) => Err(Error::PreconditionFailed),
    }))
}

/// Returns the condition of DeleteObject.
///
/// # Errors
/// `NotImplemented` for what S3 defines for directory buckets only.
pub fn of_delete(headers: &HeaderMap) -> S3Result<Condition> {
    refuse(headers, &DATES)?;
    refuse(headers, &OF_DIRECTORIES)?;
    Ok(match text(headers, "if-match")? {
        Some(tag) => if_match_condition(tag),
        None => Condition::Always,
    })
}

#[cfg(test)]
mod tests;
