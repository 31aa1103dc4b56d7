//! The keyring: its state, and a new key for it.

use std::sync::Arc;

use archipel_model::RingStatus;
use axum::extract::State;

use super::Admin;
use super::answer::{Json, Refusal};
use super::types::{KeyringInfo, RingKeyInfo};

/// Shows the keys of the keyring, and how far earlier ones are out of use.
#[utoipa::path(
    get, path = "/v1/keyring", tag = "maintenance", operation_id = "get_keyring",
    responses((status = 200, description = "The keyring", body = KeyringInfo)),
)]
pub(super) async fn show(State(admin): State<Arc<Admin>>) -> Result<Json<KeyringInfo>, Refusal> {
    Ok(Json(describe(admin.model.keyring_status().await?)))
}

/// Gives the keyring a new key. Everything is wrapped again in the background.
#[utoipa::path(
    post, path = "/v1/keyring/rotate", tag = "maintenance", operation_id = "rotate_keyring",
    responses((status = 200, description = "The keyring with its new key", body = KeyringInfo)),
)]
pub(super) async fn rotate(State(admin): State<Arc<Admin>>) -> Result<Json<KeyringInfo>, Refusal> {
    let key = admin.model.rotate_keyring().await?;
    tracing::info!(%key, "the keyring has a new key");
    Ok(Json(describe(admin.model.keyring_status().await?)))
}

fn describe(status: RingStatus) -> KeyringInfo {
    let keys = status.keys.iter().map(|key| RingKeyInfo {
        id: key.id.to_string(),
        made_ms: key.made_ms,
        newest: key.is_newest,
        open: key.is_open,
    });
    KeyringInfo {
        keys: keys.collect(),
        rotating: status.is_rotating,
        buckets_done: status.buckets_done,
        buckets: status.buckets,
        examined: status.counts.examined,
        rewrapped: status.counts.rewrapped,
        failed: status.counts.failed,
        last_pass_ms: status.last_pass_ms,
        closed_secrets: status.closed_secrets,
        plain_secrets: status.plain_secrets,
        trouble: status.trouble,
    }
}
