//! The parts of a presented signature: credential scope, time, signed headers, signature.

use http::{HeaderMap, header};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::{ALGORITHM, unsupported_mechanism};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::uri::Query;

/// The longest that a signature outside the `Authorization` header may be valid: a week.
pub(super) const MAX_EXPIRES_S: u64 = 604_800;

/// The most headers that a client may sign.
const MAX_SIGNED_HEADERS: usize = 200;

const BASIC: &[BorrowedFormatItem<'static>] =
    format_description!("[year][month][day]T[hour][minute][second]Z");
const EXTENDED: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");

/// A time as SigV4 writes it (`20130524T000000Z`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timestamp {
    /// The basic form of ISO 8601.
    pub text: String,
    /// Milliseconds since 1970.
    pub millis: u64,
}

impl Timestamp {
    /// Reads ISO 8601's basic form.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let time = PrimitiveDateTime::parse(text, BASIC).ok()?;
        let seconds = u64::try_from(time.assume_utc().unix_timestamp()).ok()?;
        Some(Timestamp {
            text: text.to_owned(),
            millis: seconds * 1000,
        })
    }

    /// Returns the second of a time in milliseconds since 1970; `None` for one that has no date.
    pub fn at(millis: u64) -> Option<Timestamp> {
        let seconds = i64::try_from(millis / 1000).ok()?;
        let time = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
        Timestamp::parse(&time.format(BASIC).ok()?)
    }

    /// Reads a `Date` header: what is signed is its time in the basic form.
    fn of_http_date(text: &str) -> Option<Timestamp> {
        let time: OffsetDateTime = httpdate::parse_http_date(text).ok()?.into();
        Timestamp::parse(&time.format(BASIC).ok()?)
    }

    /// Returns the day.
    pub fn date(&self) -> &str {
        self.text.get(..8).unwrap_or_default()
    }
}

/// Formats a time in ISO 8601's extended form, for messages.
pub fn iso(millis: u64) -> String {
    let time = i64::try_from(millis / 1000)
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|t| t.format(EXTENDED).ok())
        .unwrap_or_default()
}

/// The credential scope, with the access key in front.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// The access key's id.
    pub access_key: String,
    /// The day, `20130524`.
    pub date: String,
    /// The region.
    pub region: String,
    /// The service.
    pub service: String,
    /// `aws4_request`.
    pub terminator: String,
}

impl Scope {
    /// Reads `id/date/region/service/terminator`; the id may hold slashes.
    pub fn parse(text: &str) -> Option<Scope> {
        let mut pieces = text.rsplitn(5, '/').map(str::to_owned);
        let (terminator, service, region, date) = (
            pieces.next()?,
            pieces.next()?,
            pieces.next()?,
            pieces.next()?,
        );
        let access_key = pieces.next().filter(|id| !id.is_empty())?;
        let is_date = date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit());
        is_date.then_some(Scope {
            access_key,
            date,
            region,
            service,
            terminator,
        })
    }

    /// Returns the scope as it is signed: without the access key.
    pub fn signed_text(&self) -> String {
        format!(
            "{}/{}/{}/{}",
            self.date, self.region, self.service, self.terminator
        )
    }
}

/// The place of the signature in the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The `Authorization` header.
    Header,
    /// The query: a presigned URL.
    Query,
}

/// A signature as the client presents it.
#[derive(Debug)]
pub struct Presented {
    pub source: Source,
    pub scope: Scope,
    pub timestamp: Timestamp,
    /// The validity of a presigned URL in seconds.
    pub expires_s: Option<u64>,
    /// Lower-case, sorted, no duplicates.
    pub signed_headers: Vec<String>,
    /// Hexadecimal, not yet decoded.
    pub signature: String,
}

/// Returns the signature that a request presents; `None` if it is anonymous.
pub fn presented(headers: &HeaderMap, query: &Query) -> S3Result<Option<Presented>> {
    let mut authorizations = headers.get_all(header::AUTHORIZATION).iter();
    let (first, second) = (authorizations.next(), authorizations.next());
    let presigned = query.has("X-Amz-Algorithm") || query.has("X-Amz-Signature");
    let version_2 = query.has("Signature") && query.has("AWSAccessKeyId");
    match (first, presigned || version_2) {
        // Where version 2 is accepted, nobody asks for version 4.
        (_, true) if version_2 => Err(unsupported_mechanism()),
        (Some(_), true) => Err(S3Error::argument("Authorization", "", ONE_MECHANISM)),
        _ if second.is_some() => Err(S3Error::argument("Authorization", "", ONE_MECHANISM)),
        (Some(value), false) => {
            let text = value.to_str().map_err(|_| malformed("not ASCII"))?;
            of_header(text, headers).map(Some)
        }
        (None, true) => of_query(query).map(Some),
        (None, false) => Ok(None),
    }
}

const ONE_MECHANISM: &str = "Only one auth mechanism allowed; only the X-Amz-Algorithm query \
    parameter, Signature query string parameter or the Authorization header should be specified";

