//! Expiry: removes objects, versions and incomplete uploads that lifecycle rules make expire.
//!
//! Once a day, and after each change of rules, the first live replica of each partition walks its
//! own rows of the buckets with rules. It looks at no network. It removes what has expired.
//!
//! # Invariants
//! - A removal is a conditional write. It is judged on the chosen version: it must be the version
//!   that the walk saw, and the rules must still make it expire. So two nodes that walk the same
//!   rows, and a replica that lags, remove nothing else.
//! - Where there are versions, the removal of an object writes a delete marker. A version is
//!   removed only if it is not current, and a marker only if the key has no other version.
//! - Nothing removes a version that object lock protects.
//! - Nothing expires before the node knows the time.
//! - A walk that a restart interrupts goes on where it was.
//! - A bounded number of removals runs at once, and they yield to clients.

mod chains;
mod noncurrent;
mod progress;
mod remove;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::codec;
use archipel_base::{Id, boxed};
use archipel_storage::RowMetadata;
use bytes::Bytes;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::lock::Governance;
use crate::object::ObjectHead;
use crate::owner::Owner;
use crate::rowkeys;
use crate::upload::Upload;
use crate::version::VersionId;
use crate::versions::head_in;
use noncurrent::{Line, Noncurrent};
use progress::{Place, Progress, Unit};
pub(crate) use status::Expiry;
pub use status::{ExpiryCounts, ExpiryStatus};

/// The interval at which the worker looks for something to do.
const TICK: Duration = Duration::from_secs(15);
/// The shortest pause, for tests with short days.
const SHORTEST_TICK: Duration = Duration::from_millis(100);
/// The buckets with active rules, by id, each with a hash of all that decides whether it is walked
/// once more: its rules, the day and the layout.
type Rules = BTreeMap<Id, (Arc<Bucket>, u64)>;

/// Something that rules may make expire, as this node sees it.
enum Seen {
    /// The current version of a key.
    Object {
        key: String,
        head: ObjectHead,
    },
    /// A delete marker that is the current version of a key.
    Marker {
        key: String,
        head: ObjectHead,
    },
    /// A version that is not current.
    Noncurrent(Noncurrent),
    Upload(Upload),
}

impl Model {
    /// Returns how expiry goes on this node.
    pub fn expiry_status(&self) -> ExpiryStatus {
        let day_ms = self.day_ms();
        // Read before the rest: a walk that no longer waits is seen to run.
        let asked = *self.inner.expiry.asked.lock();
        ExpiryStatus {
            day_ms,
            waiting: asked.answered < asked.walks,
            ..self.inner.expiry.status.lock().clone()
        }
    }

    /// Removes what expires, until it is dropped. Run it in a task of its own.
    #[boxed]
    pub async fn run_expiry(&self) {
        let mut progress = Progress::default();
        let short = Duration::from_millis(self.day_ms() / 8);
        let tick = short.clamp(SHORTEST_TICK, TICK);
        loop {
            if let Err(error) = self.expire_what_is_due(&mut progress).await {
                tracing::warn!(%error, "lifecycle rules cannot be applied now; next try soon");
            }
            tokio::select! {
                () = tokio::time::sleep(tick) => {}
                () = self.inner.expiry.wake.notified() => {}
            }
        }
    }

    /// Applies all rules once more on this node, as soon as the walk under way, if there is one,
    /// has ended.
    pub fn start_expiry(&self) {
        let expiry = &self.inner.expiry;
        expiry.asked.lock().walks += 1;
        // The reason for which an earlier walk did not end may be gone.
        expiry.change(|status| status.trouble = None);
        expiry.wake.notify_one();
    }

    /// Applies no more rules on this node until the next day, or until a walk is asked for. Does
    /// nothing if no walk runs or waits: the one that is due would not begin.
    pub fn stop_expiry(&self) {
        let expiry = &self.inner.expiry;
        let now = self.now_ms();
        // Held until the end, so that the walk does not end in between.
        let mut status = expiry.status.lock();
        let mut asked = expiry.asked.lock();
        let waited = asked.answered < asked.walks;
        if !status.running && !waited {
            return;
        }
        asked.stopped = Some((now / self.day_ms(), asked.walks));
        asked.answered = asked.walks;
        drop(asked);
        if waited && !status.running {
            // The walk that never began is the last one, and was not through.
            (status.parts, status.parts_done) = (status.parts.max(1), 0);
            (status.began_ms, status.ended_ms) = (now, now);
            status.trouble = None;
        }
    }

