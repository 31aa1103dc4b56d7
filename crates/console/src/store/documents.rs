//! Documents of S3 about buckets and objects, as text.

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use ring::digest::{SHA256, digest};

use super::{Store, document};
use crate::fault::Fault;

impl Store<'_> {
    /// Returns a document about the bucket, such as `cors`; none if there is none.
    pub async fn document(&self, name: &str) -> Result<Option<String>, Fault> {
        let query = [(name, "")];
        let answer = self.ask(Method::GET, "", &query, HeaderMap::new(), Body::empty());
        match answer.await {
            Ok(answer) => {
                let text = String::from_utf8(document(answer).await?);
                text.map(Some).map_err(|error| Fault::internal(&error))
            }
            Err(fault) if fault.status == StatusCode::NOT_FOUND && fault.code != "NoSuchBucket" => {
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Replaces a document. It comes with its checksum, which some documents need.
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
        let answer = self.ask(Method::PUT, key, query, headers, Body::from(text));
        answer.await?;
        Ok(())
    }

    /// Deletes a document about the bucket.
    pub async fn delete_document(&self, name: &str) -> Result<(), Fault> {
        let query = [(name, "")];
        let answer = self.ask(Method::DELETE, "", &query, HeaderMap::new(), Body::empty());
        answer.await?;
        Ok(())
    }
}