fn malformed(why: &str) -> S3Error {
    let message = format!("The authorization header is malformed; {why}.");
    S3Error::new(Code::AuthorizationHeaderMalformed, message)
}

fn of_header(text: &str, headers: &HeaderMap) -> S3Result<Presented> {
    let (algorithm, rest) = text.split_once(' ').unwrap_or((text, ""));
    // The header is not repeated: it may hold a secret.
    if !algorithm.starts_with("AWS") {
        let why = "Unsupported Authorization Type";
        return Err(S3Error::new(Code::InvalidArgument, why).with("ArgumentName", "Authorization"));
    }
    if algorithm != ALGORITHM {
        return Err(unsupported_mechanism());
    }
    let [credential, signed, signature] = header_fields(rest)?;
    let scope =
        Scope::parse(credential).ok_or_else(|| malformed("the Credential is mal-formed"))?;
    let timestamp = header_time(headers)?;
    if timestamp.date() != scope.date {
        return Err(malformed(
            "the date of the Credential is not that of the request",
        ));
    }
    let signed_headers =
        signed_headers(signed).ok_or_else(|| malformed("the SignedHeaders are mal-formed"))?;
    Ok(Presented {
        source: Source::Header,
        scope,
        timestamp,
        expires_s: None,
        signed_headers,
        signature: signature.to_owned(),
    })
}

/// Returns `Credential`, `SignedHeaders` and `Signature`: each exactly once, nothing else.
fn header_fields(text: &str) -> S3Result<[&str; 3]> {
    let names = ["Credential", "SignedHeaders", "Signature"];
    let mut values = [None; 3];
    for field in text.split(',') {
        let (name, value) = field
            .trim()
            .split_once('=')
            .ok_or_else(|| malformed("a field has no value"))?;
        let slot = names
            .iter()
            .position(|n| *n == name)
            .and_then(|i| values.get_mut(i));
        match slot {
            Some(slot @ None) if !value.is_empty() => *slot = Some(value),
            _ => return Err(malformed("a field is unknown, repeated or empty")),
        }
    }
    match values {
        [Some(credential), Some(signed), Some(signature)] => Ok([credential, signed, signature]),
        _ => Err(malformed("a required field is missing")),
    }
}

fn header_time(headers: &HeaderMap) -> S3Result<Timestamp> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let time = match (
        headers.contains_key("x-amz-date"),
        text("x-amz-date"),
        text("date"),
    ) {
        (true, date, _) => date.and_then(Timestamp::parse),
        (false, _, Some(date)) => Timestamp::of_http_date(date).or_else(|| Timestamp::parse(date)),
        _ => None,
    };
    let why = "AWS authentication requires a valid Date or x-amz-date header";
    time.ok_or_else(|| S3Error::new(Code::AccessDenied, why))
}

fn of_query(query: &Query) -> S3Result<Presented> {
    let bad = |why: String| S3Error::new(Code::AuthorizationQueryParametersError, why);
    let take = |name: &str| match query.single(name) {
        Ok(Some(value)) if !value.is_empty() => Ok(value),
        Ok(_) => Err(bad(format!(
            "Query-string authentication version 4 requires the {name} parameter."
        ))),
        Err(_) => Err(bad(format!("{name} may be given once only."))),
    };
    if take("X-Amz-Algorithm")? != ALGORITHM {
        return Err(bad(
            "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"".into()
        ));
    }
    let scope = Scope::parse(take("X-Amz-Credential")?)
        .ok_or_else(|| bad("The X-Amz-Credential parameter is mal-formed.".into()))?;
    let timestamp = Timestamp::parse(take("X-Amz-Date")?)
        .filter(|t| t.date() == scope.date)
        .ok_or_else(|| bad("X-Amz-Date is mal-formed or not of the credential's day.".into()))?;
    let expires_s = take("X-Amz-Expires")?
        .parse()
        .ok()
        .filter(|s| (1..=MAX_EXPIRES_S).contains(s))
        .ok_or_else(|| bad("X-Amz-Expires must be a number from 1 to 604800.".into()))?;
    let signed_headers = signed_headers(take("X-Amz-SignedHeaders")?)
        .ok_or_else(|| bad("X-Amz-SignedHeaders is mal-formed.".into()))?;
    Ok(Presented {
        source: Source::Query,
        scope,
        timestamp,
        expires_s: Some(expires_s),
        signed_headers,
        signature: take("X-Amz-Signature")?.to_owned(),
    })
}

/// Reads `host;x-amz-date`: lower-case, sorted, none empty, none twice.
fn signed_headers(text: &str) -> Option<Vec<String>> {
    let names: Vec<String> = text.split(';').map(str::to_owned).collect();
    let plain = |n: &String| !n.is_empty() && !n.bytes().any(|b| b.is_ascii_uppercase());
    let sorted = names.windows(2).all(|pair| pair[0] < pair[1]);
    (names.len() <= MAX_SIGNED_HEADERS && names.iter().all(plain) && sorted).then_some(names)
}
