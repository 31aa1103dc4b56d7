//! Connections to peers: made on demand by one dial at a time, reused, closed when idle, and
//! counted.
//!
//! A [`Carrier`] makes the connections. Each peer has several, one for each [`Lane`], so that small
//! and urgent messages never wait behind content.

mod admission;
mod carrier;
mod dial;
mod link;
mod refusals;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use crate::error::Error;
use crate::transport::{Class, Incoming, Peer, PeerStatistics, Stream, Transport};
use admission::Admission;
pub use carrier::{Carrier, Connection, Figures, Lane, NotAdmitted};
use dial::Reached;
use link::Link;
use refusals::Refusals;
pub use usage::{Usage, UsageGuard};

/// The limit of streams that wait to be accepted.
const WAITING: usize = 1024;
/// The time limit for reaching a name and proving the secret there, which all its addresses share.
/// A peer that dials this node has as long to prove the secret.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The most peers without a connection whose counts are kept: more than a cluster has nodes.
const REMEMBERED: usize = 1024;

/// The connections of one node.
pub struct Pool<C: Carrier> {
    inner: Arc<Inner<C>>,
    accepted: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
}

struct Inner<C: Carrier> {
    carrier: C,
    incoming: mpsc::Sender<Incoming>,
    closed: watch::Sender<bool>,
    /// The connections, the newest last. When both ends dial at once, there are two.
    links: Mutex<Links<C::Connection>>,
    /// The dials in progress. All callers of a peer share one and its outcome. A peer with other
    /// addresses is dialled at once: nobody waits for an address that it has left.
    dialling: Mutex<HashMap<(Peer, Lane), Dial>>,
    reached: Reached,
    counts: Mutex<BTreeMap<NodeId, PeerCounts>>,
    /// The counter that spreads content over its lanes.
    content: AtomicU64,
    admission: Admission,
    refusals: Refusals,
}

type Links<T> = BTreeMap<(NodeId, Lane), Vec<Link<T>>>;

/// A dial in progress: its error, if it fails. The sender is dropped at its end.
type Dial = watch::Receiver<Option<Error>>;

#[derive(Clone, Copy, Default)]
struct PeerCounts {
    streams: u64,
    failures: u64,
    /// Figures of closed connections.
    gone: Figures,
}

impl PeerCounts {
    /// Returns the statistics of a peer without its open connections.
    fn of(&self, peer: NodeId) -> PeerStatistics {
        PeerStatistics {
            peer,
            streams: self.streams,
            failures: self.failures,
            sent_bytes: self.gone.sent_bytes,
            received_bytes: self.gone.received_bytes,
            lost_packets: self.gone.lost_packets,
            ..PeerStatistics::default()
        }
    }
}

impl<C: Carrier> Pool<C> {
    /// Starts listening. Needs a tokio runtime.
    pub(crate) fn start(carrier: C) -> Arc<Pool<C>> {
        let (incoming, accepted) = mpsc::channel(WAITING);
        let inner = Arc::new(Inner {
            carrier,
            incoming,
            closed: watch::Sender::new(false),
            links: Mutex::default(),
            dialling: Mutex::default(),
            reached: Reached::default(),
            counts: Mutex::default(),
            content: AtomicU64::new(0),
            admission: Admission::default(),
            refusals: Refusals::default(),
        });
        tokio::spawn(inner.clone().listen());
        tokio::spawn(link::close_idle(Arc::downgrade(&inner)));
        Arc::new(Pool {
            inner,
            accepted: tokio::sync::Mutex::new(accepted),
        })
    }

    pub(crate) fn carrier(&self) -> &C {
        &self.inner.carrier
    }

    /// Returns the number of incoming connections that were refused since the start: for a wrong
    /// secret, a broken handshake, or too many at once. One that the other end closed before it had
    /// proven anything does not count.
    pub fn refused(&self) -> u64 {
        self.inner.refusals.count()
    }
}

impl<C: Carrier> Inner<C> {
    fn lane(&self, class: Class) -> Lane {
        match class {
            Class::Control | Class::Small => Lane::SMALL,
            Class::Data { .. } | Class::Background => {
                let turn = self.content.fetch_add(1, Ordering::Relaxed);
                Lane(1 + (turn % u64::from(C::CONTENT_LANES)) as u8)
            }
        }
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    fn count(&self, peer: NodeId, change: impl FnOnce(&mut PeerCounts)) {
        change(self.counts.lock().entry(peer).or_default());
    }
}

#[async_trait]
impl<C: Carrier> Transport for Pool<C> {
    fn local(&self) -> NodeId {
        self.inner.carrier.identity().node()
    }

    async fn open(&self, peer: &Peer, class: Class) -> Result<Stream, Error> {
        let lane = self.inner.lane(class);
        let (connection, held) = self.inner.link(peer, lane).await?;
        let stream = connection.open(peer.id, class, held).await?;
        self.inner.count(peer.id, |counts| counts.streams += 1);
        Ok(stream)
    }

    async fn accept(&self) -> Option<Incoming> {
        let mut closed = self.inner.closed.subscribe();
        let next = async { self.accepted.lock().await.recv().await };
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => None,
            next = next => next,
        }
    }

    async fn identify(&self, address: &str) -> Result<NodeId, Error> {
        let dialled = self.inner.dial(address, None, Lane::SMALL).await;
        let (peer, connection) = dialled.map_err(Error::NotFound)?;
        self.inner.keep(peer, Lane::SMALL, connection);
        Ok(peer)
    }

    fn statistics(&self) -> Vec<PeerStatistics> {
        let figures = self.inner.figures();
        let counts = self.inner.counts.lock().clone();
        let mut known: BTreeMap<_, _> = counts
            .iter()
            .map(|(id, counts)| (*id, counts.of(*id)))
            .collect();
        for (peer, figures) in figures {
            if let Some(known) = known.get_mut(&peer) {
                known.connections += 1;
                known.sent_bytes += figures.sent_bytes;
                known.received_bytes += figures.received_bytes;
                known.lost_packets += figures.lost_packets;
                let both = known.round_trip.into_iter().chain(figures.round_trip);
                known.round_trip = both.min();
            }
        }
        known.into_values().collect()
    }

    async fn close(&self) {
        self.inner.closed.send_replace(true);
        self.inner.close_links();
        self.inner.carrier.close().await;
    }
}
