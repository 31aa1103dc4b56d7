//! Templates and redirects as answers.

use askama::Template;
use axum::body::Body;
use axum::response::{IntoResponse, Redirect};
use http::{HeaderValue, Response, StatusCode, header};

/// Returns a page.
pub fn html(page: &impl Template) -> Response<Body> {
    match page.render() {
        Ok(text) => {
            let mut answer = Response::new(Body::from(text));
            let kind = HeaderValue::from_static("text/html; charset=utf-8");
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
            answer
        }
        // Templates only fail where a value cannot be shown, and all of ours can.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Sends the browser to a page after a change.
pub fn see(path: &str) -> Response<Body> {
    Redirect::to(path).into_response()
}
