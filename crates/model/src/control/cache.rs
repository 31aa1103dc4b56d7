//! The cache of control data: it follows the rows, and counts for a limited time.
//!
//! The node answers requests from the cache only while the cache counts: after it was filled, and
//! for a *lease* after the control group last confirmed it. Every reader goes through
//! [`Model::look`], which fails otherwise. So an empty cache cannot be taken for a missing bucket.
//! [`reads`] keeps the order of the rows; [`look_ups`] reads names that the cache lacks.

mod look_ups;
mod reads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::WallClock;
use archipel_base::{NodeId, PartitionId, boxed};
use archipel_storage::RowKey;
use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::dead_grants::DeadGrants;
use crate::Model;
use crate::bucket::{AccessKey, Alias, Bucket, Named};
use crate::cipher::sealed::OpenSecrets;
use crate::error::{Error, damaged_row};
use crate::identity::Identities;
use crate::rowkeys::{self, Kind};
use crate::token::{self, AdminToken};
use look_ups::LookUps;
use reads::InProgress;

/// The cached control data, and the state that decides whether it counts.
pub(crate) struct Control {
    state: RwLock<State>,
    /// The time for which the cache counts without confirmation.
    pub lease: Duration,
    /// Tells how long the machine was suspended.
    clock: Arc<dyn WallClock>,
    /// Limits concurrent look-ups of names that the cache lacks.
    look_ups: LookUps,
    /// Grants of deleted access keys, users and roles.
    pub dead_grants: DeadGrants,
    /// Tells that a bucket is no longer in the cache, and that the cache counts again.
    pub(super) lost: Notify,
    /// Opens secrets of rows.
    ring: Arc<dyn OpenSecrets>,
}

/// A point in time. Its age includes the time for which the machine was suspended, because other
/// nodes go on meanwhile.
#[derive(Clone, Copy)]
struct Moment {
    instant: Instant,
    suspended_millis: u64,
}

impl Moment {
    fn now(clock: &dyn WallClock) -> Moment {
        Moment {
            instant: Instant::now(),
            suspended_millis: clock.suspended_millis(),
        }
    }

    fn age(&self, clock: &dyn WallClock) -> Duration {
        let suspended = clock.suspended_millis();
        let suspended = suspended.saturating_sub(self.suspended_millis);
        self.instant.elapsed() + Duration::from_millis(suspended)
    }
}

#[derive(Default)]
struct State {
    cached: Cached,
    /// The time at which the last complete read began: the cache has all earlier changes. `None`
    /// until the rows were first read; `cached` holds single rows only until then.
    confirmed: Option<Moment>,
    /// The error of the last attempt to read all rows; `None` if it succeeded.
    failure: Option<Error>,
    /// The number of the read that began last.
    last_read: u64,
    /// The reads in progress, by number.
    reads: BTreeMap<u64, InProgress>,
}

#[derive(Default)]
pub(crate) struct Cached {
    pub(crate) buckets: BTreeMap<String, Arc<Bucket>>,
    pub(crate) aliases: BTreeMap<String, Alias>,
    pub(crate) keys: BTreeMap<String, Arc<AccessKey>>,
    pub(crate) tokens: BTreeMap<String, Arc<AdminToken>>,
    pub(crate) identities: Identities,
}

impl Cached {
    /// Returns the bucket that a name or an alias stands for.
    pub(super) fn named(&self, name: &str) -> Option<&Arc<Bucket>> {
        let bucket = self.buckets.get(name);
        bucket.or_else(|| self.meant(self.aliases.get(name)?))
    }

    /// Returns the bucket that an alias stands for, if the bucket exists.
    pub(super) fn meant(&self, alias: &Alias) -> Option<&Arc<Bucket>> {
        let bucket = self.buckets.get(&alias.bucket)?;
        (bucket.id == alias.id).then_some(bucket)
    }

