//! What carries frames between nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Error;

/// The longest frame: a block of 1 MiB, and what goes before it.
pub const MAX_FRAME_BYTES: usize = (1 << 20) + (64 << 10);

/// Whom to reach, and where.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Peer {
    /// Who answers there, or nobody does: proven in the handshake.
    pub id: NodeId,
    /// `host:port`, tried in order.
    pub addresses: Arc<[String]>,
}

/// How urgent a stream is. What is more urgent goes first wherever the order is still ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Membership, layout, revocation: never waits behind data.
    Control,
    /// Rows and other small messages.
    Small,
    /// Content: the stream with the fewest bytes still to go is first.
    Data {
        /// Bytes still to be sent, as far as known.
        remaining: u64,
    },
    /// Repair and moves: only when nothing else is to be sent.
    Background,
}

impl Class {
    /// What it is once so many bytes more have gone: content gets more urgent as it shrinks.
    pub(crate) fn after(self, bytes: usize) -> Class {
        match self {
            Class::Data { remaining } => Class::Data {
                remaining: remaining.saturating_sub(bytes as u64),
            },
            other => other,
        }
    }
}

/// Carries streams of frames between this node and its peers.
///
/// Both ends of a connection have proven their key and the cluster's secret before the first stream. Connections
/// are made on demand and go when they were idle for a while.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// This node.
    fn local(&self) -> NodeId;

    /// Opens a stream to a peer, over a connection that there is or a new one. The peer sees it
    /// with the first frame.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no connection could be made; the caller bounds the time.
    async fn open(&self, peer: &Peer, class: Class) -> Result<Stream, Error>;

    /// The next stream that a peer opened; `None` once the transport is closed.
    async fn accept(&self) -> Option<Incoming>;

    /// Connects to an address, and tells which node answers there and knows the cluster's secret.
    ///
    /// # Errors
    /// [`Error::NotFound`], with a text for the operator.
    async fn identify(&self, address: &str) -> Result<NodeId, Error>;

    /// What is known of each peer that was connected lately.
    fn statistics(&self) -> Vec<PeerStatistics>;

    /// Ends all connections; streams under way fail.
    async fn close(&self);
}

/// A stream that a peer opened.
pub struct Incoming {
    /// Who opened it.
    pub from: NodeId,
    /// The stream.
    pub stream: Stream,
}

/// A stream of frames in both directions. A half that is dropped without its end is reset: the
/// peer's side of it fails.
pub struct Stream {
    /// What goes to the peer.
    pub send: Box<dyn SendFrames>,
    /// What comes from it.
    pub receive: Box<dyn ReceiveFrames>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

/// The sending half of a stream. Dropping it before [`finish`](SendFrames::finish) tells the peer that
/// the stream was broken off.
#[async_trait]
pub trait SendFrames: Send {
    /// Sends a frame of at most [`MAX_FRAME_BYTES`]; waits while the peer or the network is behind. Cancelled
    /// in the middle, the stream is of no more use.
    async fn send(&mut self, frame: Bytes) -> Result<(), Error>;

    /// Ends the stream in good order; does not wait for the peer.
    async fn finish(&mut self) -> Result<(), Error>;

    /// Changes how urgent the stream is. Content gets more so by itself, as it is sent.
    fn set_class(&mut self, class: Class);
}

/// The receiving half of a stream. Dropping it tells the peer to stop sending.
#[async_trait]
pub trait ReceiveFrames: Send + Sync {
    /// The next frame; `None` at the end that the peer made in good order. May be cancelled and called again.
    async fn receive(&mut self) -> Result<Option<Bytes>, Error>;
}

/// What is known of a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerStatistics {
    /// Who.
    pub peer: NodeId,
    /// Connections now.
    pub connections: usize,
    /// Streams opened to it and by it, ever.
    pub streams: u64,
    /// Bytes sent and received on the wire (or as near as can be told), ever.
    pub sent_bytes: u64,
    /// See [`sent_bytes`](PeerStatistics::sent_bytes).
    pub received_bytes: u64,
    /// The round-trip time, smoothed, as the transport sees it.
    pub round_trip: Option<Duration>,
    /// Packets lost, as far as the transport can tell.
    pub lost_packets: u64,
    /// Connections that failed or could not be made, ever.
    pub failures: u64,
}

impl PeerStatistics {
    /// The same peer over another kind of connections.
    pub(crate) fn add(&mut self, other: &PeerStatistics) {
        self.connections += other.connections;
        self.streams += other.streams;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.lost_packets += other.lost_packets;
        self.failures += other.failures;
        let both = self.round_trip.into_iter().chain(other.round_trip);
        self.round_trip = both.min();
    }
}
