//! Error pages, as AWS's website endpoint has them.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::s3::body;
use crate::s3::error::S3Error;
use crate::s3::respond::{self, Answer};

/// Makes the page of an error. `nested` is the error that kept the website's own error document
/// from being shown.
pub fn page(
    method: &Method,
    error: &S3Error,
    nested: Option<&S3Error>,
    request_id: &str,
) -> Answer {
    let code = error.code();
    let mut answer = respond::empty(code.status());
    let headers = answer.headers_mut();
    set(headers, "x-amz-error-code", code.as_str());
    set(headers, "x-amz-error-message", error.message());
    if let Some((_, key)) = error.details().iter().find(|(name, _)| *name == "Key") {
        set(headers, "x-amz-error-detail-key", key);
    }
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    let title = escaped(&code.status().to_string());
    let mut page = format!(
        "<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n{}",
        list(error, Some(request_id))
    );
    if let Some(nested) = nested {
        page.push_str(
            "<h3>An Error Occurred While Attempting to Retrieve a Custom Error Document</h3>\n",
        );
        page.push_str(&list(nested, None));
    }
    page.push_str("<hr/>\n</body>\n</html>\n");
    if *method != Method::HEAD {
        *answer.body_mut() = body::full(page);
    }
    answer
}

fn list(error: &S3Error, request_id: Option<&str>) -> String {
    let mut items = vec![
        ("Code", error.code().as_str().to_owned()),
        ("Message", error.message().to_owned()),
    ];
    items.extend(error.details().iter().cloned());
    items.extend(request_id.map(|id| ("RequestId", id.to_owned())));
    let mut list = String::from("<ul>\n");
    for (name, value) in items {
        list.push_str(&format!("<li>{name}: {}</li>\n", escaped(&value)));
    }
    list.push_str("</ul>\n");
    list
}

/// Names and messages may hold what clients sent.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
