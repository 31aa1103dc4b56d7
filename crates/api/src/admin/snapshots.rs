//! Snapshots of this node's metadata.

use std::sync::Arc;

use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{Created, Json, Query, Refusal};
use super::page::page;
use super::types::{Page, SnapshotInfo};

/// Which snapshots to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListSnapshots {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only snapshots after this name: the `next` of the former page.
    after: Option<String>,
}

/// Lists the snapshots of this node's metadata, oldest first.
#[utoipa::path(
    get, path = "/v1/snapshots", tag = "maintenance", operation_id = "list_snapshots",
    params(ListSnapshots),
    responses((status = 200, description = "Snapshots", body = Page<SnapshotInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListSnapshots>,
) -> Result<Json<Page<SnapshotInfo>>, Refusal> {
    let mut all = admin.node.snapshots().await.map_err(failed)?;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    page(all, |one| &one.name, query.limit, query.after.as_deref()).map(Json)
}

/// Makes a snapshot of this node's metadata.
#[utoipa::path(
    post, path = "/v1/snapshots", tag = "maintenance", operation_id = "create_snapshot",
    responses((status = 201, description = "The snapshot", body = SnapshotInfo)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
) -> Result<Created<SnapshotInfo>, Refusal> {
    let made = admin.node.snapshot().await;
    made.map(Created).map_err(failed)
}

fn failed(why: String) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "SnapshotFailed", why)
}
