//! Responses, errors, and what handlers take from a request: all bounded, all refused in one shape.

use std::time::Duration;

use archipel_model::Error as ModelError;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::advice::explain;
use super::types::Problem;
use crate::json::Unreadable;
use crate::times::LAST_MS;

/// The largest request body, in bytes: most requests are a few short texts.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The largest rules of a bucket, in bytes. They are longer in JSON than as they are stored.
const MAX_RULES_BYTES: usize = 1 << 20;

/// The timeout of a request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) type Answer = Response<Body>;

/// An error as the client sees it.
#[derive(Debug)]
pub(super) struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Refusal {
            status,
            code,
            message: message.into(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }

    /// Returns the refusal of a request about a bucket. It names the bucket if that is missing.
    pub(super) fn of_bucket(error: ModelError, bucket: &str) -> Self {
        Refusal::about(error, Some(bucket), None)
    }

    /// Returns the refusal of a request about an access key. It names the key if that is missing.
    pub(super) fn of_key(error: ModelError, key: &str) -> Self {
        Refusal::about(error, None, Some(key))
    }

    /// Returns the refusal of a request about a bucket and an access key. It names the one that is
    /// missing, if it is one that the request names.
    pub(super) fn about(error: ModelError, bucket: Option<&str>, key: Option<&str>) -> Self {
        let missing = match error {
            ModelError::NoSuchBucket => bucket,
            ModelError::NoSuchAccessKey => key,
            _ => None,
        };
        Refusal::of(&error, missing)
    }

    /// Returns the refusal for an error, with the name of what is missing.
    fn of(error: &ModelError, missing: Option<&str>) -> Self {
        let (status, code) = match error {
            ModelError::NoSuchBucket => (StatusCode::NOT_FOUND, "NoSuchBucket"),
            ModelError::NoSuchAccessKey => (StatusCode::NOT_FOUND, "NoSuchAccessKey"),
            ModelError::NoSuchKey | ModelError::Deleted(_) => (StatusCode::NOT_FOUND, "NoSuchKey"),
            ModelError::NoSuchToken => (StatusCode::NOT_FOUND, "NoSuchToken"),
            ModelError::BucketExists => (StatusCode::CONFLICT, "BucketAlreadyExists"),
            ModelError::TooManyBuckets(_) => (StatusCode::BAD_REQUEST, "TooManyBuckets"),
            ModelError::AccessKeyExists => (StatusCode::CONFLICT, "AccessKeyAlreadyExists"),
            ModelError::NoSuchAlias => (StatusCode::NOT_FOUND, "NoSuchAlias"),
            ModelError::OwnName => (StatusCode::CONFLICT, "OwnName"),
            ModelError::BucketNotEmpty => (StatusCode::CONFLICT, "BucketNotEmpty"),
            ModelError::PublicAccessBlocked => (StatusCode::CONFLICT, "PublicAccessBlocked"),
            ModelError::AclGrantsOthers => (StatusCode::CONFLICT, "AclGrantsOthers"),
            ModelError::LockKeepsVersions => (StatusCode::CONFLICT, "LockKeepsVersions"),
            ModelError::LockNeedsVersions => (StatusCode::CONFLICT, "LockNeedsVersions"),
            ModelError::Conflict => (StatusCode::CONFLICT, "Conflict"),
            ModelError::NoSuchEntity(_) => (StatusCode::NOT_FOUND, "NoSuchEntity"),
            ModelError::EntityExists(_) => (StatusCode::CONFLICT, "EntityAlreadyExists"),
            ModelError::EntityInUse(_) => (StatusCode::CONFLICT, "EntityInUse"),
            ModelError::LimitExceeded(_) => (StatusCode::CONFLICT, "LimitExceeded"),
            ModelError::MalformedPolicy(_) => (StatusCode::BAD_REQUEST, "MalformedPolicy"),
            ModelError::InvalidName(_) => (StatusCode::BAD_REQUEST, "InvalidName"),
            ModelError::InvalidValue(_) => (StatusCode::BAD_REQUEST, "InvalidRequest"),
            ModelError::QuotaExceeded(_) => (StatusCode::CONFLICT, "QuotaExceeded"),
            ModelError::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "NoSpace"),
            ModelError::Busy(_) => (StatusCode::SERVICE_UNAVAILABLE, "Busy"),
            ModelError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "Unavailable"),
            ModelError::Unconfirmed(_) => (StatusCode::SERVICE_UNAVAILABLE, "Unconfirmed"),
            ModelError::NoMasterKey(_) => (StatusCode::SERVICE_UNAVAILABLE, "NoMasterKey"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        };
        if status.is_server_error() {
            tracing::error!(%error, "an admin request failed");
        }
        Refusal::new(status, code, explain(error, missing))
    }
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Refusal {
        Refusal::of(&error, None)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Answer {
        let problem = Problem {
            kind: format!("urn:archipel:problem:{}", self.code),
            title: self
                .status
                .canonical_reason()
                .unwrap_or("Refused")
                .to_owned(),
            status: self.status.as_u16(),
            detail: self.message,
            code: self.code.to_owned(),
        };
        let mut answer = json(self.status, "application/problem+json", &problem);
        let headers = answer.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }
}

