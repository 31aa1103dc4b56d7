//! Control data: buckets and access keys, cached whole on every node, so that requests check
//! them without a network round.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use archipel_base::Id;
use archipel_base::PartitionId;
use archipel_base::codec;
use archipel_cluster::{Cluster, Decision};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use tokio::sync::Mutex;

use crate::Model;
use crate::bucket::{
    AccessKey, Bucket, CorsRule, GateState, Permissions, Secret, Usage, check_bucket_name,
};
use crate::content::damaged_row;
use crate::error::Error;
use crate::rowkeys;

/// What is cached of the control data.
#[derive(Default)]
pub(crate) struct Control {
    cached: RwLock<Cached>,
    /// One change at a time on this node, so that the cache follows the order of the rows.
    changing: Mutex<()>,
}

#[derive(Default)]
struct Cached {
    buckets: BTreeMap<String, Arc<Bucket>>,
    keys: BTreeMap<String, Arc<AccessKey>>,
}

impl Control {
    /// Reads all of it.
    pub async fn load(cluster: &Cluster) -> Result<Control, Error> {
        let mut cached = Cached::default();
        let control = PartitionId::CONTROL;
        for row in cluster.scan_all(control, &rowkeys::ALL_BUCKETS).await? {
            let bucket: Bucket = codec::decode(&row.head).map_err(damaged_row)?;
            cached.buckets.insert(bucket.name.clone(), Arc::new(bucket));
        }
        for row in cluster.scan_all(control, &rowkeys::ALL_ACCESS_KEYS).await? {
            let key: AccessKey = codec::decode(&row.head).map_err(damaged_row)?;
            cached.keys.insert(key.id.clone(), Arc::new(key));
        }
        Ok(Control {
            cached: RwLock::new(cached),
            changing: Mutex::default(),
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Cached) -> T) -> T {
        look(&self.cached.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Cached)) {
        change(&mut self.cached.write().unwrap_or_else(PoisonError::into_inner));
    }
}

fn row(head: Vec<u8>) -> Value {
    Value {
        head: head.into(),
        ..Value::default()
    }
}

impl Model {
    /// The bucket of that name.
    pub fn bucket(&self, name: &str) -> Option<Arc<Bucket>> {
        self.control().read(|c| c.buckets.get(name).cloned())
    }

    /// All buckets, by name.
    pub fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.control()
            .read(|c| c.buckets.values().cloned().collect())
    }

    /// The access key of that id.
    pub fn access_key(&self, id: &str) -> Option<Arc<AccessKey>> {
        self.control().read(|c| c.keys.get(id).cloned())
    }

    /// All access keys, by id.
    pub fn access_keys(&self) -> Vec<Arc<AccessKey>> {
        self.control().read(|c| c.keys.values().cloned().collect())
    }

