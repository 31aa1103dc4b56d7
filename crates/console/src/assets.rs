//! The style, the scripts and the icon of all pages: files of the console's own.

use axum::body::Body;
use http::{HeaderValue, Response, header};

const STYLE: &str = include_str!("../assets/console.css");
const ICON: &str = include_str!("../assets/icon.svg");
const SCRIPT: &str = include_str!("../assets/console.js");
const UPLOAD_SCRIPT: &str = include_str!("../assets/upload.js");

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
    // Another release may be behind the same address a minute later.
    let cache = HeaderValue::from_static("private, max-age=60");
    headers.insert(header::CACHE_CONTROL, cache);
    answer
}
