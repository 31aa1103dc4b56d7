//! What every transport must do, asked of all of them.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what went wrong by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_base::random::SeededRandom;
use archipel_net::identity::Identity;
use archipel_net::quic::QuicTransport;
use archipel_net::rpc::{Rpc, Service};
use archipel_net::simulated::{Link, SimulatedNetwork};
use archipel_net::tcp::TcpTransport;
use archipel_net::{Class, Error, MAX_FRAME_BYTES, Peer, Stream, Transport};
use async_trait::async_trait;
use bytes::Bytes;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Two nodes, and how the first reaches the second.
struct Pair {
    name: &'static str,
    a: Arc<dyn Transport>,
    b: Arc<dyn Transport>,
    to_b: Peer,
}

fn identity(secret: &[u8]) -> Identity {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Identity::new(key.as_ref(), secret).unwrap()
}

fn quic(secret: &[u8]) -> Arc<QuicTransport> {
    QuicTransport::bind("127.0.0.1:0".parse().unwrap(), identity(secret)).unwrap()
}

fn tcp(secret: &[u8]) -> Arc<TcpTransport> {
    TcpTransport::bind("127.0.0.1:0".parse().unwrap(), identity(secret)).unwrap()
}

fn reach(transport: &QuicTransport) -> Peer {
    Peer {
        id: transport.local(),
        addresses: Arc::new([transport.address().unwrap().to_string()]),
    }
}

fn pairs() -> Vec<Pair> {
    let (a, b) = (quic(b"secret"), quic(b"secret"));
    let over_quic = Pair {
        name: "quic",
        to_b: reach(&b),
        a,
        b,
    };
    let (a, b) = (tcp(b"secret"), tcp(b"secret"));
    let over_tcp = Pair {
        name: "tcp",
        to_b: Peer {
            id: b.local(),
            addresses: Arc::new([b.address().unwrap().to_string()]),
        },
        a,
        b,
    };
    let network = SimulatedNetwork::new(Arc::new(SeededRandom::new(1)));
    network.set_default_link(Link {
        latency: Duration::from_millis(1),
        ..Link::default()
    });
    let to_b = Peer {
        id: NodeId([2; 32]),
        addresses: Arc::new([NodeId([2; 32]).to_string()]),
    };
    let simulated = Pair {
        name: "simulated",
        a: network.node(NodeId([1; 32])),
        b: network.node(NodeId([2; 32])),
        to_b,
    };
    vec![over_quic, over_tcp, simulated]
}

/// Answers with what it is asked, and says no to "no". Its streams echo.
struct Echo;

#[async_trait]
impl Service for Echo {
    async fn call(&self, _: NodeId, method: &str, request: Bytes) -> Result<Bytes, String> {
        match method {
            "no" => Err("never".into()),
            _ => Ok(request),
        }
    }

    async fn stream(&self, _: NodeId, _: &str, mut stream: Stream) -> Result<(), String> {
        let text = |error: Error| error.to_string();
        while let Some(frame) = stream.receive.receive().await.map_err(text)? {
            stream.send.send(frame).await.map_err(text)?;
        }
        stream.send.finish().await.map_err(text)
    }
}

fn served(pair: &Pair) -> Rpc {
    let other = Rpc::new(pair.b.clone());
    tokio::spawn(async move { other.serve(Arc::new(Echo)).await });
    Rpc::new(pair.a.clone())
}

fn noise(size: usize) -> Bytes {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) as u8
    };
    (0..size).map(|_| next()).collect::<Vec<u8>>().into()
}

#[tokio::test]
async fn calls_are_answered_and_refusals_told() {
    for pair in pairs() {
        let rpc = served(&pair);
        let ask = |method: &'static str, request| {
            let (rpc, peer) = (rpc.clone(), pair.to_b.clone());
            async move {
                rpc.call(&peer, method, Class::Small, TIMEOUT, request)
                    .await
            }
        };
        for size in [0, 1, 70_000, MAX_FRAME_BYTES - 1] {
            let request = noise(size);
            assert_eq!(
                ask("echo", request.clone()).await.unwrap(),
                request,
                "{}",
                pair.name
            );
        }
        let refused = ask("no", Bytes::new()).await;
        assert_eq!(
            refused,
            Err(Error::Refused(pair.to_b.id, "never".into())),
            "{}",
            pair.name
        );
        assert!(rpc.round_trip(&pair.to_b.id).is_some());
    }
}

