//! Writing a part of an upload.

use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec;
use archipel_cluster::How;
use archipel_storage::Value;
use archipel_storage::engine::Durability;
use archipel_storage::pool::Pool;
use bytes::Bytes;

use crate::Model;
use crate::active::ActiveGuard;
use crate::bucket::Bucket;
use crate::content::ContentWriter;
use crate::error::Error;
use crate::rowkeys::{self, Owner};
use crate::sweep::Check;
use crate::upload::{MAX_PART_NUMBER, Part, PartMeta, Upload};

/// Writes a part of an upload. Dropping it leaves nothing behind.
pub struct PartWriter {
    model: Model,
    bucket: Arc<Bucket>,
    upload: Upload,
    number: u16,
    attempt: Id,
    content: ContentWriter,
    /// Puts the sweep of the upload off until the part's row stands.
    _active: ActiveGuard,
}

impl PartWriter {
    /// Where memory for content is taken.
    pub fn pool(&self) -> &Pool {
        self.content.pool()
    }

    /// Appends content; waits while storage is behind.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.content.write(bytes).await
    }

    /// Makes the part real: it takes the place of an earlier one of the same number.
    ///
    /// # Errors
    /// [`Error::NoSuchUpload`] if the upload ended meanwhile.
    pub async fn finish(self, meta: PartMeta) -> Result<Part, Error> {
        let cluster = self.model.cluster();
        let durability = self.model.durability(&self.bucket);
        let written = self.content.finish().await?;
        let mut part = Part {
            number: self.number,
            attempt: self.attempt,
            size: written.size,
            etag: meta.etag,
            checksum: meta.checksum,
            modified_ms: self.model.now_ms(),
            layout: written.layout,
            of: Some((self.bucket.id, self.upload.key.clone())),
            stamp: Default::default(),
        };
        let value = Value {
            head: codec::encode(&part).into(),
            body: written.body.clone(),
            tally: None,
        };
        let row = rowkeys::part(cluster, &self.upload.id, self.number, &self.attempt);
        let how = How {
            durability,
            guards: Vec::new(),
            upload: written.upload.as_ref(),
        };
        let (bucket, upload) = (&self.bucket, &self.upload);
        let (written, ended) = futures_util::join!(
            cluster.write(&row, Some(value), how),
            self.model.upload(bucket, &upload.key, &upload.id),
        );
        part.stamp = written?;
        tokio::spawn(look_after(
            self.model.clone(),
            self.bucket,
            self.upload,
            self._active,
        ));
        ended.map(|_| part)
    }
}

/// If the upload ended while the part was written, its sweep may be over: then nobody else would
/// look for this part.
async fn look_after(model: Model, bucket: Arc<Bucket>, upload: Upload, _active: ActiveGuard) {
    let ended = model.upload(&bucket, &upload.key, &upload.id).await;
    if !matches!(ended, Err(Error::NoSuchUpload)) {
        return;
    }
    let check = Check::Upload {
        bucket: bucket.id,
        key: upload.key,
        upload: upload.id,
    };
    let work = codec::encode(&check).into();
    if let Err(error) = model.cluster().queue_push(work, Durability::Fsync).await {
        tracing::warn!(%error, "a part of an upload that ended may stay behind");
    }
    model.wake_sweep();
}

impl Model {
    /// Begins to write a part.
    ///
    /// # Errors
    /// [`Error::InvalidPart`] for a number that is not 1 to [`MAX_PART_NUMBER`].
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
        let owner = Owner::Part {
            upload: upload.id,
            number,
            attempt,
        };
        Ok(PartWriter {
            model: self.clone(),
            bucket: bucket.clone(),
            upload: upload.clone(),
            number,
            attempt,
            content: self.content_writer(owner, bucket),
            _active: self.active().enter(upload.id),
        })
    }
}
