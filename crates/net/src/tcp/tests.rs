//! Tests of the parts of the TCP transport, nearly all without a network.

use bytes::{Bytes, BytesMut};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use std::net::SocketAddr;
use std::task::Waker;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::TcpTransport;
use super::outbox::{FIRST_CREDIT_BYTES, Outbox};
use super::wire::{self, Kind, PIECE_BYTES};
use crate::identity::Identity;
use crate::pool::{Carrier, NotAdmitted};
use crate::transport::Class;

fn pieces(outbox: &mut Outbox, enough: usize) -> Vec<(Kind, u64, usize)> {
    let mut bytes = BytesMut::new();
    outbox.gather(&mut bytes, enough);
    let mut all = Vec::new();
    while let Some(piece) = wire::take(&mut bytes).unwrap() {
        all.push((piece.kind, piece.stream, piece.payload.len()));
    }
    assert!(bytes.is_empty());
    all
}

fn frame(size: usize) -> Bytes {
    Bytes::from(vec![7; size])
}

#[test]
fn most_urgent_stream_is_sent_first_and_equals_take_turns() {
    let mut outbox = Outbox::default();
    let classes = [
        (1, Class::Background),
        (3, Class::Data { remaining: 1 << 30 }),
        (5, Class::Data { remaining: 1 << 19 }),
        (7, Class::Small),
        (9, Class::Control),
        (11, Class::Data { remaining: 1 << 19 }),
    ];
    for (id, class) in classes {
        outbox.add(id, class);
        outbox.push(id, frame(2 * PIECE_BYTES));
    }
    let order: Vec<u64> = pieces(&mut outbox, usize::MAX)
        .iter()
        .map(|p| p.1)
        .collect();
    assert_eq!(order, [9, 9, 7, 7, 5, 11, 5, 11, 3, 3, 1, 1]);
}

/// Found by reading: an upload that went on waited for all content with less left, and kept the
/// permits that the other uploads to the node need.
#[test]
fn long_content_takes_turns_before_content_that_comes_last() {
    let mut outbox = Outbox::default();
    let content = [(1, u64::MAX), (3, 1 << 40), (5, 1 << 20), (7, 1 << 19)];
    for (id, remaining) in content {
        outbox.add(id, Class::Data { remaining });
        outbox.push(id, frame(2 * PIECE_BYTES));
    }
    let order: Vec<u64> = pieces(&mut outbox, usize::MAX)
        .iter()
        .map(|p| p.1)
        .collect();
    assert_eq!(order, [7, 7, 3, 5, 3, 5, 1, 1]);
}

/// Found by reading: an upload of 4 MiB or more got no piece while shorter streams used up the link.
#[test]
fn short_streams_do_not_hold_up_a_long_one() {
    for remaining in [1 << 20, 300 << 10] {
        let mut outbox = Outbox::default();
        outbox.add(1, Class::Data { remaining: 1 << 40 });
        outbox.add(
            3,
            Class::Data {
                remaining: u64::MAX,
            },
        );
        outbox.add(5, Class::Background);
        for id in [1, 3, 5] {
            outbox.push(id, frame(3 * PIECE_BYTES));
        }
        let mut sent = Vec::new();
        for id in (7..).step_by(2).take(64) {
            outbox.add(id, Class::Data { remaining });
            outbox.push(id, frame(2 * PIECE_BYTES));
            // As much goes out as comes in.
            for _ in 0..2 {
                sent.extend(pieces(&mut outbox, 1).iter().map(|p| p.1));
            }
        }
        let of = |id| sent.iter().filter(|sent| **sent == id).count();
        assert_eq!(of(1), 3, "{remaining}: {sent:?}");
        assert_eq!(of(3) + of(5), 0, "{remaining}: they give way");
    }
}

#[test]
fn stream_without_credit_waits_and_delays_no_other() {
    let mut outbox = Outbox::default();
    outbox.add(1, Class::Control);
    outbox.add(3, Class::Background);
    outbox.push(1, frame(FIRST_CREDIT_BYTES + 10));
    outbox.push(3, frame(5));
    outbox.finish(1);
    let sent = pieces(&mut outbox, usize::MAX);
    let of_first: usize = sent.iter().filter(|p| p.1 == 1).map(|p| p.2).sum();
    assert_eq!(of_first, FIRST_CREDIT_BYTES);
    assert_eq!(sent.last(), Some(&(Kind::Data, 3, 5)));
    outbox.credit(1, 100).unwrap();
    let rest = pieces(&mut outbox, usize::MAX);
    assert_eq!(rest, [(Kind::Data, 1, 10), (Kind::End, 1, 0)]);
    assert!(!outbox.has(1));
    assert!(outbox.credit(3, u32::MAX).is_err());
}

#[test]
fn stream_accepts_the_next_frame_when_most_of_the_last_was_sent() {
    let mut outbox = Outbox::default();
    outbox.add(1, Class::Small);
    assert_eq!(outbox.room(1, Waker::noop()), Some(true));
    outbox.push(1, frame(200 << 10));
    assert_eq!(outbox.room(1, Waker::noop()), Some(false));
    pieces(&mut outbox, 140 << 10);
    assert_eq!(outbox.room(1, Waker::noop()), Some(true));
    assert!(outbox.remove(1));
    assert_eq!(outbox.room(1, Waker::noop()), None);
    assert_eq!(pieces(&mut outbox, usize::MAX), []);
}

#[test]
fn opening_of_a_stream_precedes_its_data() {
    let mut outbox = Outbox::default();
    outbox.push_control(Kind::Open, 1);
    outbox.add(1, Class::Background);
    outbox.push(1, frame(1));
    outbox.push_control(Kind::Open, 3);
    outbox.add(3, Class::Control);
    outbox.push(3, frame(1));
    // With a limit of one byte each call writes one piece.
    let order: Vec<_> = (0..4).flat_map(|_| pieces(&mut outbox, 1)).collect();
    let kinds: Vec<_> = order.iter().map(|p| (p.0, p.1)).collect();
    let expected = [
        (Kind::Open, 1),
        (Kind::Open, 3),
        (Kind::Data, 3),
        (Kind::Data, 1),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn unknown_pieces_are_skipped_and_too_long_pieces_refused() {
    let mut bytes = BytesMut::new();
    wire::put(&mut bytes, Kind::Data, 5, b"abc");
    bytes[0] = 200;
    wire::put(&mut bytes, Kind::End, 5, b"");
    let piece = wire::take(&mut bytes).unwrap().unwrap();
    assert_eq!((piece.kind, piece.stream), (Kind::End, 5));
    wire::put_head(&mut bytes, Kind::Data, PIECE_BYTES + 1, 5);
    assert!(wire::take(&mut bytes).is_err());
}

/// Found by reading: the slower one of two dials counted as a refused connection at the other end.
#[tokio::test]
async fn dial_that_is_dropped_is_gone_and_not_refused() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let identity = Identity::new(key.as_ref(), b"secret").unwrap();
    let node = TcpTransport::bind(any, identity).unwrap();
    let listener = TcpListener::bind(any).await.unwrap();
    let address = listener.local_addr().unwrap();
    for sent in [&b""[..], b"not TLS"] {
        let mut dialling = TcpStream::connect(address).await.unwrap();
        let (attempt, _) = listener.accept().await.unwrap();
        dialling.write_all(sent).await.unwrap();
        drop(dialling);
        let admitted = node.carrier().admit(attempt).await.map(|_| ());
        let is_gone = matches!(admitted, Err(NotAdmitted::Gone(_)));
        assert_eq!(is_gone, sent.is_empty(), "{admitted:?}");
    }
}
