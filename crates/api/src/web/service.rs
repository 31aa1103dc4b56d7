//! Websites as an [`Endpoint`]: host, website, page; and what all answers share.

use std::sync::Arc;

use archipel_base::boxed;
use archipel_base::random::Random;
use archipel_model::{Bucket, Model, Website};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;

use super::pages::{self, PageRequest};
use super::{host, html, redirect};
use crate::audit::Audit;
use crate::s3::body::{self, RequestBody};
use crate::s3::cors;
use crate::s3::endpoint::{self, Endpoint, Frontend, Learned, RequestHead, Responded};
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::target::host as host_of;
use crate::s3::uri::Query;
use crate::serve::{Answering, Body, Limits, Metrics, Rates, Service};

/// The path at which proxies ask whether a domain is a website.
const CHECK_PATH: &str = "/check";

/// The methods of websites.
const METHODS: &str = "GET, HEAD, OPTIONS";

/// Settings of the web server.
#[derive(Clone, Default)]
pub struct WebConfig {
    /// The domain whose subdomains are buckets, in lower case.
    pub root_domain: Option<String>,
    /// Limits on clients.
    pub limits: Limits,
    /// Requests a second of clients.
    pub rates: Rates,
    /// The audit log.
    pub audit: Audit,
}

/// The websites of a model. Cheap to clone.
#[derive(Clone)]
pub struct Web(Arc<Shared>);

struct Shared {
    frontend: Frontend,
    root_domain: Option<String>,
}

impl Web {
    /// Makes the web server of a model.
    pub fn new(model: Model, config: WebConfig, metrics: Metrics, random: &dyn Random) -> Web {
        let (limits, rates, audit) = (config.limits, config.rates, config.audit);
        Web(Arc::new(Shared {
            frontend: Frontend::new(model, limits, rates, audit, metrics, random),
            root_domain: config.root_domain,
        }))
    }

    /// Answers a request. Never fails: an error is an answer. The body is not read.
    pub fn handle<B>(&self, request: Request<B>) -> impl Future<Output = Response<Body>> + Send {
        endpoint::handle(self, request.map(|_| body::empty()))
    }
}

impl Endpoint for Web {
    const NAME: &'static str = "web";
    const UNKNOWN: &'static str = "Website";
    const SHOWS_PATH: bool = true;

    fn frontend(&self) -> &Frontend {
        &self.0.frontend
    }

    #[boxed]
    async fn respond(
        &self,
        head: &RequestHead,
        body: Box<RequestBody>,
        learned: &mut Learned,
    ) -> Responded {
        (self.0.answer(head, learned).await, Some(*body))
    }

    fn error_answer(&self, head: &RequestHead, error: &S3Error) -> Answer {
        html::page(&head.parts.method, error, None, &head.id)
    }

    fn add_headers(&self, head: &RequestHead, learned: &Learned, answer: &mut Answer) {
        let frontend = &self.0.frontend;
        frontend.add_headers_of_objects(head, learned, answer);
        if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
            let methods = HeaderValue::from_static(METHODS);
            answer.headers_mut().insert(header::ALLOW, methods);
        }
    }
}

impl Service for Web {
    fn limits(&self) -> Limits {
        self.0.frontend.limits
    }

    fn metrics(&self) -> &Metrics {
        &self.0.frontend.metrics
    }

    fn answer(&self, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(self.handle(request))
    }
}

impl Shared {
    async fn answer(&self, head: &RequestHead, learned: &mut Learned) -> S3Result<Answer> {
        let parts = &head.parts;
        let host = host_of(&parts.uri, &parts.headers, parts.version)?;
        let Some(bucket) = self.site(&host)? else {
            if parts.uri.path() == CHECK_PATH {
                learned.operation = "Check";
                return self.check(parts);
            }
            return Err(Code::NoSuchWebsiteConfiguration.into());
        };
        learned.bucket = Some(bucket.name.clone());
        match (&parts.method, &bucket.website) {
            (&Method::GET | &Method::HEAD, Some(Website::Pages(pages))) => {
                let page = PageRequest {
                    model: &self.frontend.model,
                    bucket: &bucket,
                    pages,
                    host: &host,
                    method: &parts.method,
                    path: parts.uri.path(),
                    headers: &parts.headers,
                    request_id: &head.id,
                };
                let (answer, error) = page.answer().await;
                learned.error = error;
                Ok(answer)
            }
            (&Method::GET | &Method::HEAD, Some(Website::Redirect(all))) => {
                let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
                pages::redirected(StatusCode::MOVED_PERMANENTLY, &redirect::of_all(all, path))
            }
            (&Method::OPTIONS, _) => cors::answer_preflight(&bucket.cors, &parts.headers),
            _ => Err(Code::MethodNotAllowed.into()),
        }
    }

    /// Returns the bucket whose website a host names.
    fn site(&self, host: &str) -> S3Result<Option<Arc<Bucket>>> {
        let name = host::bucket_name(host, self.root_domain.as_deref());
        let bucket = self.frontend.model.bucket(&name)?;
        Ok(bucket.filter(|bucket| bucket.website.is_some()))
    }

    /// Answers a proxy that asks whether it may get a certificate for a domain: 200 if the domain
    /// is that of a website.
    fn check(&self, parts: &Parts) -> S3Result<Answer> {
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(Code::MethodNotAllowed.into());
        }
        let query = Query::parse(parts.uri.query().unwrap_or_default())?;
        let domain = query.single("domain")?.unwrap_or_default();
        match self.site(domain)? {
            Some(_) => Ok(respond::empty(StatusCode::OK)),
            None => Err(Code::NoSuchWebsiteConfiguration.into()),
        }
    }
}
