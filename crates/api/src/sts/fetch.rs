//! Fetches a small document by HTTP: bounded in size and time, without redirections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

/// The time for one document.
const TIME: Duration = Duration::from_secs(5);

/// The certificates that the system trusts.
static TLS: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();

/// Fetches a document of at most `limit` bytes.
///
/// # Errors
/// A text for people.
pub async fn fetch(url: &str, limit: usize) -> Result<Vec<u8>, String> {
    let fetching = fetch_in_time(url, limit);
    let fetched = tokio::time::timeout(TIME, fetching).await;
    fetched.map_err(|_| "it did not answer in time".to_owned())?
}

async fn fetch_in_time(url: &str, limit: usize) -> Result<Vec<u8>, String> {
    let uri: Uri = url.parse().map_err(|_| "its address is none".to_owned())?;
    let host = uri.host().ok_or("its address names no host")?;
    let secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host.trim_matches(['[', ']']), port));
    let stream = stream.await.map_err(|error| error.to_string())?;
    if !secure {
        return exchange(stream, &uri, limit).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let config = TLS.get_or_try_init(tls).await?;
    let stream = TlsConnector::from(config.clone()).connect(name, stream);
    let stream = stream.await.map_err(|error| error.to_string())?;
    exchange(stream, &uri, limit).await
}

async fn tls() -> Result<Arc<ClientConfig>, String> {
    let load = tokio::task::spawn_blocking(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    });
    let roots = load.await.map_err(|error| error.to_string())?;
    if roots.is_empty() {
        return Err("the system trusts no certificate".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}

async fn exchange<S>(stream: S, uri: &Uri, limit: usize) -> Result<Vec<u8>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let running = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answered = async {
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status() != StatusCode::OK {
            return Err(format!("it answered {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), limit).collect().await;
        let body = body.map_err(|error| error.to_string())?;
        Ok(body.to_bytes().to_vec())
    };
    let answered = answered.await;
    running.abort();
    answered
}
