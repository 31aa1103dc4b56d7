//! The keyring: the keys of the cluster that wrap the keys of objects (SSE-S3).
//!
//! It is one row of the control data. Each of its keys is random and is in the row wrapped by a key
//! that the settings give: by default one that derives from the cluster's secret. A node that has
//! any of the wrapping keys can read the ring. At its start it adds the wrappings by its present
//! keys that are missing. If none is missing, it drops all other wrappings. So the secret may
//! change: first all nodes know both secrets, then only the new one.
//!
//! # Invariants
//! - A process that adds a wrapping drops none, however often it tries: other nodes may have no
//!   other secret yet.
//! - A running node keeps the keys that it knows, whatever becomes of their wrappings.
//! - Only a node whose secrets open the newest key adds another one. So the others can open that,
//!   too.
//!
//! | module | what it holds |
//! |---|---|
//! | `known` | the ring as this node knows it |
//! | `row` | the row |
//! | `wrapping` | the keys that derive from secrets |

mod known;
mod row;
mod wrapping;

use std::sync::Arc;

use archipel_base::codec;
use archipel_base::{Id, boxed};
use archipel_cluster::{Decision, WriteOptions};
use archipel_storage::Value;
use archipel_storage::engine::Durability;

use crate::Model;
use crate::cipher::wrap::{self, DataKey, KEY_BYTES};
use crate::error::{Error, damaged_row};
use crate::rowkeys;
use wrapping::{Opened, Wrapping};

pub(crate) use known::Keyring;
pub(super) use row::{Ring, RingKey};

/// The most keys of a ring: one for each month of ten years.
const MAX_KEYS: usize = 120;

/// The most wrappings of a key.
const MAX_WRAPPINGS: usize = 16;

/// The secrets from which the keys that wrap the keyring are derived.
#[derive(Clone, Default)]
pub struct RingSecrets {
    /// The present ones: they open the ring, and the ring is kept wrapped by them.
    pub present: Vec<Vec<u8>>,
    /// Earlier ones: they open the ring. Wrappings by them are dropped once the present ones wrap
    /// it.
    pub earlier: Vec<Vec<u8>>,
}

