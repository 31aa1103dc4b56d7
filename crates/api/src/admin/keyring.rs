//! The keyring: its state, and a new key for it.

use std::sync::Arc;

use archipel_base::Id;
use archipel_model::{RingKeyStatus, RingStatus};
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
    let before = admin.model.keyring_status().await?;
    let key = admin.model.rotate_keyring().await?;
    tracing::info!(%key, "the keyring has a new key");
    let now = match admin.model.keyring_status().await {
        Ok(now) => now,
        // An error would tell that nothing has changed.
        Err(error) => {
            tracing::warn!(%error, "the keyring cannot be read after its rotation");
            rotated(before, key, admin.model.cluster().now_ms())
        }
    };
    Ok(Json(describe(now)))
}

/// Returns the state of the keyring after it got a key.
fn rotated(before: RingStatus, id: Id, made_ms: u64) -> RingStatus {
    let (is_rotating, mut keys) = (!before.keys.is_empty(), before.keys);
    keys.iter_mut().for_each(|key| key.is_newest = false);
    keys.push(RingKeyStatus {
        id,
        made_ms,
        is_newest: true,
        is_open: true,
    });
    RingStatus {
        keys,
        is_rotating,
        closed_secrets: before.closed_secrets,
        plain_secrets: before.plain_secrets,
        trouble: before.trouble,
        ..RingStatus::default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_is_told_although_the_keyring_cannot_be_read_after_it() {
        let first = rotated(RingStatus::default(), Id([1; 16]), 5);
        assert_eq!((first.keys.len(), first.is_rotating), (1, false));
        let second = rotated(first, Id([2; 16]), 7);
        let newest: Vec<bool> = second.keys.iter().map(|key| key.is_newest).collect();
        assert_eq!((newest, second.is_rotating), (vec![false, true], true));
    }
}
