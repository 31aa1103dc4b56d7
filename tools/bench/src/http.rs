//! A minimal S3 client: one HTTP/1.1 connection and presigned URLs. It reads and counts answers
//! without keeping them.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Body;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rusty_s3::S3Action;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::Outcome;
use crate::body::Fresh;
use crate::endpoint::Endpoint;

const SIGNED_FOR: Duration = Duration::from_secs(3600);

/// The body of a request.
pub type AnyBody = http_body_util::combinators::UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// One connection to the endpoint.
pub struct Client {
    endpoint: Endpoint,
    sender: SendRequest<AnyBody>,
}

impl Client {
    /// Connects to the endpoint.
    pub async fn connect(endpoint: &Endpoint) -> Outcome<Self> {
        let sender = open_to(endpoint).await?;
        Ok(Self {
            endpoint: endpoint.clone(),
            sender,
        })
    }

    /// Stores an object. Returns the bytes sent.
    pub async fn put(&mut self, key: &str, body: Fresh) -> Outcome<u64> {
        let size = body.size_hint().lower();
        let url = self
            .endpoint
            .bucket
            .put_object(Some(&self.endpoint.credentials), key)
            .sign(SIGNED_FOR);
        let answer = self
            .send(Method::PUT, url.as_str(), body.boxed_unsync())
            .await?;
        drain(answer).await?;
        Ok(size)
    }

    /// Reads an object to its end. Returns the bytes received.
    pub async fn get(&mut self, key: &str) -> Outcome<u64> {
        let url = self
            .endpoint
            .bucket
            .get_object(Some(&self.endpoint.credentials), key)
            .sign(SIGNED_FOR);
        let answer = self
            .send(Method::GET, url.as_str(), Empty::new().boxed_unsync())
            .await?;
        drain(answer).await
    }

    /// Removes an object.
    pub async fn delete(&mut self, key: &str) -> Outcome<()> {
        let url = self
            .endpoint
            .bucket
            .delete_object(Some(&self.endpoint.credentials), key)
            .sign(SIGNED_FOR);
        let answer = self
            .send(Method::DELETE, url.as_str(), Empty::new().boxed_unsync())
            .await?;
        drain(answer).await.map(drop)
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Closes the connection with all requests on it, and opens another.
    pub async fn reopen(&mut self) -> Outcome<()> {
        self.sender = open_to(&self.endpoint).await?;
        Ok(())
    }

    async fn send(
        &mut self,
        method: Method,
        url: &str,
        body: AnyBody,
    ) -> Outcome<Response<hyper::body::Incoming>> {
        let answer = self.exchange(method.clone(), url, &[], body).await?;
        if matches!(answer.status(), StatusCode::OK | StatusCode::NO_CONTENT) {
            return Ok(answer);
        }
        let status = answer.status();
        let text = answer.into_body().collect().await?.to_bytes();
        Err(format!(
            "{method} was answered {status}: {}",
            String::from_utf8_lossy(&text)
        )
        .into())
    }

    /// Sends a request to a signed URL and returns the answer with any status.
    pub async fn exchange(
        &mut self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: AnyBody,
    ) -> Outcome<Response<hyper::body::Incoming>> {
        let uri: hyper::Uri = url.parse()?;
        let host = uri.authority().ok_or("a URL without host")?.to_string();
        let target = uri
            .path_and_query()
            .ok_or("a URL without path")?
            .as_str()
            .to_owned();
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body)?;
        if self.sender.ready().await.is_err() {
            // Servers may close a connection between two requests.
            self.sender = open_to(&self.endpoint).await?;
        }
        Ok(self.sender.send_request(request).await?)
    }
}

async fn open_to(endpoint: &Endpoint) -> Outcome<SendRequest<AnyBody>> {
    let address = endpoint.address()?;
    let Some(config) = &endpoint.tls else {
        return open(&address).await;
    };
    let host = endpoint.bucket.base_url().host_str().unwrap_or_default();
    let name = ServerName::try_from(host.to_owned())?;
    let stream = connect(&address).await?;
    begin(
        TlsConnector::from(config.clone())
            .connect(name, stream)
            .await?,
    )
    .await
}

async fn open(address: &str) -> Outcome<SendRequest<AnyBody>> {
    begin(connect(address).await?).await
}

async fn connect(address: &str) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Outcome<SendRequest<AnyBody>> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // A broken connection shows in the next request.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn drain(answer: Response<hyper::body::Incoming>) -> Outcome<u64> {
    let mut body = answer.into_body();
    let mut received = 0;
    while let Some(frame) = body.frame().await {
        received += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(received)
}

/// Fetches a plain text page, such as metrics, from `host:port` or from a local socket (an absolute
/// path).
pub async fn page(address: &str, path: &str) -> Outcome<String> {
    call(address, Method::GET, path, None).await
}

/// Sends a request, with a JSON text if there is one, to `host:port` or a local socket (an absolute
/// path). Fails if it is refused.
pub async fn call(
    address: &str,
    method: Method,
    path: &str,
    json: Option<String>,
) -> Outcome<String> {
    let (mut sender, host) = if address.starts_with('/') {
        (
            begin(UnixStream::connect(address).await?).await?,
            "localhost",
        )
    } else {
        (open(address).await?, address)
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", host);
    if json.is_some() {
        request = request.header("content-type", "application/json");
    }
    let body = Full::from(json.unwrap_or_default()).boxed_unsync();
    let answer = sender.send_request(request.body(body)?).await?;
    let status = answer.status();
    let text = answer.into_body().collect().await?.to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    if status.is_success() {
        return Ok(text);
    }
    Err(format!("{path} was answered {status}: {text}").into())
}
