//! Requests to S3 inside the process, signed with an access key whose secret the login may read.
//!
//! | module | what it holds |
//! |---|---|
//! | [`versions`] | versions of objects: lists, copies of old ones, protection |
//! | [`multipart`] | uploads in parts |
//! | [`documents`] | documents about objects, as text |

use archipel_api::admin::types::{BucketInfo, Grant, KeyWithSecret};
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Body as _;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::presign::{Presigner, Target};
use crate::request::User;

pub mod documents;
pub mod multipart;
pub mod versions;

/// The largest document that is read.
const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// Requests inside the process begin at once, so their signatures count only for a short time.
const VALID_SECONDS: u64 = 300;

/// S3 for one user, with one access key.
pub struct Store<'a> {
    app: &'a App,
    user: &'a User,
    key: KeyWithSecret,
    bucket: String,
}

/// A page of a listing.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Listing {
    #[serde(rename = "Contents")]
    pub objects: Vec<Item>,
    #[serde(rename = "CommonPrefixes")]
    pub folders: Vec<Folder>,
    #[serde(rename = "NextContinuationToken")]
    pub next: Option<String>,
}

/// An object in a listing.
#[derive(Deserialize)]
pub struct Item {
    #[serde(rename = "Key")]
    pub key: String,
    #[serde(rename = "Size")]
    pub size: u64,
    #[serde(rename = "LastModified")]
    pub modified: String,
}

/// A common beginning of names.
#[derive(Deserialize)]
pub struct Folder {
    #[serde(rename = "Prefix")]
    pub prefix: String,
}

/// An error of S3.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorDocument {
    #[serde(rename = "Code")]
    code: String,
    #[serde(rename = "Message")]
    message: String,
}

/// Returns the access key that the console uses for a bucket if none is chosen: the one that may do
/// most.
pub fn best_key(bucket: &BucketInfo) -> Option<&Grant> {
    let rank = |grant: &&Grant| (grant.read, grant.write, grant.owner);
    let of_use = bucket.grants.iter().filter(|g| g.read || g.write);
    of_use.max_by_key(rank)
}

impl User {
    /// Opens a bucket with an access key.
    ///
    /// # Errors
    /// The token may not read the secret, or there is no such key.
    pub async fn store<'a>(
        &'a self,
        app: &'a App,
        bucket: &str,
        key: &str,
    ) -> Result<Store<'a>, Fault> {
        let secret = path(&["v1", "keys", key, "secret"]);
        Ok(Store {
            app,
            user: self,
            key: self.admin(app).get(&secret).await?,
            bucket: bucket.to_owned(),
        })
    }
}

