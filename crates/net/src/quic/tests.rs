//! A socket that fails, and a node that crashes.

use std::io::IoSliceMut;
use std::pin::Pin;
use std::task::{Context, Poll};

use quinn::ConnectionError;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;

use super::*;
use crate::pool::{Carrier, Lane, NotAdmitted};
use crate::transport::Transport;

/// A socket from which nothing can be read.
#[derive(Debug)]
struct Broken(SocketAddr);

impl AsyncUdpSocket for Broken {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Never)
    }

    fn try_send(&self, _: &Transmit<'_>) -> io::Result<()> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0)
    }
}

/// Never writable.
#[derive(Debug)]
struct Never;

impl UdpPoller for Never {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

fn identity() -> Identity {
    let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Identity::new(key.as_ref(), b"secret").unwrap()
}

/// It would be without QUIC until its next start.
#[tokio::test]
async fn a_node_whose_socket_failed_listens_again() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let quic = Quic::listen(any, identity()).unwrap();
    let address = quic.socket.local_addr().unwrap();
    let broken = Endpoint::new_with_abstract_socket(
        EndpointConfig::default(),
        Some(quic.server.clone()),
        Arc::new(Broken(address)),
        Arc::new(quinn::TokioRuntime),
    );
    *quic.endpoint.write() = broken.unwrap();
    let node = Pool::start(quic);
    let other = QuicTransport::bind(any, identity()).unwrap();
    let reached = async {
        loop {
            match other.identify(&address.to_string()).await {
                Ok(found) => return found,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
    assert_eq!(reached.unwrap(), node.local());
}

/// Streams over them would hang until the silence has lasted too long.
#[tokio::test]
async fn connections_to_a_node_that_crashed_end_once_it_is_back() {
    let (any, crashing) = (SocketAddr::from(([127, 0, 0, 1], 0)), identity());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let of_first = crashing.clone();
    let first = runtime.spawn(async move { QuicTransport::bind(any, of_first) });
    let first = first.await.unwrap().unwrap();
    let address = first.address().unwrap();
    let other = Quic::listen(any, identity()).unwrap();
    let dialled = other.dial(address, Some(first.local()), Lane::SMALL).await;
    let (_, connection) = dialled.unwrap();
    // All its tasks end, and none of them tells the other node.
    runtime.shutdown_background();
    drop(first);
    let again = async {
        loop {
            match QuicTransport::bind(address, crashing.clone()) {
                Ok(again) => return again,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(60), again).await;
    assert_eq!(again.unwrap().local(), crashing.node());
    let (mut send, _receive) = connection.open_bi().await.unwrap();
    send.write_all(b"a call").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), connection.closed()).await;
    assert_eq!(ended.unwrap(), ConnectionError::Reset);
}

/// Found by reading: the slower one of two dials counted as a refused connection at the other end.
#[tokio::test]
async fn dial_that_is_dropped_is_gone_and_not_refused() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listening = Quic::listen(any, identity()).unwrap();
    let dialling = Quic::listen(any, identity()).unwrap();
    let address = listening.socket.local_addr().unwrap();
    let is_gone = async |attempt| {
        let admitting = listening.admit(attempt);
        let admitted = tokio::time::timeout(Duration::from_secs(60), admitting).await;
        let admitted = admitted.expect("it learns of the end").map(|_| ());
        assert!(
            matches!(admitted, Err(NotAdmitted::Gone(_))),
            "{admitted:?}"
        );
    };
    // Within the handshake.
    let attempt = tokio::select! {
        attempt = listening.next_attempt() => attempt.unwrap().1,
        dialled = dialling.dial(address, None, Lane::SMALL) => panic!("{:?}", dialled.err()),
    };
    is_gone(attempt).await;
    // Between the handshake and the proof.
    let connecting = dialling.connect(address, None).unwrap();
    let connecting = async { drop(connecting.await.unwrap()) };
    let (_, attempt) = listening.next_attempt().await.unwrap();
    tokio::join!(connecting, is_gone(attempt));
}

/// Found by reading: a connection that ended for a fault while its proof was read counted as a dial that
/// was dropped. With the code 0 it is one.
#[tokio::test]
async fn connection_with_a_fault_in_its_proof_is_refused() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listening = Quic::listen(any, identity()).unwrap();
    let dialling = Quic::listen(any, identity()).unwrap();
    let address = listening.socket.local_addr().unwrap();
    for code in 0..2_u32 {
        let connecting = dialling.connect(address, None).unwrap();
        let failing = async {
            let connection = connecting.await.unwrap();
            let (mut send, _receive) = connection.open_bi().await.unwrap();
            send.write_all(b"a part of a proof").await.unwrap();
            // So that the other end has begun to read it.
            tokio::time::sleep(Duration::from_millis(100)).await;
            connection.close(VarInt::from_u32(code), b"");
        };
        let (_, attempt) = listening.next_attempt().await.unwrap();
        let admitting = tokio::time::timeout(Duration::from_secs(60), listening.admit(attempt));
        let ((), admitted) = tokio::join!(failing, admitting);
        let admitted = admitted.expect("it learns of the end").map(|_| ());
        let is_gone = matches!(admitted, Err(NotAdmitted::Gone(_)));
        assert_eq!(is_gone, code == 0, "{admitted:?}");
    }
}

/// Found by reading: a proof that its peer cut short counted as a dial that was dropped.
#[tokio::test]
async fn proof_that_is_cut_short_is_refused() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listening = Quic::listen(any, identity()).unwrap();
    let dialling = Quic::listen(any, identity()).unwrap();
    let address = listening.socket.local_addr().unwrap();
    let connecting = dialling.connect(address, None).unwrap();
    let cutting = async {
        let connection = connecting.await.unwrap();
        let (mut send, _receive) = connection.open_bi().await.unwrap();
        send.write_all(b"a part of a proof").await.unwrap();
        send.finish().unwrap();
        // It is open until the other end closes it.
        connection.closed().await
    };
    let (_, attempt) = listening.next_attempt().await.unwrap();
    let admitting = tokio::time::timeout(Duration::from_secs(60), listening.admit(attempt));
    let (_, admitted) = tokio::join!(cutting, admitting);
    let admitted = admitted.expect("it learns of the end").map(|_| ());
    assert!(
        matches!(admitted, Err(NotAdmitted::Refused(_))),
        "{admitted:?}"
    );
}

#[test]
fn derived_keys_are_those_of_one_node_and_one_purpose() {
    let (one, other) = (identity(), identity());
    let key = one.derive(OF_RESETS);
    assert_eq!(key, one.clone().with_previous(b"before").derive(OF_RESETS));
    assert_ne!(key, other.derive(OF_RESETS));
    assert_ne!(key, one.derive(b"another purpose"));
}