#[tokio::test]
async fn many_streams_at_once_carry_frames_in_order() {
    for pair in pairs() {
        let rpc = served(&pair);
        let streams = (0..100).map(|n| {
            let (rpc, peer) = (rpc.clone(), pair.to_b.clone());
            async move {
                let class = Class::Data { remaining: n };
                let stream = rpc.stream(&peer, "echo", class, TIMEOUT).await.unwrap();
                let Stream {
                    mut send,
                    mut receive,
                } = stream;
                let frames: Vec<_> = (0..20).map(|k| noise(n as usize * 100 + k)).collect();
                let sending = async {
                    for frame in &frames {
                        send.send(frame.clone()).await.unwrap();
                    }
                    send.finish().await.unwrap();
                };
                let receiving = async {
                    for frame in &frames {
                        assert_eq!(receive.receive().await.unwrap().as_ref(), Some(frame));
                    }
                    assert_eq!(receive.receive().await.unwrap(), None);
                };
                futures_util::join!(sending, receiving);
            }
        });
        futures_util::future::join_all(streams).await;
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_broken_off_and_a_frame_too_long_is_refused() {
    for pair in pairs() {
        let mut stream = pair.a.open(&pair.to_b, Class::Small).await.unwrap();
        stream
            .send
            .send(Bytes::from_static(b"first"))
            .await
            .unwrap();
        let long = Bytes::from(vec![0; MAX_FRAME_BYTES + 1]);
        assert!(matches!(
            stream.send.send(long).await,
            Err(Error::Protocol(..))
        ));
        let mut there = pair.b.accept().await.unwrap().stream;
        let first = there.receive.receive().await.unwrap();
        assert_eq!(first, Some(Bytes::from_static(b"first")), "{}", pair.name);
        drop(stream);
        assert!(there.receive.receive().await.is_err(), "{}", pair.name);
    }
}

#[tokio::test]
async fn a_slow_reader_holds_up_nobody_else() {
    for pair in pairs() {
        let rpc = served(&pair);
        let class = Class::Data { remaining: 1 << 30 };
        let mut stuck = rpc
            .stream(&pair.to_b, "echo", class, TIMEOUT)
            .await
            .unwrap();
        // Nobody reads the echo: sending must come to a stop, with bounded memory.
        let fill = async {
            for _ in 0..1000 {
                stuck.send.send(noise(1 << 20)).await.unwrap();
            }
        };
        assert!(
            tokio::time::timeout(Duration::from_secs(2), fill)
                .await
                .is_err(),
            "{}",
            pair.name
        );
        let answer = rpc
            .call(&pair.to_b, "echo", Class::Small, TIMEOUT, noise(100))
            .await;
        assert_eq!(answer.unwrap(), noise(100), "{}", pair.name);
    }
}

#[tokio::test]
async fn an_address_tells_who_is_there_and_statistics_count() {
    for pair in pairs() {
        let rpc = served(&pair);
        let address = pair.to_b.addresses[0].clone();
        assert_eq!(
            pair.a.identify(&address).await.unwrap(),
            pair.to_b.id,
            "{}",
            pair.name
        );
        rpc.call(&pair.to_b, "echo", Class::Small, TIMEOUT, noise(10))
            .await
            .unwrap();
        let known = pair.a.statistics();
        assert!(
            known
                .iter()
                .any(|s| s.peer == pair.to_b.id && s.streams > 0),
            "{}",
            pair.name
        );
    }
}

#[tokio::test]
async fn what_is_closed_neither_accepts_nor_answers() {
    for pair in pairs() {
        let rpc = served(&pair);
        rpc.call(&pair.to_b, "echo", Class::Small, TIMEOUT, noise(10))
            .await
            .unwrap();
        pair.a.close().await;
        assert!(pair.a.accept().await.is_none(), "{}", pair.name);
        let after = rpc
            .call(&pair.to_b, "echo", Class::Small, TIMEOUT, noise(10))
            .await;
        assert!(after.is_err(), "{}", pair.name);
    }
}

#[tokio::test]
async fn who_has_another_secret_or_key_gets_nothing() {
    let (a, stranger) = (quic(b"secret"), quic(b"another"));
    let refused = stranger.open(&reach(&a), Class::Small).await;
    let text = refused.err().unwrap().to_string();
    assert!(text.contains("secret"), "{text}");
    // The right secret, but not the node that was expected.
    let (b, c) = (quic(b"secret"), quic(b"secret"));
    let wrong = Peer {
        id: c.local(),
        ..reach(&a)
    };
    assert!(matches!(
        b.open(&wrong, Class::Small).await,
        Err(Error::Unreachable(..))
    ));
    // Nobody was let in: the first stream that is accepted is that of somebody who may.
    let mut stream = b.open(&reach(&a), Class::Small).await.unwrap();
    stream
        .send
        .send(Bytes::from_static(b"hello"))
        .await
        .unwrap();
    assert_eq!(a.accept().await.unwrap().from, b.local());
}

#[tokio::test]
async fn a_node_that_restarts_is_reached_again() {
    let (a, b) = (quic(b"secret"), quic(b"secret"));
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let identity = Identity::new(key.as_ref(), b"secret").unwrap();
    drop(b);
    let first = QuicTransport::bind("127.0.0.1:0".parse().unwrap(), identity.clone()).unwrap();
    let peer = reach(&first);
    let mut stream = a.open(&peer, Class::Small).await.unwrap();
    stream.send.send(noise(10)).await.unwrap();
    first.close().await;
    drop(first);
    assert!(stream.receive.receive().await.is_err());
    let address = peer.addresses[0].parse().unwrap();
    let again = loop {
        // The old socket goes when its tasks have ended.
        match QuicTransport::bind(address, identity.clone()) {
            Ok(again) => break again,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let mut stream = a.open(&peer, Class::Small).await.unwrap();
    stream.send.send(noise(10)).await.unwrap();
    let mut there = again.accept().await.unwrap();
    assert_eq!(
        there.stream.receive.receive().await.unwrap(),
        Some(noise(10))
    );
}
