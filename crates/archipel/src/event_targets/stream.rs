//! Connections to targets over TCP and TLS.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::server::why;
use crate::config::{Host, Trust};

/// The most bytes that are read from a connection. The libraries bound neither one message of a
/// server nor all of them, and keep some until the connection ends. The answer to an event has a
/// few hundred bytes.
const MOST_BYTES: u64 = 4 << 20;

/// The number of bytes that were read from a connection.
#[derive(Clone, Default)]
pub struct Received(Arc<AtomicU64>);

impl Received {
    /// Returns true if another connection shall take the next event: the limit would cut an answer
    /// off.
    pub fn is_much(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MOST_BYTES / 2
    }
}

/// A connection that ends with an error once [`MOST_BYTES`] were read from it.
pub struct Bounded<S> {
    inner: S,
    received: Received,
}

impl<S> Bounded<S> {
    fn new(inner: S) -> (Bounded<S>, Received) {
        let received = Received::default();
        let bounded = Bounded {
            inner,
            received: received.clone(),
        };
        (bounded, received)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Before anything is read: a read that fails must not have filled the buffer.
        if self.received.0.load(Ordering::Relaxed) > MOST_BYTES {
            let why = format!("the server has sent more than {MOST_BYTES} bytes");
            return Poll::Ready(Err(io::Error::other(why)));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, into))?;
        let read = (into.filled().len() - before) as u64;
        self.received.0.fetch_add(read, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A connection, with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Returns the settings of TLS that check servers by these certificates.
///
/// # Errors
/// A text for the operator.
pub fn tls(trust: &Trust) -> Result<Arc<ClientConfig>, String> {
    let pem = match trust {
        Trust::System => None,
        Trust::File(path) => Some(read(path)?),
    };
    archipel_api::fetch::trust(pem.as_deref())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("ca_file cannot be read: {error}"))
}

/// Connects to a server by TCP.
///
/// # Errors
/// A text for operators.
pub async fn plain(host: &Host) -> Result<TcpStream, String> {
    let connected = TcpStream::connect((host.name.as_str(), host.port)).await;
    let stream = connected.map_err(|error| format!("cannot connect to {host}: {error}"))?;
    // A message is small, and its sender waits for the answer.
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Connects to a server by TCP, and bounds what is read from it.
///
/// # Errors
/// A text for operators.
pub async fn bounded(host: &Host) -> Result<(Bounded<TcpStream>, Received), String> {
    plain(host).await.map(Bounded::new)
}

/// Begins TLS on a connection to a server.
///
/// # Errors
/// A text for operators.
pub async fn secure<S: Stream>(
    stream: S,
    host: &Host,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<S>, String> {
    let name = ServerName::try_from(host.name.clone());
    let name = name.map_err(|_| format!("no certificate can be for {:?}", host.name))?;
    let secured = TlsConnector::from(config).connect(name, stream).await;
    secured.map_err(|error| format!("no TLS with {host}: {}", why(&error)))
}

/// Connects to a server, bounds what is read from it, and begins TLS if there are settings for it.
///
/// # Errors
/// A text for operators.
pub async fn open(
    host: &Host,
    tls: Option<&Arc<ClientConfig>>,
) -> Result<(Box<dyn Stream>, Received), String> {
    let (stream, received) = bounded(host).await?;
    let stream: Box<dyn Stream> = match tls {
        Some(config) => Box::new(secure(stream, host, config.clone()).await?),
        None => Box::new(stream),
    };
    Ok((stream, received))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn server_that_sends_without_end_is_cut_off() {
        let (client, mut server) = duplex(64 << 10);
        let (mut client, received) = Bounded::new(client);
        let flood = tokio::spawn(async move {
            let bytes = [b'x'; 32 << 10];
            while server.write_all(&bytes).await.is_ok() {}
        });
        let mut some = vec![0; MOST_BYTES as usize / 2];
        client.read_exact(&mut some).await.unwrap();
        assert!(!received.is_much());
        let mut rest = Vec::new();
        let ended = client.read_to_end(&mut rest).await.unwrap_err();
        assert!(ended.to_string().contains("has sent more than"));
        assert!(received.is_much() && rest.len() as u64 <= MOST_BYTES);
        drop(client);
        flood.await.unwrap();
    }
}
