//! The admin API: buckets, access keys, grants, status, health and metrics, as JSON over HTTP.
//!
//! It answers on a local socket, where every user that may open the socket is trusted, and, if configured,
//! on TCP, where all but `/health` needs a bearer token.
//!
//! `docs/openapi.json` describes every request; [`document`] makes it from the handlers.
//!
//! | module | what it holds |
//! |---|---|
//! | [`types`] | requests and answers; the command line reads the same types |
//! | `route` | the router and the access check before it |
//! | `openapi` | the OpenAPI document |
//! | `auth`, `operations` | who asks, and what operations take |
//! | `audited` | the audit log |
//! | `access`, `buckets`, `content`, `groups`, `keys`, `node`, `nodes`, `layout`, `policies`, `providers`, `roles`, `snapshots`, `tokens`, `users` | the handlers |
//! | `cors`, `notifications`, `protection`, `rules`, `settings`, `website` | the settings of buckets |
//! | `certificates` | certificates from an authority |
//! | `condition` | the state of the cluster: absences, risks, advice |
//! | `upkeep`, `verify`, `repair`, `blocks` | scrubbing and repair; verification; faults of all nodes; single blocks |
//! | `keyring` | the keyring of encryption |
//! | `work` | all long operations in one shape |
//! | `deletion` | what deletions would do |
//! | `recent` | the newest lines of the audit log |
//! | `events` | the targets of event notifications |
//! | `families` | the reference of metrics |
//! | `answer`, `advice`, `page` | responses, errors, what to do about them, bounded bodies; pages of lists |
//! | `rest` | what a refusal leaves of a body |
//! | `precondition` | changes of a document only while it is the one that the client saw |
//! | [`metrics`] | metrics of the cluster as the node sees it |
//! | [`inside`] | the API for other endpoints of the process |
//! | [`listen`] | serving connections, with bounds, until shutdown |

#![allow(
    unused_qualifications,
    reason = "utoipa's macros name the parameters of queries by their path"
)]

use std::sync::Arc;

use archipel_model::Model;
use archipel_traces::Tracer;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use crate::audit::Audit;
use crate::serve::Rates;

mod access;
mod advice;
mod answer;
mod audited;
mod auth;
mod blocks;
mod buckets;
mod certificates;
mod condition;
mod content;
mod cors;
mod deletion;
mod events;
mod families;
mod groups;
mod inside;
mod keyring;
mod keys;
mod layout;
pub mod listen;
pub mod metrics;
mod node;
mod nodes;
mod notifications;
mod openapi;
mod operations;
mod page;
mod policies;
mod precondition;
mod protection;
mod providers;
mod recent;
mod repair;
mod rest;
mod roles;
mod route;
mod rules;
mod settings;
mod snapshots;
mod tokens;
pub mod types;
mod upkeep;
mod users;
mod verify;
mod website;
mod work;

#[cfg(test)]
mod tests;

pub use inside::Inside;
pub use listen::serve;
pub use openapi::document;

/// The node as the admin API shows it; the daemon knows it.
pub trait Node: Send + Sync {
    /// Returns the node's identity and health. It may ask the disks.
    fn status(&self) -> BoxFuture<'_, types::NodeStatus>;

    /// Returns this node and those that it knows, as they report themselves. The caller adds the
    /// layout's part (zone, capacity, `in_layout`).
    fn nodes(&self) -> Vec<types::NodeInfo>;

    /// Joins the cluster of the nodes at these addresses, `host:port` each.
    ///
    /// # Errors
    /// A text for the operator, with what to do.
    fn join(&self, addresses: Vec<String>) -> BoxFuture<'_, Result<(), String>>;

    /// Makes a snapshot of the metadata. A node in memory has none.
    ///
    /// # Errors
    /// A text for the operator.
    fn snapshot(&self) -> BoxFuture<'_, Result<types::SnapshotInfo, String>> {
        Box::pin(async { Err("this node keeps no snapshots".into()) })
    }

    /// Returns the snapshots that there are, oldest first.
    ///
    /// # Errors
    /// A text for the operator.
    fn snapshots(&self) -> BoxFuture<'_, Result<Vec<types::SnapshotInfo>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Returns the certificates that an authority gives for the domains of the settings, by domain.
    fn certificates(&self) -> Vec<types::CertificateInfo> {
        Vec::new()
    }
}

/// The state that all requests share.
#[derive(Clone)]
pub struct Admin {
    model: Model,
    node: Arc<dyn Node>,
    metrics: Arc<Registry>,
    /// Metrics that file systems are asked for, which may hang.
    disk_metrics: Arc<Registry>,
    tokens: auth::Tokens,
    audit: Audit,
    tracer: Tracer,
    /// The rates of clients without a token that counts.
    rates: Rates,
    snapshots: Arc<Mutex<snapshots::LastSnapshot>>,
    /// One reader of all metrics at a time.
    reading_metrics: Arc<Semaphore>,
    /// The same for those that file systems are asked for.
    reading_disk_metrics: Arc<Semaphore>,
    /// The resources that tokens can be scoped to.
    resources: Arc<[String]>,
}

/// The clients that a listener admits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// All clients: the listener is a local socket that only the server's user may open.
    Peer,
    /// Clients that carry a token.
    Token,
}

impl Admin {
    /// Makes the admin API of `model`. Without a token nothing but `/health` is open where
    /// [`Trust::Token`] holds.
    pub fn new(
        model: Model,
        node: Arc<dyn Node>,
        metrics: Arc<Registry>,
        token: Option<&str>,
        metrics_token: Option<&str>,
    ) -> Admin {
        Admin {
            model,
            node,
            metrics,
            disk_metrics: Arc::default(),
            tokens: auth::Tokens::new(token, metrics_token),
            audit: Audit::default(),
            tracer: Tracer::default(),
            rates: Rates::default(),
            snapshots: Arc::default(),
            reading_metrics: Arc::new(Semaphore::new(1)),
            reading_disk_metrics: Arc::new(Semaphore::new(1)),
            resources: operations::resources(&openapi::base()).into(),
        }
    }

    /// Sets the metrics that file systems are asked for. They are left out while one hangs.
    #[must_use]
    pub fn with_disk_metrics(self, disk_metrics: Arc<Registry>) -> Admin {
        Admin {
            disk_metrics,
            ..self
        }
    }

    /// Sets the audit log.
    #[must_use]
    pub fn with_audit(self, audit: Audit) -> Admin {
        Admin { audit, ..self }
    }

    /// Sets what begins the spans of requests.
    #[must_use]
    pub fn with_tracer(self, tracer: Tracer) -> Admin {
        Admin { tracer, ..self }
    }
}