    /// Returns true if nothing more is to be walked today.
    fn is_expiry_stopped(&self) -> bool {
        self.inner.expiry.is_stopped(self.now_ms() / self.day_ms())
    }

    /// Walks what has not been walked today under the present rules. Does nothing while the time is
    /// not known.
    pub(crate) async fn expire_what_is_due(&self, progress: &mut Progress) -> Result<(), Error> {
        let why = match (
            self.cluster().is_in_layout(),
            self.cluster().is_time_known(),
        ) {
            (false, _) => Some("this node is in no layout"),
            (true, false) => Some("this node does not know the time yet"),
            (true, true) => None,
        };
        let walked = match why {
            Some(_) => Ok(()),
            None => self.walk_what_is_due(progress).await,
        };
        let error = walked.as_ref().err().map(ToString::to_string);
        let trouble = why.map(str::to_owned).or(error);
        self.inner.expiry.change(|status| status.trouble = trouble);
        walked
    }

    async fn walk_what_is_due(&self, progress: &mut Progress) -> Result<(), Error> {
        let day = self.now_ms() / self.day_ms();
        if self.is_expiry_stopped() {
            return Ok(());
        }
        let walks = self.inner.expiry.asked.lock().walks;
        let rules = self.present_rules(day, walks)?;
        progress.begin(self, &rules).await?;
        let due = self.due_units(&rules, progress);
        let next_ms = (!rules.is_empty()).then(|| (day + 1).saturating_mul(self.day_ms()));
        self.inner.expiry.change(|status| {
            status.buckets = rules.len() as u64;
            status.next_ms = next_ms;
        });
        if due.is_empty() {
            // Parts that an earlier walk left are not left any more.
            let is_asked = self.inner.expiry.asked.lock().answered < walks;
            self.inner.expiry.change(|status| {
                if is_asked || status.parts_done < status.parts {
                    (status.parts, status.parts_done) = (0, 0);
                }
            });
            self.inner.expiry.answer(walks);
            return Ok(());
        }
        self.inner.expiry.change(|status| {
            status.running = true;
            status.began_ms = self.now_ms();
            (status.parts, status.parts_done) = (due.len() as u64, 0);
            (status.failed_before, status.trouble) = (status.counts.failed, None);
        });
        self.inner.expiry.answer(walks);
        let walked = self.walk_all(due, &rules, progress).await;
        self.inner.expiry.change(|status| {
            status.running = false;
            status.ended_ms = self.now_ms();
            status.trouble = walked.as_ref().err().map(ToString::to_string);
        });
        walked
    }

