//! The end of a request: logs, counters and the span tell of it once its answer begins, and the
//! answer's bytes are counted as they are sent.

use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;

use super::{Frontend, Learned, RequestHead};
use crate::audit::Entry;
use crate::s3::body::Body;
use crate::serve::metrics::{Guard, Sent};
use crate::serve::spans;

/// A request whose answer begins, as logs and counters tell of it.
pub(super) struct Ended<'a> {
    pub endpoint: &'static str,
    pub head: &'a RequestHead,
    pub path: Option<&'a str>,
    pub learned: &'a Learned,
    pub status: u16,
    pub received: u64,
    pub elapsed: Duration,
}

impl Ended<'_> {
    /// Returns the code of the error, or nothing.
    pub fn code(&self) -> &'static str {
        let error = self.learned.error.as_ref();
        error.map_or("", |error| error.code().as_str())
    }

    /// Counts the request. Returns what counts the answer's content.
    pub fn count(&self, frontend: &Frontend) -> Sent {
        let (learned, metrics) = (self.learned, &frontend.metrics);
        metrics.answered(learned.operation, self.status, self.elapsed, self.received);
        let named = learned.bucket.as_deref();
        let known = named.and_then(|name| frontend.model.bucket(name).ok().flatten());
        let known = known.as_ref().map(|bucket| bucket.name.as_str());
        metrics.concerned(known, learned.user.as_deref(), self.status, self.received)
    }

    /// Adds the attributes of the request to its span.
    pub fn describe_span(&self) {
        spans::describe(&spans::Outcome {
            endpoint: self.endpoint,
            operation: self.learned.operation,
            request_id: &self.head.id,
            bucket: self.learned.bucket.as_deref(),
            code: self.code(),
        });
    }

    /// Writes the line of the access log.
    pub fn log(&self) {
        // No query, no headers: they carry signatures.
        tracing::info!(
            target: "archipel::access",
            endpoint = self.endpoint,
            request_id = self.head.id,
            operation = self.learned.operation,
            method = %self.head.parts.method,
            bucket = self.learned.bucket.as_deref(),
            key = self.learned.key.as_deref(),
            path = self.path,
            status = self.status,
            code = self.code(),
            received = self.received,
            milliseconds = self.elapsed.as_millis() as u64,
            "request"
        );
    }
}

/// Counts sent bytes, and the request as in progress until all are sent. Then its entry of the
/// audit log ends.
pub(super) fn counted(body: Body, sent: Sent, under_way: Guard, mut entry: Entry) -> Body {
    body.map_frame(move |frame: Frame<Bytes>| {
        let _until_the_end = &under_way;
        if let Some(bytes) = frame.data_ref() {
            sent.bytes(bytes.len() as u64);
            entry.sent(bytes.len() as u64);
        }
        frame
    })
    .boxed_unsync()
}
