//! The unread rest of a refused request's body.
//!
//! A client that is still sending must see the answer. A connection that is closed while bytes come
//! is reset, and the answer may be lost with it (RFC 9112, section 9.6). So a little more is read
//! beside the answer.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Version, header};
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::runtime::Handle;

use crate::s3::body::RequestBody;
use crate::s3::respond::Answer;

/// The most bytes that are read and discarded, and the time for it.
const DRAIN_BYTES: usize = 64 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Disposes of the unread rest of a request's body.
///
/// A client that waits for `100 Continue` and is refused may send the body nevertheless, or its
/// next request (RFC 9110, section 10.1.1). Hyper cannot tell the two apart, so the answer is the
/// connection's last.
pub(super) fn leave(parts: &Parts, body: Option<RequestBody>, answer: &mut Answer) {
    let expects = parts.headers.contains_key(header::EXPECT);
    let length = parts.headers.get(header::CONTENT_LENGTH);
    // botocore takes the next answer on the connection for a broken one after it got this answer
    // in place of "100 Continue".
    let mut closes = expects && length.is_some_and(|length| length == "0");
    if let Some(body) = body.filter(RequestBody::is_pending) {
        if expects && !body.is_touched() {
            closes = true;
            let inner = std::mem::take(answer.body_mut());
            let mut rest = Rest(Some(body));
            let answering = inner.map_frame(move |frame: Frame<Bytes>| {
                rest.drain();
                frame
            });
            *answer.body_mut() = answering.boxed_unsync();
        } else {
            tokio::spawn(body.drain(DRAIN_BYTES, DRAIN_TIME));
        }
    }
    if closes && parts.version == Version::HTTP_11 {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(header::CONNECTION, close);
    }
}

/// The rest of a body, which is read once the answer's own body is asked for, or dropped. Hyper has
/// sent the head by then, so that nothing that is read makes it send `100 Continue`.
struct Rest(Option<RequestBody>);

impl Rest {
    fn drain(&mut self) {
        if let (Some(rest), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(rest.drain(DRAIN_BYTES, DRAIN_TIME));
        }
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.drain();
    }
}
