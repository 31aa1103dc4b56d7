//! The admin API: buckets, access keys, grants, status, health and metrics, as JSON over HTTP.
//!
//! It answers on a local socket, where whoever may open the socket is trusted, and, if configured,
//! on TCP, where all but `/health` needs a bearer token.
//!
//! | method and path | |
//! |---|---|
//! | `GET /health` | 200 or 503, with reasons; no token |
//! | `GET /metrics` | OpenMetrics text; the token, or the metrics token |
//! | `GET /v1/status` | the node: version, disks, counters |
//! | `GET`, `POST /v1/buckets` | list, create |
//! | `GET`, `DELETE /v1/buckets/{name}` | contents and permissions; delete |
//! | `PATCH /v1/buckets/{name}/grants/{key}` | change the permissions of an access key |
//! | `POST /v1/buckets/{name}/aliases` | a further name, also for one access key |
//! | `DELETE /v1/buckets/{name}/aliases/{alias}` | take it away; that of a key: `?key=KEY_ID` |
//! | `GET`, `PUT`, `DELETE /v1/buckets/{name}/website` | show; pages and error page; end |
//! | `PUT`, `DELETE /v1/buckets/{name}/public` | let everybody get its objects; keep them out |
//! | `POST /v1/access/explain` | decide about a request, and say why |
//! | `GET`, `POST /v1/keys` | list, create or import |
//! | `GET`, `PATCH`, `DELETE /v1/keys/{id}` | show (with the secret: `?secret=true`), change, delete |
//! | `GET /v1/nodes`, `POST /v1/nodes/join` | the known nodes; join a cluster |
//! | `GET /v1/layout`, `GET /v1/layout/history` | roles and staged changes; earlier epochs |
//! | `POST /v1/layout/stage`, `DELETE /v1/layout/staged` | stage changes; discard them |
//! | `POST /v1/layout/apply` | make the staged changes the next version |
//! | `POST /v1/layout/remove-dead` | consequences of removing a dead node; `confirm` removes it |
//! | `GET /v1/scrub`, `POST /v1/scrub/start`, `POST /v1/scrub/stop` | verify all blocks |
//! | `GET`, `POST /v1/snapshots` | snapshots of the metadata |
//! | `GET /v1/verify`, `POST /v1/verify` | all nodes verify what they store |
//! | `GET /v1/repair`, `POST /v1/repair/blocks` | faults and repairs; repair all blocks |
//!
//! | module | what it holds |
//! |---|---|
//! | [`types`] | requests and answers; the command line reads the same types |
//! | `route` | the way from method and path to a handler |
//! | `auth`, `audited` | tokens; the audit log |
//! | `access`, `buckets`, `keys`, `node`, `nodes`, `layout` | the handlers |
//! | `condition` | the state of the cluster: absences, risks, advice |
//! | `upkeep`, `verify`, `repair` | scrubbing and repair; verification; faults of all nodes |
//! | `answer` | responses, errors, bounded bodies |
//! | [`listen`] | serving connections, with bounds, until shutdown |

use std::sync::Arc;

use archipel_model::Model;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;

use crate::audit::Audit;

mod access;
mod answer;
mod audited;
mod auth;
mod buckets;
mod condition;
mod keys;
mod layout;
pub mod listen;
mod node;
mod nodes;
mod repair;
mod route;
pub mod types;
mod upkeep;
mod verify;

#[cfg(test)]
mod tests;

pub use listen::serve;

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

    /// The snapshots that there are, oldest first.
    ///
    /// # Errors
    /// A text for the operator.
    fn snapshots(&self) -> BoxFuture<'_, Result<Vec<types::SnapshotInfo>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// The state that all requests share.
pub struct Admin {
    model: Model,
    node: Arc<dyn Node>,
    metrics: Arc<Registry>,
    tokens: auth::Tokens,
    audit: Audit,
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
    /// The admin API of `model`. Without a token nothing but `/health` is open where
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
            tokens: auth::Tokens::new(token, metrics_token),
            audit: Audit::default(),
        }
    }

    /// Sets the audit log.
    #[must_use]
    pub fn with_audit(self, audit: Audit) -> Admin {
        Admin { audit, ..self }
    }
}
