//! Bodies of requests, with their decoding and limits, and bodies of answers.

use std::collections::VecDeque;
use std::time::Duration;

use archipel_model::{ObjectStream, Pool};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::chunked::Decoder;
use super::error::{Code, S3Result};
pub use crate::serve::{Body, BoxError};
use share::Share;

mod share;

/// Makes a body without content.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Makes a body that is there whole.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Makes a body of an object's content. If reading fails, the connection is broken off: the client
/// sees that something is missing.
pub fn object(content: ObjectStream) -> Body {
    let pieces = stream::unfold(Some(content), |state| async {
        let mut content = state?;
        match content.next().await? {
            Ok(piece) => Some((Ok(Frame::data(piece)), Some(content))),
            Err(error) => Some((Err(BoxError::from(error)), None)),
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// The body of a request.
pub struct RequestBody {
    /// No thread ever waits for this lock. It makes the body `Sync`, as handlers need.
    inner: Mutex<Body>,
    decoder: Option<Decoder>,
    /// The memory of a signed chunk that has not arrived whole.
    share: Share,
    ready: VecDeque<Bytes>,
    trailers: Vec<(String, String)>,
    /// The timeout of the next piece.
    idle: Duration,
    pace: Pace,
    touched: bool,
    ended: bool,
    received: u64,
}

/// A client that was waited for so long must have sent [`LEAST_BYTES`] in that time.
const PACE_TIME: Duration = Duration::from_secs(60);
const LEAST_BYTES: usize = 16 << 10;

/// The rate at which a client sends, to tell a slow client from one that only pretends. Only the
/// time that the server waited for the client counts.
#[derive(Default)]
struct Pace {
    waited: Duration,
    bytes: usize,
}

impl Pace {
    fn waited(&mut self, time: Duration, bytes: usize) -> S3Result<()> {
        self.waited += time;
        self.bytes += bytes;
        if self.waited < PACE_TIME {
            return Ok(());
        }
        let enough = self.bytes >= LEAST_BYTES;
        *self = Pace::default();
        if enough {
            Ok(())
        } else {
            Err(Code::RequestTimeout.into())
        }
    }
}

impl RequestBody {
    /// Makes a body that must not stand still for longer than `idle`. Memory for the bytes that it
    /// holds is reserved from `pool`.
    pub fn new(inner: Body, idle: Duration, pool: &Pool) -> RequestBody {
        RequestBody {
            inner: Mutex::new(inner),
            decoder: None,
            share: Share::new(pool),
            ready: VecDeque::new(),
            trailers: Vec::new(),
            idle,
            pace: Pace::default(),
            touched: false,
            ended: false,
            received: 0,
        }
    }

    /// Decodes all bytes that arrive from now on.
    pub fn decode(&mut self, decoder: Decoder) {
        self.decoder = Some(decoder);
    }

    /// Returns the next piece of content; `None` at the end.
    ///
    /// # Errors
    /// [`Code::IncompleteBody`], [`Code::RequestTimeout`], [`Code::SlowDown`] if there is no memory
    /// for a signed chunk, and what decoding gives.
    pub async fn next(&mut self) -> S3Result<Option<Bytes>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(None);
            }
            match self.receive().await? {
                Some(bytes) => self.take(bytes)?,
                None => self.end()?,
            }
        }
    }

    async fn receive(&mut self) -> S3Result<Option<Bytes>> {
        self.touched = true;
        loop {
            let inner = self.inner.get_mut();
            let began = Instant::now();
            let frame = tokio::time::timeout(self.idle, inner.frame());
            let frame = frame.await.map_err(|_| Code::RequestTimeout)?;
            let bytes = frame
                .as_ref()
                .and_then(|frame| frame.as_ref().ok()?.data_ref());
            self.pace
                .waited(began.elapsed(), bytes.map_or(0, Bytes::len))?;
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(Code::IncompleteBody.into()),
                // HTTP's own trailers are not signed, so they are ignored.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                    _ => {}
                },
            }
        }
    }

    fn take(&mut self, bytes: Bytes) -> S3Result<()> {
        self.received += bytes.len() as u64;
        match &mut self.decoder {
            None => self.ready.push_back(bytes),
            Some(decoder) => {
                let mut out = Vec::new();
                decoder.feed(bytes, &mut out)?;
                self.ready.extend(out);
                self.share.cover(decoder.held())?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> S3Result<()> {
        self.ended = true;
        if let Some(decoder) = self.decoder.take() {
            self.trailers = decoder.finish()?;
        }
        Ok(())
    }

    /// Returns the trailing headers, once the end was reached.
    pub fn trailers(&self) -> &[(String, String)] {
        &self.trailers
    }

    /// Returns the whole content, if it is at most `limit` bytes.
    ///
    /// # Errors
    /// [`Code::MaxMessageLengthExceeded`], [`Code::SlowDown`] if there is no memory for it, and
    /// those of [`next`](RequestBody::next).
    pub async fn collect(&mut self, limit: usize) -> S3Result<Bytes> {
        let mut all = BytesMut::new();
        let mut share = self.share.another();
        while let Some(piece) = self.next().await? {
            if all.len() + piece.len() > limit {
                return Err(Code::MaxMessageLengthExceeded.into());
            }
            share.cover(all.len() + piece.len())?;
            all.extend_from_slice(&piece);
        }
        Ok(share.guard(all.freeze()))
    }

    /// Returns the number of bytes that arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns true if bytes may still arrive that nobody reads.
    pub fn is_pending(&self) -> bool {
        let inner = self.inner.lock();
        !self.ended && !inner.is_end_stream()
    }

    /// Returns true once a handler has read from the body. Until then, a client that waits for `100
    /// Continue` sends nothing.
    pub fn is_touched(&self) -> bool {
        self.touched
    }

    /// Reads on for a while and throws away: closing at once would reset the connection, and the
    /// client would not see the answer.
    pub async fn drain(mut self, mut limit: usize, time: Duration) {
        let reading = async {
            while let Ok(Some(bytes)) = self.receive().await {
                limit = limit.saturating_sub(bytes.len());
                if limit == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(time, reading).await;
    }
}

#[cfg(test)]
mod tests;
