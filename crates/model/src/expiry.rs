//! Expiry: removes objects and incomplete uploads that lifecycle rules make expire.
//!
//! Once a day, and after each change of rules, the first live replica of each partition walks its
//! own rows of the buckets with rules. It looks at no network. It removes what has expired.
//!
//! # Invariants
//! - A removal is a conditional write. It is judged on the chosen version: it must be the version
//!   that the walk saw, and the rules must still make it expire. So two nodes that walk the same
//!   rows, and a replica that lags, remove nothing else.
//! - Nothing expires before the node knows the time.
//! - A walk that a restart interrupts goes on where it was.
//! - A bounded number of removals runs at once, and they yield to clients.

mod progress;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::Id;
use archipel_base::codec;
use archipel_storage::RowMetadata;
use bytes::Bytes;
use futures_util::{StreamExt, future::join_all, stream};
use parking_lot::Mutex;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::object::{Condition, ObjectHead, Predicate};
use crate::owner::Owner;
use crate::rowkeys;
use crate::upload::Upload;
use progress::{Place, Progress, Unit};

/// How often the worker looks whether something is to be done.
const TICK: Duration = Duration::from_secs(15);
/// The shortest pause, for tests with short days.
const SHORTEST_TICK: Duration = Duration::from_millis(100);
/// The number of removals in one unit of background work, and of units at once.
const UNIT_REMOVALS: usize = 8;
const UNITS: usize = 4;

/// How expiry goes on this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpiryStatus {
    /// The length of a day in milliseconds.
    pub day_ms: u64,
    /// The buckets with rules that may remove something.
    pub buckets: u64,
    /// True while a walk runs.
    pub running: bool,
    /// The start and the end of the last walk in milliseconds since 1970; 0 for never since the
    /// start of the node.
    pub began_ms: u64,
    /// See `began_ms`.
    pub ended_ms: u64,
    /// The time of the next walk, unless rules change before; `None` without rules.
    pub next_ms: Option<u64>,
    /// The parts of buckets that the current or last walk has to look at: one for each bucket and
    /// partition.
    pub parts: u64,
    /// Those that it has done.
    pub parts_done: u64,
    /// What was done since the start of the node.
    pub counts: ExpiryCounts,
}

/// What expiry did since the start of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpiryCounts {
    /// Rows that were looked at.
    pub examined: u64,
    /// Objects that were removed.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
    /// Removals that found another version or other rules than the walk had seen.
    pub skipped: u64,
    /// Removals that failed. They are tried again.
    pub failed: u64,
}

/// The state of the worker that others look at.
#[derive(Default)]
pub(crate) struct Expiry(Mutex<ExpiryStatus>);

impl Expiry {
    fn change(&self, change: impl FnOnce(&mut ExpiryStatus)) {
        change(&mut self.0.lock());
    }
}

/// The buckets with active rules, by id, each with a hash of all that decides whether it is walked
/// once more: its rules, the day and the layout.
type Rules = BTreeMap<Id, (Arc<Bucket>, u64)>;

/// Something that has expired by the rules, as this node sees it.
enum Expired {
    Object { key: String, head: ObjectHead },
    Upload(Upload),
}

impl Model {
    /// Returns how expiry goes on this node.
    pub fn expiry_status(&self) -> ExpiryStatus {
        let day_ms = self.day_ms();
        ExpiryStatus {
            day_ms,
            ..*self.0.expiry.0.lock()
        }
    }

    /// Removes what expires, until it is dropped. Run it in a task of its own.
    pub async fn run_expiry(&self) {
        let mut progress = Progress::default();
        let short = Duration::from_millis(self.day_ms() / 8);
        let tick = short.clamp(SHORTEST_TICK, TICK);
        loop {
            if let Err(error) = self.expire_what_is_due(&mut progress).await {
                tracing::warn!(%error, "lifecycle rules cannot be applied now; next try soon");
            }
            tokio::time::sleep(tick).await;
        }
    }

    /// Walks what has not been walked today under the present rules. Does nothing while the time is
    /// not known.
    pub(crate) async fn expire_what_is_due(&self, progress: &mut Progress) -> Result<(), Error> {
        if !self.cluster().is_in_layout() || !self.cluster().is_time_known() {
            return Ok(());
        }
        let day = self.now_ms() / self.day_ms();
        let rules = self.present_rules(day)?;
        progress.begin(self, &rules).await?;
        let due = self.due_units(&rules, progress);
        let next_ms = (!rules.is_empty()).then(|| (day + 1).saturating_mul(self.day_ms()));
        self.0.expiry.change(|status| {
            status.buckets = rules.len() as u64;
            status.next_ms = next_ms;
        });
        if due.is_empty() {
            return Ok(());
        }
        self.0.expiry.change(|status| {
            status.running = true;
            status.began_ms = self.now_ms();
            (status.parts, status.parts_done) = (due.len() as u64, 0);
        });
        let walked = self.walk_all(due, &rules, progress).await;
        self.0.expiry.change(|status| {
            status.running = false;
            status.ended_ms = self.now_ms();
        });
        walked
    }

