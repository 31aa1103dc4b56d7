//! Requests to the authority, bounded in time and size.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use archipel_api::fetch::trust;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

/// The time of one request.
const TIME: Duration = Duration::from_secs(30);
/// The most bytes of an answer.
const MAX_BYTES: usize = 1 << 20;

/// An HTTP client that speaks only TLS.
pub struct Client(HyperClient<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>);

impl Client {
    /// Makes a client. `ca_file` holds the certificates that the authority's is checked by, in PEM.
    /// Without it the system's count.
    ///
    /// # Errors
    /// A text for the operator.
    pub fn new(ca_file: Option<&Path>) -> Result<Client, String> {
        let roots = ca_file.map(std::fs::read).transpose();
        let roots = roots.map_err(|error| format!("acme.ca_file cannot be read: {error}"))?;
        let config = trust(roots.as_deref())?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config((*config).clone())
            .https_only()
            .enable_http1()
            .build();
        let client = HyperClient::builder(TokioExecutor::new()).build(connector);
        Ok(Client(client))
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let answer = self.0.request(request);
        Box::pin(async move {
            let whole = async {
                let answer = answer.await.map_err(|error| Error::Other(error.into()))?;
                let (parts, body) = answer.into_parts();
                let body = Limited::new(body, MAX_BYTES).collect().await;
                let body = body.map_err(Error::Other)?.to_bytes();
                Ok(BytesResponse::from(Response::from_parts(
                    parts,
                    Full::new(body),
                )))
            };
            let slow = |_| Error::Other("the authority does not answer".into());
            tokio::time::timeout(TIME, whole).await.map_err(slow)?
        })
    }
}
