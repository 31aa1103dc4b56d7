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

/// The filters of the list of snapshots.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListSnapshots {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only snapshots after this name: the `next` of the former page.
    after: Option<String>,
    /// Only snapshots whose name begins so.
    prefix: Option<String>,
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
    let prefix = query.prefix.as_deref().unwrap_or_default();
    all.retain(|one| one.name.starts_with(prefix));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    page(all, |one| &one.name, query.limit, query.after.as_deref()).map(Json)
}

/// The last snapshot that the node was asked for.
#[derive(Clone, Default)]
pub(super) struct LastSnapshot {
    /// The time at which it began, in milliseconds since 1970; 0 for never.
    pub began_ms: u64,
    /// The time at which it ended; 0 while it is made.
    pub ended_ms: u64,
    /// Its bytes on disk.
    pub bytes: u64,
    /// The error, if none could be made.
    pub trouble: Option<String>,
}

/// Makes a snapshot of this node's metadata, and answers when it is made. It is an operation meanwhile,
/// which goes on if the client goes away.
#[utoipa::path(
    post, path = "/v1/snapshots", tag = "maintenance", operation_id = "create_snapshot",
    responses((status = 201, description = "The snapshot", body = SnapshotInfo)),
)]
pub(super) async fn create(
    State(admin): State<Arc<Admin>>,
) -> Result<Created<SnapshotInfo>, Refusal> {
    begin(&admin)?;
    let making = tokio::spawn(async move {
        let made = admin.node.snapshot().await;
        let mut last = admin.snapshots.lock();
        last.ended_ms = admin.model.cluster().now_ms();
        match &made {
            Ok(made) => last.bytes = made.bytes,
            Err(why) => last.trouble = Some(why.clone()),
        }
        made
    });
    let made = making.await.unwrap_or_else(|why| Err(why.to_string()));
    made.map(Created).map_err(failed)
}

fn begin(admin: &Admin) -> Result<(), Refusal> {
    let mut last = admin.snapshots.lock();
    if last.began_ms > 0 && last.ended_ms == 0 {
        let why = "a snapshot is being made already; fix: archipel operation wait snapshot";
        return Err(Refusal::new(StatusCode::CONFLICT, "SnapshotRuns", why));
    }
    *last = LastSnapshot {
        began_ms: admin.model.cluster().now_ms(),
        ..LastSnapshot::default()
    };
    Ok(())
}

fn failed(why: String) -> Refusal {
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "SnapshotFailed", why)
}
