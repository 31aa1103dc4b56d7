//! A client of the admin API: over the local socket, or TCP with a token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archipel_api::admin::types::ErrorAnswer;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::socket;

/// The largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What went wrong, for the person at the terminal.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A server's admin API.
pub struct Client {
    place: Place,
}

enum Place {
    Socket(PathBuf),
    Tcp { authority: String, token: String },
}

/// A path made of parts that may hold any character.
pub fn path(parts: &[&str]) -> String {
    let encoded = parts.iter().map(|part| {
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~".contains(b);
        let bytes = part.bytes();
        bytes
            .map(|b| {
                if plain(&b) {
                    char::from(b).to_string()
                } else {
                    format!("%{b:02X}")
                }
            })
            .collect()
    });
    let encoded: Vec<String> = encoded.collect();
    format!("/{}", encoded.join("/"))
}

impl Client {
    /// A client over a local socket.
    pub fn socket(path: PathBuf) -> Client {
        Client {
            place: Place::Socket(path),
        }
    }

    /// A client over TCP. Only `http` URLs: TLS ends at a proxy, and then there is a tunnel to it.
    pub fn tcp(url: &str, token: &str) -> Result<Client, Failure> {
        let invalid = || {
            Failure(format!(
                "--admin {url:?}: it is not an address; fix: write for example http://127.0.0.1:3903"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        if uri.scheme_str() != Some("http") || authority.port_u16().is_none() {
            return Err(invalid());
        }
        Ok(Client {
            place: Place::Tcp {
                authority: authority.to_string(),
                token: token.to_owned(),
            },
        })
    }

    /// `GET path`
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        decode(&self.send(Method::GET, path, Vec::new()).await?)
    }

    /// `POST path`
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        decode(&self.send(Method::POST, path, encode(body)?).await?)
    }

    /// `PATCH path`
    pub async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        decode(&self.send(Method::PATCH, path, encode(body)?).await?)
    }

    /// `DELETE path`
    pub async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.send(Method::DELETE, path, Vec::new())
            .await
            .map(|_| ())
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes, Failure> {
        let request = self.request(method, path, body)?;
        let answer = async {
            match &self.place {
                Place::Socket(path) => {
                    let stream = socket::connect(path)
                        .await
                        .map_err(|e| no_server(path, &e))?;
                    exchange(stream, request).await
                }
                Place::Tcp { authority, .. } => {
                    let stream = TcpStream::connect(authority)
                        .await
                        .map_err(|e| Failure(format!("no server at {authority}: {e}")))?;
                    exchange(stream, request).await
                }
            }
        };
        tokio::time::timeout(TIMEOUT, answer).await.map_err(|_| {
            Failure(format!(
                "the server did not answer within {} s",
                TIMEOUT.as_secs()
            ))
        })?
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json");
        let request = match &self.place {
            Place::Socket(_) => request.header(header::HOST, "localhost"),
            Place::Tcp { authority, token } => request
                .header(header::HOST, authority)
                .header(header::AUTHORIZATION, format!("Bearer {token}")),
        };
        request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failure(format!("the request cannot be made: {error}")))
    }
}

fn no_server(path: &Path, error: &std::io::Error) -> Failure {
    let why = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "only the server's own user may open it: run the command as that user".to_owned()
        }
        _ => format!("{error}; is the server running?"),
    };
    Failure(format!("no server at {}: {why}", path.display()))
}

async fn exchange<Io>(stream: Io, request: Request<Full<Bytes>>) -> Result<Bytes, Failure>
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken =
        |error: hyper::Error| Failure(format!("the server closed the connection: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    // It ends with its sender; its errors are the sender's too.
    let driver = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES)
        .collect()
        .await
        .map_err(|error| Failure(format!("the answer was cut off: {error}")))?
        .to_bytes();
    driver.abort();
    match status.is_success() {
        true => Ok(body),
        false => Err(refused(status, &body)),
    }
}

fn refused(status: StatusCode, body: &[u8]) -> Failure {
    match serde_json::from_slice::<ErrorAnswer>(body) {
        Ok(error) => Failure(format!("{} ({})", error.message, error.code)),
        Err(_) => Failure(format!("the server answered {status}")),
    }
}

fn encode(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|error| Failure(error.to_string()))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        Failure(format!(
            "the answer is not what this release expects: {error}"
        ))
    })
}
