//! QUIC and TCP side by side on one port, so that nodes behind networks that drop UDP take part in a cluster of QUIC.
//!
//! A node's address says how it is reached: `tcp://host:port`, or `host:port` for QUIC. A node that has no UDP
//! tells the former, and reaches all others over TCP at the same port.

use std::net::SocketAddr;
use std::sync::Arc;

use archipel_base::NodeId;
use async_trait::async_trait;

use crate::error::Error;
use crate::identity::Identity;
use crate::quic::QuicTransport;
use crate::tcp::TcpTransport;
use crate::transport::{Class, Incoming, Peer, PeerStatistics, Stream, Transport};

/// What an address over TCP begins with.
pub const TCP_SCHEME: &str = "tcp://";

/// An address without what says that it is reached over TCP.
pub fn host_and_port(address: &str) -> &str {
    address.strip_prefix(TCP_SCHEME).unwrap_or(address)
}

/// Whether an address is reached over TCP.
pub fn is_tcp(address: &str) -> bool {
    address.starts_with(TCP_SCHEME)
}

/// Both kinds of connections of one node, or TCP alone.
pub struct DualTransport {
    quic: Option<Arc<QuicTransport>>,
    tcp: Arc<TcpTransport>,
}

impl DualTransport {
    /// Listens on `address` over TCP, and unless `tcp_only` also over QUIC. To be called on a tokio runtime.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn bind(
        address: SocketAddr,
        identity: Identity,
        tcp_only: bool,
    ) -> Result<Arc<DualTransport>, String> {
        let tcp = TcpTransport::bind(address, identity.clone())?;
        let same = tcp.address().map_err(|error| error.to_string())?;
        let quic = match tcp_only {
            true => None,
            false => Some(QuicTransport::bind(same, identity)?),
        };
        Ok(Arc::new(DualTransport { quic, tcp }))
    }

    /// Where it listens: the port, if it was left open.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.address()
    }

    /// Connections of others that were not let in, ever.
    pub fn refused(&self) -> u64 {
        self.tcp.refused() + self.quic.as_ref().map_or(0, |quic| quic.refused())
    }

    /// QUIC, if this node has it and nothing says that the other is to be reached over TCP.
    fn quic_to(&self, addresses: &[impl AsRef<str>]) -> Option<&QuicTransport> {
        let quic = self.quic.as_deref()?;
        let tcp = addresses.iter().any(|address| is_tcp(address.as_ref()));
        (!tcp).then_some(quic)
    }
}

/// A peer as TCP reaches it: at those of its addresses that are for TCP; if there are none, at all.
fn over_tcp(peer: &Peer) -> Peer {
    let only = peer.addresses.iter().any(|address| is_tcp(address));
    let addresses = peer.addresses.iter();
    let fit = addresses.filter(|address| !only || is_tcp(address));
    Peer {
        id: peer.id,
        addresses: fit.map(|address| host_and_port(address).into()).collect(),
    }
}

#[async_trait]
impl Transport for DualTransport {
    fn local(&self) -> NodeId {
        self.tcp.local()
    }

    async fn open(&self, peer: &Peer, class: Class) -> Result<Stream, Error> {
        match self.quic_to(&peer.addresses) {
            Some(quic) => quic.open(peer, class).await,
            None => self.tcp.open(&over_tcp(peer), class).await,
        }
    }

    async fn accept(&self) -> Option<Incoming> {
        let Some(quic) = &self.quic else {
            return self.tcp.accept().await;
        };
        // Both are closed together.
        tokio::select! {
            biased;
            stream = quic.accept() => stream,
            stream = self.tcp.accept() => stream,
        }
    }

    async fn identify(&self, address: &str) -> Result<NodeId, Error> {
        match self.quic_to(&[address]) {
            Some(quic) => quic.identify(address).await,
            None => self.tcp.identify(host_and_port(address)).await,
        }
    }

    fn statistics(&self) -> Vec<PeerStatistics> {
        let mut all = self.tcp.statistics();
        for one in self.quic.iter().flat_map(|quic| quic.statistics()) {
            match all.iter_mut().find(|known| known.peer == one.peer) {
                Some(known) => known.add(&one),
                None => all.push(one),
            }
        }
        all
    }

    async fn close(&self) {
        if let Some(quic) = &self.quic {
            quic.close().await;
        }
        self.tcp.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(addresses: &[&str]) -> Peer {
        Peer {
            id: NodeId([1; 32]),
            addresses: addresses.iter().map(|text| text.to_string()).collect(),
        }
    }

    #[test]
    fn over_tcp_a_peer_is_asked_where_it_listens_for_tcp() {
        let mixed = over_tcp(&peer(&["a:1", "tcp://b:2", "tcp://[::1]:3"]));
        assert_eq!(mixed.addresses[..], ["b:2", "[::1]:3"]);
        assert_eq!(over_tcp(&peer(&["a:1"])).addresses[..], ["a:1"]);
    }
}
