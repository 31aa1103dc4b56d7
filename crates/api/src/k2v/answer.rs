//! Documents as JSON; tokens and values as text.

use archipel_model::k2v::Item;
use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE_NO_PAD,
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::json::{explain, read};
use crate::s3::body;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{Answer, empty};

/// The header that carries a causality token.
pub const TOKEN: HeaderName = HeaderName::from_static("x-garage-causality-token");

/// Base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An item of a range.
#[derive(Serialize)]
pub struct ItemText {
    sk: String,
    ct: String,
    v: Vec<Option<String>>,
}

impl ItemText {
    pub fn new((sk, item): (String, Item)) -> ItemText {
        ItemText {
            sk,
            ct: token_text(&item.token),
            v: values_text(&item),
        }
    }
}

/// An error.
#[derive(Serialize)]
struct ErrorText<'a> {
    code: &'a str,
    message: &'a str,
    region: &'a str,
    path: &'a str,
    #[serde(rename = "requestId")]
    request_id: &'a str,
}

/// Returns an answer with a document.
pub fn json(status: StatusCode, document: &impl Serialize) -> S3Result<Answer> {
    let text = serde_json::to_vec(document)
        .map_err(|error| S3Error::new(Code::InternalError, error.to_string()))?;
    let mut answer = content(Bytes::from(text), "application/json");
    *answer.status_mut() = status;
    Ok(answer)
}

/// Returns an answer with content of a type.
pub fn content(bytes: Bytes, kind: &'static str) -> Answer {
    let mut answer = Answer::new(body::full(bytes));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Values are what anybody stored: no browser shall take them for a page.
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    answer
}

/// Returns an answer that is an error.
pub fn error(error: &S3Error, region: &str, path: &str, request_id: &str) -> Answer {
    let status = error.code().status();
    if status == StatusCode::NOT_MODIFIED {
        return empty(status);
    }
    // The document has no place for the name of an argument.
    let of = error
        .details()
        .iter()
        .find(|(name, _)| *name == "ArgumentName");
    let message = match of {
        Some((_, name)) => format!("{name}: {}", error.message()),
        None => error.message().to_owned(),
    };
    let text = ErrorText {
        code: error.code().as_str(),
        message: &message,
        region,
        path,
        request_id,
    };
    json(status, &text).unwrap_or_else(|_| empty(StatusCode::INTERNAL_SERVER_ERROR))
}

/// Adds an item's token to an answer.
pub fn with_token(mut answer: Answer, item: &Item) -> Answer {
    // Base64 is fit for a header.
    if let Ok(value) = HeaderValue::from_str(&token_text(&item.token)) {
        answer.headers_mut().insert(TOKEN, value);
    }
    answer
}

/// Returns a token as text.
pub fn token_text(token: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(token)
}

/// Reads a token.
///
/// # Errors
/// [`Code::InvalidArgument`].
pub fn token(text: &str) -> S3Result<Bytes> {
    let decoded = URL_SAFE_NO_PAD.decode(text.trim());
    let decoded = decoded.map_err(|_| archipel_model::Error::InvalidCausalityToken)?;
    Ok(decoded.into())
}

/// Returns an item's values as text.
pub fn values_text(item: &Item) -> Vec<Option<String>> {
    let text = |value: &Option<Bytes>| value.as_ref().map(|value| STANDARD.encode(value));
    item.values.iter().map(text).collect()
}

/// Reads a value.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn value(text: &str) -> S3Result<Bytes> {
    let decoded = LENIENT.decode(text);
    let decoded = decoded.map_err(|error| {
        S3Error::new(
            Code::InvalidRequest,
            format!("A value is not base64: {error}"),
        )
    })?;
    Ok(decoded.into())
}

/// Reads a document.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub fn parse<T: DeserializeOwned>(document: &[u8]) -> S3Result<T> {
    read(document).map_err(|error| {
        S3Error::new(
            Code::InvalidRequest,
            format!("The document is not valid: {}", explain(&error)),
        )
    })
}
