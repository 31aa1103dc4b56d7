//! Health checks on the address for S3: `GET /health/live`, `/health/ready` and `/health/quorum`,
//! without a signature. No bucket has the name `health`.
//!
//! Load balancers and container platforms know this address anyway. The answer tells only yes or
//! no: the reasons, which name nodes, are in the admin API.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::respond::{self, Answer};
use super::{body, target};

/// The time for which an answer counts. Anybody may ask, and to find out asks the disks.
const COUNTS: Duration = Duration::from_secs(1);

/// A health check of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthCheck {
    /// Does the process answer?
    Live,
    /// Can the node do its work?
    Ready,
    /// Can all data be read and written, as far as the node sees?
    Quorum,
}

/// Answers health checks.
pub type HealthSource = Arc<dyn Fn(HealthCheck) -> BoxFuture<'static, bool> + Send + Sync>;

/// The answers of a node. Without a source, it is live and nothing else.
#[derive(Default)]
pub(super) struct Health {
    source: OnceLock<HealthSource>,
    ready: Mutex<Option<(Instant, bool)>>,
    quorum: Mutex<Option<(Instant, bool)>>,
}

impl Health {
    /// Sets the source. Only the first call has an effect.
    pub fn set(&self, source: HealthSource) {
        let _ = self.source.set(source);
    }

    /// Returns the answer to a health check.
    pub async fn answer(&self, check: HealthCheck, method: &Method) -> Answer {
        let healthy = match check {
            HealthCheck::Live => true,
            HealthCheck::Ready => self.look(check, &self.ready).await,
            HealthCheck::Quorum => self.look(check, &self.quorum).await,
        };
        let status = match healthy {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut answer = respond::empty(status);
        if *method != Method::HEAD {
            *answer.body_mut() = body::full(format!("{{\"healthy\":{healthy}}}").into_bytes());
        }
        let headers = answer.headers_mut();
        let (kind, cache) = ("application/json", "no-store");
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        answer
    }

    /// Returns the last answer while it counts. One look at a time is under way.
    async fn look(&self, check: HealthCheck, last: &Mutex<Option<(Instant, bool)>>) -> bool {
        let Some(source) = self.source.get() else {
            return false;
        };
        let mut last = last.lock().await;
        match *last {
            Some((at, healthy)) if at.elapsed() < COUNTS => healthy,
            _ => {
                let healthy = source(check).await;
                *last = Some((Instant::now(), healthy));
                healthy
            }
        }
    }
}

/// Returns the health check of a request. The path of a host that names a bucket is a key.
pub(super) fn asked(parts: &Parts, domains: &[String]) -> Option<HealthCheck> {
    let check = match parts.uri.path() {
        "/health/live" => HealthCheck::Live,
        "/health/ready" => HealthCheck::Ready,
        "/health/quorum" => HealthCheck::Quorum,
        _ => return None,
    };
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let host = target::host(&parts.uri, &parts.headers, parts.version);
    // A load balancer may send no host, or one that S3 refuses.
    let of_bucket = host.is_ok_and(|host| target::names_bucket(&host, domains));
    (reads && !of_bucket).then_some(check)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Request;

    use super::*;

    fn asked_of(method: Method, uri: &str, host: &str) -> Option<HealthCheck> {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("host", host).body(()).unwrap();
        let domains = ["s3.example.org".to_owned()];
        asked(&request.into_parts().0, &domains)
    }

    #[test]
    fn only_reads_of_these_paths_ask_and_only_where_the_host_is_no_bucket() {
        let get = |uri, host| asked_of(Method::GET, uri, host);
        assert_eq!(get("/health/live", "10.0.0.1"), Some(HealthCheck::Live));
        assert_eq!(
            get("/health/ready?x", "s3.example.org"),
            Some(HealthCheck::Ready)
        );
        assert_eq!(get("/health/ready", "photos.s3.example.org"), None);
        assert_eq!(get("/health", "10.0.0.1"), None);
        assert_eq!(get("/health/live/x", "10.0.0.1"), None);
        let head = asked_of(Method::HEAD, "/health/quorum", "a:3900");
        assert_eq!(head, Some(HealthCheck::Quorum));
        assert_eq!(asked_of(Method::PUT, "/health/live", "a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn many_requests_look_once_a_second() {
        let health = Health::default();
        let status = async |check| health.answer(check, &Method::GET).await.status();
        assert_eq!(status(HealthCheck::Live).await, 200);
        assert_eq!(status(HealthCheck::Ready).await, 503);
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        health.set(Arc::new(move |check| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { check == HealthCheck::Ready })
        }));
        for _ in 0..10 {
            assert_eq!(status(HealthCheck::Ready).await, 200);
            assert_eq!(status(HealthCheck::Quorum).await, 503);
        }
        assert_eq!(looks.load(Ordering::SeqCst), 2);
        tokio::time::sleep(COUNTS).await;
        assert_eq!(status(HealthCheck::Ready).await, 200);
        assert_eq!(looks.load(Ordering::SeqCst), 3);
    }
}
