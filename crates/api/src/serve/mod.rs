//! Serves a [`Service`] on listeners, over HTTP/1.1 and HTTP/2, with TLS or without. All endpoints
//! for users share it.
//!
//! Bounded: connections, those of an address, headers, time for headers, pauses of bodies and
//! answers, streams and windows of HTTP/2.
//!
//! | module | what it holds |
//! |---|---|
//! | `service` | what answers requests |
//! | `connection`, `stall`, `stopping` | one connection, clients that do not read, the stop of the server |
//! | `addresses` | connections and HTTP/2 requests by address |
//! | `proxies` | proxies that tell the addresses of clients |
//! | `rates` | requests a second by address and by user |
//! | [`tls`] | certificates and handshakes |
//! | [`metrics`], `spans` | counters of an endpoint; spans of requests |

mod addresses;
pub(crate) mod connection;
pub mod metrics;
mod proxies;
mod rates;
mod service;
pub(crate) mod spans;
pub(crate) mod stall;
mod stopping;
pub mod tls;

use std::error::Error as StdError;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::boxed;
use archipel_traces::Tracer;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;

pub(crate) use addresses::Addresses;
use connection::Common;
pub use metrics::Metrics;
pub use proxies::{Network, Proxies, ProxyHeader};
pub use rates::Rates;
pub use service::{Answering, Service};
pub use stopping::Stopping;
use tls::{Handshakes, Tls};

/// A connection whose client breaks the protocol keeps its places for so long after its end.
const PENALTY: Duration = Duration::from_secs(10);

/// The reason why a body ended early.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A request's extension: it came over TLS.
#[derive(Clone, Copy, Debug)]
pub struct Secure;

/// An extension of an answer whose body has no end of its own: it ends when the server stops.
#[derive(Clone, Copy, Debug)]
pub struct Endless;

/// Limits on clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most connections at once. Others wait to be accepted.
    pub connections: usize,
    /// The most connections of one address at once, and the most HTTP/2 requests. Others are
    /// refused. A network of IPv6 counts as one address: a /64, and a /48 with twice as many.
    pub connections_per_address: usize,
    /// True if clients on this machine, such as a proxy, may have any number of connections.
    pub spares_loopback: bool,
    /// The proxies that tell the addresses of their clients. They may have any number of
    /// connections.
    pub proxies: Proxies,
    /// The timeout of a request's headers, and of an idle connection.
    pub header_time: Duration,
    /// The longest pause in a request's body.
    pub body_idle: Duration,
    /// The longest time in which a client reads nothing of an answer.
    pub write_stall: Duration,
    /// The time that a stopping server gives to requests under way.
    pub shutdown: Duration,
    /// True if a client that has sent everything and closed its direction still gets an answer.
    /// Otherwise it counts as gone, and its request ends.
    pub half_close: bool,
    /// HTTP/2: requests at once of each connection, beside the least that every connection may
    /// have. All connections together have as many as there may be connections.
    pub streams: u32,
    /// HTTP/1.1: the most bytes of a request's headers, and of read-ahead, once there are many
    /// connections.
    pub head_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 2048,
            connections_per_address: 512,
            spares_loopback: true,
            proxies: Proxies::default(),
            header_time: Duration::from_secs(30),
            body_idle: Duration::from_secs(30),
            write_stall: Duration::from_secs(60),
            shutdown: Duration::from_secs(30),
            half_close: true,
            streams: 0,
            head_bytes: NARROW.read_bytes,
        }
    }
}

/// The most headers of a request.
const MAX_HEADERS: usize = 200;

/// HTTP/2: headers of one request.
const MAX_HEADER_LIST_BYTES: u32 = 64 << 10;

/// The memory that one connection may take besides counted content.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    /// HTTP/1.1: the most bytes of all headers together, and of read-ahead.
    read_bytes: usize,
    /// HTTP/2: streams at once, and their windows.
    streams: u32,
    stream_window_bytes: u32,
    connection_window_bytes: u32,
}

/// So many connections get [`ROOMY`] buffers, and others [`NARROW`] ones. Few clients are served
/// fast, and many use bounded memory.
const ROOMY_CONNECTIONS: usize = 64;

pub(crate) const ROOMY: Buffers = Buffers {
    read_bytes: 128 << 10,
    streams: 64,
    stream_window_bytes: 256 << 10,
    connection_window_bytes: 512 << 10,
};

const NARROW: Buffers = Buffers {
    read_bytes: 16 << 10,
    streams: 8,
    stream_window_bytes: 64 << 10,
    connection_window_bytes: 64 << 10,
};

/// The answer to a connection that is refused.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n\
    content-type: application/xml\r\ncontent-length: 94\r\n\r\n\
    <Error><Code>SlowDown</Code><Message>Too many connections from this address.</Message></Error>";

/// The pause after a failed accept: most likely too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The time for which a stopping server still accepts connections: they were in the listener's
/// queue.
const LAST_CONNECTIONS: Duration = Duration::from_millis(50);

/// A stopping server gives a handshake that has begun so long to end.
const LAST_HANDSHAKE: Duration = Duration::from_millis(500);

