//! The style, the scripts and the icon of all pages: files of the console's own.

use std::sync::LazyLock;

use axum::body::Body;
use http::{HeaderValue, Response, header};
use ring::digest::{SHA256, digest};

const STYLE: &str = include_str!("../assets/console.css");
const ICON: &str = include_str!("../assets/icon.svg");
const SCRIPT: &str = include_str!("../assets/console.js");
const UPLOAD_SCRIPT: &str = include_str!("../assets/upload.js");

/// The folder of the files: another one as soon as a file is another one. A page and its scripts belong together, and
/// another release may be behind the same address a moment later.
static FOLDER: LazyLock<String> = LazyLock::new(|| {
    let all = [STYLE, ICON, SCRIPT, UPLOAD_SCRIPT].concat();
    let sum = digest(&SHA256, all.as_bytes());
    format!("/assets/{}", hex::encode(sum))
});

/// Returns the path of a file.
pub fn at(name: &str) -> String {
    format!("{}/{name}", *FOLDER)
}

pub async fn style() -> Response<Body> {
    asset("text/css; charset=utf-8", STYLE)
}

pub async fn script() -> Response<Body> {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

pub async fn upload_script() -> Response<Body> {
    asset("text/javascript; charset=utf-8", UPLOAD_SCRIPT)
}

pub async fn icon() -> Response<Body> {
    asset("image/svg+xml", ICON)
}

fn asset(kind: &'static str, text: &'static str) -> Response<Body> {
    let mut answer = Response::new(Body::from(text));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Another content would have another path.
    let cache = HeaderValue::from_static("private, max-age=86400");
    headers.insert(header::CACHE_CONTROL, cache);
    answer
}
