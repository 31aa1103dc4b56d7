//! QUIC: one UDP port, TLS 1.3 between raw keys, no stream waits for another's lost packets.
//!
//! To each peer go up to two connections, made when they are needed: one for what is small and
//! urgent, one for content, whose buffers the first so never waits behind. A connection that was not used
//! for a minute goes. Frames are a length of four bytes (big-endian) and the payload.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    Connection, Endpoint, EndpointConfig, RecvStream, SendStream, TransportConfig, VarInt,
};
use rustls::pki_types::CertificateDer;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use crate::error::Error;
use crate::identity::{Identity, LABEL, PROOF_BYTES, Side, peer_of};
use crate::transport::{
    Class, Incoming, MAX_FRAME_BYTES, Peer, PeerStatistics, ReceiveFrames, SendFrames, Stream,
    Transport,
};

/// Streams that wait to be accepted at most.
const WAITING: usize = 1024;
/// Connections at once that have not proven themselves.
const UNPROVEN: usize = 64;
/// How long that may take.
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// How long dialling one address may take.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// After so long without a sign of the peer its connections break.
const SILENCE: Duration = Duration::from_secs(8);
/// How often a sign is given while a connection is otherwise quiet.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// A connection that was not used for so long goes.
const IDLE: Duration = Duration::from_secs(60);
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

/// Reasons of a close, for the peer's log.
const CLOSING: u32 = 0;
const UNPROVEN_CLOSE: u32 = 1;
const IDLE_CLOSE: u32 = 2;

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
    dialling: Mutex<BTreeMap<(NodeId, Lane), Arc<tokio::sync::Mutex<()>>>>,
    counts: Mutex<BTreeMap<NodeId, Counts>>,
    unproven: Arc<Semaphore>,
    begun: Instant,
}

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

/// Takes connections of others until the endpoint is closed.
async fn listen(inner: Arc<Inner>) {
    while let Some(incoming) = inner.endpoint.accept().await {
        let Ok(turn) = inner.unproven.clone().try_acquire_owned() else {
            incoming.refuse();
            continue;
        };
        let inner = inner.clone();
        tokio::spawn(async move {
            let from = incoming.remote_address();
            match tokio::time::timeout(PROOF_TIMEOUT, inner.admit(incoming)).await {
                Ok(Ok((peer, lane, connection))) => {
                    drop(turn);
                    inner.keep(peer, lane, connection);
                }
                Ok(Err(why)) => tracing::warn!(%from, why, "a connection was refused"),
                Err(_) => tracing::warn!(%from, "a connection did not prove itself in time"),
            }
        });
    }
}

/// Closes connections that nobody uses.
async fn tidy(inner: std::sync::Weak<Inner>) {
    loop {
        tokio::time::sleep(IDLE / 6).await;
        let Some(inner) = inner.upgrade() else { return };
        let now = inner.now();
        let idle = |link: &Link| {
            let quiet = now.saturating_sub(link.used.load(Ordering::Relaxed));
            quiet > IDLE.as_millis() as u64
        };
        lock(&inner.links).retain(|_, link| {
            // A stream holds its connection's clone of the count.
            let keep = !idle(link) || Arc::strong_count(&link.used) > 1;
            if !keep {
                link.connection.close(VarInt::from_u32(IDLE_CLOSE), b"idle");
            }
            keep
        });
    }
}

fn keying(connection: &Connection) -> Result<[u8; PROOF_BYTES], String> {
    let mut keying = [0; PROOF_BYTES];
    let exported = connection.export_keying_material(&mut keying, LABEL, b"");
    exported.map_err(|_| "no keying material")?;
    Ok(keying)
}

fn named(connection: &Connection) -> Result<NodeId, String> {
    let identity = connection.peer_identity().ok_or("no key")?;
    let keys = identity
        .downcast::<Vec<CertificateDer<'static>>>()
        .map_err(|_| "no key")?;
    peer_of(&keys).ok_or_else(|| "not an ed25519 key".into())
}