/// The change that a read of the ring may bring with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Upkeep {
    /// No change.
    None,
    /// The first key is made, if there is none.
    FirstKey,
    /// Missing wrappings are added. If this process found none missing, those by other secrets than
    /// the present ones are dropped.
    Rewrap,
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
                None => Box::pin(self.read_keyring(Upkeep::FirstKey)).await?,
            }
        }
        Err(Error::NoMasterKey("the keyring has no key".into()))
    }

    /// Returns a key of the ring.
    pub(crate) async fn master_key(&self, id: Id) -> Result<DataKey, Error> {
        if self.keyring().key(&id).is_none() {
            // Another node may have added it.
            Box::pin(self.read_keyring(Upkeep::None)).await?;
        }
        let found = self.keyring().key(&id);
        found.ok_or_else(|| Error::NoMasterKey(format!("the keyring has no key {id}")))
    }

    /// Reads the keyring, if there is one, and wraps it by the present secrets: by them only, if
    /// nothing had to be added for that.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if no secret opens it; errors of reading and writing the row.
    #[boxed]
    pub async fn rewrap_keyring(&self) -> Result<(), Error> {
        self.read_keyring(Upkeep::Rewrap).await
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
        let read = Box::pin(self.read_keyring(Upkeep::None)).await;
        let trouble = match read {
            Ok(()) => None,
            Err(Error::NoMasterKey(why)) => Some(why),
            Err(error) => return Err(error),
        };
        let is_closed = trouble.is_some();
        match self.keyring().note_trouble(trouble) {
            Some(why) if is_closed => tracing::error!(
                "{why}; until then this node refuses what the keyring protects: access keys, sessions, \
                 objects of SSE-S3"
            ),
            Some(why) => tracing::error!("{why}"),
            None => {}
        }
        Ok(())
    }

    /// Reads the row of the ring.
    pub(super) async fn ring(&self) -> Result<Ring, Error> {
        let read = self.cluster().metadata(&rowkeys::keyring()).await?;
        let ring = read.map(|row| codec::decode::<Ring>(&row).map_err(damaged_row));
        Ok(ring.transpose()?.unwrap_or_default())
    }

    /// Reads the ring, and changes it as far as `upkeep` wants it.
    async fn read_keyring(&self, upkeep: Upkeep) -> Result<(), Error> {
        let drop = upkeep == Upkeep::Rewrap;
        let read = self.cluster().metadata(&rowkeys::keyring()).await?;
        if read.as_ref().is_some_and(|row| self.keyring().has(row)) && !drop {
            return Ok(());
        }
        let ring = read.map(|row| codec::decode::<Ring>(&row).map_err(damaged_row));
        let ring = ring.transpose()?.unwrap_or_default();
        if ring.keys.is_empty() && upkeep != Upkeep::FirstKey {
            return Ok(());
        }
        let wrapping = self.wrapping().await?;
        if upkeep == Upkeep::None {
            // A node that starts may not know the time yet.
            return self.keyring().learn(&wrapping, &ring);
        }
        let change = |ring: &Ring| self.maintained(&wrapping, ring, drop);
        match change(&ring)? {
            Some(_) => self.change_ring(&change).await.map(|_| ()),
            None => self.keyring().learn(&wrapping, &ring),
        }
    }

    /// Changes the ring, unless `change` returns `None`, learns it and tells the other nodes.
    /// Returns true if it was changed.
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

    /// Adds a new key to the ring and returns its id.
    ///
    /// # Errors
    /// [`Error::NoMasterKey`] if no secret of this node opens the newest key;
    /// [`Error::LimitExceeded`].
    pub(super) async fn add_ring_key(&self) -> Result<Id, Error> {
        let wrapping = self.wrapping().await?;
        let fresh = self.fresh_key(&wrapping)?;
        let id = fresh.id;
        self.change_ring(&move |ring| {
            // A node that only knows the keys from before would wrap this one by a secret of no
            // other node.
            let newest = ring.keys.last();
            if newest.is_none_or(|newest| wrapping.open(newest).is_none()) {
                return Err(known::closed());
            }
            if ring.keys.len() >= MAX_KEYS {
                let why =
                    format!("the keyring has {MAX_KEYS} keys, which is the most that it holds");
                return Err(Error::LimitExceeded(why));
            }
            let mut new = ring.clone();
            new.keys.push(fresh.clone());
            new.sweep = None;
            Ok(Some(new))
        })
        .await?;
        Ok(id)
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

    /// Returns the ring with a first key, and wrapped by the present keys; `None` if it is so
    /// already. Drops other wrappings if `drop` is true and this process never had to add one.
    fn maintained(
        &self,
        wrapping: &Wrapping,
        ring: &Ring,
        drop: bool,
    ) -> Result<Option<Ring>, Error> {
        let failed = || Error::Internal("a key of the keyring cannot be wrapped".into());
        let mut new = ring.clone();
        let all: Vec<Option<Opened>> = ring.keys.iter().map(|entry| wrapping.open(entry)).collect();
        let lacks = |opened: &Opened| opened.present < wrapping.present.len();
        if all.iter().flatten().any(lacks) {
            self.keyring().note_addition();
        }
        // An attempt after one that was not answered finds nothing missing. It is no later start.
        let drop = drop && !self.keyring().may_have_added();
        for (entry, opened) in new.keys.iter_mut().zip(all) {
            let Some(opened) = opened else {
                continue;
            };
            if lacks(&opened) || (drop && !opened.others.is_empty()) {
                let wrapped = wrapping.wrap(self, &entry.id, &opened.key);
                entry.wrapped = wrapped.ok_or_else(failed)?;
                if !drop {
                    entry.wrapped.extend(opened.others);
                    entry.wrapped.truncate(MAX_WRAPPINGS);
                }
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