impl Store<'_> {
    /// Lists one page of a folder.
    pub async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Listing, Fault> {
        let limit = limit.to_string();
        let mut query = vec![
            ("list-type", "2"),
            ("delimiter", "/"),
            ("encoding-type", "url"),
            ("max-keys", &limit),
            ("prefix", prefix),
        ];
        if !after.is_empty() {
            query.push(("continuation-token", after));
        }
        let answer = self.ask_bucket(Method::GET, &query, HeaderMap::new(), Body::empty());
        let mut listing: Listing = parse(&document(answer.await?).await?)?;
        for item in &mut listing.objects {
            item.key = decode(&item.key);
        }
        for folder in &mut listing.folders {
            folder.prefix = decode(&folder.prefix);
        }
        Ok(listing)
    }

    /// Gets an object, or the version of it if one is named. `headers` are those of the browser about
    /// ranges.
    pub async fn get(
        &self,
        key: &str,
        version: &str,
        headers: HeaderMap,
    ) -> Result<Response<Body>, Fault> {
        let query = versions::query(version);
        self.ask(Method::GET, key, &query, headers, Body::empty())
            .await
    }

    /// Stores an object.
    pub async fn put(&self, key: &str, headers: HeaderMap, body: Body) -> Result<(), Fault> {
        self.ask(Method::PUT, key, &[], headers, body).await?;
        Ok(())
    }

    /// Deletes an object.
    pub async fn delete(&self, key: &str) -> Result<(), Fault> {
        let answer = self.ask(Method::DELETE, key, &[], HeaderMap::new(), Body::empty());
        answer.await?;
        Ok(())
    }

    /// Returns a link that gets an object, for so many seconds, without a login.
    ///
    /// # Errors
    /// The key is empty.
    pub fn link(&self, key: &str, seconds: u64) -> Result<String, Fault> {
        let key = Some(not_empty(key)?);
        let query = self.presign(&Method::GET, key, &[], &[], seconds);
        Ok(format!("{}{query}", self.app.config.s3_url))
    }

    /// Returns path and query of a signed request.
    fn presign(
        &self,
        method: &Method,
        key: Option<&str>,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        seconds: u64,
    ) -> String {
        let signer = Presigner {
            access_key: &self.key.key.id,
            secret: &self.key.secret,
            region: &self.app.config.region,
            now_ms: self.app.clock.now_millis(),
        };
        let target = Target {
            method,
            host: self.host(),
            bucket: &self.bucket,
            key,
            query,
            headers,
        };
        signer.sign(&target, seconds)
    }

    fn host(&self) -> &str {
        let url = &self.app.config.s3_url;
        url.split_once("://").map_or(url, |(_, host)| host)
    }

    /// Sends a request about an object.
    async fn ask(
        &self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        headers: HeaderMap,
        body: Body,
    ) -> Result<Response<Body>, Fault> {
        let key = Some(not_empty(key)?);
        self.send(method, key, query, headers, body).await
    }

    /// Sends a request about the bucket itself.
    async fn ask_bucket(
        &self,
        method: Method,
        query: &[(&str, &str)],
        headers: HeaderMap,
        body: Body,
    ) -> Result<Response<Body>, Fault> {
        self.send(method, None, query, headers, body).await
    }

    async fn send(
        &self,
        method: Method,
        key: Option<&str>,
        query: &[(&str, &str)],
        headers: HeaderMap,
        body: Body,
    ) -> Result<Response<Body>, Fault> {
        let signed = to_sign(&headers);
        let uri = self.presign(&method, key, query, &signed, VALID_SECONDS);
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::HOST, self.host())
            .body(body)
            .map_err(|error| Fault::internal(&error))?;
        let length = request.body().size_hint().exact();
        request.headers_mut().extend(headers);
        if let Some(length) = length.filter(|length| *length > 0) {
            let headers = request.headers_mut();
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        if let Some(peer) = self.user.peer {
            let peer = archipel_api::serve::Peer(peer);
            request.extensions_mut().insert(peer);
        }
        let answer = self.app.s3.handle(request).await.map(Body::new);
        let status = answer.status();
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(answer);
        }
        Err(refusal(status, &document(answer).await?))
    }
}

/// Returns the key of an object. S3 would take a request without one for a request about the bucket.
fn not_empty(key: &str) -> Result<&str, Fault> {
    match key.is_empty() {
        true => Err(Fault::no_object()),
        false => Ok(key),
    }
}

/// Returns the headers that have no effect unless they are signed.
fn to_sign(headers: &HeaderMap) -> Vec<(&str, &str)> {
    let of_amz = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let value = value.to_str().ok()?;
        name.starts_with("x-amz-").then_some((name, value.trim()))
    });
    let mut signed: Vec<_> = of_amz.collect();
    signed.sort_unstable();
    signed
}

/// Returns what a refusal says. The answer to a HEAD has no document.
fn refusal(status: StatusCode, document: &[u8]) -> Fault {
    let error: ErrorDocument = parse(document).unwrap_or_default();
    let mut fault = Fault {
        status,
        code: error.code,
        detail: error.message,
    };
    if fault.code.is_empty() {
        fault.code = status.canonical_reason().unwrap_or("Refused").into();
        fault.detail = format!("S3 answered {status}");
    }
    fault
}

async fn document(answer: Response<Body>) -> Result<Vec<u8>, Fault> {
    let bytes = axum::body::to_bytes(answer.into_body(), MAX_DOCUMENT_BYTES).await;
    bytes
        .map(|bytes| bytes.to_vec())
        .map_err(|error| Fault::internal(&error))
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    quick_xml::de::from_reader(bytes).map_err(|error| Fault::internal(&error))
}

/// Decodes a name of a listing.
fn decode(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}
