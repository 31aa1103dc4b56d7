//! Writes a part of an upload.

use std::sync::Arc;

use archipel_base::codec;
use archipel_base::{Id, Stamp, boxed};
use archipel_cluster::{Cluster, Current, Decision, Scanned, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::pool::Pool;
use archipel_storage::{RowKey, Value};
use archipel_traces::carry;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::Model;
use crate::bucket::Bucket;
use crate::cipher::{self, DataKey, EncryptionKind};
use crate::content::ContentWriter;
use crate::error::Error;
use crate::gc::GcTask;
use crate::in_use::InUseMark;
use crate::owner::{Owner, UploadName};
use crate::rowkeys;
use crate::upload::{MAX_PART_NUMBER, Part, PartMeta, Upload};

/// The most attempts at a part: each is a row until the upload is over. A node counts only what it
/// finds when it sends an attempt, so there may be a few more.
pub const MOST_ATTEMPTS: usize = 1000;

/// A writer of a part of an upload. A dropped writer leaves nothing visible.
pub struct PartWriter {
    model: Model,
    bucket: Arc<Bucket>,
    upload: UploadName,
    number: u16,
    attempt: Id,
    content: ContentWriter,
    /// True until the key of an encrypted upload is known.
    needs_key: bool,
    /// Defers GC of the upload until the part's row is written.
    in_use: InUseMark,
}

impl PartWriter {
    /// Returns the memory that content is buffered in.
    pub fn pool(&self) -> &Pool {
        self.content.pool()
    }

    /// Encrypts the part. `upload` is the key of its upload.
    ///
    /// # Errors
    /// [`Error::Internal`].
    pub fn encrypt(&mut self, upload: &DataKey, kind: EncryptionKind) -> Result<(), Error> {
        self.needs_key = false;
        let key = cipher::part_key(upload, &self.attempt);
        self.content.encrypt(&key, kind)
    }

    /// Appends content. Waits while storage is slower than the client.
    #[boxed]
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.content.write(bytes).await
    }

    /// Makes the part visible. It replaces an earlier part of the same number: it is the newest
    /// attempt, whatever the clocks of the nodes say that took the earlier ones.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] if the upload ended meanwhile.
    #[boxed]
    pub async fn finish(self, meta: PartMeta) -> Result<Part, Error> {
        let cluster = self.model.cluster();
        let durability = self.model.durability(&self.bucket);
        if self.needs_key {
            return Err(Error::KeyNeeded);
        }
        let content = self.content.finish().await?;
        let mut part = Part {
            number: self.number,
            attempt: self.attempt,
            size: content.size,
            etag: content.etag(meta.etag),
            checksum: meta.checksum,
            modified_ms: self.model.now_ms(),
            form: content.form,
            of: self.upload.clone(),
            stamp: Default::default(),
            is_settled: false,
        };
        let value = Value {
            metadata: codec::encode(&part).into(),
            payload: content.payload.clone(),
            usage: None,
            version: None,
        };
        let parts = self.upload.parts();
        let row = rowkeys::part(cluster, &parts, self.number, &self.attempt);
        // The row keys of all attempts at this part begin so.
        let of_number = row.key.len() - self.attempt.as_bytes().len();
        let attempts = row.key.slice(..of_number);
        let how = WriteOptions {
            // Only GC overtakes a part's row: nobody needs the part any more.
            yields: true,
            upload: content.upload.as_ref(),
            ..WriteOptions::durable(durability)
        };
        let (written, ended, sent) = futures_util::join!(
            cluster.write(&row, Some(value), how.clone()),
            self.model.named_upload(&self.upload),
            cluster.scan_readable(row.partition, &attempts, None, MOST_ATTEMPTS),
        );
        let stamp = written?;
        let newest: Result<Stamp, Error> = match (ended, sent) {
            (Err(over), _) => Err(over),
            (Ok(_), Err(error)) => Err(error.into()),
            (Ok(_), Ok(sent)) => {
                if sent.len() >= MOST_ATTEMPTS {
                    self.model.inner.uploads.fill(parts, self.number);
                }
                be_newest(cluster, &row, stamp, &sent, how).await
            }
        };
        tokio::spawn(carry(queue_gc_if_ended(
            self.model.clone(),
            self.upload,
            self.in_use,
        )));
        part.stamp = newest?;
        part.is_settled = true;
        Ok(part)
    }
}

/// Writes the row of an attempt again if another attempt that was sent has a later stamp, of a node
/// whose clock is ahead. So what was acknowledged last is the newest. Returns the stamp of the row.
async fn be_newest(
    cluster: &Cluster,
    row: &RowKey,
    stamp: Stamp,
    sent: &[Scanned],
    how: WriteOptions<'_>,
) -> Result<Stamp, Error> {
    let others = sent.iter().filter(|other| other.key != *row);
    let newest = others.map(|other| other.stamp).max();
    let Some(newest) = newest.filter(|newest| *newest > stamp) else {
        return Ok(stamp);
    };
    cluster.observe(newest);
    let own = Mutex::new(stamp);
    let again = |current: Current<'_>| match current.value {
        Some(value) => {
            *own.lock() = current.own;
            Decision::Write(Some(value.clone()))
        }
        // GC has dropped it, because the upload is over. Its content may be gone, too.
        None => Decision::Abort(()),
    };
    match cluster.update_stamped(row, how, again).await? {
        Ok(()) => {}
        Err(()) => return Err(Error::NoSuchUpload),
    }
    Ok(own.into_inner())
}

/// Queues a GC task if the upload ended while the part was written. The GC task of the upload's end
/// may have run already, so no other task would find this part.
async fn queue_gc_if_ended(model: Model, upload: UploadName, _in_use: InUseMark) {
    let ended = model.named_upload(&upload).await;
    if !matches!(ended, Err(Error::NoSuchUpload)) {
        return;
    }
    let task = codec::encode(&GcTask::Upload(upload)).into();
    if let Err(error) = model.cluster().queue_push(task, Durability::Fsync).await {
        tracing::warn!(%error, "a part of an ended upload stays until orphans are searched");
    }
    model.wake_gc();
}

impl Model {
    /// Returns a writer of a part.
    ///
    /// # Errors
    /// [`Error::InvalidPart`] for a number outside 1 to [`MAX_PART_NUMBER`];
    /// [`Error::LimitExceeded`] for a part that was sent too often.
    pub fn begin_part(
        &self,
        bucket: &Arc<Bucket>,
        upload: &Upload,
        number: u16,
    ) -> Result<PartWriter, Error> {
        if !(1..=MAX_PART_NUMBER).contains(&number) {
            return Err(Error::InvalidPart(number));
        }
        let needs_key = upload.meta.encryption.is_some();
        let upload = upload.name_in(&bucket.id);
        if self.inner.uploads.is_full(upload.parts(), number) {
            let why = format!(
                "Part {number} was sent {MOST_ATTEMPTS} times. Complete or abort the upload."
            );
            return Err(Error::LimitExceeded(why));
        }
        let attempt = self.random_id();
        let owner = Owner::Part {
            parts: upload.parts(),
            number,
            attempt,
        };
        Ok(PartWriter {
            model: self.clone(),
            bucket: bucket.clone(),
            in_use: self.in_use().mark(upload.parts().0),
            needs_key,
            upload,
            number,
            attempt,
            content: self.content_writer(owner, bucket),
        })
    }
}
