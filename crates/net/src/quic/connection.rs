//! QUIC connections: dialling, accepting, and the interface to the pool.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, TransportErrorCode, VarInt};
use rustls::pki_types::CertificateDer;

use super::stream::stream_of;
use super::{CONTENT_WINDOW_BYTES, FIRST_STREAMS, Quic, SMALL_WINDOW_BYTES, STREAMS};
use crate::error::Error;
use crate::handshake::{self, Keying};
use crate::identity::{Identity, LABEL, PROOF_BYTES, peer_of};
use crate::pool::{self, Carrier, Figures, Lane, NotAdmitted, Usage, UsageGuard};
use crate::transport::{Class, Stream};

/// Codes for closing a connection. The texts beside them are for people.
const CLOSING: u32 = 0;
const UNPROVEN: u32 = 1;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn keying(connection: &Connection) -> Result<Keying, String> {
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

/// Allows streams and content to a peer that has proven the secret.
fn trust(connection: &Connection, lane: Lane) {
    let window = match lane {
        Lane::SMALL => SMALL_WINDOW_BYTES,
        _ => CONTENT_WINDOW_BYTES,
    };
    connection.set_max_concurrent_bi_streams(VarInt::from_u32(FIRST_STREAMS));
    connection.set_receive_window(VarInt::from_u32(window));
}

/// Returns the reason why an unproven connection ended.
fn ended(error: ConnectionError) -> NotAdmitted {
    let is_gone = match &error {
        // quinn closes a connection with this code if it is dropped.
        ConnectionError::ApplicationClosed(close) => close.error_code == VarInt::from_u32(CLOSING),
        // During the handshake this stands for all codes of applications.
        ConnectionError::ConnectionClosed(close) => {
            close.error_code == TransportErrorCode::APPLICATION_ERROR
        }
        // The other end restarted and forgot it, or this node stops.
        ConnectionError::Reset | ConnectionError::LocallyClosed => true,
        _ => false,
    };
    match is_gone {
        true => NotAdmitted::Gone(error.to_string()),
        false => NotAdmitted::Refused(error.to_string()),
    }
}

/// Returns the reason why a proof failed. A stream only tells that its connection is lost, also if
/// that ended for a fault.
fn why_unproven(connection: &Connection, why: NotAdmitted) -> NotAdmitted {
    match (why, connection.close_reason()) {
        (NotAdmitted::Gone(_), Some(reason)) => ended(reason),
        (why, _) => why,
    }
}

/// Returns the reason why a proof could not be read. A dial that is dropped closes its connection. So a
/// stream that ends while the connection is open was cut short by its peer, which is a fault.
fn why_unread(connection: &Connection, why: NotAdmitted) -> NotAdmitted {
    match why {
        NotAdmitted::Gone(why) if connection.close_reason().is_none() => NotAdmitted::Refused(why),
        why => why,
    }
}

/// Closes the connection if the proof failed.
fn closing<T, E>(connection: &Connection, outcome: Result<T, E>) -> Result<T, E> {
    if outcome.is_err() {
        connection.close(VarInt::from_u32(UNPROVEN), b"refused");
    }
    outcome
}

async fn introduce(
    identity: &Identity,
    connection: &Connection,
    lane: Lane,
) -> Result<NodeId, String> {
    let (peer, keying) = (named(connection)?, keying(connection)?);
    let (mut send, mut receive) = connection.open_bi().await.map_err(text)?;
    handshake::introduce(identity, &keying, lane, &mut send, &mut receive).await?;
    trust(connection, lane);
    Ok(peer)
}

async fn check(
    identity: &Identity,
    connection: &Connection,
) -> Result<(NodeId, Lane), NotAdmitted> {
    let (peer, keying) = (named(connection)?, keying(connection)?);
    let (mut send, mut receive) = connection.accept_bi().await.map_err(ended)?;
    let read = handshake::check(identity, &keying, &mut receive).await;
    let (lane, proven) = read.map_err(|why| why_unread(connection, why))?;
    trust(connection, lane);
    handshake::answer(identity, &keying, proven, &mut send).await?;
    Ok((peer, lane))
}

impl Quic {
    /// Dials an address. No secret is proven yet.
    pub(super) fn connect(
        &self,
        address: SocketAddr,
        expected: Option<NodeId>,
    ) -> Result<quinn::Connecting, String> {
        let tls = self.identity.client(expected).map_err(text)?;
        let tls = QuicClientConfig::try_from(tls).map_err(text)?;
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        config.transport_config(self.transport.clone());
        let connecting = self.endpoint().connect_with(config, address, "archipel");
        connecting.map_err(text)
    }
}

#[async_trait]
impl Carrier for Quic {
    type Connection = Connection;
    type Attempt = quinn::Incoming;
    // Streams of one connection do not wait for each other's lost packets.
    const CONTENT_LANES: u8 = 1;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn dial(
        &self,
        address: SocketAddr,
        expected: Option<NodeId>,
        lane: Lane,
    ) -> Result<(NodeId, Connection), String> {
        let connection = self.connect(address, expected)?.await.map_err(text)?;
        let introduced = introduce(&self.identity, &connection, lane).await;
        Ok((closing(&connection, introduced)?, connection))
    }

    async fn next_attempt(&self) -> Option<(SocketAddr, quinn::Incoming)> {
        loop {
            let endpoint = self.endpoint();
            if let Some(incoming) = endpoint.accept().await {
                return Some((incoming.remote_address(), incoming));
            }
            if self.is_closed.load(Ordering::SeqCst) {
                return None;
            }
            self.listen_again().await;
        }
    }

    async fn admit(
        &self,
        attempt: quinn::Incoming,
    ) -> Result<(NodeId, Lane, Connection), NotAdmitted> {
        let connection = attempt.await.map_err(ended)?;
        let checked = check(&self.identity, &connection).await;
        let checked = checked.map_err(|why| why_unproven(&connection, why));
        let (peer, lane) = closing(&connection, checked)?;
        Ok((peer, lane, connection))
    }

    fn validate(&self, attempt: quinn::Incoming) -> Option<quinn::Incoming> {
        if attempt.remote_address_validated() {
            return Some(attempt);
        }
        // An attempt that cannot be asked has shown its address already.
        attempt.retry().err().map(quinn::RetryError::into_incoming)
    }

    fn refuse(&self, attempt: quinn::Incoming) {
        attempt.refuse();
    }

    async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let endpoint = self.endpoint();
        endpoint.close(VarInt::from_u32(CLOSING), b"closing");
        // Gives the peers a moment to receive the close.
        let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    }
}