/// A success with a JSON body.
pub(super) struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Answer {
        json(StatusCode::OK, "application/json", &self.0)
    }
}

/// The answer to a creation.
pub(super) struct Created<T>(pub T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Answer {
        json(StatusCode::CREATED, "application/json", &self.0)
    }
}

/// The answer to the start of an operation, by its id: where to follow it, and the state now.
pub(super) struct Accepted<T>(pub String, pub T);

impl<T: Serialize> IntoResponse for Accepted<T> {
    fn into_response(self) -> Answer {
        let mut answer = json(StatusCode::ACCEPTED, "application/json", &self.1);
        if let Ok(location) = HeaderValue::try_from(format!("/v1/operations/{}", self.0)) {
            answer.headers_mut().insert(header::LOCATION, location);
        }
        answer
    }
}

/// A success without a body.
pub(super) struct NoContent;

impl IntoResponse for NoContent {
    fn into_response(self) -> Answer {
        StatusCode::NO_CONTENT.into_response()
    }
}

/// Makes an answer with `value` as JSON.
pub(super) fn json(
    status: StatusCode,
    content_type: &'static str,
    value: &impl Serialize,
) -> Answer {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            with_type(status, content_type, body)
        }
        // These types always encode. If one did not, the client would still get an answer.
        Err(_) => with_type(StatusCode::INTERNAL_SERVER_ERROR, content_type, vec![]),
    }
}

pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Body::from(Bytes::from(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Answers hold secrets and states, which no cache may keep.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// The request's body, read within bounds, as JSON.
pub(super) struct Read<T, const MAX_BYTES: usize = MAX_BODY_BYTES>(pub T);

/// Rules of a bucket, as many as the S3 API takes.
pub(super) type ReadRules<T> = Read<T, MAX_RULES_BYTES>;

impl<S: Send + Sync, T: DeserializeOwned, const MAX_BYTES: usize> FromRequest<S>
    for Read<T, MAX_BYTES>
{
    type Rejection = Refusal;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Refusal> {
        let body = collect(request.into_body(), MAX_BYTES).await?;
        let parsed = crate::json::read(&body);
        parsed.map(Read).map_err(|error| unexpected(&error))
    }
}

/// Reads a body of at most so many bytes.
async fn collect(body: Body, most: usize) -> Result<Bytes, Refusal> {
    let limited = Limited::new(body, most);
    let body = tokio::time::timeout(BODY_TIMEOUT, limited.collect())
        .await
        .map_err(|_| {
            let status = StatusCode::REQUEST_TIMEOUT;
            Refusal::new(status, "Timeout", "the body took too long")
        })?
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                let message = format!("the body has at most {most} bytes");
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", message)
            } else {
                Refusal::invalid("the body was cut off")
            }
        })?;
    Ok(body.to_bytes())
}

/// Returns a request of an operation that takes no body, without one. Accepts `null` and `{}`, which
/// clients send for no body, and refuses any other.
pub(super) async fn without_body(request: Request<Body>) -> Result<Request<Body>, Refusal> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (head, body) = request.into_parts();
    let body = collect(body, MAX_BODY_BYTES).await?;
    match body.trim_ascii() {
        b"" | b"null" | b"{}" => Ok(Request::from_parts(head, Body::empty())),
        _ => Err(Refusal::invalid("the body: this request takes none")),
    }
}

fn unexpected(error: &Unreadable) -> Refusal {
    let why = crate::json::explain(error);
    Refusal::invalid(format!("the body is not what is expected: {why}"))
}

/// Checks a time in milliseconds since 1970 that a field of a request gives. Later ones cannot be
/// written in documents, and clients may hold them in 64 bits with a sign.
pub(super) fn check_time(field: &str, at_ms: u64) -> Result<u64, Refusal> {
    match at_ms {
        0..=LAST_MS => Ok(at_ms),
        _ => {
            let why = format!("{field}: the time is after the year 9999");
            Err(Refusal::invalid(why))
        }
    }
}

/// The variable parts of the path.
pub(super) struct At<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        path.map(|axum::extract::Path(path)| At(path))
            .map_err(|error| Refusal::invalid(format!("the path: {}", error.body_text())))
    }
}

/// The parameters of the query.
pub(super) struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        query
            .map(|axum::extract::Query(query)| Query(query))
            .map_err(|error| Refusal::invalid(format!("the query: {}", error.body_text())))
    }
}
