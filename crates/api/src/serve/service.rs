//! What answers the requests of an endpoint.

use std::future::Future;
use std::pin::Pin;

use http::{Request, Response};
use hyper::body::Incoming;

use super::{Body, Limits, Metrics};

/// An endpoint behind a listener: it answers the requests.
pub trait Service: Send + Sync + 'static {
    /// Returns the limits on clients.
    fn limits(&self) -> Limits;

    /// Returns the counters.
    fn metrics(&self) -> &Metrics;

    /// Answers a request. Never fails: an error is an answer.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// Any [`Service`]. So what serves connections, which is much code, is compiled once and not for each of
/// them.
pub(crate) trait AnyService: Send + Sync {
    fn limits(&self) -> Limits;
    fn metrics(&self) -> &Metrics;
    fn answer(&self, request: Request<Incoming>) -> Answering<'_>;
}

/// A request that is being answered.
pub(crate) type Answering<'a> = Pin<Box<dyn Future<Output = Response<Body>> + Send + 'a>>;

impl<S: Service> AnyService for S {
    fn limits(&self) -> Limits {
        Service::limits(self)
    }

    fn metrics(&self) -> &Metrics {
        Service::metrics(self)
    }

    fn answer(&self, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(Service::answer(self, request))
    }
}
