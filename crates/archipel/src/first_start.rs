//! The first bucket and the first access key of a cluster, from the settings.
//!
//! Only the node that founded the cluster makes them, and only until it has: what an operator
//! deletes later does not come back with a restart.

use std::time::Duration;

use archipel_model::identity::NewKey;
use archipel_model::{Error, Model, Secret};

use crate::config::FirstStart;

/// The name of the key for people.
const NAME: &str = "first key";
/// The pause before another attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// Makes them, once this node has founded a cluster. Ends if another node has.
pub async fn run(model: Model, first: FirstStart) {
    let mut said = String::new();
    loop {
        let done = attempt(&model, &first).await;
        match done {
            Ok(true) => return,
            Ok(false) => said.clear(),
            Err(error) => {
                let why = error.to_string();
                if why != said {
                    tracing::warn!(
                        why,
                        "the first bucket and key cannot be made yet; it is tried again"
                    );
                }
                said = why;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns true if nothing is left to do.
async fn attempt(model: &Model, first: &FirstStart) -> Result<bool, Error> {
    let cluster = model.cluster();
    if cluster.epoch().is_none() {
        return Ok(false);
    }
    if !cluster.is_founding().await? {
        if !first.is_empty() {
            tracing::debug!("the cluster is not new, so first_start has no effect");
        }
        return Ok(true);
    }
    if let Some(key) = &first.key {
        let secret = Secret::new(key.secret.expose().to_owned());
        let new = NewKey {
            name: NAME.to_owned(),
            may_create_buckets: true,
            imported: Some((key.id.clone(), secret)),
            ..NewKey::default()
        };
        match model.create_key(new).await {
            Ok(_) => tracing::info!(key = key.id, "the first access key is there"),
            // An attempt that broke off made it.
            Err(Error::AccessKeyExists) => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(bucket) = &first.bucket {
        let owner = first.key.as_ref().map(|key| key.id.as_str());
        match model.create_bucket(bucket, owner).await {
            Ok(_) => tracing::info!(bucket, "the first bucket is there"),
            Err(Error::BucketExists) => {}
            Err(error) => return Err(error),
        }
    }
    cluster.end_founding().await?;
    Ok(true)
}
