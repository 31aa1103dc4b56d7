//! The secrets that open the keyring: a secret of its own, the cluster's, or the node's key.

use std::future::Future;
use std::time::Duration;

use archipel_model::{Error, Model, RingSecrets};

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

/// Wraps the keyring by the present secrets, once it can be read and changed.
pub async fn rewrap(model: Model) {
    model.wait_until_read(WAIT).await;
    let attempt = || {
        let model = model.clone();
        async move { model.rewrap_keyring().await }
    };
    repeat(attempt).await;
}

/// Repeats an attempt until it succeeds. The pauses between attempts become longer.
async fn repeat<A>(mut attempt: impl FnMut() -> A)
where
    A: Future<Output = Result<(), Error>>,
{
    let (mut pause, mut is_told) = (FIRST_PAUSE, false);
    while let Err(error) = attempt().await {
        if !is_told {
            is_told = true;
            tracing::warn!(%error, "the keyring cannot be wrapped by this node's secrets yet; next try soon");
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

/// The time that the control data gets to be read. A node in no layout does not wait for it.
const WAIT: Duration = Duration::from_secs(600);

/// The pauses between attempts to wrap the keyring.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// There is no majority for an hour, as after the restart of several nodes.
    #[tokio::test(start_paused = true)]
    async fn attempts_go_on_until_one_succeeds() {
        let (began, mut attempts) = (Instant::now(), 0);
        repeat(|| {
            attempts += 1;
            let is_away = began.elapsed() < Duration::from_secs(3600);
            async move {
                match is_away {
                    true => Err(Error::Unavailable("too few replicas answer".into())),
                    false => Ok(()),
                }
            }
        })
        .await;
        assert!((60..=70).contains(&attempts), "{attempts}");
        assert!(began.elapsed() < Duration::from_secs(3600) + LONGEST_PAUSE);
    }
}
