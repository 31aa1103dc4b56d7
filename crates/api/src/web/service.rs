//! The way from a request to an answer: host, website, page; and what all answers share.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::boxed;
use archipel_base::random::Random;
use archipel_model::{Bucket, Model, Website};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::pages::{self, PageRequest};
use super::{host, html, redirect};
use crate::audit::Audit;
use crate::s3::cors;
use crate::s3::error::{Code, S3Error, S3Result};
use crate::s3::respond::{self, Answer};
use crate::s3::service::{counted, set_length};
use crate::s3::target::host as host_of;
use crate::s3::uri::Query;
use crate::serve::{Body, Door, Limits, Metrics, Peer, Rates, spans};

/// Where proxies ask whether a domain is a website.
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
    model: Model,
    config: WebConfig,
    /// Names this process in answers without telling anything about the machine.
    host_id: String,
    request_ids: AtomicU64,
    metrics: Metrics,
}

/// An answer, with what the log says of it.
struct Outcome {
    answer: Answer,
    operation: &'static str,
    error: Option<S3Error>,
    bucket: Option<Arc<Bucket>>,
}

impl Web {
    /// Makes the web server of a model.
    pub fn new(model: Model, config: WebConfig, metrics: Metrics, random: &dyn Random) -> Web {
        Web(Arc::new(Shared {
            model,
            config,
            host_id: format!("{:016x}", random.next_u64()),
            request_ids: AtomicU64::new(random.next_u64()),
            metrics,
        }))
    }

    /// Answers a request. Never fails: an error is an answer. The body is not read.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body> {
        let shared = &*self.0;
        let started = Instant::now();
        let guard = shared.metrics.enter();
        let (parts, _) = request.into_parts();
        let n = shared.request_ids.fetch_add(1, Ordering::Relaxed);
        let request_id = format!("{:016X}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut entry = shared.config.audit.begin("web", &request_id, &parts);
        entry.path(parts.uri.path());
        // A defect must cost one request, not the connection's other streams.
        let answering = AssertUnwindSafe(shared.answer(&parts, &request_id)).catch_unwind();
        let outcome = answering.await.unwrap_or_else(|_| {
            let error = S3Error::from(Code::InternalError);
            Outcome {
                answer: html::page(&parts.method, &error, None, &request_id),
                operation: "Website",
                error: Some(error),
                bucket: None,
            }
        });
        let mut answer = outcome.answer;
        shared.finish(&mut answer, &parts, outcome.bucket.as_deref(), &request_id);
        let (status, elapsed) = (answer.status().as_u16(), started.elapsed());
        let error = outcome.error.as_ref();
        if let Some(cause) = error.and_then(S3Error::cause) {
            tracing::error!(request_id, cause, "a request for a website failed");
        }
        shared
            .metrics
            .answered(outcome.operation, status, elapsed, 0);
        tracing::info!(
            target: "archipel::access",
            request_id,
            operation = outcome.operation,
            method = %parts.method,
            bucket = outcome.bucket.as_ref().map(|bucket| bucket.name.as_str()),
            path = parts.uri.path(),
            status,
            code = error.map_or("", |error| error.code().as_str()),
            milliseconds = elapsed.as_millis() as u64,
            "request"
        );
        let bucket = outcome.bucket.as_ref().map(|bucket| bucket.name.as_str());
        let code = error.map_or("", |error| error.code().as_str());
        spans::describe(&spans::Outcome {
            endpoint: "web",
            operation: outcome.operation,
            request_id: &request_id,
            bucket,
            code,
        });
        let sent = shared.metrics.concerned(bucket, None, status, 0);
        entry.resource(bucket, None);
        entry.action(outcome.operation);
        entry.answered(status, code, 0);
        answer.map(|body| counted(body, sent, guard, entry))
    }
}

impl Door for Web {
    fn limits(&self) -> Limits {
        self.0.config.limits
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.handle(request).await
    }
}

