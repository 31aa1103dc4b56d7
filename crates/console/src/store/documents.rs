//! Documents of S3 about objects, as text.

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method};
use ring::digest::{SHA256, digest};

use super::Store;
use crate::fault::Fault;

impl Store<'_> {
    /// Replaces a document about an object. It comes with its checksum, which some documents need.
    pub async fn put_document(
        &self,
        key: &str,
        query: &[(&str, &str)],
        mut headers: HeaderMap,
        text: String,
    ) -> Result<(), Fault> {
        let sum = STANDARD.encode(digest(&SHA256, text.as_bytes()));
        let sum = HeaderValue::from_str(&sum).map_err(|error| Fault::internal(&error))?;
        headers.insert("x-amz-checksum-sha256", sum);
        let body = Body::from(text);
        let answer = self.ask(Method::PUT, key, query, headers, body);
        answer.await.map(drop)
    }
}
