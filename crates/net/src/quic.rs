//! QUIC: one UDP port, TLS 1.3 between raw keys, no stream waits for another's lost packets.
//!
//! To each peer go up to two connections, made when they are needed: one for what is small and
//! urgent, one for content, whose buffers the first so never waits behind. A connection that was not used
//! for a minute goes. Frames are a length of four bytes (big-endian) and the payload.

mod link;
mod stream;

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Connection, Endpoint, EndpointConfig, TransportConfig, VarInt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::error::Error;
use crate::identity::Identity;
use crate::transport::{Class, Incoming, Peer, PeerStatistics, Stream, Transport};
use link::{listen, tidy};
use stream::{priority, stream_of};

/// Streams that wait to be accepted at most.
const WAITING: usize = 1024;
/// Connections at once that have not proven themselves.
const UNPROVEN: usize = 64;
/// How long dialling one address may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// After so long without a sign of the peer its connections break.
const SILENCE: Duration = Duration::from_secs(8);
/// How often a sign is given while a connection is otherwise quiet.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// Bytes of one stream that may be on their way: 4 MiB in 100 ms are 335 Mbit/s.
const STREAM_WINDOW: u32 = 4 << 20;
/// Of all streams of a connection.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Kept of what was sent and not acknowledged.
const SEND_WINDOW: u64 = 8 << 20;
/// Streams that a peer may have open on one connection.
const STREAMS: u32 = 1024;
/// Buffers of the socket.
const SOCKET_BYTES: usize = 4 << 20;
/// The longest packet on loopback: ten of them, which are sent at once, fit 64 KiB.
const LOOPBACK_MTU: u16 = 6500;

/// The reason of a close at the end; others are in `link`.
const CLOSING: u32 = 0;

/// Which of the two connections to a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lane {
    Small,
    Content,
}

impl Lane {
    fn of(class: Class) -> Lane {
        match class {
            Class::Control | Class::Small => Lane::Small,
            Class::Data { .. } | Class::Background => Lane::Content,
        }
    }

    fn from_byte(byte: u8) -> Option<Lane> {
        match byte {
            0 => Some(Lane::Small),
            1 => Some(Lane::Content),
            _ => None,
        }
    }
}

/// QUIC connections of one node.
pub struct QuicTransport {
    inner: Arc<Inner>,
    accepted: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
}

struct Inner {
    identity: Identity,
    endpoint: Endpoint,
    transport: Arc<TransportConfig>,
    incoming: mpsc::Sender<Incoming>,
    links: Mutex<BTreeMap<(NodeId, Lane), Link>>,
    /// One dials a peer at a time; the others wait for what comes of it.
    dialling: Mutex<BTreeMap<(NodeId, Lane), Turn>>,
    counts: Mutex<BTreeMap<NodeId, Counts>>,
    unproven: Arc<Semaphore>,
    begun: Instant,
}

/// Whoever holds it dials.
type Turn = Arc<tokio::sync::Mutex<()>>;

#[derive(Clone)]
struct Link {
    connection: Connection,
    /// Milliseconds after the start.
    used: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    streams: u64,
    failures: u64,
    /// Of connections that are gone.
    sent_bytes: u64,
    received_bytes: u64,
    lost_packets: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QuicTransport {
    /// Listens on `address` (UDP), and dials from it. To be called on a tokio runtime.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn bind(address: SocketAddr, identity: Identity) -> Result<Arc<QuicTransport>, String> {
        let text = |error: &dyn std::fmt::Display| format!("QUIC on {address}: {error}");
        let socket = socket(address).map_err(|error| text(&error))?;
        let transport = Arc::new(transport(address));
        let tls = identity.server().map_err(|error| text(&error))?;
        let tls = QuicServerConfig::try_from(tls).map_err(|error| text(&error))?;
        let mut server = quinn::ServerConfig::with_crypto(Arc::new(tls));
        server.transport_config(transport.clone());
        let runtime = Arc::new(quinn::TokioRuntime);
        let config = EndpointConfig::default();
        let endpoint = Endpoint::new(config, Some(server), socket, runtime);
        let (incoming, accepted) = mpsc::channel(WAITING);
        let inner = Arc::new(Inner {
            identity,
            endpoint: endpoint.map_err(|error| text(&error))?,
            transport,
            incoming,
            links: Mutex::default(),
            dialling: Mutex::default(),
            counts: Mutex::default(),
            unproven: Arc::new(Semaphore::new(UNPROVEN)),
            begun: Instant::now(),
        });
        tokio::spawn(listen(inner.clone()));
        tokio::spawn(tidy(Arc::downgrade(&inner)));
        Ok(Arc::new(QuicTransport {
            inner,
            accepted: tokio::sync::Mutex::new(accepted),
        }))
    }

