//! TCP with TLS 1.3 between raw keys, for networks that drop UDP and for fast local ones.
//!
//! Each peer has up to three connections: one for small and urgent messages and two for content, so
//! that a lost packet delays only the streams of its own connection. The streams of a connection
//! are cut into pieces, and the most urgent piece is sent next. Each stream has its own credit, so
//! that an unread stream delays no other.

mod connection;
mod inbox;
mod outbox;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use rustls::pki_types::{CertificateDer, ServerName};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::handshake::{self, Keying};
use crate::identity::{Identity, LABEL, PROOF_BYTES, Side, peer_of};
use crate::pool::{Carrier, Lane, NotAdmitted, Pool};
pub use connection::TcpConnection;

/// The limit of unsent bytes in the kernel. Once there, their order can no longer change.
const UNSENT_BYTES: u32 = 128 << 10;
const BACKLOG: i32 = 128;

/// TCP connections of one node.
pub type TcpTransport = Pool<Tcp>;

/// Makes TCP connections.
pub struct Tcp {
    identity: Identity,
    acceptor: TlsAcceptor,
    address: SocketAddr,
    /// `None` once the transport is closed.
    listener: tokio::sync::Mutex<Option<TcpListener>>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Pool<Tcp> {
    /// Listens on `address`. Needs a tokio runtime.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Arc<TcpTransport>, String> {
        let text = |error: &dyn std::fmt::Display| format!("TCP on {address}: {error}");
        let listener = listener(address).map_err(|error| text(&error))?;
        let tls = identity.server().map_err(|error| text(&error))?;
        Ok(Pool::start(Tcp {
            identity,
            acceptor: TlsAcceptor::from(Arc::new(tls)),
            address: listener.local_addr().map_err(|error| text(&error))?,
            listener: tokio::sync::Mutex::new(Some(listener)),
        }))
    }

    /// Returns the address it listens on, with the chosen port if the configured port was 0.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        Ok(self.carrier().address)
    }
}

fn listener(address: SocketAddr) -> std::io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    // Recently closed connections do not block the port.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Sets socket options that improve performance. Errors are ignored because the options are
/// optional.
fn tune(stream: &TcpStream, peer: SocketAddr) {
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_nodelay(true);
    #[cfg(target_os = "linux")]
    {
        let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
        if !peer.ip().is_loopback() {
            let _ = socket.set_tcp_congestion(b"bbr");
        }
    }
}

/// Returns the id of the peer and the session's keying material.
fn session<T>(tls: &rustls::ConnectionCommon<T>) -> Result<(NodeId, Keying), String> {
    let keys: &[CertificateDer] = tls.peer_certificates().ok_or("no key")?;
    let peer = peer_of(keys).ok_or("not an ed25519 key")?;
    let keying = tls.export_keying_material([0; PROOF_BYTES], LABEL, Some(b""));
    Ok((peer, keying.map_err(text)?))
}

async fn introduce(
    identity: &Identity,
    keying: &Keying,
    lane: Lane,
    io: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<(), String> {
    let (mut receive, mut send) = tokio::io::split(io);
    handshake::introduce(identity, keying, lane, &mut send, &mut receive).await
}

async fn check(
    identity: &Identity,
    keying: &Keying,
    io: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Result<Lane, NotAdmitted> {
    let (mut receive, mut send) = tokio::io::split(io);
    let (lane, proven) = handshake::check(identity, keying, &mut receive).await?;
    handshake::answer(identity, keying, proven, &mut send).await?;
    Ok(lane)
}

#[async_trait]
impl Carrier for Tcp {
    type Connection = TcpConnection;
    type Attempt = TcpStream;
    const CONTENT_LANES: u8 = 2;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn dial(
        &self,
        address: SocketAddr,
        expected: Option<NodeId>,
        lane: Lane,
    ) -> Result<(NodeId, TcpConnection), String> {
        let config = self.identity.client(expected).map_err(text)?;
        let name = ServerName::try_from("archipel").map_err(text)?;
        let stream = TcpStream::connect(address).await.map_err(text)?;
        tune(&stream, address);
        let connector = TlsConnector::from(Arc::new(config));
        let mut tls = connector.connect(name, stream).await.map_err(text)?;
        let (peer, keying) = session(tls.get_ref().1)?;
        introduce(&self.identity, &keying, lane, &mut tls).await?;
        let connection = TcpConnection::start(peer, Side::Dialling, tls);
        Ok((peer, connection))
    }

    async fn next_attempt(&self) -> Option<(SocketAddr, TcpStream)> {
        let listener = self.listener.lock().await;
        loop {
            match listener.as_ref()?.accept().await {
                Ok((stream, from)) => return Some((from, stream)),
                // The process is probably out of file descriptors, which is temporary.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn admit(&self, stream: TcpStream) -> Result<(NodeId, Lane, TcpConnection), NotAdmitted> {
        tune(&stream, stream.peer_addr()?);
        let mut tls = self.acceptor.accept(stream).await?;
        let (peer, keying) = session(tls.get_ref().1)?;
        let lane = check(&self.identity, &keying, &mut tls).await?;
        let connection = TcpConnection::start(peer, Side::Listening, tls);
        Ok((peer, lane, connection))
    }

    fn validate(&self, attempt: TcpStream) -> Option<TcpStream> {
        // The handshake of TCP has shown it.
        Some(attempt)
    }

    fn refuse(&self, _: TcpStream) {}

    async fn close(&self) {
        *self.listener.lock().await = None;
    }
}
