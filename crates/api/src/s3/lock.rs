//! Object lock: its headers and its documents.
//!
//! Source: AWS, "Locking objects with Object Lock", and the API pages of PutObject,
//! PutObjectRetention, PutObjectLegalHold and PutObjectLockConfiguration.

use archipel_access::Context;
use archipel_model::{
    Bucket, BucketLock, DefaultRetention, Error, MAX_RETENTION_DAYS, ObjectLock, Retention,
    RetentionMode, RetentionPeriod,
};
use http::HeaderMap;

use super::call::single_header;
use super::checksum::Expected;
use super::date;
use super::error::{Code, S3Error, S3Result};
use super::respond::{self, Answer};
use super::xml::{self, Element, Writer};

/// The headers of a new object: mode, end of the retention, legal hold.
pub const MODE: &str = "x-amz-object-lock-mode";
/// See [`MODE`].
pub const UNTIL: &str = "x-amz-object-lock-retain-until-date";
/// See [`MODE`].
pub const HOLD: &str = "x-amz-object-lock-legal-hold";
/// Those three.
pub const HEADERS: [&str; 3] = [MODE, UNTIL, HOLD];
/// The beginning of the condition keys about object lock.
pub const CONDITIONS: &str = "s3:object-lock-";
/// The header that asks to bypass governance.
pub const BYPASS: &str = "x-amz-bypass-governance-retention";
/// The header of a new bucket.
pub const ENABLED: &str = "x-amz-bucket-object-lock-enabled";

const MODES: [(RetentionMode, &str); 2] = [
    (RetentionMode::Governance, "GOVERNANCE"),
    (RetentionMode::Compliance, "COMPLIANCE"),
];

fn mode_of(text: &str) -> Option<RetentionMode> {
    let found = MODES.iter().find(|(_, name)| *name == text);
    found.map(|(mode, _)| *mode)
}

/// Returns the name of a mode.
pub fn mode_name(mode: RetentionMode) -> &'static str {
    let found = MODES.iter().find(|(known, _)| *known == mode);
    found.map_or("", |(_, name)| name)
}

fn hold_name(on: bool) -> &'static str {
    match on {
        true => "ON",
        false => "OFF",
    }
}

fn hold_of(text: &str) -> Option<bool> {
    match text {
        "ON" => Some(true),
        "OFF" => Some(false),
        _ => None,
    }
}

/// Reads a time in milliseconds since 1970.
fn time_of(text: &str) -> Option<u64> {
    u64::try_from(date::time(text)?.unix_timestamp_nanos() / 1_000_000).ok()
}

/// Reads the protection that headers ask for a new object in a bucket.
///
/// # Errors
/// [`Code::InvalidArgument`]; [`Code::InvalidRequest`] if the bucket has no object lock.
pub fn of_new(headers: &HeaderMap, now_ms: u64, bucket: &Bucket) -> S3Result<ObjectLock> {
    let lock = of_headers(headers, now_ms)?;
    match lock.is_empty() || bucket.lock.is_some() {
        true => Ok(lock),
        false => Err(Error::NoBucketLock.into()),
    }
}

/// Reads the protection that headers ask for.
///
/// # Errors
/// [`Code::InvalidArgument`].
pub fn of_headers(headers: &HeaderMap, now_ms: u64) -> S3Result<ObjectLock> {
    let mode = single_header(headers, MODE)?;
    let until = single_header(headers, UNTIL)?;
    let retention = match (mode, until) {
        (None, None) => None,
        (Some(mode), Some(until)) => Some(retention_of(mode, until, now_ms)?),
        _ => {
            let why = format!("{UNTIL} and {MODE} must both be supplied");
            return Err(S3Error::new(Code::InvalidArgument, why));
        }
    };
    let legal_hold = match single_header(headers, HOLD)? {
        None => None,
        Some(text) => Some(hold_of(text).ok_or_else(|| {
            let why = "Legal Hold must be either of 'ON' or 'OFF'";
            S3Error::argument(HOLD, text, why)
        })?),
    };
    Ok(ObjectLock {
        retention,
        legal_hold,
    })
}

fn retention_of(mode: &str, until: &str, now_ms: u64) -> S3Result<Retention> {
    let unknown = || S3Error::argument(MODE, mode, "Unknown wormMode directive.");
    let mode = mode_of(mode).ok_or_else(unknown)?;
    let why = "The retain until date must be provided in ISO 8601 format";
    let until_ms = time_of(until).ok_or_else(|| S3Error::argument(UNTIL, until, why))?;
    check_end(until_ms, now_ms)?;
    Ok(Retention { mode, until_ms })
}

