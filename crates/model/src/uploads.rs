//! Operations on multipart uploads.
//!
//! A part is a row of its own that refers to its content. A part counts only for the bucket, the
//! key and the upload that it was written for: its row key derives from all three.
//!
//! Completing an upload writes a list of parts into the object's row and moves no data. Aborting it
//! writes the object's row as it is. The object's row decides which of several completions and
//! aborts takes effect; the upload's row points to that write ([`intents`]). So an upload is
//! completed at most once, an aborted upload is never completed, and a completion whose condition
//! fails leaves the upload as it was. GC drops the parts that the object does not list once the
//! upload is over.

mod attempts;
mod completed;
mod ids;
mod known;
mod page;
mod part;
mod repeated;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archipel_base::{Id, boxed, codec};
use archipel_cluster as cluster;
use archipel_cluster::{Current, Decision, Intent, PointingRow, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Value};
use archipel_traces::carry;
use futures_util::future::try_join_all;

use crate::Model;
use crate::bucket::Bucket;
use crate::error::Error;
use crate::events::{Happening, Trigger};
use crate::intents;
use crate::object::{Condition, ObjectHead, ObjectMeta, Predicate};
use crate::objects::{check_key, decide};
use crate::owner::UploadName;
use crate::quota::Adding;
use crate::rowkeys;
use crate::upload::{Part, Upload, UploadMeta};
use crate::version::{VersionId, Versioning};
use crate::version_rows;

pub(crate) use {ids::UploadIds, known::KnownUploads};

pub use part::PartWriter;

/// A completion: the parts, and the object that they become.
struct Completion<'a> {
    name: UploadName,
    /// The row of the upload.
    row: RowKey,
    /// The row of the object.
    object: RowKey,
    head: ObjectHead,
    upload: &'a Upload,
    parts: &'a [Part],
    test: Predicate,
    durability: Durability,
}

/// The reason why the row of a completed object was not written.
enum Refused {
    /// Another write was faster.
    Overtaken,
    /// The upload has ended, or has met another completion, or the fence is closed.
    Guarded,
}

/// The number of times that a completion or an abort begins again after others were faster.
const TRIES: u32 = 20;

impl Model {
    /// Begins an upload and returns it.
    #[boxed]
    pub async fn create_upload(
        &self,
        bucket: &Bucket,
        key: &str,
        initiator: Option<&str>,
        meta: UploadMeta,
    ) -> Result<Upload, Error> {
        check_key(key)?;
        let initiated_ms = self.now_ms();
        let upload = Upload {
            id: self.inner.upload_ids.next(self.random_id(), initiated_ms),
            key: key.to_owned(),
            initiated_ms,
            initiator: initiator.map(str::to_owned),
            meta,
            intent: None,
        };
        let name = upload.name_in(&bucket.id);
        let row = rowkeys::upload(self.cluster(), &name);
        let value = Value {
            metadata: codec::encode(&upload).into(),
            ..Value::default()
        };
        let fence = self.open_fence_of(&bucket.id, &row);
        let commit = || {
            let how = WriteOptions {
                guards: vec![fence.clone()],
                ..WriteOptions::durable(Durability::Fsync)
            };
            self.cluster().write(&row, Some(value.clone()), how)
        };
        self.commit_fenced(bucket, commit).await?;
        self.inner.uploads.insert(&name, &upload);
        Ok(upload)
    }

    /// Returns an upload for which a part will be written. If this node remembers the upload, it
    /// does not ask whether the upload has ended; [`PartWriter::finish`] does.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`].
    #[boxed]
    pub async fn upload_to_write(
        &self,
        bucket: &Bucket,
        key: &str,
        id: &Id,
    ) -> Result<Upload, Error> {
        let name = UploadName::new(&bucket.id, key, id);
        let known = self.inner.uploads.get(&name);
        if let Some(upload) = known.filter(|u| !self.is_stale(u.meta.encryption.as_deref())) {
            return Ok(upload);
        }
        let upload = self.upload(bucket, key, id).await?;
        self.inner.uploads.insert(&name, &upload);
        Ok(upload)
    }

