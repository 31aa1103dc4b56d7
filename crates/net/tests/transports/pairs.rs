//! Pairs of nodes of each transport.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::random::SeededRandom;
use archipel_net::identity::Identity;
use archipel_net::quic::QuicTransport;
use archipel_net::simulated::{Link, SimulatedNetwork};
use archipel_net::tcp::TcpTransport;
use archipel_net::{Class, Peer, Stream, Transport};
use bytes::Bytes;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;

/// A timeout that no test reaches.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A kind of transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Quic,
    Tcp,
    Simulated,
}

pub const SOCKETS: [Kind; 2] = [Kind::Quic, Kind::Tcp];

/// A node's transport and its addresses.
#[derive(Clone)]
pub struct Node {
    pub transport: Arc<dyn Transport>,
    pub peer: Peer,
    pub refused: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Two nodes, and a function that restarts the second one.
pub struct Pair {
    pub kind: Kind,
    pub a: Arc<dyn Transport>,
    pub b: Arc<dyn Transport>,
    pub to_b: Peer,
    pub restart_b: Box<dyn Fn() -> Result<Node, String> + Send + Sync>,
}

pub fn identity(secret: &[u8]) -> Identity {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Identity::new(key.as_ref(), secret).unwrap()
}

pub fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

pub fn node(kind: Kind, address: SocketAddr, identity: Identity) -> Result<Node, String> {
    let node = |transport: Arc<dyn Transport>, address: SocketAddr, refused| Node {
        peer: Peer {
            id: transport.local(),
            addresses: Arc::new([address.to_string()]),
        },
        transport,
        refused,
    };
    match kind {
        Kind::Quic => {
            let quic = QuicTransport::bind(address, identity)?;
            let counted = quic.clone();
            let refused = Arc::new(move || counted.refused());
            Ok(node(quic.clone(), quic.address().unwrap(), refused))
        }
        Kind::Tcp => {
            let tcp = TcpTransport::bind(address, identity)?;
            let counted = tcp.clone();
            let refused = Arc::new(move || counted.refused());
            Ok(node(tcp.clone(), tcp.address().unwrap(), refused))
        }
        Kind::Simulated => Err("has no address".into()),
    }
}

/// Starts a node of a cluster with this secret.
pub fn fresh(kind: Kind, secret: &[u8]) -> Node {
    node(kind, any_port(), identity(secret)).unwrap()
}

fn over_sockets(kind: Kind) -> Pair {
    let a = fresh(kind, b"secret");
    let of_b = identity(b"secret");
    let b = node(kind, any_port(), of_b.clone()).unwrap();
    let address = b.peer.addresses[0].parse().unwrap();
    Pair {
        kind,
        a: a.transport,
        b: b.transport,
        to_b: b.peer,
        restart_b: Box::new(move || node(kind, address, of_b.clone())),
    }
}

fn simulated() -> Pair {
    let network = SimulatedNetwork::new(Arc::new(SeededRandom::new(1)));
    network.set_default_link(Link {
        latency: Duration::from_millis(1),
        ..Link::default()
    });
    let (a, b) = (NodeId([1; 32]), NodeId([2; 32]));
    let to_b = Peer {
        id: b,
        addresses: Arc::new([b.to_string()]),
    };
    let peer = to_b.clone();
    Pair {
        kind: Kind::Simulated,
        a: network.node(a),
        b: network.node(b),
        to_b,
        restart_b: Box::new(move || {
            Ok(Node {
                transport: network.node(b),
                peer: peer.clone(),
                refused: Arc::new(|| 0),
            })
        }),
    }
}

/// Returns a pair of each kind.
pub fn pairs() -> Vec<Pair> {
    let mut pairs: Vec<_> = SOCKETS.into_iter().map(over_sockets).collect();
    pairs.push(simulated());
    pairs
}

impl Pair {
    /// Opens a stream from the first node to the second and returns both ends.
    pub async fn stream(&self, class: Class) -> (Stream, Stream) {
        let opened = tokio::time::timeout(TIMEOUT, self.open(class)).await;
        opened.unwrap_or_else(|_| panic!("{:?}: no stream comes through", self.kind))
    }

    async fn open(&self, class: Class) -> (Stream, Stream) {
        let mut here = self.a.open(&self.to_b, class).await.unwrap();
        here.send.send(Bytes::from_static(b"begun")).await.unwrap();
        let incoming = self.b.accept().await.unwrap();
        assert_eq!(incoming.from, self.a.local(), "{:?}", self.kind);
        let mut there = incoming.stream;
        let first = there.receive.receive().await.unwrap();
        assert_eq!(first.as_deref(), Some(&b"begun"[..]), "{:?}", self.kind);
        (here, there)
    }
}

/// Returns bytes that do not repeat.
pub fn noise(size: usize) -> Bytes {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) as u8
    };
    (0..size).map(|_| next()).collect::<Vec<u8>>().into()
}
