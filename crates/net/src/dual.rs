//! QUIC and TCP side by side on one port, so that nodes behind networks that drop UDP can join a
//! cluster that uses QUIC.
//!
//! The scheme of a node's address selects the transport: `tcp://host:port`, or `host:port` for
//! QUIC. A node without UDP announces a `tcp://` address and reaches all other nodes over TCP at
//! the same port.

use std::net::SocketAddr;
use std::sync::Arc;

use archipel_base::NodeId;
use async_trait::async_trait;

use crate::error::Error;
use crate::identity::Identity;
use crate::quic::QuicTransport;
use crate::tcp::TcpTransport;
use crate::transport::{Class, Incoming, Peer, PeerStatistics, Stream, Transport};

/// The scheme of an address that is reached over TCP.
pub const TCP_SCHEME: &str = "tcp://";

/// Returns the address without its scheme.
pub fn host_and_port(address: &str) -> &str {
    address.strip_prefix(TCP_SCHEME).unwrap_or(address)
}

/// Returns true if the address is reached over TCP.
pub fn is_tcp(address: &str) -> bool {
    address.starts_with(TCP_SCHEME)
}

/// The QUIC and TCP connections of one node, or its TCP connections alone.
pub struct DualTransport {
    quic: Option<Arc<QuicTransport>>,
    tcp: Arc<TcpTransport>,
}

impl DualTransport {
    /// Listens on `address` over TCP, and also over QUIC unless `tcp_only`. Needs a tokio runtime.
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
        let quic = if tcp_only {
            None
        } else {
            Some(QuicTransport::bind(same, identity)?)
        };
        Ok(Arc::new(DualTransport { quic, tcp }))
    }

    /// Returns the address it listens on, with the chosen port if the configured port was 0.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.address()
    }

    /// Returns the number of refused incoming connections since the start.
    pub fn refused(&self) -> u64 {
        self.tcp.refused() + self.quic.as_ref().map_or(0, |quic| quic.refused())
    }

    /// Returns the QUIC transport if this node has one and no address demands TCP.
    fn quic_to(&self, addresses: &[impl AsRef<str>]) -> Option<&QuicTransport> {
        let quic = self.quic.as_deref()?;
        let tcp = addresses.iter().any(|address| is_tcp(address.as_ref()));
        (!tcp).then_some(quic)
    }
}

/// Returns the peer with its TCP addresses only, or with all addresses if it has no TCP address.
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
        // Both transports are closed together.
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
    fn over_tcp_keeps_only_tcp_addresses_if_there_are_any() {
        let mixed = over_tcp(&peer(&["a:1", "tcp://b:2", "tcp://[::1]:3"]));
        assert_eq!(mixed.addresses[..], ["b:2", "[::1]:3"]);
        assert_eq!(over_tcp(&peer(&["a:1"])).addresses[..], ["a:1"]);
    }
}
