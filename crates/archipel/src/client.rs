//! A client of the admin API: over the local socket, or TCP with a token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use archipel_api::admin::types::{DeletionPlan, Page, Problem};
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::socket;

/// The limit of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The time limit for the server's answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The code of an error that no server told.
const FAILED: &str = "CommandFailed";

/// The code of the error that no server answers.
const NO_SERVER: &str = "NoServer";

/// The code of the error that the server did not answer in time.
const NO_ANSWER: &str = "NoAnswer";

/// The code of the error that a person ended the wait for something.
const INTERRUPTED: &str = "Interrupted";

/// The exit status of it, as shells tell it for Ctrl-C.
const INTERRUPTED_STATUS: u8 = 130;

/// An error: a text for the person at the terminal, a document for programs.
#[derive(Debug)]
pub enum Failure {
    /// The command itself failed.
    Own {
        /// A stable name, as those of the API.
        code: &'static str,
        /// The fault, and what to do.
        detail: String,
    },
    /// The server refused the request.
    Refused(Box<Problem>),
}

impl Failure {
    /// Creates an error of the command itself.
    pub fn new(detail: String) -> Failure {
        let code = FAILED;
        Failure::Own { code, detail }
    }

    /// Creates the error that a server told in another shape than a problem document.
    pub fn refused(status: StatusCode, code: String, detail: String) -> Failure {
        Failure::Refused(Box::new(Problem {
            kind: format!("urn:archipel:problem:{code}"),
            title: status.canonical_reason().unwrap_or("Refused").to_owned(),
            status: status.as_u16(),
            detail,
            code,
        }))
    }

    /// Creates the error that no server answers.
    pub fn no_server(detail: String) -> Failure {
        let code = NO_SERVER;
        Failure::Own { code, detail }
    }

    /// Creates the error that the server did not answer in time. It may go on with the request.
    pub fn no_answer() -> Failure {
        let seconds = TIMEOUT.as_secs();
        Failure::Own {
            code: NO_ANSWER,
            detail: format!("the server did not answer within {seconds} s"),
        }
    }

    /// Returns true if the server did not answer in time.
    pub fn is_no_answer(&self) -> bool {
        matches!(self, Failure::Own { code, .. } if *code == NO_ANSWER)
    }

    /// Creates the error that a person ended a wait. `goes_on` says what a server goes on with.
    pub fn interrupted(goes_on: &str) -> Failure {
        Failure::Own {
            code: INTERRUPTED,
            detail: format!("the wait was ended; {goes_on}"),
        }
    }

    /// Returns true if a person ended a wait.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Failure::Own { code, .. } if *code == INTERRUPTED)
    }

    /// Returns the exit status of a command that ends with it.
    pub fn exit(&self) -> ExitCode {
        match self.is_interrupted() {
            true => ExitCode::from(INTERRUPTED_STATUS),
            false => ExitCode::FAILURE,
        }
    }

    /// Creates the error of a command line that is not understood.
    pub fn usage(detail: String) -> Failure {
        let code = "WrongCommandLine";
        Failure::Own { code, detail }
    }

    /// Returns the error as programs read it: the problem document of the API, or as much of one as
    /// a command has that no server refused.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Failure::Own { code, detail } => serde_json::json!({
                "type": format!("urn:archipel:problem:{code}"),
                "detail": detail,
                "code": code,
            }),
            Failure::Refused(problem) => serde_json::json!(problem),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Own { detail, .. } => f.write_str(detail),
            Failure::Refused(problem) => write!(f, "{} ({})", problem.detail, problem.code),
        }
    }
}

/// A client of a server's admin API.
pub struct Client {
    address: Address,
}

enum Address {
    Socket(PathBuf),
    Tcp { authority: String, token: String },
}

/// Returns the path of `parts`, which may hold any character.
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

/// Returns `route` with a query of the parameters that have a value.
pub fn query(route: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| {
        // `path` encodes what a query cannot hold, too.
        let value = path(&[(*value)?]);
        Some(format!("{name}={}", value.trim_start_matches('/')))
    });
    let given: Vec<String> = given.collect();
    match given.is_empty() {
        true => route.to_owned(),
        false => format!("{route}?{}", given.join("&")),
    }
}

impl Client {
    /// Creates a client over a local socket.
    pub fn socket(path: PathBuf) -> Client {
        Client {
            address: Address::Socket(path),
        }
    }

