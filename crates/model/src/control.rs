//! Control data: buckets and access keys, cached whole on every node, so that requests check
//! them without a network round.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use archipel_base::codec;
use archipel_base::{Id, PartitionId};
use archipel_cluster::{Decision, How};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore};

use crate::Model;
use crate::bucket::{
    AccessKey, Bucket, CorsRule, Permissions, Secret, Turn, Usage, check_bucket_name,
};
use crate::content::damaged_row;
use crate::error::Error;
use crate::rowkeys::{self, Kind};

/// How many names that are not in the cache are asked for at once.
const MISSES: usize = 64;
/// The longest name that there can be.
const MAX_NAME_BYTES: usize = 200;

/// What is cached of the control data.
pub(crate) struct Control {
    cached: RwLock<Cached>,
    /// One change at a time on this node, so that the cache follows the order of the rows.
    changing: Mutex<()>,
    /// Names that are not in the cache and are being asked for.
    misses: Semaphore,
}

impl Default for Control {
    fn default() -> Control {
        Control {
            cached: RwLock::default(),
            changing: Mutex::default(),
            misses: Semaphore::new(MISSES),
        }
    }
}

#[derive(Default)]
struct Cached {
    buckets: BTreeMap<String, Arc<Bucket>>,
    keys: BTreeMap<String, Arc<AccessKey>>,
}

