//! The unread rest of a refused request's body.
//!
//! A client that is still sending must see the answer. A connection that is closed while bytes come
//! is reset, and the answer may be lost with it (RFC 9112, section 9.6). So a little more is read
//! beside the answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use parking_lot::Mutex;

/// The most bytes that are read and discarded, and the time for it.
const DRAIN_BYTES: usize = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// A body of which the handler may leave something.
pub(super) struct Rest(Arc<Mutex<Body>>);

/// Returns a body for the handler, and what it leaves of it.
pub(super) fn shared(body: Body) -> (Body, Rest) {
    let body = Arc::new(Mutex::new(body));
    (Body::new(Reader(body.clone())), Rest(body))
}

impl Rest {
    /// Reads on for a while, in a task of its own, and discards.
    pub(super) fn drain(self) {
        if self.0.lock().is_end_stream() {
            return;
        }
        let mut rest = Limited::new(Reader(self.0), DRAIN_BYTES);
        let reading = async move { while let Some(Ok(_)) = rest.frame().await {} };
        tokio::spawn(tokio::time::timeout(DRAIN_TIME, reading));
    }
}

/// Reads a body that is shared. Only one task does so at a time: the handler, and then the rest.
struct Reader(Arc<Mutex<Body>>);

impl http_body::Body for Reader {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.0.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    /// A handler that refuses a request reads nothing of it.
    #[tokio::test(start_paused = true)]
    async fn what_is_left_is_read_up_to_a_bound() {
        for (pieces, read) in [(3, 3), (5_000, 1024)] {
            let taken = Arc::new(Mutex::new(0));
            let count = taken.clone();
            let sent = stream::iter(0..pieces).map(move |_| {
                *count.lock() += 1;
                Ok::<_, axum::Error>(Bytes::from_static(&[0; 1024]))
            });
            let (body, rest) = shared(Body::from_stream(sent));
            drop(body);
            rest.drain();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let taken = *taken.lock();
            assert!((read..=read + 1).contains(&taken), "{taken}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn handler_reads_the_body_as_it_came() {
        let (body, rest) = shared(Body::from("a text"));
        assert_eq!(body.size_hint().exact(), Some(6));
        let read = body.collect().await.unwrap().to_bytes();
        assert_eq!(&read[..], b"a text");
        rest.drain();
    }
}
