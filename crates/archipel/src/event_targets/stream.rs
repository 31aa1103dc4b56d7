//! Connections to targets over TCP and TLS.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::server::why;
use crate::config::{Host, Trust};

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

/// Begins TLS on a connection to a server.
///
/// # Errors
/// A text for operators.
pub async fn secure(
    stream: TcpStream,
    host: &Host,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.name.clone());
    let name = name.map_err(|_| format!("no certificate can be for {:?}", host.name))?;
    let secured = TlsConnector::from(config).connect(name, stream).await;
    secured.map_err(|error| format!("no TLS with {host}: {}", why(&error)))
}

/// Connects to a server, and begins TLS if there are settings for it.
///
/// # Errors
/// A text for operators.
pub async fn open(host: &Host, tls: Option<&Arc<ClientConfig>>) -> Result<Box<dyn Stream>, String> {
    let stream = plain(host).await?;
    Ok(match tls {
        Some(config) => Box::new(secure(stream, host, config.clone()).await?),
        None => Box::new(stream),
    })
}
