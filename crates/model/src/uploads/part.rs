//! Writes a part of an upload.

use std::sync::Arc;

use archipel_base::codec;
use archipel_base::{Id, boxed};
use archipel_cluster::WriteOptions;
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use archipel_storage::pool::Pool;
use archipel_traces::carry;
use bytes::Bytes;

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

    /// Makes the part visible. It replaces an earlier part of the same number.
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
        let written = self.content.finish().await?;
        let mut part = Part {
            number: self.number,
            attempt: self.attempt,
            size: written.size,
            etag: written.etag(meta.etag),
            checksum: meta.checksum,
            modified_ms: self.model.now_ms(),
            form: written.form,
            of: self.upload.clone(),
            stamp: Default::default(),
            is_settled: false,
        };
        let value = Value {
            metadata: codec::encode(&part).into(),
            payload: written.payload.clone(),
            usage: None,
            version: None,
        };
        let row = rowkeys::part(cluster, &self.upload.parts(), self.number, &self.attempt);
        let how = WriteOptions {
            // Only GC overtakes a part's row: nobody needs the part any more.
            yields: true,
            upload: written.upload.as_ref(),
            ..WriteOptions::durable(durability)
        };
        let (written, ended) = futures_util::join!(
            cluster.write(&row, Some(value), how),
            self.model.named_upload(&self.upload),
        );
        part.stamp = written?;
        part.is_settled = true;
        tokio::spawn(carry(queue_gc_if_ended(
            self.model.clone(),
            self.upload,
            self.in_use,
        )));
        ended.map(|_| part)
    }
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
    /// [`Error::InvalidPart`] for a number outside 1 to [`MAX_PART_NUMBER`].
    pub fn begin_part(
        &self,
        bucket: &Arc<Bucket>,
        upload: &Upload,
        number: u16,
    ) -> Result<PartWriter, Error> {
        if !(1..=MAX_PART_NUMBER).contains(&number) {
            return Err(Error::InvalidPart(number));
        }
        let attempt = self.random_id();
        let needs_key = upload.meta.encryption.is_some();
        let upload = upload.name_in(&bucket.id);
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
