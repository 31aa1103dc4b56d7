//! Requests to the admin API inside the process, with the token of the user who is logged in.

use archipel_api::admin::types::{Page, Problem};
use axum::body::Body;
use http::{Method, Request, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
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
        parse(&self.ask(Method::GET, path, Body::empty()).await?)
    }

    /// Gets a text.
    pub async fn text(&self, path: &str) -> Result<String, Fault> {
        let bytes = self.ask(Method::GET, path, Body::empty()).await?;
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
        let body = serde_json::to_vec(body).map_err(|error| Fault::internal(&error))?;
        parse(&self.ask(method, path, Body::from(body)).await?)
    }

    /// Deletes something.
    pub async fn delete(&self, path: &str) -> Result<(), Fault> {
        self.ask(Method::DELETE, path, Body::empty()).await?;
        Ok(())
    }

    async fn ask(&self, method: Method, path: &str, body: Body) -> Result<Vec<u8>, Fault> {
        let token = &self.user.session.token;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(body)
            .map_err(|error| Fault::internal(&error))?;
        let answer = self.app.admin.ask(self.user.peer, request).await;
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), MAX_ANSWER_BYTES).await;
        let body = body.map_err(|error| Fault::internal(&error))?;
        if status.is_success() {
            return Ok(body.to_vec());
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