    /// Returns the active rules, as the cache has them.
    fn present_rules(&self, day: u64) -> Result<Rules, Error> {
        let epoch = self.cluster().epoch().map_or(0, |epoch| epoch.config.epoch);
        let number = |number: u64| number.to_be_bytes().to_vec();
        let mut rules = BTreeMap::new();
        for bucket in self.buckets()? {
            let Some(lifecycle) = bucket.lifecycle.as_ref().filter(|l| l.is_active()) else {
                continue;
            };
            let fields = [codec::encode(lifecycle), number(day), number(epoch)];
            let hash = progress::hash(&fields);
            rules.insert(bucket.id, (bucket.clone(), hash));
        }
        Ok(rules)
    }

    /// Returns the parts of buckets that this node has to walk, in order.
    fn due_units(&self, rules: &Rules, progress: &Progress) -> Vec<Unit> {
        let mut due = Vec::new();
        for (id, (_, hash)) in rules {
            for partition in rowkeys::bucket_partitions(self.cluster(), id) {
                let unit = Unit {
                    bucket: *id,
                    partition,
                };
                if self.cluster().is_first_live(partition) && !progress.has(&unit, *hash) {
                    due.push(unit);
                }
            }
        }
        due
    }

    async fn walk_all(
        &self,
        due: Vec<Unit>,
        rules: &Rules,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        for unit in due {
            let Some((bucket, hash)) = rules.get(&unit.bucket) else {
                continue;
            };
            match self.walk(bucket, unit, progress).await? {
                true => progress.done(unit, *hash),
                false => progress.leave_hole(),
            }
            self.0.expiry.change(|status| status.parts_done += 1);
        }
        progress.end(self).await
    }

    /// Walks the rows of a bucket in a partition and removes what has expired. Returns false if
    /// something could not be removed.
    async fn walk(
        &self,
        bucket: &Arc<Bucket>,
        unit: Unit,
        progress: &mut Progress,
    ) -> Result<bool, Error> {
        let prefixes = [rowkeys::objects(&bucket.id), rowkeys::uploads(&bucket.id)];
        let mut after = progress.take_start(&unit);
        // A walk that was interrupted among the uploads has no objects left.
        let is_of = |prefix: &Bytes| after.as_ref().is_some_and(|key| key.starts_with(prefix));
        let skipped = usize::from(is_of(&prefixes[1]));
        let mut whole = true;
        for prefix in prefixes.into_iter().skip(skipped) {
            loop {
                let page = self.page(unit.partition, prefix.clone(), after.take());
                let (rows, last) = self.cluster().in_background(page).await?;
                self.count_expiry(|counts| counts.examined += rows.len() as u64);
                whole &= self.expire_among(bucket, &rows).await?;
                let Some(last) = last else {
                    break;
                };
                after = Some(last.clone());
                if whole {
                    progress.note(self, Place { unit, at: last }).await?;
                }
            }
        }
        Ok(whole)
    }

    /// Removes what has expired among some rows of a bucket. Returns false if something could not
    /// be removed.
    async fn expire_among(
        &self,
        bucket: &Bucket,
        rows: &[(Bytes, RowMetadata)],
    ) -> Result<bool, Error> {
        let cached = self.same_bucket(bucket)?;
        if cached.is_none_or(|cached| self.expired(&cached, rows).is_empty()) {
            return Ok(true);
        }
        // Another node may have changed the rules a moment ago.
        let current = self.refresh_bucket(&bucket.name).await?;
        let Some(current) = current.filter(|current| current.id == bucket.id) else {
            return Ok(true);
        };
        let mut expired = self.expired(&current, rows).into_iter();
        let chunks = std::iter::from_fn(|| {
            let chunk: Vec<_> = expired.by_ref().take(UNIT_REMOVALS).collect();
            (!chunk.is_empty()).then_some(chunk)
        });
        let units = chunks.map(|chunk| {
            let removals = chunk.into_iter().map(|one| self.remove(&current, one));
            self.cluster().in_background(join_all(removals))
        });
        let mut units = stream::iter(units).buffer_unordered(UNITS);
        let mut whole = true;
        while let Some(removed) = units.next().await {
            whole &= removed.into_iter().all(|removed| removed);
        }
        Ok(whole)
    }