impl Inner {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Lets a connection of another in, if it proves the secret.
    async fn admit(&self, incoming: quinn::Incoming) -> Result<(NodeId, Lane, Connection), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let connection = incoming.await.map_err(|error| text(&error))?;
        let admitted = self.check(&connection).await;
        if admitted.is_err() {
            connection.close(VarInt::from_u32(UNPROVEN_CLOSE), b"refused");
        }
        let (peer, lane) = admitted?;
        Ok((peer, lane, connection))
    }

    async fn check(&self, connection: &Connection) -> Result<(NodeId, Lane), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let peer = named(connection)?;
        let keying = keying(connection)?;
        let (mut send, mut receive) = connection.accept_bi().await.map_err(|error| text(&error))?;
        let mut proof = [0; PROOF_BYTES + 1];
        receive
            .read_exact(&mut proof)
            .await
            .map_err(|error| text(&error))?;
        if !self.identity.verify(Side::Dialling, &keying, &proof[1..]) {
            return Err("it does not know the cluster's secret".into());
        }
        let lane = Lane::from_byte(proof[0]).ok_or("an unknown lane")?;
        let ours = self.identity.prove(Side::Listening, &keying);
        send.write_all(&ours).await.map_err(|error| text(&error))?;
        send.finish().map_err(|error| text(&error))?;
        Ok((peer, lane))
    }

    /// Dials an address and proves the secret there.
    async fn dial(
        &self,
        address: &str,
        expected: Option<NodeId>,
        lane: Lane,
    ) -> Result<(NodeId, Connection), String> {
        let text = |error: &dyn std::fmt::Display| format!("{address}: {error}");
        let tls = self
            .identity
            .client(expected)
            .map_err(|error| text(&error))?;
        let tls = QuicClientConfig::try_from(tls).map_err(|error| text(&error))?;
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        config.transport_config(self.transport.clone());
        let found = tokio::net::lookup_host(address)
            .await
            .map_err(|error| text(&error))?;
        let mut why = format!("{address}: the name has no address");
        for place in found {
            let connecting = self
                .endpoint
                .connect_with(config.clone(), place, "archipel");
            let connecting = connecting.map_err(|error| text(&error))?;
            let connection = match connecting.await {
                Ok(connection) => connection,
                Err(error) => {
                    why = text(&error);
                    continue;
                }
            };
            return match self.introduce(&connection, lane).await {
                Ok(peer) => Ok((peer, connection)),
                Err(error) => {
                    connection.close(VarInt::from_u32(UNPROVEN_CLOSE), b"refused");
                    Err(text(&error))
                }
            };
        }
        Err(why)
    }

    async fn introduce(&self, connection: &Connection, lane: Lane) -> Result<NodeId, String> {
        let refused = |_: &dyn std::fmt::Display| {
            "it refuses; fix: check that both nodes have the same cluster.secret_file".to_owned()
        };
        let peer = named(connection)?;
        let keying = keying(connection)?;
        let (mut send, mut receive) = connection.open_bi().await.map_err(|e| refused(&e))?;
        let proof = self.identity.prove(Side::Dialling, &keying);
        let told = [&[lane as u8][..], &proof].concat();
        send.write_all(&told).await.map_err(|e| refused(&e))?;
        send.finish().map_err(|e| refused(&e))?;
        let mut theirs = [0; PROOF_BYTES];
        receive
            .read_exact(&mut theirs)
            .await
            .map_err(|e| refused(&e))?;
        match self.identity.verify(Side::Listening, &keying, &theirs) {
            true => Ok(peer),
            false => Err("it does not know the cluster's secret".into()),
        }
    }

    /// Remembers a connection, and takes the streams that come over it.
    fn keep(self: &Arc<Inner>, peer: NodeId, lane: Lane, connection: Connection) -> Link {
        let link = Link {
            connection: connection.clone(),
            used: Arc::new(AtomicU64::new(self.now())),
        };
        lock(&self.links).insert((peer, lane), link.clone());
        let (inner, of) = (self.clone(), connection.stable_id());
        tokio::spawn(async move {
            while let Ok((send, receive)) = connection.accept_bi().await {
                let used = Arc::new(AtomicU64::new(inner.now()));
                inner.count(peer, |counts| counts.streams += 1);
                let stream = stream_of(peer, send, receive, used);
                let offered = Incoming { from: peer, stream };
                if inner.incoming.send(offered).await.is_err() {
                    break;
                }
                inner.touch(peer, lane, of);
            }
            inner.forget(peer, lane, of, &connection);
        });
        link
    }

    fn touch(&self, peer: NodeId, lane: Lane, connection: usize) {
        if let Some(link) = lock(&self.links).get(&(peer, lane))
            && link.connection.stable_id() == connection
        {
            link.used.store(self.now(), Ordering::Relaxed);
        }
    }

    fn forget(&self, peer: NodeId, lane: Lane, of: usize, connection: &Connection) {
        let mut links = lock(&self.links);
        if links
            .get(&(peer, lane))
            .is_some_and(|l| l.connection.stable_id() == of)
        {
            links.remove(&(peer, lane));
        }
        drop(links);
        let (sent, received, lost) = traffic(connection);
        self.count(peer, |counts| {
            counts.sent_bytes += sent;
            counts.received_bytes += received;
            counts.lost_packets += lost;
        });
    }

    fn count(&self, peer: NodeId, change: impl FnOnce(&mut Counts)) {
        change(lock(&self.counts).entry(peer).or_default());
    }

    fn open_link(&self, peer: NodeId, lane: Lane) -> Option<Link> {
        let links = lock(&self.links);
        let link = links.get(&(peer, lane))?;
        link.connection
            .close_reason()
            .is_none()
            .then(|| link.clone())
    }

    /// The connection to a peer, or a new one.
    async fn link(self: &Arc<Inner>, peer: &Peer, lane: Lane) -> Result<Link, Error> {
        if let Some(link) = self.open_link(peer.id, lane) {
            return Ok(link);
        }
        // In a task of its own: who asks may give up, and the next one wants it all the same.
        let (inner, peer) = (self.clone(), peer.clone());
        let dialled = tokio::spawn(async move { inner.dial_peer(&peer, lane).await });
        dialled.await.unwrap_or(Err(Error::Closed))
    }

    /// Dials a peer; one does at a time.
    async fn dial_peer(self: &Arc<Inner>, peer: &Peer, lane: Lane) -> Result<Link, Error> {
        let turn = {
            let mut dialling = lock(&self.dialling);
            dialling.entry((peer.id, lane)).or_default().clone()
        };
        let _turn = turn.lock().await;
        if let Some(link) = self.open_link(peer.id, lane) {
            return Ok(link);
        }
        let mut why = String::from("no address is known");
        for address in peer.addresses.iter() {
            let dialled = self.dial(address, Some(peer.id), lane);
            match tokio::time::timeout(DIAL_TIMEOUT, dialled).await {
                Ok(Ok((_, connection))) => return Ok(self.keep(peer.id, lane, connection)),
                Ok(Err(error)) => why = error,
                Err(_) => why = format!("{address}: no answer"),
            }
        }
        self.count(peer.id, |counts| counts.failures += 1);
        Err(Error::Unreachable(peer.id, why))
    }
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

