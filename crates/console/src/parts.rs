//! Uploads of large files: the script sends them in parts, and repeats a part whose connection broke.
//! Stored parts stay, so that an upload goes on after a reload of the page.

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query, Request};
use axum::response::IntoResponse;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};

use crate::App;
use crate::fault::Fault;
use crate::objects::{only, store_of};
use crate::request::{FORM_TIMEOUT, User};
use crate::store::Store;
use crate::store::multipart::{Part, PartName, etag_of};

/// The smallest part that the script sends: what a broken connection costs.
const PART_BYTES: u64 = 16 << 20;

/// The most parts that an object has.
const MAX_PARTS: u64 = 10_000;

/// The largest part.
const MAX_PART_BYTES: u64 = 5 << 30;

/// The longest list of parts: 10,000 numbers and tags.
const MAX_LIST_BYTES: usize = 1 << 20;

/// The upload that a request is about.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Which {
    /// The object's key.
    o: String,
    /// The access key's id.
    k: String,
    /// The upload's id.
    u: String,
    /// The number of a part.
    n: u32,
    /// The bytes of the whole file.
    bytes: u64,
}

/// A request about an upload. Each change carries the secret of the session.
pub struct Ask {
    app: App,
    user: User,
    bucket: String,
    which: Which,
}

impl FromRequestParts<App> for Ask {
    type Rejection = Response<Body>;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Ask, Self::Rejection> {
        let user = User::from_request_parts(parts, app).await?;
        let bucket = Path::from_request_parts(parts, app).await;
        let Path(bucket) = bucket.map_err(IntoResponse::into_response)?;
        let which = Query::from_request_parts(parts, app).await;
        let Query(which) = which.map_err(IntoResponse::into_response)?;
        if !parts.method.is_safe() {
            let checked = user.check(&parts.headers);
            checked.map_err(|forged| Refused(forged).into_response())?;
        }
        Ok(Ask {
            app: app.clone(),
            user,
            bucket,
            which,
        })
    }
}

impl Ask {
    async fn store(&self) -> Result<Store<'_>, Fault> {
        let (_, store) = store_of(&self.app, &self.user, &self.bucket, &self.which.k).await?;
        Ok(store)
    }
}

/// The answer to a beginning.
#[derive(Serialize)]
struct Begun {
    id: String,
    /// The bytes of each part but the last one.
    part_bytes: u64,
}

#[derive(Serialize)]
struct Stored {
    parts: Vec<Part>,
}

/// The answer to a part.
#[derive(Serialize)]
struct Sent {
    /// Its tag, by which the completion names it.
    etag: String,
}

/// A refusal: the script shows the text beside the name of the file.
pub struct Refused(Fault);

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Refused {
        Refused(fault)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response<Body> {
        (self.0.status, self.0.detail).into_response()
    }
}

type Answer = Result<Response<Body>, Refused>;

fn json(answer: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(answer).map_err(|error| Fault::internal(&error))?;
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// Returns the size of the parts of a file.
fn part_bytes(bytes: u64) -> Option<u64> {
    const MIB: u64 = 1 << 20;
    let least = bytes.div_ceil(MAX_PARTS).div_ceil(MIB) * MIB;
    let part = least.max(PART_BYTES);
    (part <= MAX_PART_BYTES).then_some(part)
}

/// Begins an upload.
pub async fn begin(ask: Ask, headers: HeaderMap) -> Answer {
    let part_bytes = part_bytes(ask.which.bytes);
    let part_bytes = part_bytes.ok_or_else(|| Fault::invalid("the file is too large"))?;
    let store = ask.store().await?;
    let mut of_object = only(&headers, &[header::CONTENT_TYPE]);
    of_object
        .entry(header::CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("application/octet-stream"));
    let id = store.begin_upload(&ask.which.o, of_object).await?;
    json(&Begun { id, part_bytes })
}

/// Returns the parts that are stored.
pub async fn list(ask: Ask) -> Answer {
    let Which { o, u, .. } = &ask.which;
    let parts = ask.store().await?.parts(o, u).await?;
    json(&Stored { parts })
}

/// Stores a part.
pub async fn put(ask: Ask, request: Request) -> Answer {
    let Which { o, u, n, .. } = &ask.which;
    let store = ask.store().await?;
    let headers = only(request.headers(), &[header::CONTENT_LENGTH]);
    let stored = store.put_part(o, u, *n, headers, request.into_body());
    json(&Sent {
        etag: etag_of(&stored.await?)?,
    })
}

/// Makes the object of the parts that the body names.
pub async fn complete(ask: Ask, request: Request) -> Answer {
    let Which { o, u, bytes, .. } = &ask.which;
    let body = axum::body::to_bytes(request.into_body(), MAX_LIST_BYTES);
    let body = tokio::time::timeout(FORM_TIMEOUT, body).await;
    let body = body.map_err(|_| Fault::late())?;
    let body = body.map_err(|error| Fault::invalid(format!("the parts: {error}")))?;
    let parts: Vec<PartName> = serde_json::from_slice(&body)
        .map_err(|error| Fault::invalid(format!("the parts: {error}")))?;
    let store = ask.store().await?;
    store.complete_upload(o, u, &parts, *bytes).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Gives an upload up.
pub async fn abort(ask: Ask) -> Answer {
    let Which { o, u, .. } = &ask.which;
    ask.store().await?.abort_upload(o, u).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_small_as_the_number_of_parts_allows() {
        assert_eq!(part_bytes(1), Some(16 << 20));
        assert_eq!(part_bytes(5 << 30), Some(16 << 20));
        assert_eq!(part_bytes(1 << 40), Some(105 << 20));
        assert_eq!(part_bytes(50_000 << 30), Some(5 << 30));
        assert_eq!(part_bytes(u64::MAX), None);
    }
}
