//! The admin API for other endpoints of the process, such as the console.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response};

use super::route::Service;
use super::{Admin, Trust, audited};

/// The admin API without a connection. A request carries a token, and is checked, answered and
/// audited as one that came over TCP. Cheap to clone.
#[derive(Clone)]
pub struct Inside(Service);

impl Inside {
    /// Opens the API for other endpoints.
    pub fn new(admin: Arc<Admin>) -> Inside {
        Inside(Service::new(admin))
    }

    /// Answers a request on behalf of the client at `peer`.
    pub async fn ask(&self, peer: Option<IpAddr>, request: Request<Body>) -> Response<Body> {
        audited::handle(&self.0, Trust::Token, peer, request).await
    }
}
