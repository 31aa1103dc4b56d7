//! Uploads in parts.

use axum::body::Body;
use http::{HeaderMap, Method, Response};
use serde::{Deserialize, Serialize};

use super::{ErrorDocument, Store, document, parse};
use crate::fault::Fault;

/// A part that is stored.
#[derive(Clone, Deserialize, Serialize, PartialEq, Debug)]
pub struct Part {
    #[serde(rename(deserialize = "PartNumber"))]
    pub number: u32,
    #[serde(rename(deserialize = "Size"))]
    pub size: u64,
    #[serde(rename(deserialize = "ETag"))]
    pub etag: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts {
    #[serde(rename = "Part")]
    parts: Vec<Part>,
    #[serde(rename = "IsTruncated")]
    is_truncated: bool,
    #[serde(rename = "NextPartNumberMarker")]
    next: u32,
}

#[derive(Deserialize)]
struct Begun {
    #[serde(rename = "UploadId")]
    id: String,
}

impl Store<'_> {
    /// Begins an upload in parts, and returns its id. `headers` are those of the object.
    pub async fn begin_upload(&self, key: &str, headers: HeaderMap) -> Result<String, Fault> {
        let answer = self.ask(
            Method::POST,
            key,
            &[("uploads", "")],
            headers,
            Body::empty(),
        );
        let begun: Begun = parse(&document(answer.await?).await?)?;
        Ok(begun.id)
    }

    /// Stores a part.
    pub async fn put_part(
        &self,
        key: &str,
        id: &str,
        number: u32,
        headers: HeaderMap,
        body: Body,
    ) -> Result<Response<Body>, Fault> {
        let number = number.to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", id)];
        self.ask(Method::PUT, key, &query, headers, body).await
    }

    /// Returns all parts that are stored.
    pub async fn parts(&self, key: &str, id: &str) -> Result<Vec<Part>, Fault> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let marker = after.to_string();
            let query = [("uploadId", id), ("part-number-marker", &marker)];
            let answer = self.ask(Method::GET, key, &query, HeaderMap::new(), Body::empty());
            let page: Parts = parse(&document(answer.await?).await?)?;
            all.extend(page.parts);
            if !page.is_truncated || page.next <= after {
                return Ok(all);
            }
            after = page.next;
        }
    }

    /// Makes an object of the parts that are stored, if they hold as many bytes as they should.
    pub async fn complete_upload(&self, key: &str, id: &str, bytes: u64) -> Result<(), Fault> {
        let parts = self.parts(key, id).await?;
        let stored: u64 = parts.iter().map(|part| part.size).sum();
        if stored != bytes {
            let why = format!("{stored} of {bytes} bytes are stored: send the others first");
            return Err(Fault::invalid(why));
        }
        let lines = parts.iter().map(|part| {
            let etag = part.etag.trim_matches('"');
            let number = part.number;
            format!("<Part><PartNumber>{number}</PartNumber><ETag>\"{etag}\"</ETag></Part>")
        });
        let text = lines.collect::<String>();
        let text = format!("<CompleteMultipartUpload>{text}</CompleteMultipartUpload>");
        let query = [("uploadId", id)];
        let answer = self.ask(Method::POST, key, &query, HeaderMap::new(), text.into());
        self.finish_copy(answer.await?).await
    }

    /// Removes an upload and its parts.
    pub async fn abort_upload(&self, key: &str, id: &str) -> Result<(), Fault> {
        let query = [("uploadId", id)];
        let answer = self.ask(Method::DELETE, key, &query, HeaderMap::new(), Body::empty());
        answer.await?;
        Ok(())
    }

    /// Reads the answer to a copy or a completion to its end: it may fail after its status was sent.
    pub(super) async fn finish_copy(&self, answer: Response<Body>) -> Result<(), Fault> {
        let status = answer.status();
        let error: ErrorDocument = parse(&document(answer).await?)?;
        match error.code.is_empty() {
            true => Ok(()),
            false => Err(Fault {
                status: match status.is_success() {
                    true => http::StatusCode::BAD_GATEWAY,
                    false => status,
                },
                code: error.code,
                detail: error.message,
            }),
        }
    }
}