/// What is more urgent goes first; of content, what is nearest to its end.
fn priority(class: Class) -> i32 {
    match class {
        Class::Control => i32::MAX,
        Class::Small => i32::MAX - 1,
        Class::Data { remaining } => -((remaining >> 16).min(1 << 30) as i32),
        Class::Background => i32::MIN,
    }
}

fn stream_of(peer: NodeId, send: SendStream, receive: RecvStream, used: Arc<AtomicU64>) -> Stream {
    Stream {
        send: Box::new(Sender {
            peer,
            stream: send,
            finished: false,
            _used: used.clone(),
        }),
        receive: Box::new(Receiver {
            peer,
            stream: receive,
            buffer: BytesMut::new(),
            ended: false,
            _used: used,
        }),
    }
}

struct Sender {
    peer: NodeId,
    stream: SendStream,
    finished: bool,
    /// Keeps the connection from being tidied away.
    _used: Arc<AtomicU64>,
}

#[async_trait]
impl SendFrames for Sender {
    async fn send(&mut self, frame: Bytes) -> Result<(), Error> {
        if frame.len() > MAX_FRAME_BYTES {
            let why = format!("a frame of {} bytes", frame.len());
            return Err(Error::Protocol(self.peer, why));
        }
        let length = Bytes::copy_from_slice(&(frame.len() as u32).to_be_bytes());
        let written = self.stream.write_all_chunks(&mut [length, frame]).await;
        written.map_err(|error| Error::Broken(self.peer, error.to_string()))
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.finished = true;
        let finished = self.stream.finish();
        finished.map_err(|error| Error::Broken(self.peer, error.to_string()))
    }

    fn set_class(&mut self, class: Class) {
        // A stream that is over needs no priority.
        let _ = self.stream.set_priority(priority(class));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Quinn would end it in good order.
        if !self.finished {
            let _ = self.stream.reset(VarInt::from_u32(0));
        }
    }
}

struct Receiver {
    peer: NodeId,
    stream: RecvStream,
    buffer: BytesMut,
    ended: bool,
    _used: Arc<AtomicU64>,
}

impl Receiver {
    /// A whole frame, if it is there.
    fn take(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(length) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME_BYTES {
            let why = format!("a frame of {length} bytes");
            return Err(Error::Protocol(self.peer, why));
        }
        if self.buffer.len() < 4 + length {
            self.buffer.reserve(4 + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(4);
        let frame = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            // It would keep the frame's memory for as long as nothing more comes.
            self.buffer = BytesMut::new();
        }
        Ok(Some(frame))
    }
}

#[async_trait]
impl ReceiveFrames for Receiver {
    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            let chunk = self.stream.read_chunk(MAX_FRAME_BYTES, true).await;
            let chunk = chunk.map_err(|error| Error::Broken(self.peer, error.to_string()))?;
            match chunk {
                Some(chunk) => self.buffer.extend_from_slice(&chunk.bytes),
                None if self.buffer.is_empty() => self.ended = true,
                None => {
                    let why = "it ended within a frame";
                    return Err(Error::Broken(self.peer, why.into()));
                }
            }
        }
    }
}
