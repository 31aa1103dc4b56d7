//! The pages of a website: index pages, redirects, routing rules, error documents.
//!
//! Source: AWS, "Configuring an index document", "Configuring a custom error document" and
//! "Configuring a webpage redirect".

use archipel_model::website::{Pages, RoutingRule};
use archipel_model::{Bucket, Model};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::{html, redirect};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::handlers::get::Found;
use crate::s3::metadata;
use crate::s3::respond::{self, Answer};
use crate::s3::target::check_key;
use crate::s3::uri::{self, Query};

/// A request for a page.
pub struct PageRequest<'r> {
    /// The product.
    pub model: &'r Model,
    /// The bucket.
    pub bucket: &'r Bucket,
    /// Its website.
    pub pages: &'r Pages,
    /// The host, with its port.
    pub host: &'r str,
    /// `GET` or `HEAD`.
    pub method: &'r Method,
    /// The path, as it was sent.
    pub path: &'r str,
    /// The headers.
    pub headers: &'r HeaderMap,
    /// The id of the request.
    pub request_id: &'r str,
}

/// The reason why there is no page.
struct Miss {
    error: S3Error,
    /// The error document, if it was looked up already.
    document: Option<Box<S3Result<Found>>>,
}

impl<E: Into<S3Error>> From<E> for Miss {
    fn from(error: E) -> Miss {
        Miss {
            error: error.into(),
            document: None,
        }
    }
}

impl PageRequest<'_> {
    /// Answers the request. The code is that of the error, for the log.
    pub async fn answer(&self) -> (Answer, Option<S3Error>) {
        let key = match key_of(self.path) {
            Ok(key) => key,
            Err(error) => return (self.error_page(&error, None), Some(error)),
        };
        let Miss { error, document } = match self.page(&key).await {
            Ok(answer) => return (answer, None),
            Err(miss) => miss,
        };
        let status = error.code().status();
        let rule = self.pages.rule(&key, Some(status.as_u16()));
        if let Some(Ok(answer)) = rule.map(|rule| self.by_rule(rule, &key)) {
            return (answer, None);
        }
        let Some(document_key) = self
            .pages
            .error
            .as_deref()
            .filter(|_| status.is_client_error())
        else {
            return (self.error_page(&error, None), Some(error));
        };
        let document = match document {
            Some(document) => *document,
            None => self.look_up(document_key).await,
        };
        let shown = document.and_then(|found| match found.head().header(metadata::REDIRECT) {
            Some(to) => redirected(StatusCode::MOVED_PERMANENTLY, to),
            None => error_document(found, &error),
        });
        let answer = shown.unwrap_or_else(|nested| self.error_page(&error, Some(&nested)));
        (answer, Some(error))
    }

    async fn page(&self, key: &str) -> Result<Answer, Miss> {
        if let Some(rule) = self.pages.rule(key, None) {
            return Ok(self.by_rule(rule, key)?);
        }
        let page = self.pages.page_of(key);
        check_key(&page)?;
        let found = match self.look_up(&page).await {
            Ok(found) => found,
            Err(error) if error.code() == Code::NoSuchKey => {
                return self.no_such_page(key, &page, error).await;
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(to) = found.head().header(metadata::REDIRECT) {
            return Ok(redirected(StatusCode::MOVED_PERMANENTLY, to)?);
        }
        Ok(found.answer(self.headers, &Query::default())?)
    }

    /// Redirects to the folder of that name, if there is one.
    async fn no_such_page(&self, key: &str, page: &str, error: S3Error) -> Result<Answer, Miss> {
        let folder = format!("{key}/");
        // A key that ends with a slash is a folder already: it was looked for by its index page.
        let index = (key == page).then(|| self.pages.page_of(&folder));
        let index = index.filter(|index| check_key(index).is_ok());
        let is_folder = async {
            match &index {
                Some(index) => {
                    let found = Found::look_up(self.model, self.bucket, index, false).await;
                    match found.map_err(|error| (error.code(), error)) {
                        Ok(_) => Ok(true),
                        Err((Code::NoSuchKey, _)) => Ok(false),
                        Err((_, error)) => Err(error),
                    }
                }
                None => Ok(false),
            }
        };
        let document = async {
            match &self.pages.error {
                Some(key) => Some(Box::new(self.look_up(key).await)),
                None => None,
            }
        };
        match tokio::join!(is_folder, document) {
            (Ok(true), _) => {
                let to = redirect::local(self.host, &folder);
                Ok(redirected(StatusCode::FOUND, &to)?)
            }
            (Ok(false), document) => Err(Miss { error, document }),
            (Err(error), document) => Err(Miss { error, document }),
        }
    }

    async fn look_up(&self, key: &str) -> S3Result<Found> {
        let content = *self.method != Method::HEAD;
        Found::look_up(self.model, self.bucket, key, content).await
    }

    fn error_page(&self, error: &S3Error, nested: Option<&S3Error>) -> Answer {
        html::page(self.method, error, nested, self.request_id)
    }

    fn by_rule(&self, rule: &RoutingRule, key: &str) -> S3Result<Answer> {
        let (status, to) = redirect::by_rule(rule, self.host, key);
        redirected(status, &to)
    }
}

/// Makes a redirect to an address.
///
/// # Errors
/// [`Code::InvalidRedirectLocation`] for an address that cannot be a header.
pub fn redirected(status: StatusCode, to: &str) -> S3Result<Answer> {
    let to = HeaderValue::from_str(to).map_err(|_| Code::InvalidRedirectLocation)?;
    let mut answer = respond::empty(status);
    answer.headers_mut().insert(header::LOCATION, to);
    Ok(answer)
}

/// Returns the error document, with the status of the error. Conditions and ranges are about the
/// page that is not there.
fn error_document(found: Found, error: &S3Error) -> S3Result<Answer> {
    let mut answer = found.answer(&HeaderMap::new(), &Query::default())?;
    *answer.status_mut() = error.code().status();
    let headers = answer.headers_mut();
    for name in [header::ETAG, header::LAST_MODIFIED, header::ACCEPT_RANGES] {
        headers.remove(name);
    }
    Ok(answer)
}

/// Returns the key that a path names.
fn key_of(path: &str) -> S3Result<String> {
    let key = path.strip_prefix('/').ok_or(Code::InvalidURI)?;
    let key = uri::decode_path(key)?;
    check_key(&key)?;
    Ok(key)
}
