//! Uploads in parts.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use quick_xml::escape::escape;
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

/// A part as a completion names it.
#[derive(Deserialize)]
pub struct PartName {
    pub number: u32,
    pub etag: String,
}

impl From<Part> for PartName {
    fn from(part: Part) -> PartName {
        PartName {
            number: part.number,
            etag: part.etag,
        }
    }
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

/// Returns the tag of a part from the answer to it.
pub fn etag_of(answer: &Response<Body>) -> Result<String, Fault> {
    let etag = answer.headers().get(header::ETAG);
    let etag = etag.and_then(|etag| etag.to_str().ok());
    let missing = || Fault::internal(&"a part without a tag");
    etag.map(str::to_owned).ok_or_else(missing)
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

    /// Stores a part. A part that is no copy has its tag in the answer: see [`etag_of`].
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

    /// Makes an object of these parts, if they hold as many bytes as they should. It succeeds, too, if the object is
    /// made of them already: the answer to the first completion may have been lost.
    pub async fn complete_upload(
        &self,
        key: &str,
        id: &str,
        parts: &[PartName],
        bytes: u64,
    ) -> Result<(), Fault> {
        let lines = parts.iter().map(|part| {
            let (number, etag) = (part.number, escape(&part.etag));
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
        });
        let text = lines.collect::<String>();
        let text = format!("<CompleteMultipartUpload>{text}</CompleteMultipartUpload>");
        let query = [("uploadId", id)];
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-mp-object-size", HeaderValue::from(bytes));
        let answer = self.ask(Method::POST, key, &query, headers, text.into());
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
