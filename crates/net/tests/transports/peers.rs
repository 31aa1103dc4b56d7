//! Tests of admission and of the lifetime of connections.

use std::net::SocketAddr;
use std::time::Duration;

use archipel_net::{Class, Error, Peer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::pairs::{Kind, Node, SOCKETS, TIMEOUT, any_port, fresh, identity, node, noise, pairs};

#[tokio::test]
async fn identify_returns_the_node_and_statistics_count() {
    for pair in pairs() {
        let found = pair.a.identify(&pair.to_b.addresses[0]).await.unwrap();
        assert_eq!(found, pair.to_b.id, "{:?}", pair.kind);
        let (mut here, mut there) = pair.stream(Class::Data { remaining: 0 }).await;
        here.send.send(noise(100_000)).await.unwrap();
        there.receive.receive().await.unwrap();
        let all = pair.a.statistics();
        let known = all.iter().find(|known| known.peer == pair.to_b.id).unwrap();
        assert!(known.streams > 0, "{:?}", pair.kind);
        if pair.kind != Kind::Simulated {
            assert!(known.sent_bytes > 100_000, "{:?}", pair.kind);
            assert_eq!(known.connections, 2, "{:?}", pair.kind);
            let back = pair.b.statistics();
            let back = back.iter().find(|known| known.peer == pair.a.local());
            assert!(back.unwrap().received_bytes > 100_000, "{:?}", pair.kind);
        }
    }
}

#[tokio::test]
async fn closed_transport_neither_accepts_nor_opens() {
    for pair in pairs() {
        let (here, _there) = pair.stream(Class::Small).await;
        let a = pair.a.clone();
        let accepting = tokio::spawn(async move { a.accept().await.is_none() });
        // Lets the task reach the wait.
        tokio::task::yield_now().await;
        timeout(TIMEOUT, pair.a.close()).await.unwrap();
        let ended = timeout(TIMEOUT, accepting).await.unwrap().unwrap();
        assert!(ended, "{:?}", pair.kind);
        assert!(pair.a.accept().await.is_none(), "{:?}", pair.kind);
        let opened = pair.a.open(&pair.to_b, Class::Small).await;
        assert!(matches!(opened, Err(Error::Closed)), "{:?}", pair.kind);
        drop(here);
    }
}

#[tokio::test]
async fn streams_break_when_the_peer_stops_and_new_ones_reach_it_after_a_restart() {
    for pair in pairs() {
        let (mut here, there) = pair.stream(Class::Small).await;
        pair.b.close().await;
        // The last holder closes the socket.
        drop((pair.b, there));
        let broken = timeout(TIMEOUT, here.receive.receive()).await.unwrap();
        assert!(matches!(broken, Err(Error::Broken(..))), "{:?}", pair.kind);
        assert!(pair.a.open(&pair.to_b, Class::Small).await.is_err());
        let restarting = async {
            loop {
                // The tasks of the old transport may have to end first.
                match (pair.restart_b)() {
                    Ok(again) => return again,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let again = timeout(TIMEOUT, restarting).await.unwrap();
        let mut here = pair.a.open(&pair.to_b, Class::Small).await.unwrap();
        here.send.send(noise(10)).await.unwrap();
        let mut there = again.transport.accept().await.unwrap();
        let received = there.stream.receive.receive().await.unwrap();
        assert_eq!(received, Some(noise(10)), "{:?}", pair.kind);
    }
}

#[tokio::test]
async fn both_nodes_may_dial_at_once() {
    for kind in SOCKETS {
        let (a, b) = (fresh(kind, b"secret"), fresh(kind, b"secret"));
        let opened = futures_util::join!(
            a.transport.open(&b.peer, Class::Small),
            b.transport.open(&a.peer, Class::Small),
        );
        let (mut from_a, mut from_b) = (opened.0.unwrap(), opened.1.unwrap());
        from_a.send.send(noise(1)).await.unwrap();
        from_b.send.send(noise(2)).await.unwrap();
        let mut at_b = b.transport.accept().await.unwrap().stream;
        let mut at_a = a.transport.accept().await.unwrap().stream;
        assert_eq!(at_b.receive.receive().await.unwrap(), Some(noise(1)));
        assert_eq!(at_a.receive.receive().await.unwrap(), Some(noise(2)));
    }
}

/// Asserts that the first accepted stream is that of `friend`.
async fn accepts_only(node: &Node, friend: &Node) {
    let mut stream = friend
        .transport
        .open(&node.peer, Class::Small)
        .await
        .unwrap();
    stream.send.send(noise(5)).await.unwrap();
    let first = node.transport.accept().await.unwrap();
    assert_eq!(first.from, friend.transport.local());
    let known = node.transport.statistics();
    assert_eq!(known.len(), 1, "strangers are not remembered: {known:?}");
}

#[tokio::test]
async fn secret_changes_node_by_node() {
    for kind in SOCKETS {
        let start = |identity| node(kind, any_port(), identity).unwrap();
        let old = start(identity(b"old"));
        let both = start(identity(b"new").with_previous(b"old"));
        let new = start(identity(b"new"));
        for (from, to) in [(&old, &both), (&both, &old), (&both, &new), (&new, &both)] {
            let met = from.transport.identify(&to.peer.addresses[0]).await;
            assert_eq!(met.unwrap(), to.peer.id, "{kind:?}");
        }
        for (from, to) in [(&old, &new), (&new, &old)] {
            assert!(
                from.transport
                    .identify(&to.peer.addresses[0])
                    .await
                    .is_err(),
                "{kind:?}"
            );
        }
    }
}

#[tokio::test]
async fn peer_with_another_secret_or_key_is_refused() {
    for kind in SOCKETS {
        let (a, stranger) = (fresh(kind, b"secret"), fresh(kind, b"another"));
        let refused = stranger.transport.open(&a.peer, Class::Small).await;
        let text = refused.err().unwrap().to_string();
        assert!(text.contains("secret"), "{kind:?}: {text}");
        let refused = stranger.transport.identify(&a.peer.addresses[0]).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::NotFound(_)), "{refused:?}");
        assert!(refused.to_string().contains("secret"));
        // The secret is right, but the node is not the expected one.
        let (b, c) = (fresh(kind, b"secret"), fresh(kind, b"secret"));
        let wrong = Peer {
            id: c.transport.local(),
            ..a.peer.clone()
        };
        let refused = b.transport.open(&wrong, Class::Small).await;
        assert!(matches!(refused, Err(Error::Unreachable(..))), "{kind:?}");
        accepts_only(&a, &b).await;
        assert!((a.refused)() >= 2, "{kind:?}");
    }
}

#[tokio::test]
async fn garbage_gets_no_answer_and_does_no_harm() {
    let garbage = |n: usize| noise(1200).slice(n..);
    let quic = fresh(Kind::Quic, b"secret");
    let address: SocketAddr = quic.peer.addresses[0].parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for n in 0..100 {
        socket.send_to(&garbage(n), address).await.unwrap();
    }
    accepts_only(&quic, &fresh(Kind::Quic, b"secret")).await;

    let tcp = fresh(Kind::Tcp, b"secret");
    let address: SocketAddr = tcp.peer.addresses[0].parse().unwrap();
    let mut silent = Vec::new();
    for n in 0..20 {
        silent.push(TcpStream::connect(address).await.unwrap());
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&garbage(n)).await.unwrap();
        // Only TLS's alert may arrive before the connection ends.
        let mut answer = Vec::new();
        let read = timeout(TIMEOUT, stream.read_to_end(&mut answer))
            .await
            .unwrap();
        assert!(read.is_err() || answer.len() <= 7, "{answer:?}");
    }
    accepts_only(&tcp, &fresh(Kind::Tcp, b"secret")).await;
    assert!((tcp.refused)() >= 20);
}