fn check_end(until_ms: u64, now_ms: u64) -> S3Result<()> {
    let most = u64::from(MAX_RETENTION_DAYS) * 24 * 3600 * 1000;
    let why = match until_ms.checked_sub(now_ms) {
        None | Some(0) => "The retain until date must be in the future!",
        Some(time) if time > most => "The retain until date must be within 100 years",
        Some(_) => return Ok(()),
    };
    Err(S3Error::argument(UNTIL, respond::iso_time(until_ms), why))
}

/// Checks that a new object with a protection comes with a checksum of its content.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_digest(
    expected: &Expected,
    asked: ObjectLock,
    bucket: Option<&BucketLock>,
) -> S3Result<()> {
    check_digest_of("Object", expected, asked, bucket)
}

/// Checks that a part of a new object with a protection comes with a checksum of its content.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn check_part_digest(
    expected: &Expected,
    asked: ObjectLock,
    bucket: Option<&BucketLock>,
) -> S3Result<()> {
    check_digest_of("Part", expected, asked, bucket)
}

fn check_digest_of(
    what: &str,
    expected: &Expected,
    asked: ObjectLock,
    bucket: Option<&BucketLock>,
) -> S3Result<()> {
    let default = bucket.is_some_and(|lock| lock.default.is_some());
    let protected = !asked.is_empty() || default;
    if !protected || expected.has_digest() {
        return Ok(());
    }
    let why = format!(
        "Content-MD5 OR x-amz-checksum- HTTP header is required for Put {what} requests with \
         Object Lock parameters"
    );
    Err(S3Error::new(Code::InvalidRequest, why))
}

/// Returns true if a request asks to bypass governance.
///
/// # Errors
/// [`Code::InvalidArgument`].
pub fn asks_bypass(headers: &HeaderMap) -> S3Result<bool> {
    flag(headers, BYPASS)
}

/// Returns true if a new bucket shall have object lock.
///
/// # Errors
/// [`Code::InvalidArgument`].
pub fn of_new_bucket(headers: &HeaderMap) -> S3Result<bool> {
    flag(headers, ENABLED)
}

fn flag(headers: &HeaderMap, name: &str) -> S3Result<bool> {
    match single_header(headers, name)? {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(text) => Err(S3Error::argument(
            name,
            text,
            "The value must be true or false.",
        )),
    }
}

/// Tells how an object is protected, as far as the caller may know.
pub fn set_headers(answer: &mut Answer, lock: &ObjectLock) -> S3Result<()> {
    if let Some(Retention { mode, until_ms }) = lock.retention {
        respond::set(answer, MODE, mode_name(mode))?;
        respond::set(answer, UNTIL, &respond::iso_time(until_ms))?;
    }
    match lock.legal_hold {
        Some(on) => respond::set(answer, HOLD, hold_name(on)),
        None => Ok(()),
    }
}

/// Sets the condition keys about object lock.
///
/// `document` is what the request asks for in its body, if it was read already.
pub fn describe(
    context: &mut Context,
    headers: &HeaderMap,
    document: Option<ObjectLock>,
    now_ms: u64,
) {
    const DAY_MS: u64 = 24 * 3600 * 1000;
    let asked = document.or_else(|| of_headers(headers, now_ms).ok());
    let ObjectLock {
        retention,
        legal_hold,
    } = asked.unwrap_or_default();
    if let Some(Retention { mode, until_ms }) = retention {
        let days = until_ms.saturating_sub(now_ms).div_ceil(DAY_MS);
        context.set("s3:object-lock-mode", mode_name(mode));
        context.set(
            "s3:object-lock-retain-until-date",
            respond::iso_time(until_ms),
        );
        context.set("s3:object-lock-remaining-retention-days", days.to_string());
    }
    if let Some(on) = legal_hold {
        context.set("s3:object-lock-legal-hold", hold_name(on));
    }
}

fn malformed<T>() -> S3Result<T> {
    Err(Code::MalformedXML.into())
}

/// Refuses elements about event holds, which protect a version on AWS and not here.
fn refuse_event_holds(element: &Element) -> S3Result<()> {
    const NAMES: [&str; 3] = ["DefaultEventHold", "EventHold", "EventHoldDuration"];
    let mut names = element.children.iter().map(|child| child.name.as_str());
    match names.any(|name| NAMES.contains(&name)) {
        true => Err(S3Error::not_implemented("An event hold")),
        false => Ok(()),
    }
}

