//! One connection: serves its requests until the client leaves, the connection idles, or the server
//! stops.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_traces::Tracer;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};

use super::stall::StallLimited;
use super::{Addresses, Body, Endless, Peer, Secure, Service, Stopping, spans};

/// After so many quiet periods, a connection whose client reads no answers is closed. A period is
/// [`Limits::write_stall`](super::Limits::write_stall). An answer moves in pieces of up to 1 MiB,
/// so a merely slow client is safe.
const QUIET_PERIODS: u32 = 10;

/// After so many periods in which it moved no piece, an answer over HTTP/2 stands still.
const STILL_PERIODS: u32 = 3;

/// A stopping server keeps a connection without a request open for so long, because a request may
/// be on its way. The answer to it says that it was the last.
const LAST_REQUEST: Duration = Duration::from_millis(500);

/// The state that the connections of a server share.
#[derive(Clone)]
pub struct Common {
    /// The permits of HTTP/2 requests in progress on all connections, until their answers are sent:
    /// one connection can have many.
    pub streams: Arc<Semaphore>,
    /// The same requests by address of their clients.
    pub requests: Addresses,
    /// Begins the spans of requests.
    pub tracer: Tracer,
    /// Closes when the server stops.
    pub stopping: watch::Receiver<()>,
}

/// Serves a connection while requests come or answers move. A stream is `secure` if it is a TLS
/// session. Returns true if the connection ended because the client breaks the protocol.
pub async fn serve<T>(
    service: Arc<dyn Service>,
    builder: Builder<TokioExecutor>,
    common: Common,
    stream: T,
    peer: Option<Peer>,
    secure: Option<Secure>,
) -> bool
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let _counted = service.metrics().connected();
    let period = service.limits().write_stall;
    let proxies = service.limits().proxies;
    let activity = Arc::new(Activity::default());
    let mut stopping = common.stopping.clone();
    let streams = common.streams.clone();
    let stream = TokioIo::new(StallLimited::new(stream, period));
    let handler = service_fn({
        let activity = activity.clone();
        move |mut request: Request<Incoming>| {
            if let Some(peer) = peer {
                let client = Peer(proxies.client(peer.0, request.headers()));
                request.extensions_mut().insert(client);
            }
            if let Some(secure) = secure {
                request.extensions_mut().insert(secure);
            }
            let stopping = Stopping(common.stopping.clone());
            request.extensions_mut().insert(stopping);
            let request = Box::new(request);
            handle(service.clone(), activity.clone(), common.clone(), request)
        }
    });
    let connection = builder.serve_connection(stream, handler);
    let mut connection = std::pin::pin!(connection);
    let (mut quiet, mut seen, mut stops) = (0, 0, false);
    let stop = async {
        let _ = stopping.changed().await;
        if activity.handling.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(LAST_REQUEST).await;
        }
    };
    let mut stop = std::pin::pin!(stop);
    let result = loop {
        tokio::select! {
            result = connection.as_mut() => break result,
            () = stop.as_mut(), if !stops => {
                stops = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep(period) => {
                quiet = if activity.is_quiet(&mut seen) { quiet + 1 } else { 0 };
                // Only if others wait for its places: a client may be slow, or look away from one
                // answer.
                let stands_still = activity.answers.lock().one_stands_still();
                match quiet {
                    _ if stands_still && streams.available_permits() == 0 => break Ok(()),
                    0 => {}
                    QUIET_PERIODS.. => break Ok(()),
                    _ => connection.as_mut().graceful_shutdown(),
                }
            }
        }
    };
    let Err(error) = result else {
        return false;
    };
    tracing::debug!(%error, "a connection ended with an error");
    breaks_protocol(&*error)
}

/// Returns true unless the error is one of the network, or of time.
fn breaks_protocol(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let of_hyper = error.downcast_ref::<hyper::Error>();
        // An answer that this node could not finish is an error of the user, too: hyper's.
        let is_harmless = of_hyper.is_some_and(|error| {
            error.is_timeout() || error.is_incomplete_message() || error.is_user()
        });
        if is_harmless || error.is::<std::io::Error>() {
            return false;
        }
        cause = error.source();
    }
    true
}

/// The activity on a connection.
#[derive(Default)]
struct Activity {
    /// Requests in progress: their bodies have limits of their own.
    handling: AtomicU64,
    /// Requests that arrived, and pieces of answers that were sent.
    steps: AtomicU64,
    /// HTTP/2: the answers that are being sent.
    answers: Mutex<Answers>,
}

impl Activity {
    /// Returns true if nothing happened since the last call, which `seen` remembers.
    fn is_quiet(&self, seen: &mut u64) -> bool {
        let steps = self.steps.load(Ordering::Relaxed);
        let moved = std::mem::replace(seen, steps) != steps;
        !moved && self.handling.load(Ordering::Relaxed) == 0
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// The answers that are being sent on a connection. Over HTTP/2 a client may read some of them, and
/// leave the others alone.
#[derive(Default)]
struct Answers {
    /// Of each, by its number, the periods since its last piece.
    quiet: HashMap<u64, u32>,
    /// The number of the next one.
    next: u64,
}

impl Answers {
    fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.quiet.insert(number, 0);
        number
    }

    /// Counts a period. Returns true if the client has read nothing of an answer for some of them.
    fn one_stands_still(&mut self) -> bool {
        let quiet = self.quiet.values_mut();
        quiet.fold(false, |found, periods| {
            *periods += 1;
            found || *periods > STILL_PERIODS
        })
    }
}

/// An answer over HTTP/2 while it is sent. It keeps the places of its request.
struct Sending<P> {
    activity: Arc<Activity>,
    number: u64,
    _places: P,
}

impl<P: Send + Sync + 'static> Sending<P> {
    fn begin(activity: &Arc<Activity>, places: P) -> Arc<Sending<P>> {
        Arc::new(Sending {
            activity: activity.clone(),
            number: activity.answers.lock().begin(),
            _places: places,
        })
    }

