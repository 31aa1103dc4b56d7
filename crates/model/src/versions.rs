//! Operations on versions of objects: reads by id, deletions, changes of what a client may change.
//!
//! The object's row holds the current version in full. The replicas keep what it displaces. Nothing
//! here knows how: [`Cluster`](archipel_cluster::Cluster) reads a version by its name, and decides
//! about one. See `docs/internals/versions.md`.

use std::sync::Arc;

use archipel_base::{Stamp, Writer, boxed, codec};
use archipel_cluster::{Guard, VersionDecision, VersionSeen, WriteOptions};
use archipel_storage::{RowKey, Value, VersionKind};
use parking_lot::Mutex;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::{Error, damaged_row};
use crate::events::{Happening, Trigger};
use crate::held;
use crate::lock::{Governance, Taking};
use crate::object::{Condition, Marker, ObjectHead};
use crate::objects::check_key;
use crate::reader::ObjectReader;
use crate::rowkeys;
use crate::version::VersionId;
use crate::version_rows;

mod changes;
mod current;

/// The result of a deletion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deleted {
    /// The version that was removed, or the delete marker that was written. `None` if the bucket
    /// has no versions.
    pub id: Option<VersionId>,
    /// True if that version is or was a delete marker.
    pub is_marker: bool,
}

/// The details of a decision: what it would take from the version, and the event that it is.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    pub taking: Option<Taking>,
    pub happening: Option<Happening<'a>>,
    /// True if all replicas must promise it.
    pub by_all: bool,
    /// True if no client waits for it.
    pub background: bool,
    /// True if no other version of the key matters, unless this one is current and is deleted.
    pub unlisted: bool,
}

/// A test of a version before it is changed.
pub type HeadTest<'a> = &'a (dyn Fn(&ObjectHead) -> Result<(), Error> + Sync);

/// A change of an object's metadata that its client asked for.
pub(crate) type HeadChange<'a> = &'a (dyn Fn(&mut ObjectHead) -> Result<(), Error> + Sync);

/// Returns the metadata in a value of an object's row; `None` if the value is no version at all.
///
/// # Errors
/// [`Error::Damaged`].
pub(crate) fn head_of(value: &Value) -> Result<Option<ObjectHead>, Error> {
    head_in(
        &value.metadata,
        VersionId::of(value.version_name()),
        value.kind(),
    )
}

/// Does the same from the parts of a value.
pub(crate) fn head_in(
    metadata: &[u8],
    id: VersionId,
    kind: VersionKind,
) -> Result<Option<ObjectHead>, Error> {
    if kind == VersionKind::Void {
        return Ok(None);
    }
    let head: ObjectHead = codec::decode(metadata).map_err(damaged_row)?;
    Ok(Some(ObjectHead {
        id,
        is_marker: kind == VersionKind::Marker,
        ..head
    }))
}

/// Returns the metadata of the current version, unless it is a delete marker.
///
/// # Errors
/// [`Error::NoSuchKey`], [`Error::Deleted`], [`Error::Damaged`].
pub(crate) fn current(value: &Value) -> Result<ObjectHead, Error> {
    match head_of(value)? {
        None => Err(Error::NoSuchKey),
        Some(head) if head.is_marker => Err(Error::Deleted(Marker::of(&head))),
        Some(head) => Ok(head),
    }
}

/// Returns the metadata of a version that was asked for by its id, unless it is a delete marker.
fn named(value: &Value) -> Result<ObjectHead, Error> {
    match head_of(value)? {
        None => Err(Error::NoSuchVersion),
        Some(head) if head.is_marker => Err(Error::IsMarker(Marker::of(&head))),
        Some(head) => Ok(head),
    }
}