    /// Where it listens: the port, if it was left open.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.inner.endpoint.local_addr()
    }
}

fn socket(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
    // As much as the system allows: less only costs throughput.
    let _ = socket.set_recv_buffer_size(SOCKET_BYTES);
    let _ = socket.set_send_buffer_size(SOCKET_BYTES);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn transport(address: SocketAddr) -> TransportConfig {
    let mut config = TransportConfig::default();
    let local = address.ip().is_loopback();
    // BBR where packets may get lost on their way: CUBIC takes each loss for congestion.
    let controller: Arc<dyn ControllerFactory + Send + Sync> = match local {
        true => Arc::new(CubicConfig::default()),
        false => Arc::new(BbrConfig::default()),
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
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        .datagram_receive_buffer_size(None);
    config
}

fn traffic(connection: &Connection) -> (u64, u64, u64) {
    let stats = connection.stats();
    (
        stats.udp_tx.bytes,
        stats.udp_rx.bytes,
        stats.path.lost_packets,
    )
}

#[async_trait]
impl Transport for QuicTransport {
    fn local(&self) -> NodeId {
        self.inner.identity.node()
    }

    async fn open(&self, peer: &Peer, class: Class) -> Result<Stream, Error> {
        let link = self.inner.link(peer, Lane::of(class)).await?;
        link.used.store(self.inner.now(), Ordering::Relaxed);
        let opened = link.connection.open_bi().await;
        let (send, receive) = opened.map_err(|error| Error::Broken(peer.id, error.to_string()))?;
        self.inner.count(peer.id, |counts| counts.streams += 1);
        let _ = send.set_priority(priority(class));
        Ok(stream_of(peer.id, send, receive, link.used.clone()))
    }

    async fn accept(&self) -> Option<Incoming> {
        self.accepted.lock().await.recv().await
    }

    async fn identify(&self, address: &str) -> Result<NodeId, Error> {
        let unknown = |why| Error::Unreachable(NodeId::default(), why);
        let dialled = self.inner.dial(address, None, Lane::Small);
        match tokio::time::timeout(DIAL_TIMEOUT, dialled).await {
            Ok(Ok((peer, connection))) => {
                self.inner.keep(peer, Lane::Small, connection);
                Ok(peer)
            }
            Ok(Err(why)) => Err(unknown(why)),
            Err(_) => Err(unknown(format!("{address}: no answer"))),
        }
    }

    fn statistics(&self) -> Vec<PeerStatistics> {
        let links = lock(&self.inner.links).clone();
        let counts = lock(&self.inner.counts).clone();
        let of = |(peer, counts): (&NodeId, &Counts)| {
            let mut known = PeerStatistics {
                peer: *peer,
                streams: counts.streams,
                failures: counts.failures,
                sent_bytes: counts.sent_bytes,
                received_bytes: counts.received_bytes,
                lost_packets: counts.lost_packets,
                ..PeerStatistics::default()
            };
            for ((_, _), link) in links.iter().filter(|((of, _), _)| of == peer) {
                let (sent, received, lost) = traffic(&link.connection);
                known.connections += 1;
                known.sent_bytes += sent;
                known.received_bytes += received;
                known.lost_packets += lost;
                let round_trip = link.connection.rtt();
                known.round_trip = known
                    .round_trip
                    .map_or(Some(round_trip), |r| Some(r.min(round_trip)));
            }
            known
        };
        counts.iter().map(of).collect()
    }

    async fn close(&self) {
        self.inner
            .endpoint
            .close(VarInt::from_u32(CLOSING), b"closing");
        lock(&self.inner.links).clear();
        self.accepted.lock().await.close();
        // A moment for the peers to hear of it.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.inner.endpoint.wait_idle()).await;
    }
}