    /// Returns the active rules, as the cache has them. `walks` is how many times a walk was asked
    /// for.
    fn present_rules(&self, day: u64, walks: u64) -> Result<Rules, Error> {
        let epoch = self.cluster().epoch().map_or(0, |epoch| epoch.config.epoch);
        let number = |number: u64| number.to_be_bytes().to_vec();
        let mut rules = BTreeMap::new();
        for bucket in self.buckets()? {
            let Some(lifecycle) = bucket.lifecycle.as_ref().filter(|l| l.is_active()) else {
                continue;
            };
            let versions = u64::from(bucket.versioning.has_versions());
            let mut fields = vec![
                codec::encode(lifecycle),
                number(day),
                number(epoch),
                number(versions),
            ];
            // A walk that ended before a restart counts, unless another one was asked for since.
            fields.extend((walks > 0).then(|| number(walks)));
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
            if self.is_expiry_stopped() {
                break;
            }
            let Some((bucket, hash)) = rules.get(&unit.bucket) else {
                continue;
            };
            match self.walk(bucket, unit, progress).await? {
                true => progress.done(unit, *hash),
                false => progress.leave_hole(),
            }
            self.inner.expiry.change(|status| status.parts_done += 1);
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
        let id = &bucket.id;
        let prefixes = [
            rowkeys::objects(id),
            rowkeys::versions(id),
            rowkeys::uploads(id),
        ];
        let mut after = progress.take_start(&unit).map(noncurrent::start_of_key);
        // Nothing is left of the rows before those among which a walk was interrupted.
        let is_in = |prefix: &Bytes| after.as_ref().is_some_and(|key| key.starts_with(prefix));
        let skipped = prefixes.iter().position(is_in).unwrap_or_default();
        let mut whole = true;
        for prefix in prefixes.into_iter().skip(skipped) {
            let is_kept = prefix == rowkeys::versions(id);
            if is_kept && !bucket.has_noncurrent_rules() {
                continue;
            }
            let mut line = None;
            loop {
                let page = self.page(unit.partition, prefix.clone(), after.take());
                let (rows, last) = self.cluster().in_background(page).await?;
                self.count_expiry(|counts| counts.examined += rows.len() as u64);
                let seen = match is_kept {
                    true => self.noncurrent_among(unit, &rows, &mut line).await?,
                    false => seen_in(&rows),
                };
                whole &= self.expire_among(bucket, seen).await?;
                let Some(last) = last else {
                    break;
                };
                after = Some(last.clone());
                if whole {
                    progress.note(self, Place { unit, at: last }).await?;
                }
            }
            let rest = line.map(Line::end).unwrap_or_default();
            whole &= self.expire_among(bucket, rest).await?;
        }
        Ok(whole)
    }

    /// Returns the cached bucket of the same name, if it is the same bucket.
    fn same_bucket(&self, bucket: &Bucket) -> Result<Option<Arc<Bucket>>, Error> {
        let cached = self.bucket(&bucket.name)?;
        Ok(cached.filter(|cached| cached.id == bucket.id))
    }

    fn has_expired(&self, bucket: &Bucket, one: &Seen) -> bool {
        let Some(rules) = &bucket.lifecycle else {
            return false;
        };
        let (now, day) = (self.now_ms(), self.day_ms());
        let due = match one {
            Seen::Object { key, head } => rules.expiry(key, head, day),
            Seen::Marker { key, head } => rules.lone_marker(key, head, day),
            Seen::Noncurrent(one) => return self.has_expired_as(bucket, one, &one.head),
            Seen::Upload(upload) => rules.abort(&upload.key, upload.initiated_ms, day),
        };
        due.is_some_and(|due| due.at_ms <= now)
    }

    /// Returns true if a noncurrent version has expired that has this metadata.
    fn has_expired_as(&self, bucket: &Bucket, one: &Noncurrent, head: &ObjectHead) -> bool {
        let (now, day) = (self.now_ms(), self.day_ms());
        let rules = bucket.lifecycle.as_ref();
        let needed =
            rules.and_then(|rules| rules.noncurrent(&one.key, head, one.since_ms, now, day));
        !head.lock.protects(now, Governance::Respect)
            && needed.is_some_and(|needed| one.newer >= needed)
    }

    fn count_expiry(&self, count: impl FnOnce(&mut ExpiryCounts)) {
        self.inner.expiry.change(|status| count(&mut status.counts));
    }
}

/// Returns the objects, current delete markers and uploads among some rows. Rows that cannot be
/// decoded are for repair, or for a later release.
fn seen_in(rows: &[(Bytes, RowMetadata)]) -> Vec<Seen> {
    let seen = |(key, row): &(Bytes, RowMetadata)| match rowkeys::owner_of(key) {
        Some(Owner::Object { key, .. }) => {
            let head = current_in(row)?;
            Some(match head.is_marker {
                true => Seen::Marker { key, head },
                false => Seen::Object { key, head },
            })
        }
        _ => Some(Seen::Upload(codec::decode(row.metadata.as_ref()?).ok()?)),
    };
    rows.iter().filter_map(seen).collect()
}

/// Returns the version that a row holds.
fn current_in(row: &RowMetadata) -> Option<ObjectHead> {
    let version = row.version.as_deref().cloned().unwrap_or_default();
    let id = VersionId::of(version.at);
    head_in(row.metadata.as_ref()?, id, version.kind).ok()?
}

#[cfg(test)]
mod tests;
