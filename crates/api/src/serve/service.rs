//! The trait of all endpoints.

use std::future::Future;
use std::pin::Pin;

use http::{Request, Response};
use hyper::body::Incoming;

use super::{Body, Limits, Metrics};

/// An endpoint behind a listener: it answers the requests. The code that serves connections is
/// compiled once for all endpoints, and the code that answers in the crate that has it.
pub trait Service: Send + Sync + 'static {
    /// Returns the limits on clients.
    fn limits(&self) -> Limits;

    /// Returns the counters.
    fn metrics(&self) -> &Metrics;

    /// Answers a request. Never fails: an error is an answer.
    fn answer(&self, request: Request<Incoming>) -> Answering<'_>;
}

/// A request that is being answered.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Response<Body>> + Send + 'a>>;