impl Cached {
    /// Takes in what a row holds.
    fn put(&mut self, key: &[u8], head: Option<&Bytes>) -> Result<(), Error> {
        let Some(name) = rowkeys::name_of(key) else {
            return Ok(());
        };
        match (rowkeys::kind(key), head) {
            (Kind::Bucket, None) => drop(self.buckets.remove(name)),
            (Kind::Bucket, Some(head)) => {
                let bucket: Bucket = codec::decode(head).map_err(damaged_row)?;
                self.buckets.insert(name.to_owned(), Arc::new(bucket));
            }
            (Kind::AccessKey, None) => drop(self.keys.remove(name)),
            (Kind::AccessKey, Some(head)) => {
                let key: AccessKey = codec::decode(head).map_err(damaged_row)?;
                self.keys.insert(name.to_owned(), Arc::new(key));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Control {
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
    /// Hears of changes that other nodes made.
    pub(crate) fn listen(&self) {
        let model = Arc::downgrade(&self.0);
        self.cluster().on_notice(move |key: Bytes| {
            let model = model.upgrade().map(Model);
            Box::pin(async move {
                let Some(model) = model else { return };
                if let Err(error) = model.refresh(&key).await {
                    tracing::warn!(%error, "a change that another node made cannot be read");
                }
            })
        });
    }

    /// Reads all buckets and access keys anew.
    pub async fn refresh_all(&self) -> Result<(), Error> {
        let _changing = self.control().changing.lock().await;
        let mut fresh = Cached::default();
        let control = PartitionId::CONTROL;
        for row in self
            .cluster()
            .scan_all(control, &rowkeys::ALL_BUCKETS)
            .await?
        {
            fresh.put(&row.key.key, Some(&row.head))?;
        }
        let keys = &rowkeys::ALL_ACCESS_KEYS;
        for row in self.cluster().scan_all(control, keys).await? {
            fresh.put(&row.key.key, Some(&row.head))?;
        }
        self.control().change(|cached| *cached = fresh);
        Ok(())
    }

    /// Reads one row of the control data anew. One at a time, so that the cache follows the order of the rows.
    async fn refresh(&self, key: &Bytes) -> Result<(), Error> {
        let _changing = self.control().changing.lock().await;
        self.reread(key).await
    }

    async fn reread(&self, key: &Bytes) -> Result<(), Error> {
        let row = RowKey {
            partition: PartitionId::CONTROL,
            key: key.clone(),
        };
        let head = self.cluster().head(&row).await?;
        let mut put = Ok(());
        self.control()
            .change(|cached| put = cached.put(key, head.as_ref()));
        put
    }

    /// After a change of a row: takes it into the cache, and tells the other nodes.
    async fn changed(&self, row: &RowKey) -> Result<(), Error> {
        self.reread(&row.key).await?;
        self.cluster().notify(row.key.clone()).await;
        Ok(())
    }

    pub(crate) async fn refresh_bucket(&self, name: &str) -> Result<(), Error> {
        self.refresh(&rowkeys::bucket(name).key).await
    }

    /// The bucket of that name; one that is not in the cache is asked for.
    pub async fn find_bucket(&self, name: &str) -> Result<Option<Arc<Bucket>>, Error> {
        if let Some(bucket) = self.bucket(name) {
            return Ok(Some(bucket));
        }
        self.ask_for(rowkeys::bucket(name)).await?;
        Ok(self.bucket(name))
    }

    /// The access key of that id; one that is not in the cache is asked for.
    pub async fn find_access_key(&self, id: &str) -> Result<Option<Arc<AccessKey>>, Error> {
        if let Some(key) = self.access_key(id) {
            return Ok(Some(key));
        }
        self.ask_for(rowkeys::access_key(id)).await?;
        Ok(self.access_key(id))
    }

    /// Asks for a row that is not in the cache. On a node that is the only one the cache is whole.
    async fn ask_for(&self, row: RowKey) -> Result<(), Error> {
        if self.cluster().is_alone() || row.key.len() > MAX_NAME_BYTES {
            return Ok(());
        }
        // Names that nobody has cost a round trip each: so many at once, no more.
        let busy = || Error::Busy("too many unknown names at once".into());
        let _turn = self.control().misses.try_acquire().map_err(|_| busy())?;
        self.refresh(&row.key).await
    }

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
            let known = self.find_access_key(owner).await?;
            known.ok_or(Error::NoSuchAccessKey)?;
            grants.insert(owner.to_owned(), Permissions::ALL);
        }
        let bucket = Bucket {
            id: self.random_id(),
            name: name.to_owned(),
            created_ms: self.now_ms(),
            grants,
            cors: Vec::new(),
            buffered: None,
            turn: Turn::default(),
        };
        let value = row(codec::encode(&bucket));
        {
            let _changing = self.control().changing.lock().await;
            self.put_if_absent(rowkeys::bucket(name), value, Error::BucketExists)
                .await?;
        }
        // Closed as long as they are not there: the first commit opens them if this node dies now.
        self.move_gates(&bucket.id, 0, true).await?;
        let _changing = self.control().changing.lock().await;
        self.changed(&rowkeys::bucket(name)).await?;
        Ok(Arc::new(bucket))
    }

    async fn put_if_absent(&self, key: RowKey, value: Value, exists: Error) -> Result<(), Error> {
        self.cluster()
            .update(
                &key,
                How::durable(Durability::Fsync),
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
    /// [`Error::NoSuchBucket`], [`Error::BucketNotEmpty`]; [`Error::Conflict`] if another deletes it, too.
    pub async fn delete_bucket(&self, name: &str) -> Result<(), Error> {
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        // Most that are not empty are found so without disturbing anybody.
        if !self.is_empty(&bucket).await? {
            return Err(Error::BucketNotEmpty);
        }
        let turn = self.take_turn(&bucket).await?;
        let empty = match self.move_gates(&bucket.id, turn, false).await {
            Ok(()) => self.is_empty(&bucket).await,
            Err(error) => Err(error),
        };
        if !matches!(empty, Ok(true)) {
            // A later turn, so that no message of this one closes a gate behind it.
            self.leave_turn(&bucket, turn).await?;
            self.open_gates(&bucket).await?;
            return empty.and(Err(Error::BucketNotEmpty));
        }
        let _changing = self.control().changing.lock().await;
        let (id, row) = (bucket.id, rowkeys::bucket(name));
        let how = How::durable(Durability::Fsync);
        self.cluster()
            .update(&row, how, move |current| delete_if(current, id, turn))
            .await??;
        self.changed(&row).await?;
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
        change: impl Fn(&mut Bucket) + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        let bucket = self.find_bucket(name).await?.ok_or(Error::NoSuchBucket)?;
        self.change_row(&bucket, move |row| {
            change(row);
            Ok(())
        })
        .await
    }

    /// Changes a bucket's row and the cache, unless `change` refuses.
    pub(crate) async fn change_row(
        &self,
        bucket: &Bucket,
        change: impl Fn(&mut Bucket) -> Result<(), Error> + Send + Sync,
    ) -> Result<Arc<Bucket>, Error> {
        let _changing = self.control().changing.lock().await;
        let (id, row_key) = (bucket.id, rowkeys::bucket(&bucket.name));
        let how = How::durable(Durability::Fsync);
        self.cluster()
            .update(&row_key, how, move |current| {
                match current.map(|v| codec::decode::<Bucket>(&v.head)) {
                    Some(Ok(mut bucket)) if bucket.id == id => match change(&mut bucket) {
                        Ok(()) => Decision::Write(Some(row(codec::encode(&bucket)))),
                        Err(error) => Decision::Abort(error),
                    },
                    Some(Err(error)) => Decision::Abort(damaged_row(error)),
                    _ => Decision::Abort(Error::NoSuchBucket),
                }
            })
            .await??;
        self.changed(&row_key).await?;
        let changed = self.bucket(&bucket.name).filter(|b| b.id == id);
        changed.ok_or(Error::NoSuchBucket)
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
        let known = self.find_access_key(access_key).await?;
        known.ok_or(Error::NoSuchAccessKey)?;
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
        self.changed(&rowkeys::access_key(id)).await?;
        Ok(Arc::new(key))
    }

    /// Sets whether an access key may create buckets.
    pub async fn set_may_create_buckets(
        &self,
        id: &str,
        may: bool,
    ) -> Result<Arc<AccessKey>, Error> {
        let _changing = self.control().changing.lock().await;
        self.reread(&rowkeys::access_key(id).key).await?;
        let mut key = (*self.access_key(id).ok_or(Error::NoSuchAccessKey)?).clone();
        key.may_create_buckets = may;
        let value = row(codec::encode(&key));
        self.cluster()
            .update(
                &rowkeys::access_key(id),
                How::durable(Durability::Fsync),
                move |current| match current {
                    Some(_) => Decision::Write(Some(value.clone())),
                    None => Decision::Abort(Error::NoSuchAccessKey),
                },
            )
            .await??;
        self.changed(&rowkeys::access_key(id)).await?;
        Ok(Arc::new(key))
    }

    /// Deletes an access key; its grants go with it.
    pub async fn delete_access_key(&self, id: &str) -> Result<(), Error> {
        let known = self.find_access_key(id).await?;
        known.ok_or(Error::NoSuchAccessKey)?;
        for bucket in self.buckets() {
            if bucket.grants.contains_key(id) {
                let none = Permissions::default();
                self.set_grant(&bucket.name, id, none).await?;
            }
        }
        let _changing = self.control().changing.lock().await;
        self.cluster()
            .write(
                &rowkeys::access_key(id),
                None,
                How::durable(Durability::Fsync),
            )
            .await?;
        self.changed(&rowkeys::access_key(id)).await
    }
}

/// A bucket is deleted only by who still has its turn.
fn delete_if(current: Option<&Value>, id: Id, turn: u64) -> Decision<Error> {
    match current.map(|v| codec::decode::<Bucket>(&v.head)) {
        Some(Ok(bucket)) if bucket.id == id && bucket.turn.number != turn => {
            Decision::Abort(Error::Conflict)
        }
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
