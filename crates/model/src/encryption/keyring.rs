//! The keyring: the keys of the cluster that wrap the keys of objects (SSE-S3).
//!
//! It is one row of the control data. Each of its keys is random and is in the row wrapped by a key that
//! the settings give: by default one that derives from the cluster's secret. A node that has any of
//! the wrapping keys can read the ring. At its start it adds the wrappings that its present keys lack,
//! and drops wrappings by keys that it does not know. So the secret may change: first all
//! nodes know both secrets, then only the new one.

mod wrapping;

use std::collections::BTreeMap;
use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use archipel_base::{Id, boxed};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use bytes::Bytes;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::rotation::KnownRing;
use super::sweep::{Sweep, Sweeps};
use crate::Model;
use crate::cipher::wrap::{self, DataKey, KEY_BYTES};
use crate::error::{Error, damaged_row};
use crate::rowkeys;
use wrapping::Wrapping;

/// The most keys of a ring: one for each month of ten years.
pub(super) const MAX_KEYS: usize = 120;

/// The most wrappings of a key.
const MAX_WRAPPINGS: usize = 16;

/// The secrets from which the keys that wrap the keyring are derived.
#[derive(Clone, Default)]
pub struct RingSecrets {
    /// The present ones: they open the ring, and the ring is kept wrapped by them.
    pub present: Vec<Vec<u8>>,
    /// Earlier ones: they open the ring.
    pub earlier: Vec<Vec<u8>>,
}

/// The ring as this node knows it.
#[derive(Default)]
pub(crate) struct Keyring {
    secrets: std::sync::OnceLock<RingSecrets>,
    /// The derived keys.
    wrapping: Mutex<Option<Arc<Wrapping>>>,
    known: RwLock<Known>,
    /// The state of what takes earlier keys out of use.
    pub sweeps: Sweeps,
}

#[derive(Default)]
struct Known {
    keys: BTreeMap<Id, DataKey>,
    newest: Option<Id>,
    newest_made_ms: u64,
    /// The revision of the row, and its bytes.
    revision: u64,
    row: Bytes,
    /// The reason why the ring does not open.
    trouble: Option<String>,
}

/// The row.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ring {
    /// The keys, the newest last.
    #[serde(rename = "k", default)]
    pub keys: Vec<RingKey>,
    /// Grows with each change, so that a late read does not bring back an earlier ring.
    #[serde(rename = "r", default)]
    pub revision: u64,
    /// The pass that takes earlier keys out of use.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

impl Versioned for Ring {
    const VERSION: u8 = 1;
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct RingKey {
    #[serde(rename = "i")]
    pub id: Id,
    /// The time at which it was made, in milliseconds since 1970.
    #[serde(rename = "m")]
    pub made_ms: u64,
    /// The key, wrapped by each of the wrapping keys.
    #[serde(rename = "w", default)]
    wrapped: Vec<Bytes>,
}

impl Model {
    /// Sets the secrets that open the keyring. Later calls change nothing.
    pub fn set_ring_secrets(&self, secrets: RingSecrets) {
        self.keyring().set_secrets(secrets);
    }

    /// Returns the key of the ring for new content.
    pub(crate) async fn newest_master_key(&self) -> Result<(Id, DataKey), Error> {
        for _ in 0..2 {
            let known = self.keyring().newest();
            match known {
                Some(found) => return Ok(found),
                None => Box::pin(self.read_keyring(true, false)).await?,
            }
        }
        Err(Error::NoMasterKey("the keyring has no key".into()))
    }

    /// Returns a key of the ring.
    pub(crate) async fn master_key(&self, id: Id) -> Result<DataKey, Error> {
        if self.keyring().key(&id).is_none() {
            // Another node may have added it.
            Box::pin(self.read_keyring(false, false)).await?;
        }
        let found = self.keyring().key(&id);
        found.ok_or_else(|| Error::NoMasterKey(format!("the keyring has no key {id}")))
    }

    /// Reads the keyring, if there is one, and wraps it by the present secrets only.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if no secret opens it; errors of reading and writing the row.
    #[boxed]
    pub async fn rewrap_keyring(&self) -> Result<(), Error> {
        self.read_keyring(false, true).await
    }

    /// Reads the ring, if there is one, unless this node has no secret for it. A ring that does not
    /// open is no error here: what it protects is refused then, and nothing else.
    ///
    /// # Errors
    /// Errors of reading and writing the row.
    pub(crate) async fn follow_keyring(&self) -> Result<(), Error> {
        if !self.keyring().has_secrets() {
            return Ok(());
        }
        let read = Box::pin(self.read_keyring(false, false)).await;
        let trouble = match read {
            Ok(()) => None,
            Err(Error::NoMasterKey(why)) => Some(why),
            Err(error) => return Err(error),
        };
        if let Some(why) = self.keyring().note_trouble(trouble) {
            tracing::error!(
                "{why}; until then this node refuses what the keyring protects: access keys, sessions, \
                 objects of SSE-S3"
            );
        }
        Ok(())
    }

