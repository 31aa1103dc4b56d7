//! Posts messages to an address: the webhooks of events and of the audit log, the collector of
//! traces.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::fetch;

/// The time for one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A server that gets messages by POST. Connections are kept for the next message.
#[derive(Clone)]
pub struct Webhook {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    address: Uri,
    headers: HeaderMap,
}

impl Webhook {
    /// Returns the webhook with this address (`http` or `https`). Certificates are checked with
    /// those that the system trusts. Requests carry the token, if there is one.
    ///
    /// # Errors
    /// A text for the operator: the system trusts no certificate, or the token cannot be sent.
    pub fn new(address: Uri, token: Option<&str>) -> Result<Webhook, String> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| "the token holds a character that cannot be sent")?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        Webhook::with_headers(address, headers, None)
    }

    /// Returns the webhook with this address. Requests carry these headers. Certificates are
    /// checked with those in `roots`, in PEM, or else with those that the system trusts.
    ///
    /// # Errors
    /// A text for the operator: there is no certificate to check with.
    pub fn with_headers(
        address: Uri,
        mut headers: HeaderMap,
        roots: Option<&[u8]>,
    ) -> Result<Webhook, String> {
        let connector = HttpsConnectorBuilder::new();
        let connector = match (address.scheme_str(), roots) {
            (Some("https"), Some(roots)) => {
                connector.with_tls_config((*fetch::trust(Some(roots))?).clone())
            }
            (Some("https"), None) => connector
                .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
                .map_err(|error| format!("cannot read the certificates of the system: {error}"))?,
            // No certificate is needed.
            _ => connector.with_tls_config((*fetch::trust_nobody()?).clone()),
        };
        let connector = connector.https_or_http().enable_http1().build();
        let agent = HeaderValue::from_static(concat!("archipel/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        Ok(Webhook {
            client: Client::builder(TokioExecutor::new()).build(connector),
            address,
            headers,
        })
    }

    /// Posts a message. Returns once the server has answered with 2xx.
    ///
    /// # Errors
    /// The reason why it may not have arrived.
    pub async fn post(&self, content_type: &'static str, message: Bytes) -> Result<(), PostError> {
        let request = Request::post(self.address.clone()).body(Full::new(message));
        let mut request = request.map_err(|error| PostError::Failed(error.to_string()))?;
        request.headers_mut().clone_from(&self.headers);
        let content_type = HeaderValue::from_static(content_type);
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        let exchange = async {
            let answer = self.client.request(request).await;
            let answer = answer.map_err(|error| PostError::Failed(why(&error)))?;
            let status = answer.status();
            // The connection can be used again once the answer is read. Its content does not
            // matter.
            let mut body = answer.into_body();
            while let Some(Ok(_)) = body.frame().await {}
            match status.is_success() {
                true => Ok(()),
                false => Err(PostError::Answered(status)),
            }
        };
        let answered = tokio::time::timeout(TIMEOUT, exchange).await;
        let late = || PostError::Failed("it did not answer in time".into());
        answered.unwrap_or_else(|_| Err(late()))
    }
}

/// The reason why a message may not have arrived. It never shows the token, nor another header.
#[derive(Debug)]
pub enum PostError {
    /// The server answered with this status, which is not 2xx.
    Answered(StatusCode),
    /// The server did not answer.
    Failed(String),
}

impl PostError {
    /// Returns true if another attempt would get the same answer: 4xx, but not that the server has
    /// waited for too long or gets too many.
    pub fn is_final(&self) -> bool {
        const TEMPORARY: [StatusCode; 2] =
            [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        match self {
            PostError::Answered(status) => status.is_client_error() && !TEMPORARY.contains(status),
            PostError::Failed(_) => false,
        }
    }
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostError::Answered(status) => write!(f, "it answered {status}"),
            PostError::Failed(why) => f.write_str(why),
        }
    }
}

/// Returns an error with its causes: the last one is the one that helps.
fn why(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_answers_are_those_that_another_attempt_would_get_too() {
        let is_final =
            |status| PostError::Answered(StatusCode::from_u16(status).unwrap()).is_final();
        for status in [400, 404] {
            assert!(is_final(status), "{status}");
        }
        for status in [302, 408, 429, 503] {
            assert!(!is_final(status), "{status}");
        }
        assert!(!PostError::Failed("it did not answer in time".into()).is_final());
    }
}
