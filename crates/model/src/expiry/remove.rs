//! Removals of what has expired. Each is decided on the chosen version.

use std::ops::Bound;
use std::sync::Arc;

use archipel_base::Id;
use archipel_cluster::{VersionDecision, VersionSeen};
use archipel_storage::engine::Flow;
use archipel_storage::{RowKey, RowReader};

use super::Seen;
use super::noncurrent::Noncurrent;
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::events::Happening;
use crate::lock::{Governance, Taking};
use crate::object::{Condition, ObjectHead, Predicate};
use crate::rowkeys;
use crate::upload::Upload;
use crate::version::VersionId;
use crate::versions::{Deciding, head_of};

/// The outcome of an attempt to remove something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tried {
    Removed,
    /// It stays: it is gone, has changed or does not expire.
    Kept,
    /// It must be tried again.
    Failed,
}

/// The kind of thing that was removed, with the bytes that it had.
pub(super) enum Removed {
    Object(u64),
    Version(u64),
    Marker,
    Upload,
}

/// The other versions of a key in a decision about one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Matter,
    /// They are `unlisted` as in [`Deciding`].
    Unlisted,
}

impl Model {
    /// Removes something that has expired.
    pub(super) async fn remove(&self, bucket: &Bucket, one: Seen) -> Tried {
        let removed = match &one {
            Seen::Object { key, head } => self.remove_object(bucket, key, head).await.map(Some),
            Seen::Marker { key, head } => self.remove_marker(bucket, key, head).await,
            Seen::Noncurrent(one) => self.remove_noncurrent(bucket, one).await.map(Some),
            Seen::Upload(upload) => self.remove_upload(bucket, upload).await.map(Some),
        };
        match removed {
            Ok(None) => Tried::Kept,
            Ok(Some(removed)) => {
                self.count_expiry(|counts| match removed {
                    Removed::Object(bytes) => {
                        counts.objects += 1;
                        counts.bytes += bytes;
                    }
                    Removed::Version(bytes) => {
                        counts.versions += 1;
                        counts.bytes += bytes;
                    }
                    Removed::Marker => counts.markers += 1,
                    Removed::Upload => counts.uploads += 1,
                });
                Tried::Removed
            }
            Err(
                Error::PreconditionFailed
                | Error::NoSuchUpload
                | Error::NoSuchBucket
                | Error::ProtectedByLock,
            ) => {
                self.count_expiry(|counts| counts.skipped += 1);
                Tried::Kept
            }
            Err(error) => {
                tracing::debug!(%error, bucket = bucket.name, "what has expired stays for now");
                self.count_expiry(|counts| counts.failed += 1);
                Tried::Failed
            }
        }
    }

    /// Removes an object, if it is still the version that was seen and still expires. Where there
    /// are versions, a delete marker covers it, or replaces it if both are the null version.
    pub(super) async fn remove_object(
        &self,
        bucket: &Bucket,
        key: &str,
        seen: &ObjectHead,
    ) -> Result<Removed, Error> {
        let (model, known, name) = (self.clone(), bucket.clone(), key.to_owned());
        let version = seen.version;
        let test: Predicate = Arc::new(move |current| {
            let same = current.filter(|head| head.version == version);
            let head = same.ok_or(Error::PreconditionFailed)?.clone();
            let key = name.clone();
            model.check_expired(&known, &Seen::Object { key, head })
        });
        let deleted = self
            .delete_object_in_background(bucket, key, Condition::Check(test))
            .await?;
        let is_kept = deleted.id.is_some_and(|marker| marker != seen.id);
        Ok(Removed::Object(if is_kept { 0 } else { seen.size }))
    }

    /// Removes a delete marker, if it is the only version of its key and rules say so. Returns
    /// `None` if this replica keeps others.
    async fn remove_marker(
        &self,
        bucket: &Bucket,
        key: &str,
        seen: &ObjectHead,
    ) -> Result<Option<Removed>, Error> {
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        if self.has_kept_versions(&row).await? {
            return Ok(None);
        }
        self.kill_if(bucket, key, seen, Others::Matter, |versions, head| {
            let key = key.to_owned();
            let is_lone = head.is_marker && versions.is_current && versions.is_alone;
            match is_lone {
                true => self.check_expired(bucket, &Seen::Marker { key, head }),
                false => Err(Error::PreconditionFailed),
            }
        })
        .await?;
        Ok(Some(Removed::Marker))
    }

