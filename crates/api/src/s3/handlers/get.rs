//! GetObject and HeadObject.

use std::ops::Range;

use archipel_access::Action;
use archipel_model::{
    Bucket, ChecksumKind, Model, ObjectHead, ObjectLock, ObjectReader, PartInfo, VersionId,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{set_checksum, set_version_header, with_key};
use crate::s3::auth::{Authorised, OnObject};
use crate::s3::body;
use crate::s3::call::{Call, single_header};
use crate::s3::checksum;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::lifecycle;
use crate::s3::lock;
use crate::s3::metadata;
use crate::s3::precondition::{self, Read, Verdict};
use crate::s3::range::{self, Asked};
use crate::s3::respond::{self, Answer};
use crate::s3::sse;
use crate::s3::uri::Query;

/// Query parameters that replace headers of the answer.
const OVERRIDES: [(&str, header::HeaderName); 6] = [
    ("response-cache-control", header::CACHE_CONTROL),
    ("response-content-disposition", header::CONTENT_DISPOSITION),
    ("response-content-encoding", header::CONTENT_ENCODING),
    ("response-content-language", header::CONTENT_LANGUAGE),
    ("response-content-type", header::CONTENT_TYPE),
    ("response-expires", header::EXPIRES),
];

/// An object that was looked up for an answer.
pub(crate) enum Found {
    /// With its content.
    Content(Box<ObjectReader>),
    /// Without.
    Head(Box<ObjectHead>),
}

impl Found {
    /// Looks an object up for a client that gives no key, with its content or without.
    ///
    /// # Errors
    /// Those of the model; [`Code::NoSuchKey`] with the key; [`Code::InvalidRequest`] for an object
    /// under a customer's key.
    pub(crate) async fn look_up(
        model: &Model,
        bucket: &Bucket,
        key: &str,
        content: bool,
    ) -> S3Result<Found> {
        let found = match content {
            true => {
                let opened = model.open_object(bucket, key).await;
                opened.map(|reader| Found::Content(Box::new(reader)))
            }
            false => {
                let head = model.head_object(bucket, key).await;
                head.map(|head| Found::Head(Box::new(head)))
            }
        };
        let found = found.map_err(|error| with_key(error, key))?;
        sse::refuse_customers(found.head())?;
        Ok(found)
    }

    /// Returns the object's metadata.
    pub(crate) fn head(&self) -> &ObjectHead {
        match self {
            Found::Content(reader) => reader.metadata(),
            Found::Head(head) => head,
        }
    }

    /// Returns the answer, as the request's headers and parameters ask for it, with the content
    /// that was looked up.
    ///
    /// # Errors
    /// [`Code::PreconditionFailed`], [`Code::InvalidRange`], and those of parameters.
    pub(crate) fn answer(self, headers: &HeaderMap, query: &Query) -> S3Result<Answer> {
        self.answer_if(&Read::of(headers)?, headers, query)
    }

    /// Returns what [`answer`](Found::answer) does, under these conditions.
    fn answer_if(self, read: &Read, headers: &HeaderMap, query: &Query) -> S3Result<Answer> {
        let reader = match self {
            Found::Head(head) => return Ok(describe(read, headers, query, &head, &[])?.0),
            Found::Content(reader) => reader,
        };
        let (head, parts) = (reader.metadata(), reader.parts());
        let (mut answer, range) = describe(read, headers, query, head, parts)?;
        if let Some(range) = range.filter(|range| !range.is_empty()) {
            let content = reader.stream(range);
            *answer.body_mut() = body::object(content);
        }
        Ok(answer)
    }
}

/// Answers GetObject.
pub async fn get_object(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    refuse_anonymous_overrides(call, on)?;
    let mut reader = on.open(call).await?;
    let encryption = sse::unlock(call, &mut reader)?;
    let found = Found::Content(Box::new(reader));
    let beside = Beside::of(call, on, found.head());
    let read = Read::of(call.headers)?.at(call.now_ms());
    let mut answer = found.answer_if(&read, call.headers, &call.target.query)?;
    encryption.set_on(&mut answer)?;
    beside.set_on(on, answer)
}

/// Answers HeadObject: as GetObject, without the content.
pub async fn head_object(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<Answer> {
    refuse_anonymous_overrides(call, on)?;
    let query = &call.target.query;
    let by_part = query.has("partNumber");
    let found = match by_part {
        true => Found::Content(Box::new(on.open(call).await?)),
        false => Found::Head(Box::new(on.head(call).await?)),
    };
    let encryption = sse::check(call, on, found.head()).await?;
    let beside = Beside::of(call, on, found.head());
    let parts: &[PartInfo] = match &found {
        Found::Content(reader) => reader.parts(),
        Found::Head(_) => &[],
    };
    let read = Read::of(call.headers)?.at(call.now_ms());
    let mut answer = describe(&read, call.headers, query, found.head(), parts)?.0;
    encryption.set_on(&mut answer)?;
    beside.set_on(on, answer)
}

/// The headers about an object beside its metadata.
struct Beside {
    id: VersionId,
    /// The protection, as far as the caller may know it.
    lock: ObjectLock,
    /// The text about the expiration, if the object expires.
    expiration: Option<String>,
    /// The number of tags, as far as the caller may know them.
    tags: usize,
}

impl Beside {
    fn of(call: &Call<'_>, on: &Authorised<OnObject>, head: &ObjectHead) -> Beside {
        let may = |action| on.also(call, action, head).is_ok();
        let ObjectLock {
            retention,
            legal_hold,
        } = head.lock;
        // Only current versions expire by the rules that the header tells.
        let is_current = on.named_version().is_none();
        let read_tags = match is_current {
            true => Action::GetObjectTagging,
            false => Action::GetObjectTagging.of_version(),
        };
        let shows_tags = !head.tags.is_empty() && may(read_tags);
        let expiration = is_current
            .then(|| lifecycle::expiration(call.model, on.bucket(), on.key(), head))
            .flatten();
        Beside {
            id: head.id,
            lock: ObjectLock {
                retention: retention.filter(|_| may(Action::GetObjectRetention)),
                legal_hold: legal_hold.filter(|_| may(Action::GetObjectLegalHold)),
            },
            expiration,
            tags: if shows_tags { head.tags.len() } else { 0 },
        }
    }

    fn set_on(&self, on: &Authorised<OnObject>, mut answer: Answer) -> S3Result<Answer> {
        set_version_header(&mut answer, on.bucket(), self.id)?;
        lock::set_headers(&mut answer, &self.lock)?;
        if self.tags > 0 {
            respond::set(&mut answer, "x-amz-tagging-count", &self.tags.to_string())?;
        }
        lifecycle::set_expiration_header(&mut answer, self.expiration.as_deref())?;
        Ok(answer)
    }
}

/// Returns the answer without content, and the range of the content that belongs to it.
fn describe(
    read: &Read,
    headers: &HeaderMap,
    query: &Query,
    head: &ObjectHead,
    parts: &[PartInfo],
) -> S3Result<(Answer, Option<Range<u64>>)> {
    match read.check(head) {
        Verdict::Pass => {}
        Verdict::NotModified(_) => return Ok((not_modified(head)?, None)),
        Verdict::Failed(header) => return Err(precondition::failed(header)),
    }
    let selected = select(headers, query, head, parts)?;
    let mut answer = respond::empty(selected.status());
    metadata::give_back(&head.headers, answer.headers_mut());
    common(&mut answer, head)?;
    let range = selected.range(head.size);
    respond::set(
        &mut answer,
        "content-length",
        &(range.end - range.start).to_string(),
    )?;
    if selected.status() == StatusCode::PARTIAL_CONTENT {
        let last = range.end.saturating_sub(1);
        let text = format!("bytes {}-{last}/{}", range.start, head.size);
        respond::set(&mut answer, "content-range", &text)?;
    }
    if matches!(selected, Selected::Part(..)) && head.parts > 0 {
        respond::set(&mut answer, "x-amz-mp-parts-count", &head.parts.to_string())?;
    }
    set_checksum_header(headers, &mut answer, head, &selected)?;
    override_headers(query, answer.headers_mut())?;
    Ok((answer, Some(range)))
}

/// The part of an object that is sent.
enum Selected {
    Whole,
    Range(Range<u64>),
    /// A part, with its range.
    Part(Option<PartInfo>, Range<u64>),
}

impl Selected {
    fn status(&self) -> StatusCode {
        match self {
            Selected::Whole => StatusCode::OK,
            // No range can say that a part is empty.
            Selected::Part(_, range) if range.is_empty() => StatusCode::OK,
            _ => StatusCode::PARTIAL_CONTENT,
        }
    }

    fn range(&self, size: u64) -> Range<u64> {
        match self {
            Selected::Whole => 0..size,
            Selected::Range(range) | Selected::Part(_, range) => range.clone(),
        }
    }
}

fn select(
    headers: &HeaderMap,
    query: &Query,
    head: &ObjectHead,
    parts: &[PartInfo],
) -> S3Result<Selected> {
    let range = headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok());
    let number = query.single("partNumber")?;
    match (range, number) {
        (Some(_), Some(_)) => {
            let why = "Cannot specify both Range header and partNumber query parameter";
            Err(S3Error::new(Code::InvalidRequest, why))
        }
        (None, Some(number)) => select_part(number, head, parts),
        (Some(text), None) if range_applies(headers, head) => match range::parse(text, head.size) {
            Asked::Whole => Ok(Selected::Whole),
            Asked::Part(range) => Ok(Selected::Range(range)),
            Asked::Unsatisfiable => Err(S3Error::from(Code::InvalidRange)
                .with("RangeRequested", text)
                .with("ActualObjectSize", head.size.to_string())),
        },
        _ => Ok(Selected::Whole),
    }
}

fn select_part(text: &str, head: &ObjectHead, parts: &[PartInfo]) -> S3Result<Selected> {
    let why = "Part number must be an integer between 1 and 10000, inclusive";
    let number = text
        .parse::<u32>()
        .ok()
        .filter(|n| (1..=10_000).contains(n));
    let number = number.ok_or_else(|| S3Error::argument("partNumber", text, why))?;
    if parts.is_empty() && number == 1 {
        return Ok(Selected::Part(None, 0..head.size));
    }
    // Parts count from 1 in the object, whatever their numbers were in the upload.
    let before = parts
        .iter()
        .take(number as usize - 1)
        .map(|part| part.size)
        .sum();
    let part = parts.get(number as usize - 1).ok_or_else(|| {
        S3Error::from(Code::InvalidPartNumber)
            .with("ActualPartCount", parts.len().max(1).to_string())
            .with("PartNumberRequested", number.to_string())
    })?;
    Ok(Selected::Part(
        Some(part.clone()),
        before..before + part.size,
    ))
}

/// Returns true if `If-Range` is absent or names this version, so that the range applies.
fn range_applies(headers: &HeaderMap, head: &ObjectHead) -> bool {
    let Some(value) = headers.get(header::IF_RANGE) else {
        return true;
    };
    let text = value.to_str().unwrap_or_default();
    match httpdate::parse_http_date(text) {
        Ok(time) => time == precondition::whole_seconds(head.modified_ms),
        Err(_) => !text.starts_with("W/") && precondition::unquoted(text) == head.etag,
    }
}

/// Sets the headers that every answer about an object has.
fn common(answer: &mut Answer, head: &ObjectHead) -> S3Result<()> {
    respond::set(answer, "etag", &respond::quoted(&head.etag))?;
    let modified = respond::http_date(head.modified_ms);
    respond::set(answer, "last-modified", &modified)?;
    respond::set(answer, "accept-ranges", "bytes")
}

/// Returns the answer for an object that the client has.
pub(super) fn not_modified(head: &ObjectHead) -> S3Result<Answer> {
    let mut answer = respond::empty(StatusCode::NOT_MODIFIED);
    metadata::give_back(&head.headers, answer.headers_mut());
    answer.headers_mut().remove(header::CONTENT_TYPE);
    common(&mut answer, head)?;
    Ok(answer)
}

/// Sets the checksum, if the client asks for it and it is of what is sent.
fn set_checksum_header(
    headers: &HeaderMap,
    answer: &mut Answer,
    head: &ObjectHead,
    selected: &Selected,
) -> S3Result<()> {
    match single_header(headers, "x-amz-checksum-mode")? {
        None => return Ok(()),
        Some(mode) if mode.eq_ignore_ascii_case("ENABLED") => {}
        Some(_) => {
            let why = "Value for x-amz-checksum-mode header is invalid.";
            return Err(S3Error::new(Code::InvalidRequest, why));
        }
    }
    let Some(whole) = &head.checksum else {
        return Ok(());
    };
    let checksum = match (selected, whole.kind) {
        (Selected::Range(_), _) => None,
        (Selected::Part(Some(part), _), ChecksumKind::Composite) => part.checksum.as_ref(),
        // S3 tells the checksums of parts only if they make that of the object.
        (Selected::Part(_, range), _) if *range != (0..head.size) => None,
        _ => Some(whole),
    };
    let Some(checksum) = checksum else {
        return Ok(());
    };
    set_checksum(answer, checksum)?;
    // Also of a part S3 tells the kind that the whole object has.
    let kind = checksum::kind_name(whole.kind);
    respond::set(answer, "x-amz-checksum-type", kind)
}

/// Refuses parameters that replace headers if nobody signed them: a link to a public object must
/// not decide how a browser takes it.
fn refuse_anonymous_overrides(call: &Call<'_>, on: &Authorised<OnObject>) -> S3Result<()> {
    let asks = |(parameter, _): &(&str, _)| call.target.query.has(parameter);
    if on.caller().key().is_none() && OVERRIDES.iter().any(asks) {
        let why = "Request specific response headers cannot be used for anonymous GET requests.";
        return Err(S3Error::new(Code::InvalidRequest, why));
    }
    Ok(())
}

fn override_headers(query: &Query, headers: &mut HeaderMap) -> S3Result<()> {
    for (parameter, name) in OVERRIDES {
        let Some(value) = query.single(parameter)? else {
            continue;
        };
        let bad = |_| S3Error::argument(parameter, "", "The value is not fit for a header.");
        headers.insert(
            name,
            HeaderValue::from_bytes(value.as_bytes()).map_err(bad)?,
        );
    }
    Ok(())
}
