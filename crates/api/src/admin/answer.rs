//! Responses, errors and bounded bodies.

use std::time::Duration;

use archipel_model::Error as ModelError;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::types::ErrorAnswer;

/// The largest request body, in bytes: requests are a few short texts.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The timeout of a request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) type Answer = Response<Full<Bytes>>;

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
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Refusal {
        let (status, code) = match &error {
            ModelError::NoSuchBucket => (StatusCode::NOT_FOUND, "NoSuchBucket"),
            ModelError::NoSuchAccessKey => (StatusCode::NOT_FOUND, "NoSuchAccessKey"),
            ModelError::BucketExists => (StatusCode::CONFLICT, "BucketAlreadyExists"),
            ModelError::AccessKeyExists => (StatusCode::CONFLICT, "AccessKeyAlreadyExists"),
            ModelError::NoSuchAlias => (StatusCode::NOT_FOUND, "NoSuchAlias"),
            ModelError::OwnName => (StatusCode::CONFLICT, "OwnName"),
            ModelError::BucketNotEmpty => (StatusCode::CONFLICT, "BucketNotEmpty"),
            ModelError::PublicAccessBlocked => (StatusCode::CONFLICT, "PublicAccessBlocked"),
            ModelError::Conflict => (StatusCode::CONFLICT, "Conflict"),
            ModelError::InvalidName(_) => (StatusCode::BAD_REQUEST, "InvalidName"),
            ModelError::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "NoSpace"),
            ModelError::Busy(_) => (StatusCode::SERVICE_UNAVAILABLE, "Busy"),
            ModelError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "Unavailable"),
            ModelError::Unconfirmed(_) => (StatusCode::SERVICE_UNAVAILABLE, "Unconfirmed"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        };
        if status.is_server_error() {
            tracing::error!(%error, "an admin request failed");
        }
        Refusal::new(status, code, error.to_string())
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        let body = ErrorAnswer {
            code: refusal.code.into(),
            message: refusal.message,
        };
        let mut answer = json(refusal.status, &body);
        if refusal.status == StatusCode::UNAUTHORIZED {
            let challenge = header::HeaderValue::from_static("Bearer");
            answer
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        if refusal.status == StatusCode::SERVICE_UNAVAILABLE {
            let seconds = header::HeaderValue::from_static("1");
            answer.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        answer
    }
}

/// Makes an answer with `value` as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            with_type(status, "application/json", body)
        }
        // These types always encode. If one did not, the client would still get an answer.
        Err(_) => with_type(
            StatusCode::INTERNAL_SERVER_ERROR,
            "application/json",
            vec![],
        ),
    }
}

pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    // Answers hold secrets and states, which no cache may keep.
    headers.insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-store"),
    );
    answer
}

/// Makes an answer without a body.
pub(super) fn no_content() -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// The request's body, read within bounds, as `T`.
pub(super) async fn read_json<T, B>(request: Request<B>) -> Result<T, Refusal>
where
    T: DeserializeOwned,
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limited = Limited::new(request.into_body(), MAX_BODY_BYTES);
    let body = tokio::time::timeout(BODY_TIMEOUT, Box::pin(limited).collect())
        .await
        .map_err(|_| {
            Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                "Timeout",
                "the body took too long",
            )
        })?
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                let message = format!("a body has at most {MAX_BODY_BYTES} bytes");
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", message)
            } else {
                Refusal::invalid("the body was cut off")
            }
        })?;
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| Refusal::invalid(format!("the body is not what is expected: {error}")))
}
