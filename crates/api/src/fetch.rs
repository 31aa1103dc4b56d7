//! Fetches a small document by HTTP: bounded in size and time, without redirections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// The time for one document.
const TIME: Duration = Duration::from_secs(5);

/// The certificates that the system trusts.
static TLS: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();

/// A request for a document.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// The address, `http` or `https`.
    pub url: &'a str,
    /// The most bytes of the document.
    pub limit: usize,
    /// Further headers.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// Certificates in PEM that are trusted instead of those that the system trusts.
    pub roots: Option<&'a [u8]>,
}

/// Fetches a document.
///
/// # Errors
/// A text for people.
pub async fn fetch(ask: Ask<'_>) -> Result<Vec<u8>, String> {
    let fetched = tokio::time::timeout(TIME, fetch_in_time(ask)).await;
    fetched.map_err(|_| "it did not answer in time".to_owned())?
}

async fn fetch_in_time(ask: Ask<'_>) -> Result<Vec<u8>, String> {
    let url = ask.url;
    let uri: Uri = url.parse().map_err(|_| "its address is none".to_owned())?;
    let host = uri.host().ok_or("its address names no host")?;
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port));
    let stream = stream.await.map_err(|error| error.to_string())?;
    if !secure {
        return exchange(stream, &uri, ask).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let config = match ask.roots {
        Some(roots) => trust(Some(roots))?,
        None => TLS.get_or_try_init(tls).await?.clone(),
    };
    let stream = TlsConnector::from(config).connect(name, stream);
    let stream = stream.await.map_err(|error| error.to_string())?;
    exchange(stream, &uri, ask).await
}

async fn tls() -> Result<Arc<ClientConfig>, String> {
    let load = tokio::task::spawn_blocking(|| trust(None));
    load.await.map_err(|error| error.to_string())?
}

/// Returns the settings of a client that trusts these certificates in PEM, or those that the system
/// trusts. Reads files.
///
/// # Errors
/// A text for people.
pub fn trust(roots: Option<&[u8]>) -> Result<Arc<ClientConfig>, String> {
    if let Some(roots) = roots {
        return trusting(read_roots(roots)?);
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("the system trusts no certificate".into());
    }
    trusting(roots)
}

/// Returns the settings of a client that trusts nobody, for one that speaks no TLS.
///
/// # Errors
/// A text for people.
pub fn trust_nobody() -> Result<Arc<ClientConfig>, String> {
    trusting(RootCertStore::empty())
}

fn read_roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("the file holds no certificate".into());
    }
    Ok(roots)
}

fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

async fn exchange<S>(stream: S, uri: &Uri, ask: Ask<'_>) -> Result<Vec<u8>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    // Dropped with this future, also in the middle, and the connection with it.
    let mut running = JoinSet::new();
    running.spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    request.headers_mut().extend(ask.headers.iter().cloned());
    let answer = sender.send_request(request).await;
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status() != StatusCode::OK {
        return Err(format!("it answered {}", answer.status()));
    }
    let body = Limited::new(answer.into_body(), ask.limit).collect().await;
    let body = body.map_err(|error| error.to_string())?;
    Ok(body.to_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connection_ends_with_a_fetch_that_is_given_up() {
        let (client, mut server) = duplex(1024);
        let uri: Uri = "http://silent.example/".parse().unwrap();
        let fetching = exchange(client, &uri, Ask::default());
        assert!(timeout(TIME, fetching).await.is_err());
        // The request, and then the end.
        let mut request = Vec::new();
        let ended = timeout(TIME, server.read_to_end(&mut request)).await;
        ended.unwrap().unwrap();
        assert!(request.starts_with(b"GET / HTTP/1.1"));
    }
}
