//! The deletion of buckets, for requests that wait for a change in one.

use std::sync::Arc;

use archipel_base::boxed;

use super::Cached;
use crate::Model;
use crate::bucket::Bucket;
use crate::rowkeys::{self, Kind};

impl Cached {
    /// Returns true if the cache has this bucket, and no other one by its name.
    pub(super) fn has(&self, bucket: &Bucket) -> bool {
        let known = self.buckets.get(&bucket.name);
        known.is_some_and(|known| known.id == bucket.id)
    }

    /// Returns the bucket whose row has this key.
    pub(super) fn in_row(&self, key: &[u8]) -> Option<&Arc<Bucket>> {
        match rowkeys::kind(key) {
            Kind::Bucket => self.buckets.get(rowkeys::name_of(key)?),
            _ => None,
        }
    }
}

impl Model {
    /// Waits until a bucket is deleted, as far as the cache knows.
    #[boxed]
    pub(crate) async fn deleted(&self, bucket: &Bucket) {
        loop {
            let mut lost = std::pin::pin!(self.control().lost.notified());
            lost.as_mut().enable();
            // A cache that does not count says nothing. It tells again once it counts.
            if let Ok(false) = self.look(|cached| cached.has(bucket)) {
                return;
            }
            lost.await;
        }
    }
}
