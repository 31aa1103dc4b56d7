//! Any S3 request: signed, timed, and with its answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::Method;
use tokio::time::Instant;

use crate::Outcome;
use crate::body::Fresh;
use crate::endpoint::Endpoint;
use crate::http::{AnyBody, Client};

#[cfg(test)]
mod tests;

const SIGNED_FOR_S: u64 = 3600;
/// The limit of the text that is kept of an answer.
const KEPT_BYTES: usize = 8 << 20;

/// A request.
pub struct Ask<'a> {
    /// The method.
    pub method: Method,
    /// The target of the request.
    pub what: What<'a>,
    /// The query, sorted.
    pub query: &'a [(&'a str, &'a str)],
    /// Headers, all of which are signed: names in lower case, sorted.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: AnyBody,
    /// The point up to which the answer's body is read.
    pub until: Until,
}

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// All buckets.
    Service,
    /// The bucket.
    Bucket,
    /// An object in it.
    Object(&'a str),
}

/// The point up to which an answer's body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Its end.
    End,
    /// Its first byte. Then the connection is closed and opened again.
    FirstByte,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its ETag, with the quotes.
    pub etag: Option<String>,
    /// The beginning of its body.
    pub text: String,
    /// The number of bytes of its body that were read.
    pub bytes: u64,
    /// The time from sending to the first byte of the body, or to the end of an empty one.
    pub first: Duration,
    /// The time from sending to the end of the body.
    pub total: Duration,
}

/// Returns a body with this text.
pub fn text_body(text: String) -> AnyBody {
    Full::from(text).boxed_unsync()
}

/// Returns an empty body.
pub fn empty() -> AnyBody {
    Full::from(Bytes::new()).boxed_unsync()
}

impl<'a> Ask<'a> {
    /// Creates a request without query, headers and body.
    pub fn new(method: Method, what: What<'a>) -> Self {
        Self {
            method,
            what,
            query: &[],
            headers: &[],
            body: empty(),
            until: Until::End,
        }
    }

    /// Creates a request that stores an object.
    pub fn put(key: &'a str, body: Fresh) -> Self {
        Self {
            body: body.boxed_unsync(),
            ..Self::new(Method::PUT, What::Object(key))
        }
    }
}

impl Answer {
    /// Returns the answer if its status is good.
    pub fn good(self) -> Outcome<Self> {
        match self.status {
            200..=299 => Ok(self),
            status => Err(format!("answered {status}: {}", self.text).into()),
        }
    }

    /// Returns the text between the first pair of tags with this name.
    pub fn tag(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    }
}

/// Sends a request and reads its answer.
pub async fn ask(client: &mut Client, ask: Ask<'_>) -> Outcome<Answer> {
    let url = signed(client.endpoint(), &ask)?;
    let began = Instant::now();
    let answer = client
        .exchange(ask.method, &url, ask.headers, ask.body)
        .await?;
    let header = |name: &str| Some(answer.headers().get(name)?.to_str().ok()?.to_owned());
    let (status, etag) = (answer.status().as_u16(), header("etag"));
    let (mut first, mut bytes, mut text) = (None, 0, BytesMut::new());
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(data) = frame.data_ref().filter(|data| !data.is_empty()) else {
            continue;
        };
        first.get_or_insert_with(|| began.elapsed());
        bytes += data.len() as u64;
        if text.len() < KEPT_BYTES && is_text(data, text.len()) {
            text.extend_from_slice(data);
        }
        if ask.until == Until::FirstByte {
            break;
        }
    }
    let total = began.elapsed();
    if ask.until == Until::FirstByte {
        drop(body);
        client.reopen().await?;
    }
    Ok(Answer {
        status,
        etag,
        text: String::from_utf8_lossy(&text).into_owned(),
        bytes,
        first: first.unwrap_or(total),
        total,
    })
}

/// Returns true for XML, which is kept, and false for the content of objects.
fn is_text(data: &Bytes, kept: usize) -> bool {
    kept > 0 || data.first() == Some(&b'<')
}

fn signed(endpoint: &Endpoint, ask: &Ask<'_>) -> Outcome<String> {
    let bucket = &endpoint.bucket;
    let mut url = bucket.base_url().clone();
    match ask.what {
        What::Service => url.set_path("/"),
        What::Bucket => {}
        What::Object(key) => url = bucket.object_url(key),
    }
    let method = match ask.method {
        Method::GET => rusty_s3::Method::Get,
        Method::HEAD => rusty_s3::Method::Head,
        Method::PUT => rusty_s3::Method::Put,
        Method::POST => rusty_s3::Method::Post,
        Method::DELETE => rusty_s3::Method::Delete,
        _ => return Err("a method that S3 does not have".into()),
    };
    let url = rusty_s3::signing::sign(
        &jiff::Timestamp::now(),
        method,
        url,
        endpoint.credentials.key(),
        endpoint.credentials.secret(),
        None,
        bucket.region(),
        SIGNED_FOR_S,
        ask.query.iter().copied(),
        ask.headers.iter().copied(),
    );
    Ok(url.into())
}
