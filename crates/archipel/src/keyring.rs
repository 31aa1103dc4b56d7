//! The secrets that open the keyring: a secret of its own, the cluster's, or the node's key.

use archipel_model::{Model, RingSecrets};

use crate::config::Settings;
use crate::identity;

/// Returns the secrets of the keyring.
///
/// # Errors
/// A text for the operator.
pub fn secrets(settings: &Settings) -> Result<RingSecrets, String> {
    let bytes = |secret: &crate::config::Secret| secret.expose().as_bytes().to_vec();
    let own = identity::document(&settings.data_dir)?;
    let network = settings.cluster.network.iter();
    let cluster = network.flat_map(|n| std::iter::once(&n.secret).chain(&n.previous_secret));
    let cluster: Vec<Vec<u8>> = cluster.map(bytes).collect();
    let encryption = &settings.encryption;
    // A node that was alone before it joined others opens its ring by its own key.
    let (present, earlier) = match &encryption.key {
        Some(key) => {
            let present = std::iter::once(key).chain(&encryption.previous);
            // A ring that the cluster's secret protected so far opens, too.
            (
                present.map(bytes).collect(),
                cluster.into_iter().chain([own]).collect(),
            )
        }
        None if cluster.is_empty() => (vec![own], Vec::new()),
        None => (cluster, vec![own]),
    };
    Ok(RingSecrets { present, earlier })
}

/// Wraps the keyring by the present secrets, once it can be read.
pub async fn rewrap(model: Model) {
    model.wait_until_read(WAIT).await;
    if let Err(error) = model.rewrap_keyring().await {
        tracing::error!(%error, "the keyring cannot be opened");
    }
}

/// The time that the control data gets to be read. Later the ring is read when it is first needed.
const WAIT: std::time::Duration = std::time::Duration::from_secs(600);