/// Serves until `shutdown` resolves. Requests in progress then have a limited time to end. `tracer`
/// begins the spans of requests.
#[boxed]
pub async fn serve(
    listeners: Vec<TcpListener>,
    service: Arc<dyn Service>,
    tls: Option<Tls>,
    tracer: Tracer,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
) {
    let limits = service.limits();
    let places = Arc::new(Semaphore::new(limits.connections));
    let addresses = Addresses::new(limits);
    let (stop, stopping) = watch::channel(());
    let common = Common {
        streams: Arc::new(Semaphore::new(limits.connections)),
        requests: Addresses::new(limits),
        tracer,
        stopping,
    };
    let mut accepting = JoinSet::new();
    let narrow = Buffers {
        read_bytes: limits.head_bytes,
        ..NARROW
    };
    for listener in listeners {
        let acceptor = Acceptor {
            service: service.clone(),
            handshakes: tls.as_ref().map(Tls::for_endpoints),
            roomy: builder(limits, ROOMY),
            narrow: builder(limits, narrow),
            places: places.clone(),
            addresses: addresses.clone(),
            common: common.clone(),
        };
        accepting.spawn(acceptor.run(listener));
    }
    shutdown.await;
    drop(stop);
    let ending = async { while accepting.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown, ending).await.is_err() {
        tracing::warn!("requests were still under way and were broken off");
    }
}

/// Returns the protocol's settings.
pub(crate) fn builder(limits: Limits, buffers: Buffers) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(MAX_HEADERS)
        .max_buf_size(buffers.read_bytes)
        .half_close(limits.half_close)
        .writev(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(buffers.streams.max(limits.streams))
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .initial_stream_window_size(buffers.stream_window_bytes)
        .initial_connection_window_size(buffers.connection_window_bytes)
        .max_send_buf_size(buffers.read_bytes)
        .keep_alive_interval(limits.header_time)
        .keep_alive_timeout(limits.header_time);
    builder
}

/// The address of a request's client, in the request's extensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub IpAddr);

/// Accepts on one listener.
struct Acceptor {
    service: Arc<dyn Service>,
    /// `None` for plain text.
    handshakes: Option<Handshakes>,
    roomy: Builder<TokioExecutor>,
    narrow: Builder<TokioExecutor>,
    places: Arc<Semaphore>,
    addresses: Addresses,
    common: Common,
}

impl Acceptor {
    async fn run(mut self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let Ok(place) = self.places.clone().acquire_owned().await else {
                break;
            };
            tokio::select! {
                _ = self.common.stopping.changed() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(self.connection(stream, place));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
            // Drop the tasks that have ended.
            while connections.try_join_next().is_some() {}
        }
        let end = tokio::time::Instant::now() + LAST_CONNECTIONS;
        while let Ok(place) = self.places.clone().try_acquire_owned()
            && let Ok(Ok((stream, _))) = tokio::time::timeout_at(end, listener.accept()).await
        {
            connections.spawn(self.connection(stream, place));
        }
        for (stream, place) in self.left_in_queue(listener) {
            connections.spawn(self.connection(stream, place));
        }
        while connections.join_next().await.is_some() {}
    }

    /// Closes the listener. Returns the connections that it had not accepted yet: they would be
    /// reset.
    fn left_in_queue(&self, listener: TcpListener) -> Vec<(TcpStream, OwnedSemaphorePermit)> {
        let mut left = Vec::new();
        let Ok(listener) = listener.into_std() else {
            return left;
        };
        // It does not block.
        while let Ok(place) = self.places.clone().try_acquire_owned()
            && let Ok((stream, _)) = listener.accept()
        {
            let stream = stream.set_nonblocking(true).map(|()| stream);
            if let Ok(stream) = stream.and_then(TcpStream::from_std) {
                left.push((stream, place));
            }
        }
        left
    }

    /// Serves one connection from its beginning to its end.
    fn connection(
        &self,
        stream: TcpStream,
        place: OwnedSemaphorePermit,
    ) -> impl Future<Output = ()> + use<> {
        // Answers are written in large pieces: waiting for more gains nothing.
        let _ = stream.set_nodelay(true);
        let peer = stream.peer_addr().ok().map(|address| Peer(address.ip()));
        let (service, builder) = (self.service.clone(), self.builder());
        let common = self.common.clone();
        let handshakes = self.handshakes.clone();
        let of_address = peer.map_or(Ok(None), |peer| {
            self.addresses.place(peer.0).map(Some).ok_or(())
        });
        if of_address.is_err() {
            service.metrics().refused();
            if handshakes.is_none() {
                // It is lost only if the client is gone, too.
                let _ = stream.try_write(TOO_MANY);
            }
        }
        async move {
            let Ok(_of_address) = of_address else {
                return;
            };
            let mut stopping = common.stopping.clone();
            let breaks_protocol = match handshakes {
                None => connection::serve(service, builder, common, stream, peer, None).await,
                Some(handshakes) => {
                    let limit = service.limits().header_time;
                    match greet(&handshakes, stream, limit, stopping.clone()).await {
                        None => false,
                        Some(stream) => {
                            connection::serve(service, builder, common, stream, peer, Some(Secure))
                                .await
                        }
                    }
                }
            };
            if breaks_protocol {
                // Else a client that makes new connections all the time could keep the node busy.
                let _ = tokio::time::timeout(PENALTY, stopping.changed()).await;
            }
            drop(place);
        }
    }

    /// Returns the settings of the next connection, which has its place already.
    fn builder(&self) -> Builder<TokioExecutor> {
        let connections = self.service.limits().connections;
        let open = connections - self.places.available_permits();
        if open <= ROOMY_CONNECTIONS {
            self.roomy.clone()
        } else {
            self.narrow.clone()
        }
    }
}

/// Makes a TLS session of a connection. Returns `None` if that fails, takes longer than `limit`, or
/// the server stops meanwhile.
async fn greet(
    handshakes: &Handshakes,
    stream: TcpStream,
    limit: Duration,
    mut stopping: watch::Receiver<()>,
) -> Option<TlsStream<TcpStream>> {
    let stopped = async {
        let _ = stopping.changed().await;
        tokio::time::sleep(LAST_HANDSHAKE).await;
    };
    tokio::select! {
        greeted = tokio::time::timeout(limit, handshakes.accept(stream)) => match greeted {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => None,
        },
        () = stopped => None,
    }
}