    fn step(&self) {
        self.activity.answers.lock().quiet.insert(self.number, 0);
    }

    /// Returns a piece of the answer that keeps the places, too: it waits in the connection after
    /// the answer's body has ended.
    fn piece(self: &Arc<Self>, frame: Frame<Bytes>) -> Frame<Bytes> {
        self.step();
        frame.map_data(|bytes| {
            Bytes::from_owner(Piece {
                bytes,
                _of: self.clone(),
            })
        })
    }
}

/// A piece of an answer over HTTP/2 until it is sent.
struct Piece<P> {
    bytes: Bytes,
    _of: Arc<Sending<P>>,
}

impl<P> AsRef<[u8]> for Piece<P> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<P> Drop for Sending<P> {
    fn drop(&mut self) {
        self.activity.answers.lock().quiet.remove(&self.number);
    }
}

/// Counts a request as being handled.
struct Handling(Arc<Activity>);

impl Handling {
    fn begin(activity: &Arc<Activity>) -> Handling {
        activity.step();
        activity.handling.fetch_add(1, Ordering::Relaxed);
        Handling(activity.clone())
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.handling.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers a request. The request and its answering are boxed: an argument keeps its room also
/// after its value has moved, and HTTP/1.1 keeps room for this future as long as the connection
/// lives.
async fn handle(
    service: Arc<dyn Service>,
    activity: Arc<Activity>,
    common: Common,
    request: Box<Request<Incoming>>,
) -> Result<Response<Body>, Infallible> {
    // A request that waits for its place is one that is being handled.
    let handling = Handling::begin(&activity);
    let is_http2 = request.version() == Version::HTTP_2;
    let places = if is_http2 {
        let client = request.extensions().get::<Peer>();
        let of_address = client.map(|client| common.requests.place(client.0));
        if matches!(of_address, Some(None)) {
            service.metrics().refused();
            return Ok(too_many_requests());
        }
        // The semaphore is never closed.
        Some((
            of_address,
            common.streams.clone().acquire_owned().await.ok(),
        ))
    } else {
        None
    };
    let span = spans::begin(&common.tracer, &request);
    let mut answer = span.within(service.answer(*request)).await;
    spans::answered(&span, &answer);
    drop(handling);
    // The sender is dropped when the server shall stop.
    if !is_http2 && common.stopping.has_changed().is_err() {
        let close = HeaderValue::from_static("close");
        answer.headers_mut().insert(header::CONNECTION, close);
    }
    let sending = places.map(|places| Sending::begin(&activity, places));
    let is_endless = answer.extensions_mut().remove::<Endless>().is_some();
    let answer = answer.map(|body| {
        let body = match is_endless {
            true => until_stopped(body, Stopping(common.stopping)),
            false => body,
        };
        body.map_frame(move |frame: Frame<Bytes>| {
            activity.step();
            match &sending {
                Some(sending) => sending.piece(frame),
                None => frame,
            }
        })
        .boxed_unsync()
    });
    Ok(spans::until_sent(answer, span))
}

/// Returns the answer to a request over HTTP/2 of an address that has too many in progress.
fn too_many_requests() -> Response<Body> {
    const DOCUMENT: &[u8] =
        b"<Error><Code>SlowDown</Code><Message>Too many requests of this address at \
        once.</Message></Error>";
    let body = Full::new(Bytes::from_static(DOCUMENT)).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = answer.headers_mut();
    let document = HeaderValue::from_static("application/xml");
    headers.insert(header::CONTENT_TYPE, document);
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}

/// Returns a body that ends when the server stops.
fn until_stopped(body: Body, stopping: Stopping) -> Body {
    let stopped = async move { stopping.begins().await };
    let pieces = BodyStream::new(body).take_until(Box::pin(stopped));
    StreamBody::new(pieces).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http_body::Frame;

    use super::{Activity, STILL_PERIODS, Sending};

    /// The last piece waits in the connection when the answer's body has ended.
    #[test]
    fn places_are_kept_until_the_last_piece_is_sent() {
        let (activity, place) = (Arc::new(Activity::default()), Arc::new(()));
        let sending = Sending::begin(&activity, place.clone());
        let piece = sending.piece(Frame::data(Bytes::from_static(b"piece")));
        drop(sending);
        assert_eq!(Arc::strong_count(&place), 2);
        let bytes = piece.into_data().unwrap();
        assert_eq!(bytes, "piece");
        drop(bytes);
        assert_eq!(Arc::strong_count(&place), 1);
        assert!(activity.answers.lock().quiet.is_empty());
    }

    /// A client that reads one answer, and leaves another one alone, keeps what that one takes.
    #[test]
    fn an_answer_that_stands_still_is_noticed_beside_others() {
        let activity = Arc::new(Activity::default());
        let read = Sending::begin(&activity, ());
        let left = Sending::begin(&activity, ());
        let period = || {
            read.step();
            activity.answers.lock().one_stands_still()
        };
        for _ in 0..STILL_PERIODS {
            assert!(!period());
        }
        left.step();
        for _ in 0..STILL_PERIODS {
            assert!(!period());
        }
        assert!(period());
        drop(left);
        assert!(!period());
        drop(read);
        assert!(activity.answers.lock().quiet.is_empty());
    }
}
