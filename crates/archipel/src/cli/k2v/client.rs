//! A client of the K2V API.

use std::time::Duration;

use archipel_api::k2v::sign::{Signer, Unsigned};
use archipel_base::clock::{SystemClock, WallClock};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::{Door, Item};
use crate::client::Failure;

/// The limit of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// How long the server may take, beside the time of a poll.
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
    Failure(format!(
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
    authority: String,
    signer: Signer,
}

impl Client {
    pub fn new(door: &Door) -> Result<Client, Failure> {
        let invalid = || {
            let url = &door.endpoint;
            Failure(format!(
                "--endpoint {url:?}: not an address; fix: write for example http://127.0.0.1:3904"
            ))
        };
        let uri: Uri = door.endpoint.parse().map_err(|_| invalid())?;
        if uri.scheme_str() == Some("https") {
            let why = "--endpoint: archipel k2v does not speak TLS; fix: give an address without TLS, or use k2v-cli";
            return Err(Failure(why.into()));
        }
        let authority = uri.authority().ok_or_else(invalid)?;
        if uri.scheme_str() != Some("http") || authority.port_u16().is_none() {
            return Err(invalid());
        }
        let missing = |what: &str, variable: &str| {
            Failure(format!(
                "no {what}; fix: set {variable}, or give the option"
            ))
        };
        let id = door.access_key.clone();
        let secret = door.secret_key.clone();
        Ok(Client {
            authority: authority.to_string(),
            signer: Signer {
                access_key: id.ok_or_else(|| missing("access key", "AWS_ACCESS_KEY_ID"))?,
                secret_key: secret.ok_or_else(|| missing("secret", "AWS_SECRET_ACCESS_KEY"))?,
                region: door.region.clone(),
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
            Failure(format!("the server did not answer within {seconds} s"))
        })??;
        if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED {
            return Ok(answer);
        }
        Err(match answer.document::<ErrorText>() {
            Ok(error) => Failure(format!("{} ({})", error.message, error.code)),
            Err(_) => Failure(format!("the server answered {}", answer.status)),
        })
    }

    async fn exchange(&self, ask: Ask<'_>) -> Result<Answer, Failure> {
        let cannot =
            |error: &dyn std::fmt::Display| Failure(format!("the request cannot be made: {error}"));
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
        *request.uri_mut() = unsigned.target().parse().map_err(|e| cannot(&e))?;
        *request.headers_mut() = signed.ok_or_else(|| cannot(&"the time or the host is wrong"))?;
        for (name, value) in &ask.headers {
            let value = value.parse().map_err(|e| cannot(&e))?;
            request.headers_mut().insert(name, value);
        }
        *request.method_mut() = ask.method.clone();
        let stream = TcpStream::connect(&self.authority).await;
        let stream =
            stream.map_err(|error| Failure(format!("no server at {}: {error}", self.authority)))?;
        let broken =
            |error: hyper::Error| Failure(format!("the server closed the connection: {error}"));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        // The task ends with its sender, which also receives its errors.
        let driver = tokio::spawn(connection);
        let (parts, body) = sender
            .send_request(request)
            .await
            .map_err(broken)?
            .into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| Failure(format!("the answer was cut off: {error}")))?;
        driver.abort();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }
}