impl Shared {
    #[boxed]
    async fn answer(&self, parts: &Parts, request_id: &str) -> Outcome {
        let refused = |operation, error: S3Error, bucket| Outcome {
            answer: html::page(&parts.method, &error, None, request_id),
            operation,
            error: Some(error),
            bucket,
        };
        let peer = parts.extensions.get::<Peer>();
        if peer.is_some_and(|peer| !self.config.rates.admits_address(peer.0)) {
            return refused("Website", Code::SlowDown.into(), None);
        }
        let site = host_of(&parts.uri, &parts.headers, parts.version)
            .and_then(|host| Ok((self.site(&host)?, host)));
        let (bucket, host) = match site {
            Ok((Some(bucket), host)) => (bucket, host),
            Ok((None, _)) if parts.uri.path() == CHECK_PATH => {
                return match self.check(parts) {
                    Ok(answer) => Outcome {
                        answer,
                        operation: "Check",
                        error: None,
                        bucket: None,
                    },
                    Err(error) => refused("Check", error, None),
                };
            }
            Ok((None, _)) => {
                return refused("Website", Code::NoSuchWebsiteConfiguration.into(), None);
            }
            Err(error) => return refused("Website", error, None),
        };
        let result = match (&parts.method, &bucket.website) {
            (&Method::GET | &Method::HEAD, Some(Website::Pages(pages))) => {
                let page = PageRequest {
                    model: &self.model,
                    bucket: &bucket,
                    pages,
                    host: &host,
                    method: &parts.method,
                    path: parts.uri.path(),
                    headers: &parts.headers,
                    request_id,
                };
                let (answer, error) = page.answer().await;
                return Outcome {
                    answer,
                    operation: "Website",
                    error,
                    bucket: Some(bucket),
                };
            }
            (&Method::GET | &Method::HEAD, Some(Website::Redirect(all))) => {
                let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
                pages::redirected(StatusCode::MOVED_PERMANENTLY, &redirect::of_all(all, path))
            }
            (&Method::OPTIONS, _) => preflight(&bucket, &parts.headers),
            _ => Err(Code::MethodNotAllowed.into()),
        };
        match result {
            Ok(answer) => Outcome {
                answer,
                operation: "Website",
                error: None,
                bucket: Some(bucket),
            },
            Err(error) => refused("Website", error, Some(bucket)),
        }
    }

    /// Returns the bucket whose website a host names.
    fn site(&self, host: &str) -> S3Result<Option<Arc<Bucket>>> {
        for name in host::names(host, self.config.root_domain.as_deref()) {
            let bucket = self.model.bucket(&name)?;
            if let Some(bucket) = bucket.filter(|bucket| bucket.website.is_some()) {
                return Ok(Some(bucket));
            }
        }
        Ok(None)
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

    /// Adds the headers that all answers share.
    fn finish(
        &self,
        answer: &mut Answer,
        parts: &Parts,
        bucket: Option<&Bucket>,
        request_id: &str,
    ) {
        if let Some(bucket) = bucket.filter(|_| parts.method != Method::OPTIONS) {
            let added = cors::simple(&bucket.cors, &parts.method, &parts.headers);
            answer.headers_mut().extend(added);
        }
        set_length(answer, &parts.method);
        let status = answer.status();
        let headers = answer.headers_mut();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static(METHODS));
        }
        for (name, value) in [
            ("x-amz-request-id", request_id),
            ("x-amz-id-2", &self.host_id),
            ("server", "Archipel"),
        ] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

fn preflight(bucket: &Bucket, headers: &HeaderMap) -> S3Result<Answer> {
    if !cors::is_preflight(&Method::OPTIONS, headers) {
        let why = "Insufficient information. Origin request header needed.";
        return Err(S3Error::new(Code::BadRequest, why));
    }
    let mut answer = respond::empty(StatusCode::OK);
    *answer.headers_mut() = cors::preflight(&bucket.cors, headers)?;
    Ok(answer)
}
