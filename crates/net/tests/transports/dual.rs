//! Tests of clusters that mix QUIC nodes and TCP-only nodes.

use std::sync::Arc;

use archipel_net::dual::{DualTransport, TCP_SCHEME};
use archipel_net::{Class, Peer, Transport};

use crate::pairs::{any_port, identity, noise};

fn node(tcp_only: bool) -> (Arc<DualTransport>, Peer) {
    let bound = DualTransport::bind(any_port(), identity(b"secret"), tcp_only);
    let transport = bound.unwrap();
    let scheme = if tcp_only { TCP_SCHEME } else { "" };
    let address = transport.address().unwrap();
    let peer = Peer {
        id: transport.local(),
        addresses: Arc::new([format!("{scheme}{address}")]),
    };
    (transport, peer)
}

async fn comes_through(from: &DualTransport, to: &DualTransport, peer: &Peer) {
    let mut here = from.open(peer, Class::Small).await.unwrap();
    here.send.send(noise(1000)).await.unwrap();
    let mut there = to.accept().await.unwrap();
    assert_eq!(there.from, from.local());
    let frame = there.stream.receive.receive().await.unwrap();
    assert_eq!(frame, Some(noise(1000)));
    there.stream.send.send(noise(10)).await.unwrap();
    assert_eq!(here.receive.receive().await.unwrap(), Some(noise(10)));
}

#[tokio::test]
async fn quic_nodes_and_tcp_only_nodes_reach_one_another() {
    for (one, other) in [(false, false), (false, true), (true, false), (true, true)] {
        let ((a, to_a), (b, to_b)) = (node(one), node(other));
        assert_eq!(a.identify(&to_b.addresses[0]).await.unwrap(), to_b.id);
        comes_through(&a, &b, &to_b).await;
        comes_through(&b, &a, &to_a).await;
        let known = a.statistics();
        assert_eq!(known.len(), 1, "{known:?}");
        assert_eq!(known[0].streams, 2, "{known:?}");
    }
}

#[tokio::test]
async fn close_ends_both_transports() {
    let (a, to_a) = node(false);
    let (b, to_b) = node(true);
    comes_through(&b, &a, &to_a).await;
    a.close().await;
    assert!(a.accept().await.is_none());
    assert!(a.open(&to_b, Class::Small).await.is_err());
}