    /// Returns the cached bucket of the same name, if it is the same bucket.
    fn same_bucket(&self, bucket: &Bucket) -> Result<Option<Arc<Bucket>>, Error> {
        let cached = self.bucket(&bucket.name)?;
        Ok(cached.filter(|cached| cached.id == bucket.id))
    }

    /// Returns what has expired among some rows of a bucket.
    fn expired(&self, bucket: &Bucket, rows: &[(Bytes, RowMetadata)]) -> Vec<Expired> {
        // What cannot be decoded is for repair, or for a later release.
        let expired = |(key, row): &(Bytes, RowMetadata)| {
            let metadata = row.metadata.as_ref()?;
            let one = match rowkeys::owner_of(key) {
                Some(Owner::Object { key, .. }) => Expired::Object {
                    key,
                    head: codec::decode(metadata).ok()?,
                },
                _ => Expired::Upload(codec::decode(metadata).ok()?),
            };
            self.has_expired(bucket, &one).then_some(one)
        };
        rows.iter().filter_map(expired).collect()
    }

    fn has_expired(&self, bucket: &Bucket, one: &Expired) -> bool {
        match one {
            Expired::Object { key, head } => self.has_object_expired(bucket, key, head),
            Expired::Upload(upload) => {
                let rules = bucket.lifecycle.as_ref();
                let due = rules
                    .and_then(|rules| rules.abort(&upload.key, upload.initiated_ms, self.day_ms()));
                due.is_some_and(|due| due.at_ms <= self.now_ms())
            }
        }
    }

    fn has_object_expired(&self, bucket: &Bucket, key: &str, head: &ObjectHead) -> bool {
        let rules = bucket.lifecycle.as_ref();
        let due = rules.and_then(|rules| rules.expiry(key, head, self.day_ms()));
        due.is_some_and(|due| due.at_ms <= self.now_ms())
    }

    /// Removes something that has expired. Returns false if that must be tried again.
    async fn remove(&self, bucket: &Bucket, one: Expired) -> bool {
        let removed = match &one {
            Expired::Object { key, head } => self.remove_object(bucket, key, head).await,
            Expired::Upload(upload) => self.remove_upload(bucket, upload).await,
        };
        match (removed, one) {
            (Ok(()), Expired::Object { head, .. }) => self.count_expiry(|counts| {
                counts.objects += 1;
                counts.bytes += head.size;
            }),
            (Ok(()), Expired::Upload(_)) => self.count_expiry(|counts| counts.uploads += 1),
            (Err(Error::PreconditionFailed | Error::NoSuchUpload | Error::NoSuchBucket), _) => {
                self.count_expiry(|counts| counts.skipped += 1);
            }
            (Err(error), _) => {
                tracing::debug!(%error, bucket = bucket.name, "what has expired stays for now");
                self.count_expiry(|counts| counts.failed += 1);
                return false;
            }
        }
        true
    }

    /// Removes an object, if it is still the version that was seen and still expires.
    async fn remove_object(
        &self,
        bucket: &Bucket,
        key: &str,
        seen: &ObjectHead,
    ) -> Result<(), Error> {
        let (model, known, name) = (self.clone(), bucket.clone(), key.to_owned());
        let version = seen.version;
        let test: Predicate = Arc::new(move |current| {
            let same = current.filter(|head| head.version == version);
            let now = model.same_bucket(&known)?;
            match (same, now) {
                (Some(head), Some(now)) if model.has_object_expired(&now, &name, head) => Ok(()),
                _ => Err(Error::PreconditionFailed),
            }
        });
        self.delete_object_in_background(bucket, key, Condition::Check(test))
            .await
            .map(|_| ())
    }

    /// Aborts an upload, if the rules still say so. An upload never changes.
    async fn remove_upload(&self, bucket: &Bucket, upload: &Upload) -> Result<(), Error> {
        let now = self.same_bucket(bucket)?;
        let one = Expired::Upload(upload.clone());
        if now.is_none_or(|now| !self.has_expired(&now, &one)) {
            return Err(Error::PreconditionFailed);
        }
        self.abort_upload(bucket, &upload.key, &upload.id).await
    }

    fn count_expiry(&self, count: impl FnOnce(&mut ExpiryCounts)) {
        self.0.expiry.change(|status| count(&mut status.counts));
    }
}

#[cfg(test)]
mod tests;