    /// Reads the row of the ring.
    pub(super) async fn ring(&self) -> Result<Ring, Error> {
        let read = self.cluster().metadata(&rowkeys::keyring()).await?;
        let ring = read.map(|row| codec::decode::<Ring>(&row).map_err(damaged_row));
        Ok(ring.transpose()?.unwrap_or_default())
    }

    /// Reads the ring. Makes its first key if there is none and `make` is true. Drops wrappings by
    /// secrets that this node does not know if `drop` is true.
    async fn read_keyring(&self, make: bool, drop: bool) -> Result<(), Error> {
        let read = self.cluster().metadata(&rowkeys::keyring()).await?;
        if read.as_ref().is_some_and(|row| self.keyring().has(row)) && !drop {
            return Ok(());
        }
        let ring = read.map(|row| codec::decode::<Ring>(&row).map_err(damaged_row));
        let ring = ring.transpose()?.unwrap_or_default();
        if ring.keys.is_empty() && !make {
            return Ok(());
        }
        let wrapping = self.wrapping().await?;
        if !make && !drop {
            // A reader writes nothing: a node that starts may not know the time yet.
            return self.keyring().learn(&wrapping, &ring);
        }
        let change = |ring: &Ring| self.maintained(&wrapping, ring, drop);
        match change(&ring)? {
            Some(_) => self.change_ring(&change).await.map(|_| ()),
            None => self.keyring().learn(&wrapping, &ring),
        }
    }

    /// Changes the ring, unless `change` returns `None`, learns it and tells the other nodes. Returns
    /// true if it was changed.
    pub(super) async fn change_ring(
        &self,
        change: &(dyn Fn(&Ring) -> Result<Option<Ring>, Error> + Sync),
    ) -> Result<bool, Error> {
        let row = rowkeys::keyring();
        let wrapping = self.wrapping().await?;
        let seen = parking_lot::Mutex::new((Ring::default(), false));
        let how = WriteOptions::durable(Durability::Fsync);
        let decide = |current: Option<&Value>| {
            let now = current.map(|value| codec::decode::<Ring>(&value.metadata));
            let now = match now.transpose() {
                Ok(now) => now.unwrap_or_default(),
                Err(error) => return Decision::Abort(Some(damaged_row(error))),
            };
            match change(&now) {
                Ok(Some(mut new)) => {
                    new.revision = now.revision + 1;
                    let metadata = codec::encode(&new).into();
                    *seen.lock() = (new, true);
                    Decision::Write(Some(Value {
                        metadata,
                        ..Value::default()
                    }))
                }
                Ok(None) => {
                    *seen.lock() = (now, false);
                    Decision::Abort(None)
                }
                Err(error) => Decision::Abort(Some(error)),
            }
        };
        match self.cluster().update(&row, how, decide).await? {
            Ok(()) | Err(None) => {}
            Err(Some(error)) => return Err(error),
        }
        let (ring, is_changed) = seen.into_inner();
        self.keyring().learn(&wrapping, &ring)?;
        if is_changed {
            self.cluster().notify(row.key.clone()).await;
        }
        Ok(is_changed)
    }

    /// Returns a new key for the ring.
    pub(super) async fn new_ring_key(&self) -> Result<RingKey, Error> {
        let wrapping = self.wrapping().await?;
        self.fresh_key(&wrapping)
    }

    fn fresh_key(&self, wrapping: &Wrapping) -> Result<RingKey, Error> {
        let failed = || Error::Internal("a key of the keyring cannot be wrapped".into());
        let mut fresh = [0; KEY_BYTES];
        self.fill_random(&mut fresh);
        let (id, key) = (self.random_id(), DataKey::new(fresh));
        wrap::wipe(&mut fresh);
        Ok(RingKey {
            id,
            made_ms: self.now_ms(),
            wrapped: wrapping.wrap(self, &id, &key).ok_or_else(failed)?,
        })
    }

