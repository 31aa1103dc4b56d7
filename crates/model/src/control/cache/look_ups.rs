//! Looking up names that the cache lacks: another node may have made what they name a moment ago.
//!
//! Each look-up costs a round trip, so their number at once is limited. Before a signature or a
//! token is checked, anybody can send names. Their look-ups have permits of their own, so that they
//! take none from clients and operators that are known.

use std::sync::Arc;

use archipel_base::boxed;
use archipel_storage::RowKey;
use tokio::sync::Semaphore;

use crate::Model;
use crate::bucket::{AccessKey, Bucket};
use crate::error::Error;
use crate::rowkeys;

/// The look-ups at once for clients that are known, and for the node itself.
const OF_KNOWN: usize = 64;
/// The look-ups at once for everybody else.
const OF_STRANGERS: usize = 32;
/// The longest possible row key of control data, in bytes.
const MAX_NAME_BYTES: usize = 200;

/// The permits of look-ups.
pub(super) struct LookUps {
    of_known: Semaphore,
    of_strangers: Semaphore,
}

impl LookUps {
    pub fn new() -> LookUps {
        LookUps {
            of_known: Semaphore::new(OF_KNOWN),
            of_strangers: Semaphore::new(OF_STRANGERS),
        }
    }
}

impl Model {
    /// Returns the bucket of that name or alias. Reads its rows if the cache lacks them.
    ///
    /// # Errors
    /// As [`Model::buckets`]; errors of reading the row.
    #[boxed]
    pub async fn find_bucket(&self, name: &str) -> Result<Option<Arc<Bucket>>, Error> {
        if let Some(bucket) = self.bucket(name)? {
            return Ok(Some(bucket));
        }
        self.look_up(rowkeys::bucket(name)).await?;
        let alias = self.look(|cached| cached.aliases.get(name).cloned())?;
        if let Some(alias) = alias
            && self.bucket(name)?.is_none()
        {
            self.look_up(rowkeys::bucket(&alias.bucket)).await?;
        }
        self.bucket(name)
    }

    /// Returns the access key of that id. Reads its row if the cache lacks it.
    ///
    /// # Errors
    /// As [`Model::find_bucket`].
    #[boxed]
    pub async fn find_access_key(&self, id: &str) -> Result<Option<Arc<AccessKey>>, Error> {
        if let Some(key) = self.access_key(id)? {
            return Ok(Some(key));
        }
        self.look_up(rowkeys::access_key(id)).await?;
        self.access_key(id)
    }

    /// Reads the row of the access key with this id, which the cache lacks, for a client whose
    /// signature is not checked yet.
    ///
    /// # Errors
    /// As [`Model::find_bucket`].
    #[boxed]
    pub async fn learn_access_key(&self, id: &str) -> Result<(), Error> {
        self.look_up_for_stranger(rowkeys::access_key(id)).await
    }

    /// Reads a row that the cache lacks.
    pub(crate) async fn look_up(&self, row: RowKey) -> Result<(), Error> {
        self.look_up_with(row, &self.control().look_ups.of_known)
            .await
    }

    /// Reads a row that the cache lacks, for a client that has proven nothing yet.
    pub(crate) async fn look_up_for_stranger(&self, row: RowKey) -> Result<(), Error> {
        self.look_up_with(row, &self.control().look_ups.of_strangers)
            .await
    }

    /// Reads a row that the cache lacks. On a node that is alone the cache is complete.
    async fn look_up_with(&self, row: RowKey, permits: &Semaphore) -> Result<(), Error> {
        if self.cluster().is_alone() || row.key.len() > MAX_NAME_BYTES {
            return Ok(());
        }
        let busy = || Error::Busy("too many unknown names at once".into());
        let _permit = permits.try_acquire().map_err(|_| busy())?;
        self.reread(&row.key).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use archipel_cluster::World;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strangers_take_no_look_ups_of_clients() {
        let latency = Duration::from_millis(50);
        let world = World::new(3, 3, latency, 1, crate::HOOKS).await.unwrap();
        let mut models = Vec::new();
        for node in &world.nodes {
            models.push(Model::open(node.clone()).await.unwrap());
        }
        let model = &models[0];
        model.refresh_all().await.unwrap();
        let flood = (0..OF_KNOWN + OF_STRANGERS).map(|number| {
            let model = model.clone();
            tokio::spawn(async move { model.learn_access_key(&format!("AK{number}")).await })
        });
        let flood: Vec<_> = flood.collect();
        // All of them have begun, and none has its answer.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(model.find_bucket("unknown").await.unwrap().is_none());
        let mut busy = 0;
        for learnt in flood {
            busy += usize::from(matches!(learnt.await.unwrap(), Err(Error::Busy(_))));
        }
        assert_eq!(busy, OF_KNOWN);
    }
}