    /// Returns the upload with that key and id.
    #[boxed]
    pub async fn upload(&self, bucket: &Bucket, key: &str, id: &Id) -> Result<Upload, Error> {
        check_key(key)?;
        self.named_upload(&UploadName::new(&bucket.id, key, id))
            .await
    }

    async fn named_upload(&self, name: &UploadName) -> Result<Upload, Error> {
        (intents::progress_of(self.cluster(), name).await?).ok_or(Error::NoSuchUpload)
    }

    /// Completes an upload: the object consists of `parts` in their order, which come from
    /// [`sent_parts`](Model::sent_parts). Returns the object's metadata.
    ///
    /// A second completion with the same parts fails, because the upload's row is gone.
    /// [`completed_by`](Model::completed_by) tells the caller whether this upload became the
    /// object.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] if it was completed or aborted meanwhile; the error of the
    /// condition's test.
    #[boxed]
    pub async fn complete_upload(
        &self,
        bucket: &Bucket,
        upload: &Upload,
        parts: &[Part],
        meta: ObjectMeta,
        condition: Condition,
    ) -> Result<ObjectHead, Error> {
        let object = rowkeys::object(self.cluster(), &bucket.id, &upload.key);
        let name = upload.name_in(&bucket.id);
        let completion = Completion {
            head: self.completed_head(&object, upload, parts, meta),
            row: rowkeys::upload(self.cluster(), &name),
            object,
            name,
            upload,
            parts,
            test: match condition {
                Condition::Check(test) => test,
                Condition::Always => Arc::new(|_: Option<&ObjectHead>| Ok(())) as Predicate,
            },
            durability: self.durability(bucket),
        };
        // GC must not drop the parts before the object's row lists them.
        let _in_use = self.in_use().mark(completion.name.parts().0);
        self.settle_parts(&completion.name, parts).await?;
        let mut newer: Option<Arc<Bucket>> = None;
        for retries in 0..TRIES {
            let bucket = newer.as_deref().unwrap_or(bucket);
            match self.try_to_complete(&completion, bucket).await? {
                Ok(head) => return Ok(head),
                Err(Refused::Overtaken) => {}
                Err(Refused::Guarded) => {
                    self.named_upload(&completion.name).await?;
                    if retries > 0 {
                        let adding = Adding::of(&completion.object, completion.head.size);
                        let opened = self.on_closed_fence(bucket, retries, Some(adding));
                        newer = Some(opened.await?);
                    }
                }
            }
        }
        Err(Error::Conflict)
    }

