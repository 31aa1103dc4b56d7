//! Answers to requests that take long. The answer begins, and white space is sent until the rest is
//! ready, so that neither the client nor a proxy takes the connection for dead. A later failure is
//! reported in the document, behind a status of 200.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::body::{Body, BoxError};
use super::error::{S3Error, S3Result};
use super::respond::{self, Answer};
use super::xml::{DECLARATION, Writer};

/// The longest silence before white space is sent.
const PATIENCE: Duration = Duration::from_secs(10);

type Work = Pin<Box<dyn Future<Output = S3Result<Writer>> + Send>>;

/// The unfinished work of an answer that has begun; an extension of the answer.
#[derive(Clone)]
pub struct Unfinished(Arc<Mutex<Option<Work>>>);

/// Returns the document that `work` gives; or, if it takes long, an answer that has begun.
///
/// # Errors
/// Those of the work, if it fails soon.
pub async fn answer(
    work: impl Future<Output = S3Result<Writer>> + Send + 'static,
) -> S3Result<Answer> {
    let mut work: Work = Box::pin(work);
    if let Ok(document) = timeout(PATIENCE, &mut work).await {
        return Ok(respond::xml(document?));
    }
    let mut answer = respond::xml_bytes(StatusCode::OK, Vec::new());
    let unfinished = Unfinished(Arc::new(Mutex::new(Some(work))));
    answer.extensions_mut().insert(unfinished);
    Ok(answer)
}

/// Gives an unfinished answer the body that ends it. `failure` makes the document of an error.
pub fn finish(answer: Answer, failure: impl Fn(S3Error) -> Vec<u8> + Send + 'static) -> Answer {
    let (mut parts, body) = answer.into_parts();
    let unfinished = parts.extensions.remove::<Unfinished>();
    let work = unfinished.and_then(|Unfinished(work)| {
        let mut work = work.lock();
        work.take()
    });
    let body = match work {
        None => body,
        Some(work) => waiting(work, failure),
    };
    Answer::from_parts(parts, body)
}

fn waiting(work: Work, failure: impl Fn(S3Error) -> Vec<u8> + Send + 'static) -> Body {
    let first = DECLARATION.as_bytes().into();
    let pieces = stream::unfold((Some(work), Some(first), failure), |state| async {
        let (work, first, failure) = state;
        if let Some(first) = first {
            return Some((piece(first), (work, None, failure)));
        }
        let mut work = work?;
        match timeout(PATIENCE, &mut work).await {
            Err(_) => Some((piece(Bytes::from_static(b" ")), (Some(work), None, failure))),
            Ok(done) => {
                let document = done.map_or_else(&failure, Writer::finish);
                let skipped = DECLARATION.len().min(document.len());
                let rest = Bytes::from(document).slice(skipped..);
                Some((piece(rest), (None, None, failure)))
            }
        }
    });
    StreamBody::new(pieces).boxed_unsync()
}

fn piece(bytes: Bytes) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(bytes))
}

#[cfg(test)]
mod tests;
