//! Uploads of large files: the script sends them in parts, and repeats a part whose connection broke.
//! What is stored already stays, so that an upload goes on after a reload of the page.

use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::response::IntoResponse;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};

use crate::App;
use crate::fault::Fault;
use crate::objects::{only, store_of};
use crate::request::User;
use crate::store::multipart::Part;

/// The smallest part that the script sends: what a broken connection costs.
const PART_BYTES: u64 = 16 << 20;

/// The most parts that an object has.
const MAX_PARTS: u64 = 10_000;

/// The largest part.
const MAX_PART_BYTES: u64 = 5 << 30;

/// Which upload a request is about.
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
pub async fn begin(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Answer {
    user.check(&headers)?;
    let part_bytes = part_bytes(which.bytes);
    let part_bytes = part_bytes.ok_or_else(|| Fault::invalid("the file is too large"))?;
    let (_, store) = store_of(&app, &user, &name, &which.k).await?;
    let mut of_object = only(&headers, &[header::CONTENT_TYPE]);
    of_object
        .entry(header::CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("application/octet-stream"));
    let id = store.begin_upload(&which.o, of_object).await?;
    json(&Begun { id, part_bytes })
}

/// Returns the parts that are stored.
pub async fn list(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
) -> Answer {
    let (_, store) = store_of(&app, &user, &name, &which.k).await?;
    let parts = store.parts(&which.o, &which.u).await?;
    json(&Stored { parts })
}

/// Stores a part.
pub async fn put(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    request: Request,
) -> Answer {
    user.check(request.headers())?;
    let (_, store) = store_of(&app, &user, &name, &which.k).await?;
    let headers = only(request.headers(), &[header::CONTENT_LENGTH]);
    let body = request.into_body();
    store
        .put_part(&which.o, &which.u, which.n, headers, body)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Makes the object of its parts.
pub async fn complete(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Answer {
    user.check(&headers)?;
    let (_, store) = store_of(&app, &user, &name, &which.k).await?;
    store
        .complete_upload(&which.o, &which.u, which.bytes)
        .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Gives an upload up.
pub async fn abort(
    State(app): State<App>,
    user: User,
    Path(name): Path<String>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Answer {
    user.check(&headers)?;
    let (_, store) = store_of(&app, &user, &name, &which.k).await?;
    store.abort_upload(&which.o, &which.u).await?;
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
