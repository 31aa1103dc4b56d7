//! The transport trait: streams of frames between nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Error;

/// The length limit of a frame: a block of 1 MiB and its header.
pub const MAX_FRAME_BYTES: usize = (1 << 20) + (64 << 10);

/// A node to reach, and its addresses.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Peer {
    /// The node that must answer. The handshake proves its identity.
    pub id: NodeId,
    /// Addresses as `host:port`. The one that worked last is tried first, then the others in order,
    /// each after a moment at most.
    pub addresses: Arc<[String]>,
}

/// Content of which this much is left, or more, takes turns: a block. Otherwise the longest stream,
/// such as an upload whose end is not known, would wait for all others, and the blocks that wait with
/// it would keep the permits of shorter uploads.
const LONG_BYTES: u64 = 1 << 20;
/// Content of which this much is left, or more, is sent after all other content.
const LAST_BYTES: u64 = u64::MAX / 2;

/// The urgency of a stream. More urgent streams are sent first as long as the transport controls
/// the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Membership, layout and revocation. These streams never wait behind data.
    Control,
    /// Rows and other small messages.
    Small,
    /// Content. The stream with the fewest remaining bytes is sent first. Long ones take turns.
    Data {
        /// The bytes that remain to be sent, as far as known.
        remaining: u64,
    },
    /// Repair and anti-entropy. These streams are sent only when nothing else waits.
    Background,
}

impl Class {
    /// The rank of content that is sent after all other content.
    pub(crate) const LAST_RANK: u64 = (LONG_BYTES >> 16) + 1;

    /// Returns the rank of content of which `remaining` bytes are left. The lowest rank is sent
    /// first.
    pub(crate) fn rank(remaining: u64) -> u64 {
        // In steps, so that streams with similar remaining bytes take turns.
        match remaining < LAST_BYTES {
            true => remaining.min(LONG_BYTES) >> 16,
            false => Class::LAST_RANK,
        }
    }

    /// Returns the class after `bytes` more bytes were sent: content becomes more urgent as it
    /// shrinks.
    pub(crate) fn after(self, bytes: usize) -> Class {
        match self {
            Class::Data { remaining } => Class::Data {
                remaining: remaining.saturating_sub(bytes as u64),
            },
            other => other,
        }
    }
}

/// A carrier of streams of frames between this node and its peers.
///
/// Both ends of a connection prove their key and the cluster's secret before the first stream.
/// Connections are made on demand and closed after they were idle for a while.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Returns the id of this node.
    fn local(&self) -> NodeId;

    /// Opens a stream to a peer over an existing connection or a new one. The peer sees the stream
    /// when the first frame arrives.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no connection could be made. The caller limits the time.
    async fn open(&self, peer: &Peer, class: Class) -> Result<Stream, Error>;

    /// Returns the next stream that a peer opened, or `None` once the transport is closed.
    async fn accept(&self) -> Option<Incoming>;

    /// Connects to `address` and returns the id of the node there. The node must prove the secret.
    ///
    /// # Errors
    /// [`Error::NotFound`], with a text for the operator.
    async fn identify(&self, address: &str) -> Result<NodeId, Error>;

    /// Returns the statistics of every peer that was connected recently.
    fn statistics(&self) -> Vec<PeerStatistics>;

    /// Closes all connections. Open streams fail.
    async fn close(&self);
}

/// A stream that a peer opened.
pub struct Incoming {
    /// The peer that opened it.
    pub from: NodeId,
    /// The stream.
    pub stream: Stream,
}

/// A stream of frames in both directions. If a half is dropped before its end, it is reset, and the
/// peer's matching half fails.
pub struct Stream {
    /// The frames to the peer.
    pub send: Box<dyn SendFrames>,
    /// The frames from the peer.
    pub receive: Box<dyn ReceiveFrames>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

/// The sending half of a stream. If it is dropped before [`finish`](SendFrames::finish), the peer
/// sees a broken stream.
#[async_trait]
pub trait SendFrames: Send {
    /// Sends a frame of at most [`MAX_FRAME_BYTES`]. Waits while the peer or the network is busy.
    /// After a cancelled call the stream can no longer be used.
    async fn send(&mut self, frame: Bytes) -> Result<(), Error>;

    /// Ends the stream properly. Does not wait for the peer.
    async fn finish(&mut self) -> Result<(), Error>;

    /// Changes the urgency of the stream. Content becomes more urgent by itself as it is sent.
    fn set_class(&mut self, class: Class);
}

/// The receiving half of a stream. If it is dropped, the peer is told to stop sending.
#[async_trait]
pub trait ReceiveFrames: Send + Sync {
    /// Returns the next frame, or `None` after the peer has ended the stream properly. Cancel-safe.
    async fn receive(&mut self) -> Result<Option<Bytes>, Error>;
}

/// Statistics of one peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerStatistics {
    /// The peer.
    pub peer: NodeId,
    /// Open connections.
    pub connections: usize,
    /// Streams opened by either side since the start.
    pub streams: u64,
    /// Bytes sent on the wire since the start, or the closest known figure.
    pub sent_bytes: u64,
    /// Bytes received from the wire since the start, or the closest known figure.
    pub received_bytes: u64,
    /// The smoothed round-trip time that the transport measures.
    pub round_trip: Option<Duration>,
    /// Lost packets, as far as the transport knows.
    pub lost_packets: u64,
    /// Connections that failed or could not be made, since the start.
    pub failures: u64,
}

impl PeerStatistics {
    /// Adds the statistics of the same peer's connections of another transport.
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