    /// Removes a version, if it is not current and rules say so.
    async fn remove_noncurrent(&self, bucket: &Bucket, one: &Noncurrent) -> Result<Removed, Error> {
        let (key, seen) = (one.key.as_str(), &one.head);
        let (now, day) = (self.now_ms(), self.day_ms());
        let known = self.same_bucket(bucket)?;
        let rules = known.as_ref().and_then(|known| known.lifecycle.as_ref());
        let needed = rules.and_then(|rules| rules.noncurrent(key, seen, one.since_ms, now, day));
        let needed = needed.ok_or(Error::PreconditionFailed)?;
        // This replica may not know yet that newer versions were removed.
        if needed > 0 && !self.has_newer(bucket, key, seen.id, needed).await? {
            return Err(Error::PreconditionFailed);
        }
        // There may be thousands of dead versions.
        self.kill_if(bucket, key, seen, Others::Unlisted, |versions, head| {
            // If this replica lags, the version may have been current later than it knows. The
            // successor that it saw may be removed by now: that does not change since when the
            // version is noncurrent.
            if versions.last.is_none_or(|last| last > one.last) {
                return Err(Error::PreconditionFailed);
            }
            // The row of the current version tells the time only if a quorum knows that version.
            if let Some(behind) = one.behind {
                let current = versions.current.map(head_of).transpose()?.flatten();
                let current = current.map(|current| (current.id, current.version));
                if current != Some(behind) {
                    return Err(Error::PreconditionFailed);
                }
            }
            self.check_rules(bucket, |now| self.has_expired_as(now, one, &head))
        })
        .await?;
        Ok(Removed::Version(seen.size))
    }

    /// Fails unless something expires by the rules that this node knows now.
    fn check_expired(&self, bucket: &Bucket, one: &Seen) -> Result<(), Error> {
        self.check_rules(bucket, |now| self.has_expired(now, one))
    }

    /// Fails unless the bucket as this node knows it now passes the test.
    fn check_rules(
        &self,
        bucket: &Bucket,
        test: impl FnOnce(&Bucket) -> bool,
    ) -> Result<(), Error> {
        let now = self.same_bucket(bucket)?;
        match now.is_some_and(|now| test(&now)) {
            true => Ok(()),
            false => Err(Error::PreconditionFailed),
        }
    }

    /// Deletes a version for good, if it is still the one that was seen and passes the test.
    async fn kill_if(
        &self,
        bucket: &Bucket,
        key: &str,
        seen: &ObjectHead,
        others: Others,
        test: impl Fn(&VersionSeen<'_>, ObjectHead) -> Result<(), Error> + Send + Sync,
    ) -> Result<(), Error> {
        let write: Id = seen.version;
        let judge = |versions: &VersionSeen<'_>| {
            let head = versions.named.map(head_of).transpose()?.flatten();
            let head = head.filter(|head| head.version == write);
            let head = head.ok_or(Error::PreconditionFailed)?;
            if head.lock.protects(self.now_ms(), Governance::Respect) {
                return Err(Error::ProtectedByLock);
            }
            test(versions, head)
        };
        let decide = |versions: &VersionSeen<'_>| match judge(versions) {
            Ok(()) => VersionDecision::Kill,
            Err(error) => VersionDecision::Abort(error),
        };
        let governance = Governance::Respect;
        let taking = Some(Taking::Version { governance });
        let how = Deciding {
            taking,
            happening: Some(Happening::Deleted(Some(seen.id))),
            by_all: false,
            background: true,
            unlisted: others == Others::Unlisted,
        };
        self.decide(bucket, key, seen.id, how, &decide).await??;
        self.wake_gc();
        Ok(())
    }

    /// Returns true if the key has this many noncurrent versions that are newer than the version,
    /// as a quorum knows them.
    async fn has_newer(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
        count: u32,
    ) -> Result<bool, Error> {
        // Those, and the current version.
        let limit = count as usize + 1;
        let newest = self.newest_versions(bucket, key, limit).await?;
        Ok(newest.iter().take_while(|newer| **newer != id).count() >= limit)
    }

    /// Returns true if this replica keeps a version of an object that is not current.
    async fn has_kept_versions(&self, row: &RowKey) -> Result<bool, Error> {
        let Some(prefix) = rowkeys::kept_prefix(row) else {
            return Ok(false);
        };
        let partition = row.partition;
        let look = move |rows: &RowReader<'_>| {
            let mut lives = false;
            rows.scan_metadata(partition, &prefix, Bound::Unbounded, &mut |_, row| {
                // A damaged row may live.
                lives = row.is_none_or(|row| row.is_live());
                Ok(if lives { Flow::Stop } else { Flow::Continue })
            })?;
            Ok(lives)
        };
        let read = self.cluster().store().read(look).await;
        Ok(read.map_err(archipel_cluster::Error::from)?)
    }

    /// Aborts an upload, if the rules still say so. An upload never changes.
    async fn remove_upload(&self, bucket: &Bucket, upload: &Upload) -> Result<Removed, Error> {
        self.check_expired(bucket, &Seen::Upload(upload.clone()))?;
        self.abort_upload(bucket, &upload.key, &upload.id).await?;
        Ok(Removed::Upload)
    }
}
