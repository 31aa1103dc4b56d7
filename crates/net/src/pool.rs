//! Connections to peers: made on demand, one dial at a time, used again, tidied away, counted.
//!
//! What kind of connections they are is a [`Carrier`]'s business. To each peer go several, one for each
//! [`Lane`]: what is small and urgent never waits behind the buffers of content.

mod carrier;
mod link;
mod refusals;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::error::Error;
use crate::transport::{Class, Incoming, Peer, PeerStatistics, Stream, Transport};
pub use carrier::{Carrier, Connection, Figures, Lane};
use link::Link;
use refusals::Refusals;
pub use usage::{Held, Usage};

/// Streams that wait to be accepted at most.
const WAITING: usize = 1024;
/// Connections at once that have not proven themselves.
const UNPROVEN: usize = 64;
/// How long dialling one address may take, and proving oneself.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections of one node.
pub struct Pool<C: Carrier> {
    inner: Arc<Inner<C>>,
    accepted: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
}

struct Inner<C: Carrier> {
    carrier: C,
    incoming: mpsc::Sender<Incoming>,
    closed: watch::Sender<bool>,
    /// Newest last. When both ends dial at once there are two.
    links: Mutex<Links<C::Connection>>,
    /// One dials a peer at a time; the others wait for what comes of it.
    dialling: Mutex<BTreeMap<(NodeId, Lane), Turn>>,
    counts: Mutex<BTreeMap<NodeId, Counts>>,
    /// Content takes its lanes in turn.
    content: AtomicU64,
    unproven: Arc<Semaphore>,
    refusals: Refusals,
}

type Links<T> = BTreeMap<(NodeId, Lane), Vec<Link<T>>>;

/// Whoever holds it dials.
type Turn = Arc<tokio::sync::Mutex<()>>;

#[derive(Clone, Copy, Default)]
struct Counts {
    streams: u64,
    failures: u64,
    /// Of connections that are gone.
    gone: Figures,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Carrier> Pool<C> {
    /// Begins to listen. To be called on a tokio runtime.
    pub(crate) fn start(carrier: C) -> Arc<Pool<C>> {
        let (incoming, accepted) = mpsc::channel(WAITING);
        let inner = Arc::new(Inner {
            carrier,
            incoming,
            closed: watch::Sender::new(false),
            links: Mutex::default(),
            dialling: Mutex::default(),
            counts: Mutex::default(),
            content: AtomicU64::new(0),
            unproven: Arc::new(Semaphore::new(UNPROVEN)),
            refusals: Refusals::default(),
        });
        tokio::spawn(inner.clone().listen());
        tokio::spawn(link::tidy(Arc::downgrade(&inner)));
        Arc::new(Pool {
            inner,
            accepted: tokio::sync::Mutex::new(accepted),
        })
    }

    pub(crate) fn carrier(&self) -> &C {
        &self.inner.carrier
    }

    /// Connections of others that were not let in, ever: a wrong secret, a broken handshake, too many at once.
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

    fn count(&self, peer: NodeId, change: impl FnOnce(&mut Counts)) {
        change(lock(&self.counts).entry(peer).or_default());
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
        let counts = lock(&self.inner.counts).clone();
        let of = |(peer, counts): (NodeId, Counts)| {
            let mut known = PeerStatistics {
                peer,
                streams: counts.streams,
                failures: counts.failures,
                ..PeerStatistics::default()
            };
            let now = figures.iter().filter(|(of, _)| *of == peer);
            for figures in now
                .clone()
                .map(|(_, figures)| figures)
                .chain([&counts.gone])
            {
                known.sent_bytes += figures.sent_bytes;
                known.received_bytes += figures.received_bytes;
                known.lost_packets += figures.lost_packets;
                let both = known.round_trip.into_iter().chain(figures.round_trip);
                known.round_trip = both.min();
            }
            known.connections = now.count();
            known
        };
        counts.into_iter().map(of).collect()
    }

    async fn close(&self) {
        self.inner.closed.send_replace(true);
        self.inner.close_links();
        self.inner.carrier.close().await;
    }
}
