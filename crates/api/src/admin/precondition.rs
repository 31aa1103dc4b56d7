//! Conditions of changes: a document is replaced or deleted only while it is the one that the client saw. Else
//! one of two clients that change it at the same time would undo the change of the other.

use archipel_model::Error;
use axum::extract::FromRequestParts;
use axum::response::IntoResponse;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use utoipa::IntoParams;

use super::answer::{Answer, Json, Refusal};

/// The condition of a change. Without its headers there is none.
#[derive(Clone, IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Precondition {
    /// The `ETag` of the document as the client saw it. If it is another one by now, or none, the answer is 412
    /// and nothing changes.
    #[param(rename = "If-Match", value_type = String, required = false)]
    if_match: Option<String>,
    /// With `*`: if there is such a document already, the answer is 412 and nothing changes.
    #[param(rename = "If-None-Match", value_type = String, required = false)]
    if_none_match: Option<String>,
}

impl Precondition {
    /// Returns true if the request has a condition.
    pub(super) fn is_given(&self) -> bool {
        self.if_match.is_some() || self.if_none_match.is_some()
    }

    /// Returns true if a document with this tag, or the lack of a document, allows the change.
    pub(super) fn admits(&self, now: Option<Tag>) -> bool {
        let is_seen = |seen: &String| {
            let now = now.as_ref();
            let mut seen = seen.split(',').map(str::trim);
            now.is_some_and(|Tag(now)| seen.any(|seen| seen == now || seen == "*"))
        };
        let is_free = self.if_none_match.is_none() || now.is_none();
        is_free && self.if_match.as_ref().is_none_or(is_seen)
    }

    /// Returns the refusal of a change that failed.
    pub(super) fn refusal(&self, error: Error) -> Refusal {
        let why = match error {
            Error::PreconditionFailed if self.if_none_match.is_some() => {
                "there is one already; fix: get it, and change that one"
            }
            Error::PreconditionFailed => {
                "it was changed meanwhile; fix: get it again, and repeat the change"
            }
            error => return error.into(),
        };
        Refusal::new(StatusCode::PRECONDITION_FAILED, "Changed", why)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Precondition {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Precondition, Refusal> {
        let text = |name: HeaderName| {
            let read = |value: &HeaderValue| value.to_str().map(str::to_owned);
            let text = parts.headers.get(&name).map(read).transpose();
            text.map_err(|_| Refusal::invalid(format!("{name}: it is no text")))
        };
        let condition = Precondition {
            if_match: text(header::IF_MATCH)?,
            if_none_match: text(header::IF_NONE_MATCH)?,
        };
        let names_none = |given: &String| given == "*";
        if !condition.if_none_match.as_ref().is_none_or(names_none) {
            return Err(Refusal::invalid(
                "if-none-match: only * is accepted; fix: send *, or use If-Match",
            ));
        }
        Ok(condition)
    }
}

/// The `ETag` of a document.
pub(super) struct Tag(String);

impl Tag {
    /// Returns the tag of a document. It has to be all that a change may replace, also what the answer leaves out.
    pub(super) fn of<D: Serialize + ?Sized>(document: &D) -> Tag {
        // These types always encode.
        let text = serde_json::to_vec(document).unwrap_or_default();
        Tag(format!("\"{}\"", hex::encode(digest(&SHA256, &text))))
    }
}

/// A document with its `ETag`, on which a change can depend; without one if there is no document.
pub(super) struct Tagged<T>(pub T, pub Option<Tag>);

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Answer {
        let Tagged(document, tag) = self;
        let mut answer = Json(document).into_response();
        let tag = tag.and_then(|Tag(tag)| HeaderValue::try_from(tag).ok());
        if let Some(tag) = tag {
            answer.headers_mut().insert(header::ETAG, tag);
        }
        answer
    }
}
