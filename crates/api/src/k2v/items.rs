//! Operations on single items.

use std::time::Duration;

use archipel_model::Bucket;
use archipel_model::k2v::{Insert, Item, ItemName, MAX_VALUE_BYTES};
use http::{HeaderMap, StatusCode, header};

use super::answer::{TOKEN, content, json, token, values_text, with_token};
use super::route::{number, required};
use super::service::Permit;
use crate::s3::call::{Call, single_header};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{Answer, empty};

/// The seconds that a poll waits: the usual number, and the most.
const POLL_SECONDS: f64 = 300.0;
const MAX_POLL_SECONDS: f64 = 600.0;

const JSON: &str = "application/json";
const BINARY: &str = "application/octet-stream";

/// The forms of an item that a client takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Accepted {
    json: bool,
    binary: bool,
}

impl Accepted {
    /// Reads what a client takes: JSON if it does not say, or names no other form. Weights do not
    /// count, except that 0 takes nothing.
    fn of(headers: &HeaderMap) -> S3Result<Accepted> {
        let mut accepted = Accepted {
            json: false,
            binary: false,
        };
        let (mut any, mut refused) = (false, Vec::new());
        let mut lines = headers.get_all(header::ACCEPT).iter().peekable();
        if lines.peek().is_none() {
            accepted.json = true;
        }
        for line in lines {
            for kind in line.to_str().unwrap_or_default().split(',') {
                let mut parts = kind.split(';').map(str::trim);
                let kind = parts.next().unwrap_or_default();
                if parts.any(is_zero) {
                    refused.push(kind.to_ascii_lowercase());
                    continue;
                }
                any |= kind == "*/*" || kind.eq_ignore_ascii_case("application/*");
                accepted.json |= kind.eq_ignore_ascii_case(JSON);
                accepted.binary |= kind.eq_ignore_ascii_case(BINARY);
            }
        }
        if any && !accepted.json {
            let takes = |form: &str| !refused.iter().any(|kind| kind == form);
            (accepted.json, accepted.binary) = (takes(JSON), takes(BINARY));
        }
        if accepted.json || accepted.binary {
            Ok(accepted)
        } else {
            Err(Code::NotAcceptable.into())
        }
    }

    /// Returns an item in the form that the client takes.
    fn answer(self, item: &Item) -> S3Result<Answer> {
        let answer = match (&item.values[..], self.binary, self.json) {
            ([Some(value)], true, _) => content(value.clone(), BINARY),
            ([None], true, _) => status_of(StatusCode::NO_CONTENT),
            (_, true, false) => status_of(StatusCode::CONFLICT),
            _ => json(StatusCode::OK, &values_text(item))?,
        };
        Ok(with_token(answer, item))
    }
}

/// Returns true if a parameter of a media type is a weight of zero.
fn is_zero(parameter: &str) -> bool {
    let weight = parameter.split_once('=');
    weight.is_some_and(|(name, weight)| {
        name.trim_end().eq_ignore_ascii_case("q") && weight.trim().parse() == Ok(0.0)
    })
}

fn status_of(status: StatusCode) -> Answer {
    let mut answer = content(bytes::Bytes::new(), BINARY);
    *answer.status_mut() = status;
    answer
}

/// Returns the item that a request names.
fn name(call: &Call<'_>) -> S3Result<ItemName> {
    let pk = call.target.key.as_deref().unwrap_or_default();
    Ok(ItemName::new(
        pk,
        required(&call.target.query, "sort_key")?,
    )?)
}

/// Returns how long a poll waits. A client that asks for longer hears earlier that nothing changed.
///
/// # Errors
/// [`Code::InvalidArgument`] if the timeout is negative or not a number.
pub fn poll_time(seconds: Option<f64>) -> S3Result<Duration> {
    let seconds = seconds.unwrap_or(POLL_SECONDS);
    if seconds.is_nan() || seconds < 0.0 {
        let why = "A timeout is a number of seconds, at least 0.";
        return Err(S3Error::argument("timeout", seconds.to_string(), why));
    }
    Ok(Duration::from_secs_f64(seconds.min(MAX_POLL_SECONDS)))
}