    /// Creates a client over TCP. Only `http` URLs are supported: TLS ends at a proxy, which needs
    /// a tunnel.
    pub fn tcp(url: &str, token: &str) -> Result<Client, Failure> {
        let invalid = || {
            Failure::new(format!(
                "--admin {url:?}: not an address; fix: write for example http://127.0.0.1:3903"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        if uri.scheme_str() != Some("http") || authority.port_u16().is_none() {
            return Err(invalid());
        }
        Ok(Client {
            address: Address::Tcp {
                authority: authority.to_string(),
                token: token.to_owned(),
            },
        })
    }

    /// Sends `GET path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        decode(&self.send(Method::GET, path, Vec::new()).await?)
    }

    /// Sends `GET path` and returns the answer as text.
    pub async fn text(&self, path: &str) -> Result<String, Failure> {
        let answer = self.send(Method::GET, path, Vec::new()).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Gets all pages of the list at `path`, whose query may hold filters.
    pub async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Failure> {
        let mut page: Page<T> = self.get(path).await?;
        let mut all = page.items;
        while let Some(next) = page.next {
            let after = query("", &[("after", Some(next.as_str()))]);
            let after = match path.contains('?') {
                true => after.replacen('?', "&", 1),
                false => after,
            };
            page = self.get(&format!("{path}{after}")).await?;
            all.append(&mut page.items);
        }
        Ok(all)
    }

    /// Sends `POST path`.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        decode(&self.send(Method::POST, path, encode(body)?).await?)
    }

    /// Sends `PUT path`.
    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        decode(&self.send(Method::PUT, path, encode(body)?).await?)
    }

    /// Sends `PUT path` without a body, and expects none.
    pub async fn put_nothing(&self, path: &str) -> Result<(), Failure> {
        self.send(Method::PUT, path, Vec::new()).await.map(|_| ())
    }

    /// Sends `PATCH path`.
    pub async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        decode(&self.send(Method::PATCH, path, encode(body)?).await?)
    }

    /// Sends `DELETE path`.
    pub async fn delete(&self, path: &str) -> Result<(), Failure> {
        self.send(Method::DELETE, path, Vec::new())
            .await
            .map(|_| ())
    }

    /// Asks what `DELETE path` would do.
    pub async fn would_delete(&self, path: &str) -> Result<DeletionPlan, Failure> {
        let path = query(path, &[("dry_run", Some("true"))]);
        decode(&self.send(Method::DELETE, &path, Vec::new()).await?)
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes, Failure> {
        let request = self.request(method, path, body)?;
        let answer = async {
            match &self.address {
                Address::Socket(path) => {
                    let stream = socket::connect(path)
                        .await
                        .map_err(|e| no_server(path, &e))?;
                    exchange(stream, request).await
                }
                Address::Tcp { authority, .. } => {
                    let stream = TcpStream::connect(authority).await.map_err(|e| {
                        Failure::no_server(format!("no server at {authority}: {e}"))
                    })?;
                    exchange(stream, request).await
                }
            }
        };
        tokio::time::timeout(TIMEOUT, answer)
            .await
            .map_err(|_| Failure::no_answer())?
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
        let request = match &self.address {
            Address::Socket(_) => request.header(header::HOST, "localhost"),
            Address::Tcp { authority, token } => request
                .header(header::HOST, authority)
                .header(header::AUTHORIZATION, format!("Bearer {token}")),
        };
        request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failure::new(format!("the request cannot be made: {error}")))
    }
}

fn no_server(path: &Path, error: &std::io::Error) -> Failure {
    let why = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "permission denied; fix: run the command as the server's user".to_owned()
        }
        _ => format!("{error}; is the server running?"),
    };
    Failure::no_server(format!("no server at {}: {why}", path.display()))
}

async fn exchange<Io>(stream: Io, request: Request<Full<Bytes>>) -> Result<Bytes, Failure>
where
    Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken =
        |error: hyper::Error| Failure::new(format!("the server closed the connection: {error}"));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    // The task ends with its sender, which also receives its errors.
    let driver = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES)
        .collect()
        .await
        .map_err(|error| Failure::new(format!("the answer was cut off: {error}")))?
        .to_bytes();
    driver.abort();
    if status.is_success() {
        Ok(body)
    } else {
        Err(refused(status, &body))
    }
}

fn refused(status: StatusCode, body: &[u8]) -> Failure {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => Failure::Refused(Box::new(problem)),
        Err(_) => Failure::new(format!("the server answered {status}")),
    }
}

fn encode(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|error| Failure::new(error.to_string()))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        Failure::new(format!(
            "this release does not understand the answer: {error}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_holds_what_is_given_and_encodes_it() {
        let of = |prefix, group| query("/v1/users", &[("prefix", prefix), ("group", group)]);
        assert_eq!(of(None, None), "/v1/users");
        assert_eq!(of(Some("a&b"), None), "/v1/users?prefix=a%26b");
        assert_eq!(of(Some("a/b"), Some("c")), "/v1/users?prefix=a%2Fb&group=c");
        assert_eq!(of(Some(""), None), "/v1/users?prefix=");
    }
}
