//! The node: health, status, metrics.

use std::time::Duration;

use http::StatusCode;
use prometheus_client::encoding::text::encode;

use super::answer::{Answer, Refusal, json, with_type};
use super::types::{Health, NodeStatus};
use super::{Admin, condition, nodes, upkeep};

/// The content type of the OpenMetrics text format, which Prometheus asks for.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long the node may take to look at itself. Storage that hangs is a trouble, too.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn health(admin: &Admin) -> Answer {
    let node = status(admin).await;
    let mut reasons = node.troubles;
    reasons.extend(condition::serves_nothing(node.cluster.as_ref()));
    let status = match reasons.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let health = Health {
        healthy: reasons.is_empty(),
        reasons,
    };
    json(status, &health)
}

pub(super) async fn status(admin: &Admin) -> NodeStatus {
    let hangs = || NodeStatus {
        troubles: vec!["storage does not answer".into()],
        ..NodeStatus::default()
    };
    let status = tokio::time::timeout(STATUS_TIMEOUT, admin.node.status()).await;
    let epoch = admin.model.cluster().epoch();
    NodeStatus {
        cluster: epoch.map(|epoch| condition::assess(&epoch, &nodes::list(admin))),
        buckets: admin.model.buckets().len() as u64,
        access_keys: admin.model.access_keys().len() as u64,
        upkeep: upkeep::show(admin).await,
        ..status.unwrap_or_else(|_| hangs())
    }
}

pub(super) async fn metrics(admin: &Admin) -> Result<Answer, Refusal> {
    let metrics = admin.metrics.clone();
    // Some figures ask file systems, which may hang: never on an async thread.
    let encoded = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        encode(&mut text, &metrics).map(|()| text.into_bytes())
    });
    match tokio::time::timeout(STATUS_TIMEOUT, encoded).await {
        Ok(Ok(Ok(text))) => Ok(with_type(StatusCode::OK, OPENMETRICS, text)),
        _ => {
            let message = "the metrics cannot be read";
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Err(Refusal::new(status, "InternalError", message))
        }
    }
}