#[async_trait]
impl pool::Connection for Connection {
    fn id(&self) -> usize {
        self.stable_id()
    }

    fn is_open(&self) -> bool {
        self.close_reason().is_none()
    }

    fn close(&self, why: &'static str) {
        Connection::close(self, VarInt::from_u32(CLOSING), why.as_bytes());
    }

    fn figures(&self) -> Figures {
        let stats = self.stats();
        Figures {
            sent_bytes: stats.udp_tx.bytes,
            received_bytes: stats.udp_rx.bytes,
            lost_packets: stats.path.lost_packets,
            round_trip: Some(self.rtt()),
        }
    }

    async fn open(&self, peer: NodeId, class: Class, held: UsageGuard) -> Result<Stream, Error> {
        let opened = self.open_bi().await;
        let (send, receive) = opened.map_err(|error| Error::Broken(peer, text(error)))?;
        Ok(stream_of(peer, send, receive, class, held))
    }

    async fn accept(&self, peer: NodeId, usage: &Usage) -> Option<Stream> {
        let (send, receive) = self.accept_bi().await.ok()?;
        if usage.becomes_busy(FIRST_STREAMS as usize) {
            self.set_max_concurrent_bi_streams(VarInt::from_u32(STREAMS));
        }
        // The stream is small until the service changes the class.
        let held = usage.hold();
        Some(stream_of(peer, send, receive, Class::Small, held))
    }
}