    /// Returns the ring with a first key, and wrapped by the present keys; `None` if it is so already.
    fn maintained(
        &self,
        wrapping: &Wrapping,
        ring: &Ring,
        drop: bool,
    ) -> Result<Option<Ring>, Error> {
        let failed = || Error::Internal("a key of the keyring cannot be wrapped".into());
        let mut new = ring.clone();
        for entry in &mut new.keys {
            let Some((key, present)) = wrapping.open(entry) else {
                continue;
            };
            let unknown = entry.wrapped.len() > present;
            if present < wrapping.present.len() || (drop && unknown) {
                let mut wrapped = wrapping.wrap(self, &entry.id, &key).ok_or_else(failed)?;
                if !drop {
                    wrapped.append(&mut entry.wrapped);
                    wrapped.truncate(MAX_WRAPPINGS);
                }
                entry.wrapped = wrapped;
            }
        }
        if new.keys.is_empty() {
            new.keys.push(self.fresh_key(wrapping)?);
        }
        Ok((new != *ring).then_some(new))
    }

    /// Returns the keys that wrap the ring. It takes a while once, because secrets may be short.
    async fn wrapping(&self) -> Result<Arc<Wrapping>, Error> {
        let mut derived = self.keyring().wrapping.lock().await;
        if let Some(wrapping) = &*derived {
            return Ok(wrapping.clone());
        }
        let secrets = self.keyring().secrets.get().cloned().unwrap_or_default();
        if secrets.present.is_empty() {
            return Err(Error::NoMasterKey(
                "this node has no secret for the keyring".into(),
            ));
        }
        let made = tokio::task::spawn_blocking(move || Wrapping::derive(&secrets)).await;
        let made =
            made.map_err(|error| Error::Internal(format!("deriving a key failed: {error}")))?;
        Ok(derived.insert(Arc::new(made)).clone())
    }
}

impl Keyring {
    /// Returns the ring of a node with these secrets, if there are any.
    pub(crate) fn with(secrets: RingSecrets) -> Arc<Keyring> {
        let ring = Keyring::default();
        if !secrets.present.is_empty() {
            ring.set_secrets(secrets);
        }
        Arc::new(ring)
    }

    /// Sets what opens the ring. Later calls change nothing.
    pub(crate) fn set_secrets(&self, secrets: RingSecrets) {
        // The first ones stay.
        let _ = self.secrets.set(secrets);
    }

    /// Returns true if this node has anything that could open a ring.
    pub(crate) fn has_secrets(&self) -> bool {
        self.secrets
            .get()
            .is_some_and(|all| !all.present.is_empty())
    }

    /// Returns what is known.
    pub(super) fn known(&self) -> KnownRing {
        let known = self.known.read();
        KnownRing {
            keys: known.keys.len(),
            newest_made_ms: known.newest_made_ms,
            is_closed: known.trouble.is_some(),
        }
    }

    /// Returns why the ring does not open.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.known.read().trouble.clone()
    }

    /// Notes why the ring does not open. Returns the reason if it is a new one.
    fn note_trouble(&self, trouble: Option<String>) -> Option<String> {
        let mut known = self.known.write();
        let is_new = known.trouble != trouble;
        known.trouble.clone_from(&trouble);
        trouble.filter(|_| is_new)
    }

    /// Returns true if this row is what the node knows and could open.
    fn has(&self, row: &[u8]) -> bool {
        let known = self.known.read();
        known.newest.is_some() && known.row == row
    }

    pub(crate) fn key(&self, id: &Id) -> Option<DataKey> {
        self.known.read().keys.get(id).cloned()
    }

    pub(crate) fn newest(&self) -> Option<(Id, DataKey)> {
        let known = self.known.read();
        let id = known.newest?;
        Some((id, known.keys.get(&id)?.clone()))
    }

    fn learn(&self, wrapping: &Wrapping, ring: &Ring) -> Result<(), Error> {
        let mut known = Known {
            revision: ring.revision,
            row: codec::encode(ring).into(),
            ..Known::default()
        };
        for entry in ring.keys.iter().take(MAX_KEYS) {
            if let Some((key, _)) = wrapping.open(entry) {
                known.keys.insert(entry.id, key);
            }
        }
        // An earlier key does not do for new content: the others may have it on its way out.
        if let Some(last) = ring
            .keys
            .last()
            .filter(|last| known.keys.contains_key(&last.id))
        {
            (known.newest, known.newest_made_ms) = (Some(last.id), last.made_ms);
        }
        let is_closed = known.newest.is_none();
        let mut present = self.known.write();
        if known.revision >= present.revision {
            known.trouble = present.trouble.take();
            *present = known;
        }
        match is_closed {
            false => Ok(()),
            true => Err(Error::NoMasterKey(
                "no secret of this node opens the newest key of the keyring; fix: give all nodes the same \
                 cluster secret, or the same encryption.key_file"
                    .into(),
            )),
        }
    }
}
