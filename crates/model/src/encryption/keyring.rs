//! The keyring: the keys of the cluster that wrap the keys of objects (SSE-S3).
//!
//! It is one row of the control data. Each of its keys is random and is in the row wrapped by a key that
//! the settings give: by default one that derives from the cluster's secret. A node that has any of
//! the wrapping keys can read the ring, and adds the wrappings that its present keys lack. At its
//! start it also drops wrappings by keys that it does not know. So the secret may change: first all
//! nodes know both secrets, then only the new one.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec::{self, Versioned};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use bytes::Bytes;
use parking_lot::RwLock;
use ring::pbkdf2;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::Model;
use crate::cipher::wrap::{self, DataKey, KEY_BYTES};
use crate::error::{Error, damaged_row};
use crate::rowkeys;

/// The rounds that make guesses of a short secret expensive.
const ROUNDS: NonZeroU32 = NonZeroU32::new(200_000).unwrap();

const SALT: &[u8] = b"archipel keyring 1";

/// The most keys of a ring.
const MAX_KEYS: usize = 1000;

/// The most wrappings of a key.
const MAX_WRAPPINGS: usize = 16;

/// What the keys are derived from that wrap the keyring.
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
}

struct Wrapping {
    present: Vec<DataKey>,
    earlier: Vec<DataKey>,
}

#[derive(Default)]
struct Known {
    keys: BTreeMap<Id, DataKey>,
    newest: Option<Id>,
}

/// The row.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Ring {
    /// The keys, the newest last.
    #[serde(rename = "k", default)]
    keys: Vec<RingKey>,
}

impl Versioned for Ring {
    const VERSION: u8 = 1;
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct RingKey {
    #[serde(rename = "i")]
    id: Id,
    /// The time at which it was made, in milliseconds since 1970.
    #[serde(rename = "m")]
    made_ms: u64,
    /// The key, wrapped by each of the wrapping keys.
    #[serde(rename = "w", default)]
    wrapped: Vec<Bytes>,
}

impl Wrapping {
    fn derive(secrets: &RingSecrets) -> Wrapping {
        let all = |secrets: &[Vec<u8>]| secrets.iter().map(|secret| derive(secret)).collect();
        Wrapping {
            present: all(&secrets.present),
            earlier: all(&secrets.earlier),
        }
    }

    /// Returns the key of an entry, and the number of the present keys by which it is wrapped.
    fn open(&self, entry: &RingKey) -> Option<(DataKey, usize)> {
        let by = |outer: &DataKey| {
            let mut each = entry.wrapped.iter();
            each.find_map(|wrapped| wrap::unwrap(outer.bytes(), entry.id.as_bytes(), wrapped))
        };
        let mut opened: Vec<DataKey> = self.present.iter().filter_map(by).collect();
        let count = opened.len();
        let any = opened.pop().or_else(|| self.earlier.iter().find_map(by));
        any.map(|key| (key, count))
    }

    /// Wraps a key by all present keys.
    fn wrap(&self, model: &Model, id: &Id, key: &DataKey) -> Option<Vec<Bytes>> {
        let wrapped = self.present.iter().map(|outer| {
            let mut salt = [0; 32];
            model.fill_random(&mut salt);
            wrap::wrap(outer.bytes(), id.as_bytes(), salt, key)
        });
        wrapped.collect()
    }
}

fn derive(secret: &[u8]) -> DataKey {
    let mut key = [0; KEY_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, SALT, secret, &mut key);
    DataKey::new(key)
}

impl Model {
    /// Sets the secrets that open the keyring. Later calls change nothing.
    pub fn set_ring_secrets(&self, secrets: RingSecrets) {
        let _ = self.keyring().secrets.set(secrets);
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
    pub async fn rewrap_keyring(&self) -> Result<(), Error> {
        Box::pin(self.read_keyring(false, true)).await
    }

    /// Reads the ring. Makes its first key if there is none and `make` is true. Drops wrappings by
    /// secrets that this node does not know if `drop` is true.
    async fn read_keyring(&self, make: bool, drop: bool) -> Result<(), Error> {
        let row = rowkeys::keyring();
        let decode = |metadata: Bytes| codec::decode::<Ring>(&metadata).map_err(damaged_row);
        let read = self.cluster().metadata(&row).await?;
        let mut ring = read.map(decode).transpose()?.unwrap_or_default();
        if ring.keys.is_empty() && !make {
            return Ok(());
        }
        let wrapping = self.wrapping().await?;
        let change = |ring: &Ring| self.maintained(&wrapping, ring, drop);
        if change(&ring)?.is_some() {
            let changed = parking_lot::Mutex::new(None);
            let how = WriteOptions::durable(Durability::Fsync);
            let decide = |current: Option<&Value>| {
                let now = current.map(|value| codec::decode::<Ring>(&value.metadata));
                let now = match now.transpose() {
                    Ok(now) => now.unwrap_or_default(),
                    Err(error) => return Decision::Abort(damaged_row(error)),
                };
                match change(&now) {
                    Ok(new) => {
                        let new = new.unwrap_or(now);
                        *changed.lock() = Some(new.clone());
                        Decision::Write(Some(Value {
                            metadata: codec::encode(&new).into(),
                            ..Value::default()
                        }))
                    }
                    Err(error) => Decision::Abort(error),
                }
            };
            self.cluster().update(&row, how, decide).await??;
            ring = changed.into_inner().unwrap_or_default();
        }
        self.keyring().learn(&wrapping, &ring)
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
            let mut fresh = [0; KEY_BYTES];
            self.fill_random(&mut fresh);
            let (id, key) = (self.random_id(), DataKey::new(fresh));
            wrap::wipe(&mut fresh);
            new.keys.push(RingKey {
                id,
                made_ms: self.now_ms(),
                wrapped: wrapping.wrap(self, &id, &key).ok_or_else(failed)?,
            });
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
    fn key(&self, id: &Id) -> Option<DataKey> {
        self.known.read().keys.get(id).cloned()
    }

    fn newest(&self) -> Option<(Id, DataKey)> {
        let known = self.known.read();
        let id = known.newest?;
        Some((id, known.keys.get(&id)?.clone()))
    }

    fn learn(&self, wrapping: &Wrapping, ring: &Ring) -> Result<(), Error> {
        let mut known = Known::default();
        for entry in ring.keys.iter().take(MAX_KEYS) {
            if let Some((key, _)) = wrapping.open(entry) {
                known.keys.insert(entry.id, key);
                known.newest = Some(entry.id);
            }
        }
        if known.newest.is_none() {
            let why = "no secret of this node opens the keyring; fix: give all nodes the same cluster secret, or the same encryption.key_file";
            return Err(Error::NoMasterKey(why.into()));
        }
        *self.known.write() = known;
        Ok(())
    }
}
