//! Serving connections, with bounds, until shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::route::Service;
use super::{Admin, Trust, audited};
use crate::serve::stall::StallLimited;
use crate::serve::tls::{Handshakes, Tls};
use crate::serve::{Addresses, Limits};

/// The most connections at once; operators and scrapers are few.
const MAX_CONNECTIONS: usize = 64;

/// The most connections at once from one address; others are closed. Clients on this machine may have
/// any number.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 16;

/// The timeout of a request's head, and of an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time in which a client reads nothing of an answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The largest request head, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The pause after a failed accept, for example when no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A source of connections.
pub trait Listener: Send + Sync + 'static {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next connection.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Io>> + Send;

    /// Returns the address of the client, if it is on a network.
    fn peer(connection: &Self::Io) -> Option<IpAddr>;
}

impl Listener for TcpListener {
    type Io = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        TcpListener::accept(self).await.map(|(stream, _)| stream)
    }

    fn peer(connection: &TcpStream) -> Option<IpAddr> {
        connection.peer_addr().ok().map(|address| address.ip())
    }
}

impl Listener for UnixListener {
    type Io = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }

    fn peer(_: &UnixStream) -> Option<IpAddr> {
        None
    }
}

/// Serves the admin API on `listener`, with TLS if there are certificates, until `shutdown` turns true; then finishes the requests
/// that are running. The caller bounds how long that may take.
pub async fn serve<L: Listener>(
    listener: L,
    trust: Trust,
    admin: Arc<Admin>,
    tls: Option<Tls>,
    mut shutdown: watch::Receiver<bool>,
) {
    let handshakes = tls.as_ref().map(Tls::for_admin);
    let service = Service::new(admin);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let addresses = Addresses::new(Limits {
        connections_per_address: MAX_CONNECTIONS_PER_ADDRESS,
        ..Limits::default()
    });
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = stopped(&mut shutdown) => break,
        };
        match accepted {
            Ok(stream) => {
                let (service, shutdown) = (service.clone(), shutdown.clone());
                let handshakes = handshakes.clone();
                let peer = L::peer(&stream);
                let of_address = match peer.map(|peer| addresses.place(peer)) {
                    Some(None) => continue,
                    place => place,
                };
                connections.spawn(async move {
                    let from = (trust, peer);
                    serve_after_handshake(stream, handshakes, from, service, shutdown).await;
                    drop((place, of_address));
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the admin API cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
}

/// Serves a connection. If there are certificates, the handshake precedes, and must succeed in time.
async fn serve_after_handshake<Io>(
    stream: Io,
    handshakes: Option<Handshakes>,
    (trust, peer): (Trust, Option<IpAddr>),
    service: Service,
    shutdown: watch::Receiver<bool>,
) where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(handshakes) = handshakes else {
        return serve_connection(stream, trust, peer, service, shutdown).await;
    };
    let greeting = handshakes.accept(stream);
    if let Ok(Ok(stream)) = timeout(HEAD_TIMEOUT, greeting).await {
        serve_connection(stream, trust, peer, service, shutdown).await;
    }
}

pub(super) async fn serve_connection<Io>(
    stream: Io,
    trust: Trust,
    peer: Option<IpAddr>,
    service: Service,
    mut shutdown: watch::Receiver<bool>,
) where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handler = service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(audited::handle(&service, trust, peer, request).await) }
    });
    let stream = TokioIo::new(StallLimited::new(stream, STALL_TIMEOUT));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(stream, handler);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopped(&mut shutdown) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "an admin connection ended early");
    }
}

/// Returns once it is time to stop, also if the sender is gone.
async fn stopped(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}
