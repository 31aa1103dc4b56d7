//! QUIC on one UDP port, with TLS 1.3 between raw keys. No stream waits for another's lost packets.
//!
//! Each peer has up to two connections: one for small and urgent messages and one for content. A
//! frame is a length of four bytes (big-endian) and the payload.

mod congestion;
mod connection;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::RwLock;
use quinn::congestion::{ControllerFactory, CubicConfig};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, ServerConfig, TransportConfig, VarInt};
use quinn_proto::RandomConnectionIdGenerator;
use ring::hmac;

use crate::identity::Identity;
use crate::pool::Pool;

/// A connection without any packet from the peer for this long is broken.
const SILENCE: Duration = Duration::from_secs(8);
/// The keep-alive interval of an otherwise quiet connection. A lost keep-alive is repeated long
/// before `SILENCE` has passed.
const KEEP_ALIVE: Duration = Duration::from_secs(4);
/// The receive window of one stream: 4 MiB in 100 ms are 335 Mbit/s.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// The receive window of a connection for content. Unread streams count and must not delay the
/// others. The window is a limit and no reservation: bytes already read take no memory.
const CONTENT_WINDOW_BYTES: u32 = 512 << 20;
/// The receive window of a connection for small messages: each of its streams is read at once.
const SMALL_WINDOW_BYTES: u32 = 32 << 20;
/// The receive window of a connection whose peer has not proven the secret yet.
const UNPROVEN_WINDOW_BYTES: u32 = 4 << 10;
/// The limit of sent but unacknowledged bytes that are kept.
const SEND_WINDOW_BYTES: u64 = 8 << 20;
/// The number of streams that a peer may have open on one connection: at first, and once it uses
/// many. Each permitted stream takes 100 bytes of memory, used or not, and a node may have
/// connections to hundreds of others.
const FIRST_STREAMS: u32 = 64;
const STREAMS: u32 = 1024;
/// The size of the socket's buffers.
const SOCKET_BYTES: usize = 4 << 20;
/// The largest packet on loopback: ten of them, which are sent at once, fit into 64 KiB.
const LOOPBACK_MTU: u16 = 6500;
/// The length of connection ids. It is that of earlier releases, so that a node recognises their
/// connections after an upgrade, too.
const ID_BYTES: usize = 8;
/// The pause before a node listens again whose socket failed.
const AGAIN: Duration = Duration::from_secs(1);
/// The purpose of the key that a node has in all its runs, so that the other ends of connections
/// that it has lost in a crash believe its answer that it has.
const OF_RESETS: &[u8] = b"archipel quic stateless resets 1";

/// QUIC connections of one node.
pub type QuicTransport = Pool<Quic>;

/// Makes QUIC connections.
pub struct Quic {
    identity: Identity,
    /// Another one takes its place if it fails.
    endpoint: RwLock<Endpoint>,
    /// The bound socket. Each endpoint has a handle to it.
    socket: UdpSocket,
    server: ServerConfig,
    transport: Arc<TransportConfig>,
    is_closed: AtomicBool,
}

impl Pool<Quic> {
    /// Listens on `address` (UDP) and dials from it. Needs a tokio runtime.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Arc<QuicTransport>, String> {
        Ok(Pool::start(Quic::listen(address, identity)?))
    }

    /// Returns the address it listens on, with the chosen port if the configured port was 0.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.carrier().socket.local_addr()
    }
}

impl Quic {
    fn listen(address: SocketAddr, identity: Identity) -> Result<Quic, String> {
        let text = |error: &dyn std::fmt::Display| format!("QUIC on {address}: {error}");
        let socket = socket(address).map_err(|error| text(&error))?;
        let transport = Arc::new(transport(address));
        let tls = identity.server().map_err(|error| text(&error))?;
        let tls = QuicServerConfig::try_from(tls).map_err(|error| text(&error))?;
        let mut server = ServerConfig::with_crypto(Arc::new(tls));
        server.transport_config(transport.clone());
        let endpoint = endpoint_on(&socket, &server, &identity).map_err(|error| text(&error))?;
        Ok(Quic {
            identity,
            endpoint: RwLock::new(endpoint),
            socket,
            server,
            transport,
            is_closed: AtomicBool::new(false),
        })
    }

    fn endpoint(&self) -> Endpoint {
        self.endpoint.read().clone()
    }

    /// Listens again after the endpoint ended because the socket failed. All connections of that
    /// endpoint are broken, and it takes no more.
    async fn listen_again(&self) {
        tracing::error!(
            "the socket of QUIC failed, so all its connections broke; it listens again"
        );
        tokio::time::sleep(AGAIN).await;
        match endpoint_on(&self.socket, &self.server, &self.identity) {
            Ok(endpoint) => *self.endpoint.write() = endpoint,
            Err(error) => tracing::error!(%error, "QUIC cannot listen again"),
        }
    }
}

fn endpoint_on(
    socket: &UdpSocket,
    server: &ServerConfig,
    identity: &Identity,
) -> io::Result<Endpoint> {
    let (config, runtime) = (endpoint_config(identity), Arc::new(quinn::TokioRuntime));
    Endpoint::new(config, Some(server.clone()), socket.try_clone()?, runtime)
}

/// Returns the configuration of an endpoint that tells the other ends of connections which an
/// earlier run of the node has lost. They would wait for `SILENCE`.
///
/// Anybody may ask for the answer to an id that no connection has, and would break a connection that
/// gets this id later. So ids are random, and of a length that never gives one twice. They bear no
/// mark of the node: too few ids would have it.
fn endpoint_config(identity: &Identity) -> EndpointConfig {
    let of_resets = hmac::Key::new(hmac::HMAC_SHA256, &identity.derive(OF_RESETS));
    let mut config = EndpointConfig::new(Arc::new(of_resets));
    config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(ID_BYTES)));
    config
}

fn socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    // The system may allow less, which only costs throughput.
    let _ = socket.set_recv_buffer_size(SOCKET_BYTES);
    let _ = socket.set_send_buffer_size(SOCKET_BYTES);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn transport(address: SocketAddr) -> TransportConfig {
    let mut config = TransportConfig::default();
    let local = address.ip().is_loopback();
    // BBR where packets may get lost on the way, because CUBIC takes each loss for congestion.
    let controller: Arc<dyn ControllerFactory + Send + Sync> = if local {
        Arc::new(CubicConfig::default())
    } else {
        Arc::new(congestion::Congestion::default())
    };
    let mut mtu = quinn::MtuDiscoveryConfig::default();
    if local {
        mtu.upper_bound(LOOPBACK_MTU);
    }
    config
        .congestion_controller_factory(controller)
        .mtu_discovery_config(Some(mtu))
        .max_idle_timeout(SILENCE.try_into().ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        // One stream for the proof of the secret. More are allowed after the proof.
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .receive_window(VarInt::from_u32(UNPROVEN_WINDOW_BYTES))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .datagram_receive_buffer_size(None);
    config
}
