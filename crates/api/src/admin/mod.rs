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
//! | `GET`, `DELETE /v1/buckets/{name}` | what it holds and who may use it; delete |
//! | `PATCH /v1/buckets/{name}/grants/{key}` | change what an access key may do |
//! | `GET`, `POST /v1/keys` | list, create or import |
//! | `GET`, `PATCH`, `DELETE /v1/keys/{id}` | show (`?secret=true` shows the secret), change, delete |
//! | `GET /v1/nodes`, `POST /v1/nodes/join` | the nodes that are known; join a cluster |
//! | `GET /v1/layout`, `GET /v1/layout/history` | who holds what, what is staged; earlier epochs |
//! | `POST /v1/layout/stage`, `DELETE /v1/layout/staged` | stage changes; forget them |
//! | `POST /v1/layout/apply` | make what is staged the next version |
//! | `POST /v1/layout/skip-dead` | what it means to wait no more for a node that is lost; with `confirm` it is done |
//! | `GET /v1/scrub`, `POST /v1/scrub/start`, `POST /v1/scrub/stop` | reading and verifying everything |
//! | `GET`, `POST /v1/snapshots` | snapshots of the metadata |
//! | `GET /v1/verify`, `POST /v1/verify` | all nodes prove that what they hold is whole |
//! | `GET /v1/repair`, `POST /v1/repair/blocks` | what is wrong and what is done about it; mend what is damaged |
//!
//! | module | what it holds |
//! |---|---|
//! | [`types`] | requests and answers; the command line reads the same types |
//! | `route` | from method and path to a handler |
//! | `auth` | tokens |
//! | `buckets`, `keys`, `node`, `nodes`, `layout` | the handlers |
//! | `condition` | the state of the cluster: what is away, what is at risk, what to do |
//! | `upkeep`, `verify`, `repair` | scrubbing and mending; verification; what is wrong, everywhere |
//! | `answer` | responses, errors, bounded bodies |
//! | [`listen`] | serving connections, with bounds, until shutdown |

use std::sync::Arc;

use archipel_model::Model;
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

mod answer;
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
    /// What the node is and how it does. May ask the disks.
    fn status(&self) -> BoxFuture<'_, types::NodeStatus>;

    /// This node and those that it knows of, as they tell of themselves. What the layout says is
    /// added to it (zone, capacity, `in_layout`).
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

/// What all requests share.
pub struct Admin {
    model: Model,
    node: Arc<dyn Node>,
    metrics: Arc<Registry>,
    tokens: auth::Tokens,
    /// Held while a grant is read, changed and written.
    changing_grants: Mutex<()>,
}

/// Who may ask on a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Everybody who can connect: a local socket that only the server's user may open.
    Peer,
    /// Who carries a token.
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
            changing_grants: Mutex::new(()),
        }
    }
}
