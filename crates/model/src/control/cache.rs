//! The cache, and how it follows the rows.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use archipel_base::PartitionId;
use archipel_base::codec;
use archipel_storage::RowKey;
use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore};

use crate::Model;
use crate::bucket::{AccessKey, Bucket};
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
    pub changing: Mutex<()>,
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
pub(crate) struct Cached {
    pub buckets: BTreeMap<String, Arc<Bucket>>,
    pub keys: BTreeMap<String, Arc<AccessKey>>,
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
    pub fn read<T>(&self, look: impl FnOnce(&Cached) -> T) -> T {
        look(&self.cached.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Cached)) {
        change(&mut self.cached.write().unwrap_or_else(PoisonError::into_inner));
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
        self.0.is_read.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Reads one row of the control data anew. One at a time, so that the cache follows the order of the rows.
    async fn refresh(&self, key: &Bytes) -> Result<(), Error> {
        let _changing = self.control().changing.lock().await;
        self.reread(key).await
    }

    pub(super) async fn reread(&self, key: &Bytes) -> Result<(), Error> {
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
    pub(super) async fn changed(&self, row: &RowKey) -> Result<(), Error> {
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
}