    /// Updates the cache with the value of a row.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        metadata: Option<&Bytes>,
        ring: &dyn OpenSecrets,
    ) -> Result<(), Error> {
        let Some(name) = rowkeys::name_of(key) else {
            return Ok(());
        };
        match (rowkeys::kind(key), metadata) {
            (Kind::Bucket, None) => {
                self.buckets.remove(name);
                self.aliases.remove(name);
            }
            (Kind::Bucket, Some(metadata)) => match Named::decode(metadata).map_err(damaged_row)? {
                Named::Bucket(bucket) => {
                    self.aliases.remove(name);
                    self.buckets.insert(name.to_owned(), Arc::from(bucket));
                }
                Named::Alias(alias) => {
                    self.buckets.remove(name);
                    self.aliases.insert(name.to_owned(), alias);
                }
            },
            (Kind::AccessKey, None) => drop(self.keys.remove(name)),
            (Kind::AccessKey, Some(metadata)) => {
                let key = AccessKey::of_row(metadata, ring).map_err(damaged_row)?;
                self.keys.insert(name.to_owned(), Arc::new(key));
            }
            (Kind::AdminToken, None) => drop(self.tokens.remove(name)),
            (Kind::AdminToken, Some(metadata)) => {
                let token = token::decode(metadata).map_err(damaged_row)?;
                self.tokens.insert(name.to_owned(), Arc::new(token));
            }
            (Kind::Identity, metadata) => {
                let put = self.identities.put(key, metadata, ring);
                put.map_err(damaged_row)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes a row what it is in `other`.
    fn copy(&mut self, key: &[u8], other: &Cached) {
        let Some(name) = rowkeys::name_of(key) else {
            return;
        };
        match rowkeys::kind(key) {
            Kind::Bucket => {
                copy(&mut self.buckets, &other.buckets, name);
                copy(&mut self.aliases, &other.aliases, name);
            }
            Kind::AccessKey => copy(&mut self.keys, &other.keys, name),
            Kind::AdminToken => copy(&mut self.tokens, &other.tokens, name),
            Kind::Identity => self.identities.copy(key, &other.identities),
            _ => {}
        }
    }
}

fn copy<T: Clone>(to: &mut BTreeMap<String, T>, from: &BTreeMap<String, T>, name: &str) {
    match from.get(name) {
        Some(value) => drop(to.insert(name.to_owned(), value.clone())),
        None => drop(to.remove(name)),
    }
}

impl Control {
    pub fn new(lease: Duration, clock: Arc<dyn WallClock>, ring: Arc<dyn OpenSecrets>) -> Control {
        Control {
            state: RwLock::default(),
            lease,
            clock,
            look_ups: LookUps::new(),
            dead_grants: DeadGrants::new(),
            lost: Notify::new(),
            ring,
        }
    }

    /// Returns the result of `look` on the cache, if the cache counts. `lease` is `None` if no
    /// other node can change the rows.
    pub(super) fn look<T>(
        &self,
        lease: Option<Duration>,
        look: impl FnOnce(&Cached) -> T,
    ) -> Result<T, Error> {
        let state = self.state.read();
        let Some(confirmed) = state.confirmed else {
            return Err(never_read(state.failure.as_ref()));
        };
        let age = confirmed.age(&*self.clock);
        match lease {
            Some(lease) if age > lease => Err(expired(age, lease, state.failure.as_ref())),
            _ => Ok(look(&state.cached)),
        }
    }

    #[cfg(test)]
    pub fn age(&self) -> u64 {
        let confirmed = self.state.read().confirmed;
        confirmed.map_or(0, |confirmed| confirmed.age(&*self.clock).as_secs())
    }

    /// Returns true if all rows have been read since the start.
    pub fn is_filled(&self) -> bool {
        self.state.read().confirmed.is_some()
    }

    /// Returns true if the last attempt to read all rows succeeded.
    pub fn is_fresh(&self) -> bool {
        let state = self.state.read();
        state.confirmed.is_some() && state.failure.is_none()
    }
}

fn never_read(failure: Option<&Error>) -> Error {
    let why = failure.map_or("they are being read".into(), ToString::to_string);
    Error::Unconfirmed(format!(
        "buckets and access keys have not been read since this node started: {why}"
    ))
}

fn expired(age: Duration, lease: Duration, failure: Option<&Error>) -> Error {
    let why = failure.map_or("they are being read".into(), ToString::to_string);
    let (age, lease) = (age.as_secs(), lease.as_secs());
    Error::Unconfirmed(format!(
        "buckets and access keys were confirmed {age} s ago and count for {lease} s: {why}"
    ))
}

impl Model {
    /// Returns the result of `look` on the cache. All reads of the cache go through this.
    ///
    /// # Errors
    /// [`Error::Unconfirmed`] if the cache was never filled, or not confirmed within the lease;
    /// [`Error::Unavailable`] on a node that is in no layout.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Cached) -> T) -> Result<T, Error> {
        let cluster = self.cluster();
        let lease = (!cluster.is_alone()).then_some(self.control().lease);
        let looked = self.control().look(lease, look);
        if looked.is_err() && !cluster.is_in_layout() {
            let why = "this node is in no layout yet; fix: archipel layout assign";
            return Err(Error::Unavailable(why.into()));
        }
        looked
    }

    /// Checks that this node can answer requests: it has read buckets and access keys and confirmed
    /// them within the lease.
    ///
    /// # Errors
    /// As [`Model::buckets`].
    pub fn check_control(&self) -> Result<(), Error> {
        self.look(|_| ())
    }

    /// Subscribes to changes by other nodes.
    pub(crate) fn listen(&self) {
        let model = Arc::downgrade(&self.inner);
        self.cluster().on_notice(move |key: Bytes| {
            let model = model.upgrade().map(|inner| Model { inner, cause: None });
            Box::pin(async move {
                let Some(model) = model else { return false };
                let read = model.reread(&key).await;
                if let Err(error) = &read {
                    tracing::warn!(%error, "a change by another node cannot be read");
                }
                read.is_ok()
            })
        });
    }

    /// Reads all control data again. That confirms the cache.
    #[boxed]
    pub async fn refresh_all(&self) -> Result<(), Error> {
        let told = self.tell_lease().await;
        let read = self.control().begin_read(None);
        let all = async { told.map(|()| self.read_all())?.await };
        read.confirm(all.await)
    }

    async fn read_all(&self) -> Result<Cached, Error> {
        let (mut fresh, mut rows) = (Cached::default(), Vec::new());
        let control = PartitionId::CONTROL;
        let all = [
            &rowkeys::ALL_BUCKETS,
            &rowkeys::ALL_ACCESS_KEYS,
            &rowkeys::ALL_ADMIN_TOKENS,
            &rowkeys::ALL_IDENTITIES,
        ];
        for prefix in all {
            rows.extend(self.cluster().scan_whole(control, prefix).await?);
        }
        // Read after the rows, so that it has every key of the ring that seals one of them.
        self.follow_keyring().await?;
        for row in rows {
            fresh.put(&row.key.key, Some(&row.metadata), self.keyring())?;
        }
        Ok(fresh)
    }

    /// Reads one row of the control data into the cache and returns its metadata.
    pub(crate) async fn reread(&self, key: &Bytes) -> Result<Option<Bytes>, Error> {
        let row = RowKey {
            partition: PartitionId::CONTROL,
            key: key.clone(),
        };
        let read = self.control().begin_read(Some(key));
        let metadata = self.cluster().metadata(&row).await?;
        if *key == rowkeys::keyring().key || self.lacks_ring_key(key, metadata.as_ref()) {
            self.follow_keyring().await?;
        }
        read.apply(key, metadata.as_ref()).map(|()| metadata)
    }

    /// Reads a changed row into the cache, and notifies the other nodes. Returns the metadata.
    ///
    /// Fails if this node cannot read the row: else it would go on with the former settings, which
    /// may permit more, after it told the client that they are changed. The client may make the
    /// same change again.
    pub(super) async fn changed(&self, row: &RowKey) -> Result<Option<Bytes>, Error> {
        self.announce(row).await.0
    }

    /// Reads a changed row into the cache, and notifies the other nodes. The change was made, also if
    /// this node cannot read the row: then it is like a node that the notice did not reach. A client
    /// that heard of a failure would do it again and find it done, or never learn a secret.
    pub(super) async fn tell_changed(&self, row: &RowKey) {
        if let Err(error) = self.changed(row).await {
            tracing::debug!(%error, "a changed row cannot be read");
        }
    }

    /// Reads a changed row into the cache, and notifies the other nodes. Returns the row's
    /// metadata, and the nodes that did not confirm that they know of the change.
    pub(crate) async fn announce(
        &self,
        row: &RowKey,
    ) -> (Result<Option<Bytes>, Error>, Vec<NodeId>) {
        let read = self.reread(&row.key).await;
        // The row was changed, even if reading it here failed.
        let unconfirmed = self.cluster().notify(row.key.clone()).await;
        (read, unconfirmed)
    }

    /// Reads a bucket's row into the cache and returns it.
    pub(crate) async fn refresh_bucket(&self, name: &str) -> Result<Option<Bucket>, Error> {
        let metadata = self.reread(&rowkeys::bucket(name).key).await?;
        let bucket = metadata.map(|metadata| Named::bucket(&metadata).map_err(damaged_row));
        Ok(bucket.transpose()?.flatten())
    }

    /// Reads an access key's row into the cache and returns it.
    pub(super) async fn refresh_access_key(&self, id: &str) -> Result<Option<AccessKey>, Error> {
        let metadata = self.reread(&rowkeys::access_key(id).key).await?;
        let key = metadata.map(|metadata| AccessKey::of_row(&metadata, self.keyring()));
        key.transpose().map_err(damaged_row)
    }
}