impl Model {
    /// Returns the metadata of a version.
    ///
    /// # Errors
    /// [`Error::NoSuchVersion`]; [`Error::IsMarker`] for a delete marker.
    #[boxed]
    pub async fn head_version(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
    ) -> Result<ObjectHead, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let (at, making) = (&row, bucket.versioning.of_writes());
        let read = |guards: Vec<Guard>| async move {
            version_rows::read_version(self.cluster(), at, id.at(), making, &guards).await
        };
        let found = self.read_fenced(bucket, &row, read).await?;
        named(&found.ok_or(Error::NoSuchVersion)?)
    }

    /// Opens a version for reading. Its content stays readable until the reader is dropped.
    ///
    /// # Errors
    /// As [`head_version`](Model::head_version).
    #[boxed]
    pub async fn open_version(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
    ) -> Result<ObjectReader, Error> {
        check_key(key)?;
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let (at, making) = (&row, bucket.versioning.of_writes());
        let read = |guards: Vec<Guard>| async move {
            version_rows::open_version(self.cluster(), at, id.at(), making, &guards).await
        };
        let found = self.read_fenced(bucket, &row, read).await?;
        let opened = found.ok_or(Error::NoSuchVersion)?;
        let head = named(&opened.value)?;
        self.reader_of(row, head, opened).await
    }

    /// Deletes a version for good. If it was the current one, the newest of the others is current
    /// from then on. A version that does not exist is no error, unless the condition's test fails.
    ///
    /// # Errors
    /// [`Error::ProtectedByLock`] if object lock protects the version; the error of the condition's
    /// test, which sees the version.
    #[boxed]
    pub async fn delete_version(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
        governance: Governance,
        condition: Condition,
    ) -> Result<Deleted, Error> {
        check_key(key)?;
        let was_marker = std::sync::atomic::AtomicBool::new(false);
        let decide = |seen: &VersionSeen<'_>| {
            let head = match seen.named.map(head_of).transpose() {
                Ok(head) => head.flatten(),
                Err(error) => return VersionDecision::Abort(Some(error)),
            };
            if let Condition::Check(test) = &condition
                && let Err(error) = test(head.as_ref().filter(|head| !head.is_marker))
            {
                return VersionDecision::Abort(Some(error));
            }
            let Some(head) = head else {
                return VersionDecision::Absent(None);
            };
            was_marker.store(head.is_marker, std::sync::atomic::Ordering::Relaxed);
            match head.lock.protects(self.now_ms(), governance) {
                true => VersionDecision::Abort(Some(Error::ProtectedByLock)),
                false => VersionDecision::Kill,
            }
        };
        let taking = Some(Taking::Version { governance });
        let decided = self.decide(
            bucket,
            key,
            id,
            Deciding {
                taking,
                happening: Some(Happening::Deleted(Some(id))),
                by_all: false,
                background: false,
                unlisted: false,
            },
            &decide,
        );
        match decided.await? {
            Ok(()) => self.wake_gc(),
            Err(None) => {}
            Err(Some(error)) => return Err(error),
        }
        Ok(Deleted {
            id: Some(id),
            is_marker: was_marker.into_inner(),
        })
    }

    /// Changes the metadata of a version. Content, entity tag and time stay.
    ///
    /// # Errors
    /// [`Error::NoSuchVersion`]; [`Error::IsMarker`]; the error of the change.
    pub(crate) async fn change_version(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
        how: Deciding<'_>,
        change: HeadChange<'_>,
    ) -> Result<(), Error> {
        check_key(key)?;
        let etag = Mutex::new(String::new());
        let decide = |seen: &VersionSeen<'_>| {
            let head = seen.named.ok_or(Error::NoSuchVersion).and_then(named);
            let changed = head.and_then(|mut head| change(&mut head).map(|()| head));
            match changed {
                Ok(head) => {
                    etag.lock().clone_from(&head.etag);
                    VersionDecision::Change(codec::encode(&head).into())
                }
                Err(error) => VersionDecision::Abort(error),
            }
        };
        self.decide_quietly(bucket, key, id, how, &decide).await??;
        let etag = etag.into_inner();
        let happening = how.happening.map(|it| it.of_version_with(&etag));
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        self.tell_of_decision(bucket, &row, Deciding { happening, ..how });
        Ok(())
    }

    pub(crate) async fn decide<E: Send>(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
        how: Deciding<'_>,
        decide: &(impl Fn(&VersionSeen<'_>) -> VersionDecision<E> + Send + Sync),
    ) -> Result<Result<(), E>, Error> {
        let decided = self.decide_quietly(bucket, key, id, how, decide).await?;
        if decided.is_ok() {
            let row = rowkeys::object(self.cluster(), &bucket.id, key);
            self.tell_of_decision(bucket, &row, how);
        }
        Ok(decided)
    }

    /// Tells listeners of a decision.
    fn tell_of_decision(&self, bucket: &Bucket, row: &RowKey, how: Deciding<'_>) {
        let Some(happening) = how.happening else {
            return;
        };
        // The stamp of the decision is not known here. It is no later than now.
        let at = Stamp::new(self.now_ms(), u16::MAX, Writer::default());
        let written = (at, VersionId::Null);
        let trigger = Trigger::of_change(how.background);
        self.tell_listeners(bucket, row, happening, trigger, written);
    }

    /// Decides about a version, and tells no listener.
    async fn decide_quietly<E: Send>(
        &self,
        bucket: &Bucket,
        key: &str,
        id: VersionId,
        how: Deciding<'_>,
        decide: &(impl Fn(&VersionSeen<'_>) -> VersionDecision<E> + Send + Sync),
    ) -> Result<Result<(), E>, Error> {
        let row = rowkeys::object(self.cluster(), &bucket.id, key);
        let durability = self.durability(bucket);
        let row = &row;
        let commit = |newer: Option<Arc<Bucket>>| async move {
            let bucket = newer.as_deref().unwrap_or(bucket);
            let background = how.background;
            let events = how.happening;
            let trigger = Trigger::of_change(background);
            let events = events.map(|what| self.events_of(bucket, row, what, trigger));
            let how = WriteOptions {
                guards: vec![self.fence_of(bucket, row).unlimited()],
                companions: events.unwrap_or_default(),
                background,
                taking: how.taking.map(|taking| held::taking(taking, id)),
                by_all: how.by_all,
                unlisted: how.unlisted,
                ..WriteOptions::durable(durability)
            };
            let making = bucket.versioning.of_writes();
            version_rows::decide_version(self.cluster(), row, id.at(), how, making, decide).await
        };
        // On the heap, because it is rare and would enlarge the future of every request.
        Box::pin(self.commit_by_settings(bucket, None, commit)).await
    }
}
