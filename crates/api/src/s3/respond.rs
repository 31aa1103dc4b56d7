//! Builds answers.

use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use super::body::{self, Body};
use super::error::{S3Error, S3Result};
use super::xml::Writer;
pub use crate::times::iso_time;

/// An answer.
pub type Answer = Response<Body>;

/// Makes an answer without content.
pub fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(body::empty());
    *answer.status_mut() = status;
    answer
}

/// Adds the headers of an error to its answer.
pub fn add_headers_of(error: &S3Error, answer: &mut Answer) {
    for (name, value) in error.headers() {
        if let Ok(value) = HeaderValue::from_str(value) {
            let name = HeaderName::from_static(name);
            answer.headers_mut().insert(name, value);
        }
    }
}

/// Makes an answer with a document.
pub fn xml(document: Writer) -> Answer {
    xml_bytes(StatusCode::OK, document.finish())
}

/// Makes an answer with a document that was written already.
pub fn xml_bytes(status: StatusCode, document: Vec<u8>) -> Answer {
    let mut answer = Response::new(body::full(document));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("application/xml");
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    // A document may hold names that others chose: no browser shall take it for a page. Objects
    // do without, as in S3: they always have a type, and `nosniff` would keep browsers from
    // running scripts that were stored with none.
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    answer
}

/// Sets a header of an answer.
///
/// # Errors
/// [`Code::InvalidArgument`](super::error::Code::InvalidArgument) if it is not fit for a header.
pub fn set(answer: &mut Answer, name: &'static str, value: &str) -> S3Result<()> {
    let bad = |_| S3Error::argument(name, "", "The value is not fit for a header.");
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(bad)?;
    answer
        .headers_mut()
        .insert(HeaderName::from_static(name), value);
    Ok(())
}

/// Returns an entity tag as it stands in headers and documents.
pub fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
}

/// Returns a time as headers have it; the end of the year 9999 stands for all later ones.
pub fn http_date(millis: u64) -> String {
    const LAST_SECOND: u64 = 253_402_300_799;
    let seconds = Duration::from_secs((millis / 1000).min(LAST_SECOND));
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + seconds)
}

/// Returns the time of an object, an upload or a bucket as documents have it: whole seconds, as in
/// the headers.
pub fn iso_seconds(millis: u64) -> String {
    iso_time(millis / 1000 * 1000)
}