/// Answers `ReadItem`.
pub async fn read(call: &mut Call<'_>, bucket: &Bucket) -> S3Result<Answer> {
    let (name, accepted) = (name(call)?, Accepted::of(call.headers)?);
    call.check_unread_body().await?;
    let item = call.model.read_item(bucket, &name).await?;
    accepted.answer(&item.ok_or(Code::NoSuchKey)?)
}

/// Answers `PollItem`.
pub async fn poll(call: &mut Call<'_>, bucket: &Bucket, permit: &Permit<'_>) -> S3Result<Answer> {
    let (name, accepted) = (name(call)?, Accepted::of(call.headers)?);
    let query = &call.target.query;
    let seen = token(required(query, "causality_token")?)?;
    let time = poll_time(number(query, "timeout")?)?;
    call.check_unread_body().await?;
    let polled = call.model.poll_item(bucket, &name, &seen, time);
    let polled = permit.poll(bucket, polled).await?;
    accepted.answer(&polled.ok_or(Code::NotModified)?)
}

/// Returns the token in the header.
fn header_token(call: &Call<'_>) -> S3Result<Option<bytes::Bytes>> {
    let text = single_header(call.headers, TOKEN.as_str())?;
    text.map(token).transpose()
}

/// Answers `InsertItem`.
pub async fn insert(call: &mut Call<'_>, bucket: &Bucket) -> S3Result<Answer> {
    let (name, token) = (name(call)?, header_token(call)?);
    let value = call.optional_document(MAX_VALUE_BYTES).await;
    let value = value.map_err(|error| match error.code() {
        // Batches say so, too.
        Code::MaxMessageLengthExceeded => S3Error::from(archipel_model::Error::TooLarge),
        _ => error,
    })?;
    let insert = Insert {
        name,
        token,
        value: Some(value),
    };
    call.model.insert_item(bucket, &insert).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Answers `DeleteItem`.
pub async fn delete(call: &mut Call<'_>, bucket: &Bucket) -> S3Result<Answer> {
    let (name, token) = (name(call)?, header_token(call)?);
    call.check_unread_body().await?;
    if token.is_none() {
        let why = "A deletion needs the header X-Garage-Causality-Token.";
        return Err(S3Error::new(Code::InvalidRequest, why));
    }
    let deletion = Insert {
        name,
        token,
        value: None,
    };
    call.model.insert_item(bucket, &deletion).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn status(accept: Option<&str>, values: &[Option<&'static str>]) -> (u16, Option<String>) {
        let mut headers = HeaderMap::new();
        if let Some(accept) = accept {
            headers.insert(header::ACCEPT, accept.parse().unwrap());
        }
        let values = values
            .iter()
            .map(|value| value.map(|v| Bytes::from_static(v.as_bytes())));
        let item = Item {
            token: Bytes::from_static(b"token"),
            values: values.collect(),
        };
        let answer = match Accepted::of(&headers) {
            Ok(accepted) => accepted.answer(&item).unwrap(),
            Err(error) => return (error.code().status().as_u16(), None),
        };
        assert_eq!(answer.headers()[TOKEN], "dG9rZW4");
        let kind = answer.headers().get(header::CONTENT_TYPE);
        let kind = kind.map(|kind| kind.to_str().unwrap().to_owned());
        (answer.status().as_u16(), kind)
    }

    #[test]
    fn the_form_follows_the_accept_header() {
        let (json, binary) = (Some(JSON.to_owned()), Some(BINARY.to_owned()));
        let (one, two, none) = (&[Some("v")][..], &[Some("v"), None][..], &[None][..]);
        for values in [one, two, none] {
            assert_eq!(status(None, values), (200, json.clone()));
            assert_eq!(status(Some(JSON), values), (200, json.clone()));
            assert_eq!(status(Some("text/html"), values), (406, None));
        }
        assert_eq!(status(Some(BINARY), one), (200, binary.clone()));
        assert_eq!(status(Some(BINARY), none), (204, binary.clone()));
        assert_eq!(status(Some(BINARY), two), (409, binary.clone()));
        for both in ["*/*", "application/json, application/octet-stream;q=0.5"] {
            assert_eq!(status(Some(both), one), (200, binary.clone()));
            assert_eq!(status(Some(both), none), (204, binary.clone()));
            assert_eq!(status(Some(both), two), (200, json.clone()));
        }
    }
}
