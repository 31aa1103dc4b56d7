//! Requests to a K2V endpoint, signed in their headers.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ring::{digest, hmac};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::Outcome;
use crate::endpoint::Endpoint;
use crate::http::{AnyBody, Client};

const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";
const TOKEN: &str = "x-garage-causality-token";

/// A request. Names need no encoding: experiments choose them so.
#[derive(Clone, Default)]
pub struct Ask {
    /// The partition key; empty for the bucket.
    pub pk: String,
    /// The query, sorted.
    pub query: String,
    /// A causality token.
    pub token: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// An answer.
pub struct Answer {
    /// Its causality token.
    pub token: Option<String>,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// Returns its document.
    pub fn document(&self) -> Outcome<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

impl Ask {
    /// Creates a request about an item.
    pub fn item(pk: &str, sk: &str) -> Self {
        Self {
            pk: pk.to_owned(),
            query: format!("sort_key={sk}"),
            ..Self::default()
        }
    }

    /// Creates a request about the bucket with this query and body.
    pub fn bucket(query: &str, body: impl Into<Bytes>) -> Self {
        Self {
            query: query.to_owned(),
            body: body.into(),
            ..Self::default()
        }
    }
}

/// A connection over HTTP/2, which carries many requests at once.
#[derive(Clone)]
pub struct Shared {
    endpoint: Endpoint,
    sender: SendRequest<AnyBody>,
}

impl Shared {
    /// Connects to the endpoint.
    pub async fn connect(endpoint: &Endpoint) -> Outcome<Self> {
        let stream = TcpStream::connect(endpoint.address()?).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // A broken connection shows in the next request.
            let _ = connection.await;
        });
        Ok(Self {
            endpoint: endpoint.clone(),
            sender,
        })
    }

    /// Sends a request. Answers that are errors are errors.
    pub async fn ask(&mut self, method: Method, ask: &Ask) -> Outcome<Answer> {
        let Signed { url, headers } = sign(&self.endpoint, &method, ask)?;
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(ask.body.clone()).boxed_unsync())?;
        self.sender.ready().await?;
        read(self.sender.send_request(request).await?).await
    }
}

/// Sends a request. Answers that are errors are errors.
pub async fn ask(client: &mut Client, method: Method, ask: &Ask) -> Outcome<Answer> {
    let Signed { url, headers } = sign(client.endpoint(), &method, ask)?;
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let body = Full::from(ask.body.clone()).boxed_unsync();
    read(client.exchange(method, &url, &headers, body).await?).await
}

async fn read(answer: Response<Incoming>) -> Outcome<Answer> {
    let status = answer.status();
    let token = answer.headers().get(TOKEN);
    let token = token.and_then(|token| token.to_str().ok()).map(Into::into);
    let body = answer.into_body().collect().await?.to_bytes();
    match status.is_success() {
        true => Ok(Answer { token, body }),
        false => Err(format!("answered {status}: {}", String::from_utf8_lossy(&body)).into()),
    }
}

struct Signed {
    url: String,
    headers: Vec<(&'static str, String)>,
}

/// Signs a request (AWS Signature Version 4).
fn sign(endpoint: &Endpoint, method: &Method, ask: &Ask) -> Outcome<Signed> {
    let host = endpoint.address()?;
    let path = match ask.pk.as_str() {
        "" => format!("/{}", endpoint.bucket.name()),
        pk => format!("/{}/{pk}", endpoint.bucket.name()),
    };
    let now = jiff::Timestamp::now();
    let stamp = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = now.strftime("%Y%m%d").to_string();
    let body = hash(&ask.body);
    let canonical = format!(
        "{method}\n{path}\n{}\nhost:{host}\nx-amz-content-sha256:{body}\nx-amz-date:{stamp}\n\n\
         {SIGNED}\n{body}",
        ask.query
    );
    let region = endpoint.bucket.region();
    let scope = format!("{date}/{region}/k2v/aws4_request");
    let text = format!(
        "AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}",
        hash(canonical.as_bytes())
    );
    let secret = format!("AWS4{}", endpoint.credentials.secret());
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    for step in [date.as_str(), region, "k2v", "aws4_request"] {
        let tag = hmac::sign(&key, step.as_bytes());
        key = hmac::Key::new(hmac::HMAC_SHA256, tag.as_ref());
    }
    let signature = hex::encode(hmac::sign(&key, text.as_bytes()));
    let id = endpoint.credentials.key();
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={SIGNED},Signature={signature}"
    );
    let mut headers = vec![
        ("x-amz-date", stamp),
        ("x-amz-content-sha256", body),
        ("authorization", authorization),
    ];
    headers.extend(ask.token.clone().map(|token| (TOKEN, token)));
    let url = format!("http://{host}{path}?{}", ask.query);
    Ok(Signed { url, headers })
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}
