//! What a kind of connections must do to be kept in a pool.

use std::net::SocketAddr;
use std::time::Duration;

use archipel_base::NodeId;
use async_trait::async_trait;

use super::{Held, Usage};
use crate::error::Error;
use crate::identity::Identity;
use crate::transport::{Class, Stream};

/// Which of the connections to a peer: 0 is for what is small and urgent, the others are for content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lane(pub u8);

impl Lane {
    /// The lane of what is small and urgent.
    pub const SMALL: Lane = Lane(0);
}

/// Makes connections of one kind.
#[async_trait]
pub trait Carrier: Send + Sync + 'static {
    /// A connection whose both ends have proven themselves.
    type Connection: Connection;
    /// What somebody who is not known yet dials in with.
    type Knock: Send + 'static;
    /// How many lanes are for content.
    const CONTENT_LANES: u8;

    /// This node.
    fn identity(&self) -> &Identity;

    /// Dials an address, and proves the secret there.
    async fn dial(
        &self,
        address: SocketAddr,
        expected: Option<NodeId>,
        lane: Lane,
    ) -> Result<(NodeId, Self::Connection), String>;

    /// The next one that dials in; `None` once the carrier is closed. May be cancelled.
    async fn knock(&self) -> Option<(SocketAddr, Self::Knock)>;

    /// Lets it in, if it proves the secret.
    async fn admit(&self, knock: Self::Knock) -> Result<(NodeId, Lane, Self::Connection), String>;

    /// Sends it away unheard.
    fn refuse(&self, knock: Self::Knock);

    /// Ends all connections and stops to listen.
    async fn close(&self);
}

/// What is known of a connection.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// Bytes on the wire, or as near as can be told.
    pub sent_bytes: u64,
    /// Bytes from the wire.
    pub received_bytes: u64,
    /// As far as known.
    pub lost_packets: u64,
    /// Smoothed, if known.
    pub round_trip: Option<Duration>,
}

/// A connection: a cheap handle.
#[async_trait]
pub trait Connection: Clone + Send + Sync + 'static {
    /// Tells it from others of this process.
    fn id(&self) -> usize;
    /// Whether it has not broken yet, as far as is known.
    fn is_open(&self) -> bool;
    /// Ends it.
    fn close(&self, why: &'static str);
    /// What is known of it.
    fn figures(&self) -> Figures;
    /// Opens a stream. Both halves keep `held`.
    async fn open(&self, peer: NodeId, class: Class, held: Held) -> Result<Stream, Error>;
    /// The next stream that the peer opened; `None` when the connection is over.
    async fn accept(&self, peer: NodeId, hold: &Usage) -> Option<Stream>;
}
