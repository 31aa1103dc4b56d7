//! Changes of what a client may change of a version: its tags, its access control list, its
//! protection.

use std::sync::atomic::{AtomicBool, Ordering};

use archipel_access::Acl;
use archipel_base::boxed;

use super::{Deciding, HeadChange, HeadTest};
use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::events::Happening;
use crate::lock::Taking;
use crate::object::{LockChange, ObjectHead, Tags};
use crate::version::VersionId;

/// How often a change reads the entity tag for its event. It reads again if another write replaced
/// the null version meanwhile.
const TRIES: usize = 5;

/// A change that a client asks for.
#[derive(Clone, Copy)]
enum Change {
    /// Of the tags: true if there are some after it.
    Tags(bool),
    /// Of the access control list.
    Acl,
    /// Of the protection. No event tells it.
    Lock(OfLock),
}

impl Change {
    /// Returns the event that the change of a version with this entity tag is.
    fn happening(self, id: VersionId, etag: Option<&str>) -> Option<Happening<'_>> {
        match self {
            Change::Tags(any) => Some(Happening::Tagged(id, etag, any)),
            Change::Acl => Some(Happening::Listed(id, etag)),
            Change::Lock(_) => None,
        }
    }

    /// Returns true if a target gets an event of the change. The event is stored with the change.
    /// It tells the entity tag, so the version is read before.
    fn is_told(self, bucket: &Bucket, key: &str) -> bool {
        let happening = self.happening(VersionId::Null, None);
        happening.is_some_and(|happening| happening.is_asked_for(bucket, key))
    }
}

/// The effect of a change on the protection of a version.
#[derive(Clone, Copy, Default)]
struct OfLock {
    /// The protection that it would take.
    taking: Option<Taking>,
    /// True if the version is protected after it.
    protects: bool,
}

impl Model {
    /// Sets the tags of an object, or of the named version. The object stays the same in all else.
    /// `test` must pass for the very version that is changed. Returns the id of the version.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`], [`Error::NoSuchVersion`]; [`Error::IsMarker`] for a delete marker; the
    /// error of the test.
    #[boxed]
    pub async fn set_object_tags(
        &self,
        bucket: &Bucket,
        key: &str,
        id: Option<VersionId>,
        tags: Tags,
        test: HeadTest<'_>,
    ) -> Result<VersionId, Error> {
        let any = !tags.is_empty();
        let change = move |head: &mut ObjectHead| {
            test(head)?;
            head.tags.clone_from(&tags);
            Ok(())
        };
        self.change_object(bucket, key, id, Change::Tags(any), &change)
            .await
    }

    /// Sets the access control list of an object, or of the named version. The object stays the
    /// same in all else. `test` must pass for the very version that is changed. Returns the id of
    /// the version.
    ///
    /// # Errors
    /// As [`set_object_tags`](Model::set_object_tags).
    #[boxed]
    pub async fn set_object_acl(
        &self,
        bucket: &Bucket,
        key: &str,
        id: Option<VersionId>,
        acl: Acl,
        test: HeadTest<'_>,
    ) -> Result<VersionId, Error> {
        let change = move |head: &mut ObjectHead| {
            test(head)?;
            head.acl = acl;
            Ok(())
        };
        self.change_object(bucket, key, id, Change::Acl, &change)
            .await
    }

    /// Changes the protection of an object, or of the named version. Returns the id of the version.
    /// To protect the null version takes all replicas.
    ///
    /// # Errors
    /// [`Error::ProtectedByLock`] if the present protection does not allow it;
    /// [`Error::NoBucketLock`]; and as [`set_object_tags`](Model::set_object_tags).
    #[boxed]
    pub async fn change_lock(
        &self,
        bucket: &Bucket,
        key: &str,
        id: Option<VersionId>,
        change: LockChange,
    ) -> Result<VersionId, Error> {
        if bucket.lock.is_none() {
            return Err(Error::NoBucketLock);
        }
        let apply = |head: &mut ObjectHead| match change {
            LockChange::LegalHold(on) => {
                head.lock.legal_hold = Some(on);
                Ok(())
            }
            LockChange::Retention(retention, governance) => {
                if !head.lock.may_become(retention, self.now_ms(), governance) {
                    return Err(Error::ProtectedByLock);
                }
                head.lock.retention = retention;
                Ok(())
            }
        };
        let of_lock = match change {
            LockChange::LegalHold(on) => OfLock {
                taking: None,
                protects: on,
            },
            LockChange::Retention(retention, governance) => OfLock {
                taking: Some(Taking::Retention {
                    new: retention,
                    governance,
                }),
                protects: retention.is_some(),
            },
        };
        self.change_object(bucket, key, id, Change::Lock(of_lock), &apply)
            .await
    }

