//! A client of the K2V API.

use std::time::Duration;

use archipel_api::fetch::{trust, trust_nobody};
use archipel_api::k2v::sign::{Signer, Unsigned};
use archipel_base::clock::{SystemClock, WallClock};
use bytes::Bytes;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

use super::{Endpoint, Item};
use crate::client::Failure;

/// The limit of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// The time that the server may take, beside the time of a poll.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The header that carries a causality token.
const TOKEN: HeaderName = HeaderName::from_static("x-garage-causality-token");
/// The form in which items are read.
pub(super) const JSON: (HeaderName, &str) = (http::header::ACCEPT, "application/json");

/// A request.
pub(super) struct Ask<'a> {
    pub method: Method,
    pub bucket: &'a str,
    pub pk: Option<&'a str>,
    pub query: Vec<(&'a str, &'a str)>,
    pub headers: Vec<(HeaderName, &'a str)>,
    pub body: &'a [u8],
    pub time: Duration,
}

impl<'a> Ask<'a> {
    pub fn of(method: Method, bucket: &'a str) -> Ask<'a> {
        Ask {
            method,
            bucket,
            pk: None,
            query: Vec::new(),
            headers: Vec::new(),
            body: &[],
            time: TIMEOUT,
        }
    }

    pub fn item(method: Method, item: &'a Item) -> Ask<'a> {
        Ask {
            pk: Some(&item.partition_key),
            query: vec![("sort_key", &item.sort_key)],
            ..Ask::of(method, &item.bucket)
        }
    }

    pub fn with_token(mut self, token: Option<&'a str>) -> Ask<'a> {
        self.headers.extend(token.map(|token| (TOKEN, token)));
        self
    }
}

pub(super) struct Answer {
    pub status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Deserialize)]
struct ErrorText {
    code: String,
    message: String,
}

pub(super) fn strange(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!(
        "this release does not understand the answer: {error}"
    ))
}

impl Answer {
    pub fn document<T: serde::de::DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(strange)
    }

    pub fn token(&self) -> Result<String, Failure> {
        let token = self
            .headers
            .get(TOKEN)
            .and_then(|token| token.to_str().ok());
        token
            .map(str::to_owned)
            .ok_or_else(|| strange("it has no causality token"))
    }
}

pub(super) struct Client {
    scheme: Scheme,
    authority: String,
    signer: Signer,
    http: HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    pub fn new(server: &Endpoint) -> Result<Client, Failure> {
        let invalid = || {
            let url = &server.endpoint;
            Failure::new(format!(
                "--endpoint {url:?}: not an address; fix: write for example http://127.0.0.1:3904"
            ))
        };
        let uri: Uri = server.endpoint.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        let scheme = uri.scheme().ok_or_else(invalid)?;
        let is_secure = *scheme == Scheme::HTTPS;
        let is_plain = *scheme == Scheme::HTTP && authority.port_u16().is_some();
        if !is_secure && !is_plain {
            return Err(invalid());
        }
        let missing = |what: &str, variable: &str| {
            Failure::new(format!(
                "no {what}; fix: set {variable}, or give the option"
            ))
        };
        let id = server.access_key.clone();
        let secret = server.secret_key.clone();
        Ok(Client {
            http: HyperClient::builder(TokioExecutor::new()).build(connector(server, is_secure)?),
            scheme: scheme.clone(),
            authority: authority.to_string(),
            signer: Signer {
                access_key: id.ok_or_else(|| missing("access key", "AWS_ACCESS_KEY_ID"))?,
                secret_key: secret.ok_or_else(|| missing("secret", "AWS_SECRET_ACCESS_KEY"))?,
                region: server.region.clone(),
            },
        })
    }

    pub async fn read(&self, item: &Item) -> Result<Answer, Failure> {
        let mut ask = Ask::item(Method::GET, item);
        ask.headers.push(JSON);
        self.send(ask).await
    }

    /// Returns the given token, or that of the item as it is now.
    pub async fn token_of(&self, item: &Item, token: Option<String>) -> Result<String, Failure> {
        match token {
            Some(token) => Ok(token),
            None => self.read(item).await?.token(),
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// A text for the person at the terminal, also if the answer is an error.
    pub async fn send(&self, ask: Ask<'_>) -> Result<Answer, Failure> {
        let time = ask.time;
        let answer = tokio::time::timeout(time, self.exchange(ask)).await;
        let answer = answer.map_err(|_| {
            let seconds = time.as_secs();
            Failure::new(format!("the server did not answer within {seconds} s"))
        })??;
        if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED {
            return Ok(answer);
        }
        Err(match answer.document::<ErrorText>() {
            Ok(error) => Failure::refused(answer.status, error.code, error.message),
            Err(_) => Failure::new(format!("the server answered {}", answer.status)),
        })
    }

    async fn exchange(&self, ask: Ask<'_>) -> Result<Answer, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::new(format!("the request cannot be made: {error}"))
        };
        let unsigned = Unsigned {
            method: &ask.method,
            host: &self.authority,
            bucket: ask.bucket,
            pk: ask.pk,
            query: &ask.query,
            body: ask.body,
        };
        let signed = self.signer.sign(&unsigned, SystemClock.now_millis());
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(ask.body)));
        *request.uri_mut() = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.as_str())
            .path_and_query(unsigned.target())
            .build()
            .map_err(|e| cannot(&e))?;
        *request.headers_mut() = signed.ok_or_else(|| cannot(&"the time or the host is wrong"))?;
        for (name, value) in &ask.headers {
            let value = value.parse().map_err(|e| cannot(&e))?;
            request.headers_mut().insert(name, value);
        }
        *request.method_mut() = ask.method.clone();
        let answer = self.http.request(request).await;
        let answer = answer.map_err(|error| {
            let why = chain(&error);
            match error.is_connect() {
                true => Failure::no_server(format!("no server at {}: {why}", self.authority)),
                false => Failure::new(format!("the server closed the connection: {why}")),
            }
        })?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body =
            body.map_err(|error| Failure::new(format!("the answer was cut off: {error}")))?;
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }
}

/// Returns a connector for both schemes. Certificates are read only for TLS.
fn connector(
    endpoint: &Endpoint,
    is_secure: bool,
) -> Result<HttpsConnector<HttpConnector>, Failure> {
    let roots = match &endpoint.ca_file {
        Some(path) if is_secure => Some(std::fs::read(path).map_err(|error| {
            let fix = "fix: name a readable file with certificates in PEM";
            Failure::new(format!("--ca-file {path:?}: {error}; {fix}"))
        })?),
        _ => None,
    };
    let config = match is_secure {
        true => trust(roots.as_deref()),
        false => trust_nobody(),
    };
    let config = config.map_err(Failure::new)?;
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config((*config).clone())
        .https_or_http()
        .enable_http1()
        .build())
}

/// Returns the text of the innermost error, which says what is wrong.
fn chain(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
