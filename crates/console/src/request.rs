//! The parts of a request that handlers take: the login, the fields of a form.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use archipel_api::serve::Peer;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Form, FromRequest, FromRequestParts};
use axum::response::{IntoResponse, Redirect};
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use ring::digest::{SHA256, digest};

use crate::App;
use crate::backend::decode;
use crate::fault::Fault;
use crate::guard::same;
use crate::login;
use crate::session::Session;

/// The header in which scripts send the secret of their session.
pub const CSRF_HEADER: &str = "x-console-csrf";

/// The field of forms that holds it.
const CSRF_FIELD: &str = "csrf";

/// The field of forms with the [`mark`] of what their page showed.
pub const SHOWN_FIELD: &str = "shown";

/// The box of forms for changes that nobody can undo.
const SURE_FIELD: &str = "sure";

const DAY_SECONDS: u64 = 24 * 3600;

/// The largest form, in bytes.
pub const MAX_FORM_BYTES: usize = 64 << 10;

/// The time for a whole form. Without a limit, a form that never ends holds its connection for ever.
pub const FORM_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest form with the keys of a page of objects. A key has up to 1024 bytes, and takes five characters for each
/// of them, because it is encoded twice.
const MAX_KEYS_FORM_BYTES: usize = 1 << 20;

/// The largest form with rules of a bucket. The admin API takes 1 MiB of them. Many characters of JSON take three
/// in a form.
const MAX_RULES_FORM_BYTES: usize = 3 << 20;

/// Returns the limit for most forms.
pub fn form_limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(MAX_FORM_BYTES)
}

/// Returns the limit for a form with the keys of a page of objects.
pub fn keys_form_limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(MAX_KEYS_FORM_BYTES)
}

/// Returns the limit for a form with rules of a bucket.
pub fn rules_form_limit() -> DefaultBodyLimit {
    DefaultBodyLimit::max(MAX_RULES_FORM_BYTES)
}

/// Returns the mark of what a page shows in a form that replaces it.
pub fn mark(shown: &str) -> String {
    hex::encode(digest(&SHA256, shown.as_bytes()))
}

/// Returns a key from a field or a parameter of a form. It is [encoded](crate::backend::encode): browsers send
/// other line ends than a key has.
///
/// # Errors
/// It is not encoded.
pub fn read_key(text: &str) -> Result<String, Fault> {
    decode(text).ok_or_else(|| Fault::invalid("a key in the form is not encoded: reload the page"))
}

/// The user who is logged in and sends the request.
#[derive(Clone)]
pub struct User {
    /// The session.
    pub session: Arc<Session>,
    /// The address of the browser.
    pub peer: Option<IpAddr>,
}

impl User {
    /// Checks the secret of a change that a script asks for.
    ///
    /// # Errors
    /// The request is forged.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let given = headers.get(CSRF_HEADER).and_then(|v| v.to_str().ok());
        self.check_secret(given.unwrap_or_default())
    }

    fn check_secret(&self, given: &str) -> Result<(), Fault> {
        match same(given, &self.session.csrf) {
            true => Ok(()),
            false => Err(Fault::forged()),
        }
    }
}

impl FromRequestParts<App> for User {
    type Rejection = Response<Body>;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<User, Self::Rejection> {
        let session = app.session(parts);
        login::revoke_ended(app);
        let session = session.ok_or_else(|| Redirect::to("/login").into_response())?;
        let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
        Ok(User { session, peer })
    }
}

/// The fields of a form.
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Returns the value of a field without space around it; empty if it is absent.
    pub fn get(&self, name: &str) -> &str {
        let mut fields = self.0.iter();
        let found = fields.find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value.trim())
    }

    /// Returns the key, or the beginning of keys, in a field.
    ///
    /// # Errors
    /// It is not encoded.
    pub fn key(&self, name: &str) -> Result<String, Fault> {
        read_key(self.exact(name))
    }

    /// Returns the keys in all fields of a name.
    ///
    /// # Errors
    /// As [`Fields::key`].
    pub fn keys(&self, name: &str) -> Result<Vec<String>, Fault> {
        self.all(name).map(read_key).collect()
    }

    /// Fails unless the page of the form showed what is there now. Else the form would undo the change that another
    /// operator has made meanwhile.
    pub fn check_shown(&self, now: &str) -> Result<(), Fault> {
        match self.get(SHOWN_FIELD) == mark(now) {
            true => Ok(()),
            false => Err(Fault::changed()),
        }
    }

    /// Fails unless the box is checked which says that nobody can undo the change.
    pub fn check_sure(&self) -> Result<(), Fault> {
        let why = "nobody can end a retention in the compliance mode: go back, and check the box that says so";
        match self.is_checked(SURE_FIELD) {
            true => Ok(()),
            false => Err(Fault::invalid(why)),
        }
    }

    /// Returns a field as it was sent, with the spaces at its ends: a prefix of keys may have some.
    pub fn exact(&self, name: &str) -> &str {
        let mut fields = self.0.iter();
        let found = fields.find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value)
    }

    /// Returns the value of a field, unless it is absent or empty.
    pub fn some(&self, name: &str) -> Option<String> {
        Some(self.get(name).to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns the words of a field: the texts between its spaces.
    pub fn words(&self, name: &str) -> Vec<String> {
        let words = self.get(name).split_whitespace();
        words.map(String::from).collect()
    }

    /// Returns a number of days in seconds, unless the field is absent or empty.
    ///
    /// # Errors
    /// It is no number of days.
    pub fn days(&self, name: &str) -> Result<Option<u64>, Fault> {
        let read = |text: String| {
            let seconds = text.parse::<u64>().ok();
            let seconds = seconds.and_then(|days| days.checked_mul(DAY_SECONDS));
            let wrong = || Fault::invalid(format!("{text:?} is no number of days"));
            seconds.ok_or_else(wrong)
        };
        self.some(name).map(read).transpose()
    }

    /// Returns whether a box is checked.
    pub fn is_checked(&self, name: &str) -> bool {
        !self.get(name).is_empty()
    }

    /// Returns a text of several lines, whose ends browsers write as CR LF.
    pub fn text(&self, name: &str) -> String {
        self.get(name).replace("\r\n", "\n")
    }

    /// Returns all fields.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns all values of a field.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let fields = self.0.iter().filter(move |(field, _)| field == name);
        fields.map(|(_, value)| value.as_str())
    }

    /// Reads a form without a session.
    ///
    /// # Errors
    /// An answer that says what is wrong.
    pub async fn read(request: Request<Body>) -> Result<Fields, Response<Body>> {
        let form = Form::<Vec<(String, String)>>::from_request(request, &());
        let form = tokio::time::timeout(FORM_TIMEOUT, form).await;
        form.map_err(|_| Fault::late().into_response())?
            .map(|Form(fields)| Fields(fields))
            .map_err(IntoResponse::into_response)
    }
}

/// A change that a form of the console asks for.
pub struct Posted {
    /// The user who sent it.
    pub user: User,
    /// The form.
    pub fields: Fields,
}

impl FromRequest<App> for Posted {
    type Rejection = Response<Body>;

    async fn from_request(request: Request<Body>, app: &App) -> Result<Posted, Self::Rejection> {
        let (mut parts, body) = request.into_parts();
        let user = User::from_request_parts(&mut parts, app).await?;
        let fields = Fields::read(Request::from_parts(parts, body)).await?;
        let checked = user.check_secret(fields.get(CSRF_FIELD));
        checked.map_err(IntoResponse::into_response)?;
        Ok(Posted { user, fields })
    }
}