    /// Writes the object's row once. If that is refused, what was announced for it is undone.
    async fn try_to_complete(
        &self,
        completion: &Completion<'_>,
        bucket: &Bucket,
    ) -> Result<Result<ObjectHead, Refused>, Error> {
        let Completion { row, object, .. } = completion;
        let is_new = bucket.versioning == Versioning::Enabled;
        let intent = self.cluster().announce().await?;
        let new = completed::object(
            &completion.head,
            completion.upload,
            completion.parts,
            intent,
        );
        let value = new.value_in(bucket)?;
        let completed = Happening::Completed(&new.head);
        let how = WriteOptions {
            guards: vec![self.fence_of(bucket, object)],
            pointing: Some(PointingRow {
                row: row.clone(),
                intent,
                is_named: true,
                is_announced: is_new,
            }),
            companions: self.events_of(bucket, object, completed, Trigger::Other),
            ..WriteOptions::durable(completion.durability)
        };
        let sent = AtomicBool::new(false);
        let decide = |current: Current<'_>| {
            let decision = decide(current.value, &completion.test, &Some(value.clone()));
            sent.fetch_or(matches!(decision, Decision::Write(_)), Ordering::Relaxed);
            decision
        };
        let outcome = version_rows::update(
            self.cluster(),
            object,
            how,
            bucket.versioning.of_writes(),
            decide,
        )
        .await;
        if let Ok(Ok(at)) = outcome {
            self.end_upload_later(completion.name.clone(), row.clone(), intent);
            let id = VersionId::of(is_new.then_some(at));
            self.tell_listeners(bucket, object, completed, Trigger::Other, (at, id));
            let head = new.head_in(bucket)?;
            return Ok(Ok(ObjectHead { id, ..head }));
        }
        let is_sent = sent.into_inner();
        if let Ok(Err(_)) | Err(cluster::Error::Overtaken | cluster::Error::Guarded) = &outcome
            && (is_sent || is_new)
        {
            if is_sent && bucket.versioning == Versioning::Suspended {
                intents::check_undone(self.cluster(), object, &intent).await?;
            }
            intents::undo(self.cluster(), row, &intent, is_sent).await?;
        }
        match outcome {
            Ok(decided) => decided.map(|_| Err(Refused::Overtaken)),
            Err(cluster::Error::Overtaken) => Ok(Err(Refused::Overtaken)),
            Err(cluster::Error::Guarded) => Ok(Err(Refused::Guarded)),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes sure that a quorum holds the rows of all these parts. A part whose write failed, or is
    /// under way, may be held by a minority, and the object would be lost with it.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] if the upload is over, and its parts may be gone with it;
    /// [`Error::InvalidPart`] if a part is gone.
    async fn settle_parts(&self, upload: &UploadName, parts: &[Part]) -> Result<(), Error> {
        let unsettled: Vec<_> = parts.iter().filter(|part| !part.is_settled).collect();
        for some in unsettled.chunks(page::AT_ONCE) {
            let reads = some.iter().map(|part| async {
                let of = &upload.parts();
                let row = rowkeys::part(self.cluster(), of, part.number, &part.attempt);
                if self.cluster().metadata(&row).await?.is_none() {
                    self.named_upload(upload).await?;
                    return Err(Error::InvalidPart(part.number));
                }
                Ok(())
            });
            try_join_all(reads).await?;
        }
        Ok(())
    }

    /// Ends an upload in the background, after the write that completes or aborts it took effect.
    /// If this fails, GC does it.
    fn end_upload_later(&self, name: UploadName, row: RowKey, intent: Intent) {
        self.inner.uploads.remove(&name);
        let model = self.clone();
        tokio::spawn(carry(async move {
            if let Err(error) = intents::finish(model.cluster(), &row, &intent, true).await {
                tracing::debug!(%error, "the row of an upload that is over is left to GC");
            }
            model.wake_gc();
        }));
    }

    /// Aborts an upload. GC drops its parts in the background.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`].
    #[boxed]
    pub async fn abort_upload(&self, bucket: &Bucket, key: &str, id: &Id) -> Result<(), Error> {
        // The conditional write leaves a promise even where it writes nothing, so read first: a
        // refused abort changes nothing.
        self.upload(bucket, key, id).await?;
        let name = UploadName::new(&bucket.id, key, id);
        let object = rowkeys::object(self.cluster(), &bucket.id, key);
        let row = rowkeys::upload(self.cluster(), &name);
        for _ in 0..TRIES {
            let intent = self.cluster().announce().await?;
            let how = WriteOptions {
                pointing: Some(PointingRow {
                    row: row.clone(),
                    intent,
                    is_named: false,
                    is_announced: false,
                }),
                frees: true,
                ..WriteOptions::durable(self.durability(bucket))
            };
            // The object stays as it is. Its row decides between a completion and an abort that
            // race.
            let same = |current: Option<&Value>| Decision::<Infallible>::Write(current.cloned());
            match self.cluster().update(&object, how, same).await {
                Ok(Ok(())) => {
                    self.end_upload_later(name, row, intent);
                    return Ok(());
                }
                Ok(Err(never)) => match never {},
                Err(cluster::Error::Guarded) => {
                    self.named_upload(&name).await?;
                }
                Err(cluster::Error::Overtaken) => {
                    intents::undo(self.cluster(), &row, &intent, true).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Conflict)
    }
}
