//! The interface of a kind of connections to the pool.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;

use super::{Usage, UsageGuard};
use crate::error::Error;
use crate::identity::Identity;
use crate::transport::{Class, Stream};

/// One of the connections to a peer: 0 is for small and urgent messages, the others are for
/// content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lane(pub u8);

impl Lane {
    /// The lane of small and urgent messages.
    pub const SMALL: Lane = Lane(0);
}

/// The reason why an incoming connection is not admitted.
#[derive(Debug)]
pub enum NotAdmitted {
    /// The other end closed it before it had proven anything, as a dial does if another one was
    /// faster; or this node stops.
    Gone(String),
    /// It proved something wrong, broke the protocol, or took too long.
    Refused(String),
}

impl From<String> for NotAdmitted {
    fn from(why: String) -> NotAdmitted {
        NotAdmitted::Refused(why)
    }
}

impl From<&str> for NotAdmitted {
    fn from(why: &str) -> NotAdmitted {
        NotAdmitted::Refused(why.into())
    }
}

impl From<io::Error> for NotAdmitted {
    fn from(error: io::Error) -> NotAdmitted {
        match error.kind() {
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected => NotAdmitted::Gone(error.to_string()),
            _ => NotAdmitted::Refused(error.to_string()),
        }
    }
}

/// A maker of connections of one kind.
#[async_trait]
pub trait Carrier: Send + Sync + 'static {
    /// A connection whose ends have both proven the secret.
    type Connection: Connection;
    /// An incoming connection that has proven nothing yet.
    type Attempt: Send + 'static;
    /// The number of lanes for content.
    const CONTENT_LANES: u8;

    /// Returns the identity of this node.
    fn identity(&self) -> &Identity;

    /// Dials an address and proves the secret there.
    async fn dial(
        &self,
        address: SocketAddr,
        expected: Option<NodeId>,
        lane: Lane,
    ) -> Result<(NodeId, Self::Connection), String>;

    /// Returns the next incoming connection, or `None` once the carrier is closed. Cancel-safe.
    async fn next_attempt(&self) -> Option<(SocketAddr, Self::Attempt)>;

    /// Admits an incoming connection if its peer proves the secret.
    async fn admit(
        &self,
        attempt: Self::Attempt,
    ) -> Result<(NodeId, Lane, Self::Connection), NotAdmitted>;

    /// Returns the attempt if its address is known to be its own. Else asks the other end to show
    /// that it is, without remembering anything, and returns `None`: it comes again as a new
    /// attempt.
    fn validate(&self, attempt: Self::Attempt) -> Option<Self::Attempt>;

    /// Rejects an incoming connection without a handshake.
    fn refuse(&self, attempt: Self::Attempt);

    /// Closes all connections and stops listening.
    async fn close(&self);
}

/// Traffic figures of a connection.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// Bytes sent on the wire, or the closest known figure.
    pub sent_bytes: u64,
    /// Bytes received from the wire.
    pub received_bytes: u64,
    /// Lost packets, as far as known.
    pub lost_packets: u64,
    /// The smoothed round-trip time, if known.
    pub round_trip: Option<Duration>,
}

/// A connection, as a cheap handle.
#[async_trait]
pub trait Connection: Clone + Send + Sync + 'static {
    /// Returns an id that is unique in this process.
    fn id(&self) -> usize;
    /// Returns true unless the connection is known to be broken.
    fn is_open(&self) -> bool;
    /// Closes the connection.
    fn close(&self, why: &'static str);
    /// Returns its traffic figures.
    fn figures(&self) -> Figures;
    /// Opens a stream. Both halves keep `held`.
    async fn open(&self, peer: NodeId, class: Class, held: UsageGuard) -> Result<Stream, Error>;
    /// Returns the next stream that the peer opened, or `None` when the connection is over.
    async fn accept(&self, peer: NodeId, hold: &Usage) -> Option<Stream>;
}
