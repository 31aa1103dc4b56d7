//! Connections: dialled, proven, kept, tidied away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::NodeId;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, VarInt};
use rustls::pki_types::CertificateDer;

use super::stream::stream_of;
use super::{Counts, DIAL_TIMEOUT, Inner, Lane, Link, lock, traffic};
use crate::error::Error;
use crate::identity::{LABEL, PROOF_BYTES, Side, peer_of};
use crate::transport::{Incoming, Peer};

/// How long that may take.
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that was not used for so long goes.
const IDLE: Duration = Duration::from_secs(60);
/// Reasons of a close, for the peer's log.
const UNPROVEN_CLOSE: u32 = 1;
const IDLE_CLOSE: u32 = 2;

/// Takes connections of others until the endpoint is closed.
pub(super) async fn listen(inner: Arc<Inner>) {
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
pub(super) async fn tidy(inner: std::sync::Weak<Inner>) {
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
    pub(super) fn now(&self) -> u64 {
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
    pub(super) async fn dial(
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
    pub(super) fn keep(
        self: &Arc<Inner>,
        peer: NodeId,
        lane: Lane,
        connection: Connection,
    ) -> Link {
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

    pub(super) fn count(&self, peer: NodeId, change: impl FnOnce(&mut Counts)) {
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
    pub(super) async fn link(self: &Arc<Inner>, peer: &Peer, lane: Lane) -> Result<Link, Error> {
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