/// Reads a `Retention` document; `None` removes the retention.
///
/// # Errors
/// [`Code::MalformedXML`], [`Code::InvalidArgument`]; [`Code::NotImplemented`] for event holds.
pub fn retention(document: &[u8], now_ms: u64) -> S3Result<Option<Retention>> {
    let root = xml::parse(document, "Retention")?;
    refuse_event_holds(&root)?;
    root.only(&["Mode", "RetainUntilDate"])?;
    let mode = root.child_text("Mode")?.map(str::trim);
    let until = root.child_text("RetainUntilDate")?.map(str::trim);
    let (mode, until) = match (mode, until) {
        (None, None) => return Ok(None),
        (Some(mode), Some(until)) => (mode_of(mode), time_of(until)),
        _ => return malformed(),
    };
    let (Some(mode), Some(until_ms)) = (mode, until) else {
        return malformed();
    };
    check_end(until_ms, now_ms)?;
    Ok(Some(Retention { mode, until_ms }))
}

/// Writes a `Retention` document.
pub fn retention_document(retention: Retention) -> Writer {
    let mut xml = Writer::new("Retention");
    xml.text("Mode", mode_name(retention.mode));
    xml.text("RetainUntilDate", &respond::iso_time(retention.until_ms));
    xml
}

/// Reads a `LegalHold` document.
///
/// # Errors
/// [`Code::MalformedXML`].
pub fn legal_hold(document: &[u8]) -> S3Result<bool> {
    let root = xml::parse(document, "LegalHold")?;
    root.only(&["Status"])?;
    let status = root.required_text("Status")?.trim();
    hold_of(status).ok_or(Code::MalformedXML.into())
}

/// Writes a `LegalHold` document.
pub fn legal_hold_document(on: bool) -> Writer {
    let mut xml = Writer::new("LegalHold");
    xml.text("Status", hold_name(on));
    xml
}

/// Reads an `ObjectLockConfiguration` document.
///
/// # Errors
/// [`Code::MalformedXML`], [`Code::InvalidArgument`]; [`Code::NotImplemented`] for event holds.
pub fn configuration(document: &[u8]) -> S3Result<BucketLock> {
    let root = xml::parse(document, "ObjectLockConfiguration")?;
    root.only(&["ObjectLockEnabled", "Rule"])?;
    // Object lock stays for good, so that a document has to say it.
    if root.required_text("ObjectLockEnabled")?.trim() != "Enabled" {
        return malformed();
    }
    let default = match root.child("Rule")? {
        None => None,
        Some(rule) => {
            rule.only(&["DefaultRetention"])?;
            let default = rule.child("DefaultRetention")?;
            Some(default_retention(default.ok_or(Code::MalformedXML)?)?)
        }
    };
    Ok(BucketLock { default })
}

fn default_retention(element: &Element) -> S3Result<DefaultRetention> {
    refuse_event_holds(element)?;
    element.only(&["Mode", "Days", "Years"])?;
    let mode = mode_of(element.required_text("Mode")?.trim());
    let number = |name: &'static str| -> S3Result<Option<u32>> {
        let Some(text) = element.child_text(name)? else {
            return Ok(None);
        };
        let number: i64 = text.trim().parse().map_err(|_| Code::MalformedXML)?;
        if number <= 0 {
            let why = "Default retention period must be a positive integer value.";
            return Err(S3Error::argument(name, text, why));
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Some(number))
    };
    let period = match (number("Days")?, number("Years")?) {
        (Some(days), None) => RetentionPeriod::Days(days),
        (None, Some(years)) => RetentionPeriod::Years(years),
        _ => return malformed(),
    };
    if period.days() > MAX_RETENTION_DAYS {
        let why = "The maximum default retention period is 100 years.";
        return Err(S3Error::new(Code::InvalidArgument, why));
    }
    let mode = mode.ok_or(Code::MalformedXML)?;
    Ok(DefaultRetention { mode, period })
}

/// Writes an `ObjectLockConfiguration` document.
pub fn configuration_document(lock: &BucketLock) -> Writer {
    let mut xml = Writer::new("ObjectLockConfiguration");
    xml.text("ObjectLockEnabled", "Enabled");
    if let Some(DefaultRetention { mode, period }) = lock.default {
        xml.open("Rule");
        xml.open("DefaultRetention");
        xml.text("Mode", mode_name(mode));
        match period {
            RetentionPeriod::Days(days) => xml.value("Days", days),
            RetentionPeriod::Years(years) => xml.value("Years", years),
        }
        xml.close();
        xml.close();
    }
    xml
}

#[cfg(test)]
mod tests;
