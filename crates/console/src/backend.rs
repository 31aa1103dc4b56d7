//! Requests to the admin API inside the process, with the token of the user who is logged in.

use archipel_api::admin::types::{Page, Problem};
use axum::body::Body;
use http::{HeaderValue, Method, Request, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::App;
use crate::fault::Fault;
use crate::request::User;

/// The largest answer that is read: a page of a thousand items is far smaller.
const MAX_ANSWER_BYTES: usize = 16 << 20;

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns text as a part of a path or of a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Reads what [`encode`] wrote, and nothing else.
pub fn decode(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    (encode(&decoded) == text).then(|| decoded.into_owned())
}

/// Returns a path of these parts, which may hold anything.
pub fn path(parts: &[&str]) -> String {
    parts
        .iter()
        .map(|part| format!("/{}", encode(part)))
        .collect()
}

/// Returns a query of the pairs whose value is not empty, with its question mark.
pub fn query(pairs: &[(&str, &str)]) -> String {
    let given = pairs.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = given
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    match pairs.is_empty() {
        true => String::new(),
        false => format!("?{}", pairs.join("&")),
    }
}

/// The tag of a document as it was read, or none if there was no document. A change can depend on it, so that it
/// undoes no change that others make meanwhile.
#[derive(Default)]
pub struct Seen(Option<HeaderValue>);

/// The admin API for one user.
pub struct Backend<'a> {
    app: &'a App,
    user: &'a User,
}

impl User {
    /// Returns the admin API for this user.
    pub fn admin<'a>(&'a self, app: &'a App) -> Backend<'a> {
        Backend { app, user: self }
    }
}

impl Backend<'_> {
    /// Gets a document.
    ///
    /// # Errors
    /// The API refuses the request, or the login has ended. So do the others.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        Ok(self.get_seen(path).await?.0)
    }

    /// Gets a document, and its tag.
    pub async fn get_seen<T: DeserializeOwned>(&self, path: &str) -> Result<(T, Seen), Fault> {
        let (bytes, seen) = self.ask(Method::GET, path, Body::empty(), None).await?;
        Ok((parse(&bytes)?, seen))
    }

    /// Gets a text.
    pub async fn text(&self, path: &str) -> Result<String, Fault> {
        let (bytes, _) = self.ask(Method::GET, path, Body::empty(), None).await?;
        String::from_utf8(bytes).map_err(|error| Fault::internal(&error))
    }

    /// Gets all items of a list.
    pub async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Fault> {
        let (mut items, mut after) = (Vec::new(), String::new());
        loop {
            let page: Page<T> = self
                .get(&format!("{path}{}", query(&[("after", &after)])))
                .await?;
            items.extend(page.items);
            match page.next {
                Some(next) => after = next,
                None => return Ok(items),
            }
        }
    }

    /// Changes something, and returns what it is now.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Fault> {
        self.change(method, path, body, None).await
    }

    /// Replaces a document, if it is still the one that was seen.
    pub async fn put_if<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        seen: &Seen,
    ) -> Result<T, Fault> {
        self.change(Method::PUT, path, body, Some(seen)).await
    }

    /// Changes a part of a document, if it is still the one that was seen.
    pub async fn patch_if<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        seen: &Seen,
    ) -> Result<T, Fault> {
        self.change(Method::PATCH, path, body, Some(seen)).await
    }

    async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
        seen: Option<&Seen>,
    ) -> Result<T, Fault> {
        let body = serde_json::to_vec(body).map_err(|error| Fault::internal(&error))?;
        let (answer, _) = self.ask(method, path, Body::from(body), seen).await?;
        parse(&answer)
    }

    /// Deletes something.
    pub async fn delete(&self, path: &str) -> Result<(), Fault> {
        let deleted = self.ask(Method::DELETE, path, Body::empty(), None);
        deleted.await.map(drop)
    }

    /// Deletes a document, if it is still the one that was seen.
    pub async fn delete_if(&self, path: &str, seen: &Seen) -> Result<(), Fault> {
        let deleted = self.ask(Method::DELETE, path, Body::empty(), Some(seen));
        deleted.await.map(drop)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Body,
        seen: Option<&Seen>,
    ) -> Result<(Vec<u8>, Seen), Fault> {
        // A token with other characters is none.
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.user.session.token));
        let bearer = bearer.map_err(|_| Fault::ended())?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, bearer)
            .body(body)
            .map_err(|error| Fault::internal(&error))?;
        if let Some(Seen(tag)) = seen {
            let (name, value) = match tag {
                Some(tag) => (header::IF_MATCH, tag.clone()),
                None => (header::IF_NONE_MATCH, HeaderValue::from_static("*")),
            };
            request.headers_mut().insert(name, value);
        }
        let answer = self.app.admin.ask(self.user.peer, request).await;
        let (parts, body) = answer.into_parts();
        let status = parts.status;
        let body = axum::body::to_bytes(body, MAX_ANSWER_BYTES).await;
        let body = body.map_err(|error| Fault::internal(&error))?;
        if status.is_success() {
            let tag = parts.headers.get(header::ETAG).cloned();
            return Ok((body.to_vec(), Seen(tag)));
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(Fault::ended());
        }
        let problem: Problem = parse(&body)?;
        Err(Fault {
            status,
            code: problem.code,
            detail: problem.detail,
        })
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    // Some changes are answered without a body.
    let bytes = if bytes.is_empty() { b"null" } else { bytes };
    serde_json::from_slice(bytes).map_err(|error| Fault::internal(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_encoded_is_decoded() {
        for key in ["", "a b/é+%~.txt", "line\r\nline\rline\n", "%0A", "\u{1}"] {
            assert_eq!(decode(&encode(key)).as_deref(), Some(key), "{key:?}");
        }
        for other in [
            "a b", "a/b", "%", "%4", "%zz", "%41", "%c3%a9", "%FF", "é", "a+b",
        ] {
            assert_eq!(decode(other), None, "{other}");
        }
    }
}
