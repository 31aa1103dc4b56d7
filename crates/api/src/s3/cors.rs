//! CORS: a bucket's rules as a document, and the rule that applies to a request.
//!
//! Source: AWS, "Using cross-origin resource sharing (CORS)"; the Fetch standard for preflights.

mod document;

use archipel_model::CorsRule;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::error::{Code, S3Error, S3Result};
use super::respond::{self, Answer};

pub use document::{MAX_ID_BYTES, MAX_RULES, document, parse};

/// The `Vary` header of every answer that CORS may change.
const VARY_VALUE: HeaderValue = HeaderValue::from_static(
    "Origin, Access-Control-Request-Headers, Access-Control-Request-Method",
);
/// The most headers that a preflight may ask for.
const MAX_ASKED_HEADERS: usize = 100;

/// Returns the headers that answer a preflight: those of the first rule that allows what is asked.
///
/// # Errors
/// `AccessForbidden` if no rule does; `BadRequest` for headers that are not text.
fn preflight(rules: &[CorsRule], headers: &HeaderMap) -> S3Result<HeaderMap> {
    let asked = Asked::of(headers)?;
    if rules.is_empty() {
        let why = "CORSResponse: CORS is not enabled for this bucket.";
        return Err(S3Error::new(Code::AccessForbidden, why));
    }
    let rule = rules.iter().find(|rule| asked.allowed_by(rule));
    let rule = rule.ok_or(Code::AccessForbidden)?;
    let mut answer = answer(rule, &asked.origin)?;
    if !asked.headers.is_empty() {
        let list = asked.headers.join(", ");
        insert(&mut answer, ACCESS_CONTROL_ALLOW_HEADERS, &list)?;
    }
    Ok(answer)
}

/// Answers a request with the method OPTIONS, which needs no authentication.
///
/// # Errors
/// [`Code::BadRequest`] if it is not a preflight, and as [`preflight`].
pub fn answer_preflight(rules: &[CorsRule], headers: &HeaderMap) -> S3Result<Answer> {
    let has = |name: HeaderName| headers.contains_key(name);
    let lacks = match (has(ORIGIN), has(ACCESS_CONTROL_REQUEST_METHOD)) {
        (true, true) => None,
        (true, false) => Some("Invalid Access-Control-Request-Method: null"),
        (false, _) => Some("Insufficient information. Origin request header needed."),
    };
    if let Some(why) = lacks {
        return Err(S3Error::new(Code::BadRequest, why));
    }
    let mut answer = respond::empty(StatusCode::OK);
    *answer.headers_mut() = preflight(rules, headers)?;
    Ok(answer)
}

/// Returns the headers to add to the answer of an actual request; none if it has no origin or no
/// rule applies.
pub fn simple(rules: &[CorsRule], method: &Method, headers: &HeaderMap) -> HeaderMap {
    let Some(origin) = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()) else {
        return HeaderMap::new();
    };
    let applies = |rule: &&CorsRule| allows(rule, origin, method.as_str());
    match rules.iter().find(applies) {
        // An origin that cannot be a header was not one that came in as a header.
        Some(rule) => answer(rule, origin).unwrap_or_default(),
        None => HeaderMap::new(),
    }
}

/// The method and headers that a preflight asks for.
struct Asked {
    origin: String,
    method: String,
    /// Lower-case.
    headers: Vec<String>,
}

impl Asked {
    fn of(headers: &HeaderMap) -> S3Result<Asked> {
        let text = |name: HeaderName| -> S3Result<String> {
            let value = headers.get(&name).map(|value| value.to_str());
            match value {
                None => Ok(String::new()),
                Some(Ok(text)) => Ok(text.trim().to_owned()),
                Some(Err(_)) => Err(S3Error::new(
                    Code::BadRequest,
                    format!("The header {name} is not text."),
                )),
            }
        };
        let list = text(ACCESS_CONTROL_REQUEST_HEADERS)?;
        let asked: Vec<String> = list
            .split(',')
            .map(|name| name.trim().to_ascii_lowercase())
            .filter(|name| !name.is_empty())
            .collect();
        if asked.len() > MAX_ASKED_HEADERS {
            let why = format!("A preflight asks for at most {MAX_ASKED_HEADERS} headers.");
            return Err(S3Error::new(Code::BadRequest, why));
        }
        Ok(Asked {
            origin: text(ORIGIN)?,
            method: text(ACCESS_CONTROL_REQUEST_METHOD)?,
            headers: asked,
        })
    }

    fn allowed_by(&self, rule: &CorsRule) -> bool {
        let header = |name: &String| {
            let patterns = rule.allowed_headers.iter();
            patterns
                .map(|pattern| pattern.to_ascii_lowercase())
                .any(|pattern| matches(&pattern, name))
        };
        allows(rule, &self.origin, &self.method) && self.headers.iter().all(header)
    }
}

fn allows(rule: &CorsRule, origin: &str, method: &str) -> bool {
    rule.allowed_methods.iter().any(|allowed| allowed == method)
        && rule.allowed_origins.iter().any(|p| matches(p, origin))
}

/// Returns true if a pattern with at most one `*` matches.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => {
            text.len() >= before.len() + after.len()
                && text.starts_with(before)
                && text.ends_with(after)
        }
    }
}

fn answer(rule: &CorsRule, origin: &str) -> S3Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if rule.allowed_origins.iter().any(|allowed| allowed == "*") {
        insert(&mut headers, ACCESS_CONTROL_ALLOW_ORIGIN, "*")?;
    } else {
        insert(&mut headers, ACCESS_CONTROL_ALLOW_ORIGIN, origin)?;
        insert(&mut headers, ACCESS_CONTROL_ALLOW_CREDENTIALS, "true")?;
    }
    let methods = rule.allowed_methods.join(", ");
    insert(&mut headers, ACCESS_CONTROL_ALLOW_METHODS, &methods)?;
    if !rule.expose_headers.is_empty() {
        let exposed = rule.expose_headers.join(", ");
        insert(&mut headers, ACCESS_CONTROL_EXPOSE_HEADERS, &exposed)?;
    }
    if let Some(seconds) = rule.max_age_seconds {
        insert(&mut headers, ACCESS_CONTROL_MAX_AGE, &seconds.to_string())?;
    }
    headers.insert(VARY, VARY_VALUE);
    Ok(headers)
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) -> S3Result<()> {
    let value = HeaderValue::from_str(value).map_err(|_| S3Error::from(Code::BadRequest))?;
    headers.insert(name, value);
    Ok(())
}

#[cfg(test)]
mod tests;
