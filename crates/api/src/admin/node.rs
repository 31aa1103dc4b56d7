//! The node: health, status, metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use super::answer::{Answer, Json, Refusal, json, with_type};
use super::types::{ClusterState, ClusterStatus, Health, NodeStatus};
use super::{Admin, condition, events, nodes, upkeep};
use crate::s3::HealthCheck;

/// The content type of the OpenMetrics text format, which Prometheus asks for.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The timeout of the node's check of itself. Storage that hangs is a fault, too.
pub(super) const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of file systems that are asked for metrics.
pub(super) const DISKS_TIMEOUT: Duration = Duration::from_secs(1);

/// Tells whether this node can do its work. Needs no token.
#[utoipa::path(
    get, path = "/health", tag = "status", operation_id = "get_health",
    security(()),
    responses(
        (status = 200, description = "It can", body = Health),
        (status = 503, description = "It cannot", body = Health),
    ),
)]
pub(super) async fn health(State(admin): State<Arc<Admin>>) -> Answer {
    answer(unready(&admin).await)
}

/// Returns why this node cannot do its work.
async fn unready(admin: &Admin) -> Vec<String> {
    let node = assess(admin).await;
    let mut reasons = node.troubles;
    reasons.extend(condition::serves_nothing(node.cluster.as_ref()));
    reasons
}

impl Admin {
    /// Answers a health check that came in on another listener.
    pub async fn is_healthy(&self, check: HealthCheck) -> bool {
        match check {
            HealthCheck::Live => true,
            HealthCheck::Ready => unready(self).await.is_empty(),
            HealthCheck::Quorum => without_quorum(self).is_empty(),
        }
    }
}

fn answer(reasons: Vec<String>) -> Answer {
    let status = if reasons.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let health = Health {
        healthy: reasons.is_empty(),
        reasons,
    };
    json(status, "application/json", &health)
}

/// Tells that this node's process answers. Needs no token.
#[utoipa::path(
    get, path = "/health/live", tag = "status", operation_id = "get_health_live",
    security(()),
    responses((status = 200, description = "It does", body = Health)),
)]
pub(super) async fn live() -> Json<Health> {
    Json(Health {
        healthy: true,
        reasons: Vec::new(),
    })
}

/// Tells whether all data can be read and written, as far as this node sees. Needs no token.
#[utoipa::path(
    get, path = "/health/quorum", tag = "status", operation_id = "get_health_quorum",
    security(()),
    responses(
        (status = 200, description = "It can", body = Health),
        (status = 503, description = "It cannot, or this node does not know", body = Health),
    ),
)]
pub(super) async fn quorum(State(admin): State<Arc<Admin>>) -> Answer {
    answer(without_quorum(&admin))
}

/// Returns why not all data can be read and written. Asks no storage.
fn without_quorum(admin: &Admin) -> Vec<String> {
    let mut reasons: Vec<String> = unconfirmed(admin).into_iter().collect();
    match cluster(admin) {
        None => reasons.push("this node is in no layout yet".into()),
        Some(cluster) if cluster.state == ClusterState::Unavailable => {
            reasons.extend(cluster.advice);
        }
        Some(_) => {}
    }
    reasons
}

/// Returns why the buckets and access keys are not known here; a node in no layout has none to
/// know.
fn unconfirmed(admin: &Admin) -> Option<String> {
    admin.model.cluster().epoch()?;
    let why = admin.model.check_control().err()?;
    Some(format!("S3 requests are refused: {why}"))
}

/// Shows this node: version, disks, maintenance, and the cluster as it sees it.
#[utoipa::path(
    get, path = "/v1/status", tag = "status", operation_id = "get_status",
    responses((status = 200, description = "The node", body = NodeStatus)),
)]
pub(super) async fn status(State(admin): State<Arc<Admin>>) -> Json<NodeStatus> {
    let upkeep = upkeep::describe(&admin).await;
    let mut status = assess(&admin).await;
    status.warnings.extend(events::warnings(&admin));
    Json(NodeStatus { upkeep, ..status })
}

/// Returns the state of the cluster as this node sees it; `None` if it is in no layout.
pub(super) fn cluster(admin: &Admin) -> Option<ClusterStatus> {
    let epoch = admin.model.cluster().epoch()?;
    Some(condition::assess(&epoch, &nodes::known(admin)))
}

/// Returns the state of this node, without its maintenance: anybody may ask for its health, and
/// must not make work for storage by that.
async fn assess(admin: &Admin) -> NodeStatus {
    let hangs = || NodeStatus {
        troubles: vec!["storage does not answer".into()],
        ..NodeStatus::default()
    };
    let status = tokio::time::timeout(STATUS_TIMEOUT, admin.node.status()).await;
    let status = status.unwrap_or_else(|_| hangs());
    let too_old = admin.model.cluster().check_level().err();
    let too_old = too_old.map(|error| error.to_string());
    let troubles = status.troubles.into_iter().chain(too_old);
    NodeStatus {
        troubles: troubles.chain(unconfirmed(admin)).collect(),
        level: admin.model.cluster().level(),
        cluster: cluster(admin),
        buckets: admin.model.buckets().ok().map(|all| all.len() as u64),
        access_keys: admin.model.access_keys().ok().map(|all| all.len() as u64),
        ..status
    }
}

/// Returns this node's metrics as OpenMetrics text. The token for metrics is enough.
#[utoipa::path(
    get, path = "/metrics", tag = "metrics", operation_id = "get_metrics",
    responses((
        status = 200, description = "Metrics", body = String,
        content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    )),
)]
pub(super) async fn metrics(State(admin): State<Arc<Admin>>) -> Result<impl IntoResponse, Refusal> {
    let text = encoded(&admin).await?.into_bytes();
    Ok(with_type(StatusCode::OK, OPENMETRICS, text))
}

/// Returns the metrics as OpenMetrics text. Those that file systems are asked for are left out while
/// one hangs.
pub(super) async fn encoded(admin: &Admin) -> Result<String, Refusal> {
    let (text, of_disks) = tokio::join!(
        read(&admin.metrics, &admin.reading_metrics, STATUS_TIMEOUT),
        read(
            &admin.disk_metrics,
            &admin.reading_disk_metrics,
            DISKS_TIMEOUT
        ),
    );
    let text = text.and_then(|mut text| {
        text.push_str(&of_disks.unwrap_or_default());
        encode_eof(&mut text).ok()?;
        Some(text)
    });
    text.ok_or_else(|| {
        let message = "the metrics cannot be read";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Refusal::new(status, "InternalError", message)
    })
}

/// Returns metrics as OpenMetrics text without its end; `None` if they cannot be read in time.
async fn read(
    metrics: &Arc<Registry>,
    reading: &Arc<Semaphore>,
    timeout: Duration,
) -> Option<String> {
    let (metrics, reading) = (metrics.clone(), reading.clone());
    // Reading may hang, so it takes a blocking thread. There are few of those, and uploads need them:
    // while one hangs, later readers wait, and leave nothing behind when they give up.
    let encoded = async move {
        let place = reading.acquire_owned().await.ok();
        let read = move || {
            let mut text = String::new();
            let read = encode_registry(&mut text, &metrics).map(|()| text);
            drop(place);
            read
        };
        tokio::task::spawn_blocking(read).await
    };
    tokio::time::timeout(timeout, encoded)
        .await
        .ok()?
        .ok()?
        .ok()
}