    /// Changes the metadata of the named version, or of the version that is current now.
    async fn change_object(
        &self,
        bucket: &Bucket,
        key: &str,
        id: Option<VersionId>,
        what: Change,
        change: HeadChange<'_>,
    ) -> Result<VersionId, Error> {
        let tries = if what.is_told(bucket, key) { TRIES } else { 0 };
        let mut unknown = None;
        for _ in 0..tries {
            let seen = match self.head_to_change(bucket, key, id).await {
                Ok(seen) => seen,
                Err(error) => return Err(unknown.unwrap_or(error)),
            };
            let replaced = AtomicBool::new(false);
            let change = |head: &mut ObjectHead| {
                if head.version == seen.version {
                    return change(head);
                }
                replaced.store(true, Ordering::Relaxed);
                Err(Error::Conflict)
            };
            let of = (id, Some(&seen));
            let changed = self.change_once(bucket, key, of, what, &change).await;
            match changed {
                Err(Error::Conflict) if replaced.load(Ordering::Relaxed) => {}
                // The object that was read may have been changed before it was replaced.
                Err(error @ Error::Unavailable(_)) if replaced.load(Ordering::Relaxed) => {
                    unknown = Some(error);
                }
                changed => return changed.map_err(|error| unknown.unwrap_or(error)),
            }
        }
        // A change never fails because of its event, which tells no entity tag then.
        let changed = self.change_once(bucket, key, (id, None), what, change);
        changed.await.map_err(|error| unknown.unwrap_or(error))
    }

    /// Returns the metadata of the named version, or of the version that is current now.
    async fn head_to_change(
        &self,
        bucket: &Bucket,
        key: &str,
        id: Option<VersionId>,
    ) -> Result<ObjectHead, Error> {
        let read = match id {
            Some(id) => self.head_version(bucket, key, id).await,
            None => self.head_object(bucket, key).await,
        };
        match read {
            Err(Error::Deleted(marker)) => Err(Error::IsMarker(marker)),
            read => read,
        }
    }

    /// Changes the metadata of the named version, or of the one that is current now: the one that
    /// was seen, if any.
    async fn change_once(
        &self,
        bucket: &Bucket,
        key: &str,
        (id, seen): (Option<VersionId>, Option<&ObjectHead>),
        what: Change,
        change: HeadChange<'_>,
    ) -> Result<VersionId, Error> {
        let current = match (id, seen) {
            (Some(id), _) => id,
            (None, Some(seen)) => seen.id,
            // The object is its own only version, so this costs no round trip.
            (None, None) if !bucket.versioning.has_versions() => VersionId::Null,
            (None, None) => self.head_to_change(bucket, key, None).await?.id,
        };
        let of_lock = match what {
            Change::Lock(of_lock) => of_lock,
            Change::Tags(_) | Change::Acl => OfLock::default(),
        };
        // A write from before there were versions must not replace a protected null version. So all
        // replicas promise to take none any more.
        let by_all = of_lock.protects && current == VersionId::Null;
        let how = Deciding {
            taking: of_lock.taking,
            happening: what.happening(current, seen.map(|seen| seen.etag.as_str())),
            by_all,
            background: false,
            unlisted: true,
        };
        match self.change_version(bucket, key, current, how, change).await {
            Err(Error::NoSuchVersion) if id.is_none() => Err(Error::NoSuchKey),
            Err(Error::Unavailable(why)) if by_all => Err(Error::Unavailable(format!(
                "the version null can be protected only while all replicas of the object answer: {why}"
            ))),
            changed => changed.map(|()| current),
        }
    }
}
