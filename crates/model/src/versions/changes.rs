//! Changes of what a client may change of a version: its tags, its access control list, its
//! protection.

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
        let tagged = |id| Some(Happening::Tagged(id, any));
        let changed = self.change_object(bucket, key, id, OfLock::default(), tagged, &change);
        changed.await
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
        let listed = |id| Some(Happening::Listed(id));
        let changed = self.change_object(bucket, key, id, OfLock::default(), listed, &change);
        changed.await
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
        let changed = self.change_object(bucket, key, id, of_lock, |_| None, &apply);
        changed.await
    }

    /// Changes the metadata of the named version, or of the version that is current now.
    async fn change_object(
        &self,
        bucket: &Bucket,
        key: &str,
        id: Option<VersionId>,
        of_lock: OfLock,
        happening: impl FnOnce(VersionId) -> Option<Happening<'static>>,
        change: HeadChange<'_>,
    ) -> Result<VersionId, Error> {
        let current = match id {
            Some(id) => id,
            // The object is its own only version, so this costs no round trip.
            None if !bucket.versioning.has_versions() => VersionId::Null,
            None => match self.head_object(bucket, key).await {
                Err(Error::Deleted(marker)) => return Err(Error::IsMarker(marker)),
                head => head?.id,
            },
        };
        // A write from before there were versions must not replace a protected null version. So all
        // replicas promise to take none any more.
        let by_all = of_lock.protects && current == VersionId::Null;
        let how = Deciding {
            taking: of_lock.taking,
            happening: happening(current),
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
