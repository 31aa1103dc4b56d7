//! Secrets of rows of the control data that are sealed again.

use archipel_base::Id;
use archipel_base::codec;
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use bytes::Bytes;

use crate::Model;
use crate::bucket::AccessKey;
use crate::encryption::rotation::SweepCounts;
use crate::error::{Error, damaged_row};
use crate::identity::TokenKeys;
use crate::rowkeys::{self, Kind};

impl Model {
    /// Returns true if a row has a secret that is sealed by a key of the ring that this node does
    /// not know.
    pub(crate) fn lacks_ring_key(&self, key: &[u8], metadata: Option<&Bytes>) -> bool {
        let Some(metadata) = metadata else {
            return false;
        };
        let by: Vec<Option<Id>> = match rowkeys::kind(key) {
            Kind::AccessKey => codec::decode::<AccessKey>(metadata)
                .map(|key| vec![key.sealed_by()])
                .unwrap_or_default(),
            Kind::Identity if *key == rowkeys::token_keys().key => {
                codec::decode::<TokenKeys>(metadata)
                    .map(|keys| keys.sealed_by().collect())
                    .unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let mut by = by.into_iter().flatten();
        by.any(|id| self.keyring().key(&id).is_none())
    }

    /// Returns true if the newest key of the ring seals all secrets of access keys and sessions.
    pub(super) fn all_are_sealed_by(&self, key: Id) -> Result<bool, Error> {
        self.look(|cached| {
            let keys = cached.keys.values().map(|key| key.sealed_by());
            let tokens = cached.identities.token_keys.iter();
            let mut all = keys.chain(tokens.flat_map(|keys| keys.sealed_by()));
            all.all(|by| by == Some(key))
        })
    }

    /// Seals secrets of access keys and sessions that another key of the ring seals, or none.
    pub(super) async fn reseal_cached(&self) -> Result<(), Error> {
        let newest = self.keyring().newest().map(|(id, _)| id);
        let is_due = |by: Option<Id>| by.is_none() || by != newest;
        let (keys, tokens) = self.look(|cached| {
            // A key that this node cannot open waits for a node that can; the status counts it.
            let open = cached.keys.values().filter(|key| !key.is_closed());
            let keys = open.filter(|key| is_due(key.sealed_by()));
            let keys: Vec<String> = keys.map(|key| key.id.clone()).collect();
            let mut tokens = cached.identities.token_keys.iter();
            let tokens = tokens.any(|keys| keys.closed() == 0 && keys.sealed_by().any(is_due));
            (keys, tokens)
        })?;
        if keys.is_empty() && !tokens {
            return Ok(());
        }
        let mut counts = SweepCounts::default();
        for id in keys {
            let sealed = self.reseal_access_key(&id).await;
            counts.count(&format!("access key {id}"), sealed);
        }
        if tokens {
            let sealed = self.reseal_token_keys().await;
            counts.count("session tokens", sealed);
        }
        let sealed = counts.rewrapped;
        tracing::info!(
            sealed,
            "secrets of access keys and sessions were sealed by the keyring"
        );
        self.count_secrets(counts);
        Ok(())
    }

    async fn reseal_token_keys(&self) -> Result<bool, Error> {
        let Some(sealer) = self.sealer().await? else {
            return Ok(false);
        };
        let (row, ring) = (rowkeys::token_keys(), self.keyring());
        let how = WriteOptions::durable(Durability::Fsync);
        let decide = |current: Option<&Value>| {
            let keys = current.map(|value| TokenKeys::of_row(&value.metadata, ring));
            match keys {
                None => Decision::Abort(Error::Conflict),
                Some(Err(error)) => Decision::Abort(damaged_row(error)),
                Some(Ok(mut keys)) => match keys.reseal(&sealer) {
                    Ok(()) => Decision::Write(Some(crate::control::row(keys.row()))),
                    Err(error) => Decision::Abort(error),
                },
            }
        };
        match self.cluster().update(&row, how, decide).await? {
            Ok(()) => self.announce(&row).await.0.map(|_| true),
            Err(Error::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn reseal_certificates(&self) -> SweepCounts {
        let mut counts = SweepCounts::default();
        match self.reseal_certificate_rows().await {
            Ok(rows) => rows
                .into_iter()
                .for_each(|sealed| counts.count("a certificate", sealed)),
            Err(error) => counts.count("certificates", Err(error)),
        }
        self.count_secrets(counts);
        counts
    }

    /// Counts secrets for metrics, which tell of versions and uploads alone how many were examined.
    fn count_secrets(&self, counts: SweepCounts) {
        self.keyring().sweeps.count(SweepCounts {
            examined: 0,
            ..counts
        });
    }
}