    /// Creates a bucket, owned by `owner` (an access key) if one is named.
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::BucketExists`] (whoever owns it), [`Error::NoSuchAccessKey`].
    pub async fn create_bucket(
        &self,
        name: &str,
        owner: Option<&str>,
    ) -> Result<Arc<Bucket>, Error> {
        check_bucket_name(name)?;
        let mut grants = BTreeMap::new();
        if let Some(owner) = owner {
            self.access_key(owner).ok_or(Error::NoSuchAccessKey)?;
            grants.insert(owner.to_owned(), Permissions::ALL);
        }
        let bucket = Bucket {
            id: self.random_id(),
            name: name.to_owned(),
            created_ms: self.now_ms(),
            grants,
            cors: Vec::new(),
            buffered: None,
            gate: Arc::default(),
        };
        let _changing = self.control().changing.lock().await;
        let value = row(codec::encode(&bucket));
        self.put_if_absent(rowkeys::bucket(name), value, Error::BucketExists)
            .await?;
        let bucket = Arc::new(bucket);
        self.control().change(|c| {
            c.buckets.insert(name.to_owned(), bucket.clone());
        });
        Ok(bucket)
    }

    async fn put_if_absent(&self, key: RowKey, value: Value, exists: Error) -> Result<(), Error> {
        self.cluster()
            .update(
                &key,
                None,
                Durability::Fsync,
                move |current| match current {
                    Some(_) => Decision::Abort(exists.clone()),
                    None => Decision::Write(Some(value.clone())),
                },
            )
            .await?
    }

    /// Deletes an empty bucket. The uploads that were left in it are dropped in the background.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::BucketNotEmpty`].
    pub async fn delete_bucket(&self, name: &str) -> Result<(), Error> {
        let _changing = self.control().changing.lock().await;
        let bucket = self.bucket(name).ok_or(Error::NoSuchBucket)?;
        // Waits for the commits that are under way; later ones find the gate closed.
        let mut gate = bucket.gate.0.write().await;
        if !self.is_empty(&bucket).await? {
            return Err(Error::BucketNotEmpty);
        }
        let id = bucket.id;
        self.cluster()
            .update(
                &rowkeys::bucket(name),
                None,
                Durability::Fsync,
                move |current| delete_if(current, id),
            )
            .await??;
        *gate = GateState::Closed;
        drop(gate);
        self.control().change(|c| {
            c.buckets.remove(name);
        });
        self.wake_sweep();
        Ok(())
    }

    async fn is_empty(&self, bucket: &Bucket) -> Result<bool, Error> {
        let prefix = rowkeys::objects(&bucket.id);
        for partition in rowkeys::bucket_partitions(self.cluster(), &bucket.id) {
            let rows = self.cluster().scan(partition, &prefix, None, 1).await?;
            if !rows.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Changes a bucket's row and the cache.
    async fn change_bucket(
        &self,
        name: &str,
        change: impl Fn(&mut Bucket) + Send + Sync + 'static,
    ) -> Result<Arc<Bucket>, Error> {
        let _changing = self.control().changing.lock().await;
        let cached = self.bucket(name).ok_or(Error::NoSuchBucket)?;
        let (id, gate) = (cached.id, cached.gate.clone());
        let mut changed = (*cached).clone();
        change(&mut changed);
        self.cluster()
            .update(
                &rowkeys::bucket(name),
                None,
                Durability::Fsync,
                move |current| match current.map(|v| codec::decode::<Bucket>(&v.head)) {
                    Some(Ok(mut bucket)) if bucket.id == id => {
                        change(&mut bucket);
                        Decision::Write(Some(row(codec::encode(&bucket))))
                    }
                    Some(Err(error)) => Decision::Abort(damaged_row(error)),
                    _ => Decision::Abort(Error::NoSuchBucket),
                },
            )
            .await??;
        changed.gate = gate;
        let changed = Arc::new(changed);
        self.control().change(|c| {
            c.buckets.insert(name.to_owned(), changed.clone());
        });
        Ok(changed)
    }

    /// Sets a bucket's CORS rules; none switch CORS off.
    pub async fn set_cors(&self, name: &str, rules: Vec<CorsRule>) -> Result<(), Error> {
        self.change_bucket(name, move |bucket| bucket.cors = rules.clone())
            .await
            .map(|_| ())
    }

    /// Sets whether writes to a bucket are acknowledged before they are on stable storage; `None` for the node's setting.
    pub async fn set_buffered(&self, name: &str, buffered: Option<bool>) -> Result<(), Error> {
        self.change_bucket(name, move |bucket| bucket.buffered = buffered)
            .await
            .map(|_| ())
    }

    /// Sets what an access key may do with a bucket; nothing removes the grant.
    ///
    /// # Errors
    /// [`Error::NoSuchBucket`], [`Error::NoSuchAccessKey`].
    pub async fn set_grant(
        &self,
        name: &str,
        access_key: &str,
        permissions: Permissions,
    ) -> Result<Arc<Bucket>, Error> {
        self.access_key(access_key).ok_or(Error::NoSuchAccessKey)?;
        let access_key = access_key.to_owned();
        self.change_bucket(name, move |bucket| {
            if permissions.is_empty() {
                bucket.grants.remove(&access_key);
            } else {
                bucket.grants.insert(access_key.clone(), permissions);
            }
        })
        .await
    }

    /// What a bucket holds.
    pub async fn bucket_usage(&self, bucket: &Bucket) -> Result<Usage, Error> {
        let mut usage = Usage::default();
        for partition in rowkeys::bucket_partitions(self.cluster(), &bucket.id) {
            let (objects, bytes) = self.cluster().counter(partition, bucket.id).await?;
            usage.objects += objects;
            usage.bytes += bytes;
        }
        Ok(usage)
    }

    /// Creates an access key with a random id and secret.
    pub async fn create_access_key(
        &self,
        name: &str,
        may_create_buckets: bool,
    ) -> Result<Arc<AccessKey>, Error> {
        let id = format!("AK{}", random_text(self, 18));
        let secret = Secret::new(random_text(self, 40));
        self.import_access_key(&id, secret, name, may_create_buckets)
            .await
    }

    /// Creates an access key with a given id and secret.
    ///
    /// # Errors
    /// [`Error::InvalidName`] for an id that is not 3 to 128 letters, digits, `_`, `-` or `.`, or
    /// a secret that is not 8 to 256 printable characters; [`Error::AccessKeyExists`].
    pub async fn import_access_key(
        &self,
        id: &str,
        secret: Secret,
        name: &str,
        may_create_buckets: bool,
    ) -> Result<Arc<AccessKey>, Error> {
        check_access_key(id, &secret, name)?;
        let key = AccessKey {
            id: id.to_owned(),
            secret,
            name: name.to_owned(),
            created_ms: self.now_ms(),
            may_create_buckets,
        };
        let _changing = self.control().changing.lock().await;
        let value = row(codec::encode(&key));
        self.put_if_absent(rowkeys::access_key(id), value, Error::AccessKeyExists)
            .await?;
        let key = Arc::new(key);
        self.control().change(|c| {
            c.keys.insert(id.to_owned(), key.clone());
        });
        Ok(key)
    }

    /// Sets whether an access key may create buckets.
    pub async fn set_may_create_buckets(
        &self,
        id: &str,
        may: bool,
    ) -> Result<Arc<AccessKey>, Error> {
        let _changing = self.control().changing.lock().await;
        let mut key = (*self.access_key(id).ok_or(Error::NoSuchAccessKey)?).clone();
        key.may_create_buckets = may;
        let value = row(codec::encode(&key));
        self.cluster()
            .update(
                &rowkeys::access_key(id),
                None,
                Durability::Fsync,
                move |current| match current {
                    Some(_) => Decision::Write(Some(value.clone())),
                    None => Decision::Abort(Error::NoSuchAccessKey),
                },
            )
            .await??;
        let key = Arc::new(key);
        self.control().change(|c| {
            c.keys.insert(id.to_owned(), key.clone());
        });
        Ok(key)
    }

    /// Deletes an access key; its grants go with it.
    pub async fn delete_access_key(&self, id: &str) -> Result<(), Error> {
        self.access_key(id).ok_or(Error::NoSuchAccessKey)?;
        for bucket in self.buckets() {
            if bucket.grants.contains_key(id) {
                let none = Permissions::default();
                self.set_grant(&bucket.name, id, none).await?;
            }
        }
        let _changing = self.control().changing.lock().await;
        self.cluster()
            .write(&rowkeys::access_key(id), None, Durability::Fsync)
            .await?;
        self.control().change(|c| {
            c.keys.remove(id);
        });
        Ok(())
    }
}

fn delete_if(current: Option<&Value>, id: Id) -> Decision<Error> {
    match current.map(|v| codec::decode::<Bucket>(&v.head)) {
        Some(Ok(bucket)) if bucket.id == id => Decision::Write(None),
        Some(Err(error)) => Decision::Abort(damaged_row(error)),
        _ => Decision::Abort(Error::NoSuchBucket),
    }
}

/// Random letters and digits: 32 signs, so that each random byte gives five unbiased bits.
fn random_text(model: &Model, length: usize) -> String {
    const SIGNS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut bytes = vec![0; length];
    model.fill_random(&mut bytes);
    let sign = |b: &u8| char::from(SIGNS[usize::from(b % 32)]);
    bytes.iter().map(sign).collect()
}

fn check_access_key(id: &str, secret: &Secret, name: &str) -> Result<(), Error> {
    let sign = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !(3..=128).contains(&id.len()) || !id.chars().all(sign) {
        let why = "access key id: 3 to 128 letters, digits, '_', '-' or '.' are allowed";
        return Err(Error::InvalidName(why.into()));
    }
    let printable = secret.expose().chars().all(|c| c.is_ascii_graphic());
    if !(8..=256).contains(&secret.expose().len()) || !printable {
        let why = "secret: 8 to 256 printable ASCII characters are allowed";
        return Err(Error::InvalidName(why.into()));
    }
    if name.len() > 256 {
        let why = "access key name: at most 256 bytes are allowed";
        return Err(Error::InvalidName(why.into()));
    }
    Ok(())
}
