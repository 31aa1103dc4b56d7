//! Signs requests to the K2V API, for the command line and for tests.

use http::HeaderMap;
use http::{HeaderName, HeaderValue, Method, header};
use ring::{digest, hmac};

use crate::s3::sigv4::{Timestamp, signing_key};
use crate::s3::uri::{Query, encode, encode_path};

/// A key and the region that it signs for.
#[derive(Clone)]
pub struct Signer {
    /// The access key's id.
    pub access_key: String,
    /// The secret.
    pub secret_key: String,
    /// The region.
    pub region: String,
}

/// A request that is to be signed.
pub struct Unsigned<'a> {
    /// The method.
    pub method: &'a Method,
    /// The host and port.
    pub host: &'a str,
    /// The bucket.
    pub bucket: &'a str,
    /// The partition key.
    pub pk: Option<&'a str>,
    /// The parameters of the query.
    pub query: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: &'a [u8],
}

impl Unsigned<'_> {
    fn path(&self) -> String {
        let bucket = encode_path(self.bucket);
        match self.pk {
            Some(pk) => format!("/{bucket}/{}", encode_path(pk)),
            None => format!("/{bucket}"),
        }
    }

    /// Returns the encoded query, sorted as the signature has it.
    fn query(&self) -> String {
        let pairs = self.query.iter();
        let pairs = pairs.map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        let text = pairs.collect::<Vec<_>>().join("&");
        Query::parse(&text).map_or_else(|_| text.clone(), |query| query.canonical(None))
    }

    /// Returns path and query.
    pub fn target(&self) -> String {
        match self.query.is_empty() {
            true => self.path(),
            false => format!("{}?{}", self.path(), self.query()),
        }
    }
}

impl Signer {
    /// Returns the headers of a request that is sent at a time, in milliseconds since 1970. `None`
    /// for a time that has no date, and for a host that is none.
    pub fn sign(&self, request: &Unsigned<'_>, now_ms: u64) -> Option<HeaderMap> {
        let time = Timestamp::at(now_ms)?;
        let (stamp, date) = (&time.text, time.date());
        let hash = |bytes: &[u8]| hex::encode(digest::digest(&digest::SHA256, bytes));
        let (host, body) = (request.host, hash(request.body));
        let names = "host;x-amz-content-sha256;x-amz-date";
        // All services but S3 encode the path twice for the signature.
        let path = encode_path(&request.path());
        let canonical = format!(
            "{}\n{path}\n{}\nhost:{host}\nx-amz-content-sha256:{body}\nx-amz-date:{stamp}\n\n{names}\n{body}",
            request.method,
            request.query(),
        );
        let scope = format!("{date}/{}/k2v/aws4_request", self.region);
        let canonical = hash(canonical.as_bytes());
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{canonical}");
        let key = signing_key(&self.secret_key, date, &self.region, "k2v");
        let signature = hex::encode(hmac::sign(&key, text.as_bytes()));
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
            self.access_key
        );
        let headers = [
            (header::HOST, host),
            (HeaderName::from_static("x-amz-date"), stamp.as_str()),
            (HeaderName::from_static("x-amz-content-sha256"), &*body),
            (header::AUTHORIZATION, &*authorization),
        ];
        let headers = headers.into_iter();
        headers
            .map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?)))
            .collect()
    }
}
