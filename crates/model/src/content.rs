//! Writes content: inline, as blocks of its row, or with a tail (see [`form`](crate::form)).
//! `sealer` encrypts it before.

mod sealer;

use std::sync::Arc;

use archipel_base::codec;
use archipel_base::{Id, boxed};
use archipel_cluster::{BlockWriter, Cluster, WriteOptions};
use archipel_storage::engine::Durability;
use archipel_storage::pool::{Pool, Staged};
use archipel_storage::{BlockRef, Payload, Value};
use archipel_traces::carry;
use bytes::Bytes;
use tokio::task::JoinHandle;

use crate::cipher::segments::SEGMENT_BYTES;
use crate::cipher::{DataKey, Encryption, EncryptionKind, masked_etag};
use crate::error::Error;
use crate::form::{BLOCK_BYTES, ContentForm, ExtentHead, INLINE_BYTES, Tail};
use crate::gc::GcTask;
use crate::in_use::{InUse, InUseMark};
use crate::owner::Owner;
use crate::rowkeys;
use sealer::ContentSealer;

/// Content that is written and waits for the row that makes it visible.
pub(crate) struct Written {
    pub form: ContentForm,
    pub payload: Payload,
    pub size: u64,
    /// Sends the blocks to the row's replicas, and keeps the blocks until the row refers to them.
    pub upload: Option<BlockWriter>,
    /// The encryption that the row of an encrypted object says.
    pub encryption: Option<Box<Encryption>>,
    /// The key that masks the entity tag, if it is to be masked.
    mask: Option<DataKey>,
    /// Keeps GC from dropping the tail until the row refers to it.
    _in_use: Option<Arc<InUseMark>>,
}

impl Written {
    /// Returns the entity tag of the content whose MD5 is `etag`.
    pub fn etag(&self, etag: String) -> String {
        match &self.mask {
            Some(key) => masked_etag(key, &etag),
            None => etag,
        }
    }
}

/// A writer of content. It sends each block as soon as the block is full, and commits each extent
/// as soon as the extent is full. A dropped writer leaves only extents, which GC finds.
pub(crate) struct ContentWriter {
    cluster: Cluster,
    in_use: Arc<InUse>,
    owner: Owner,
    durability: Durability,
    /// The number of blocks of a full extent.
    extent_blocks: usize,
    /// The bytes of the next block so far.
    staged: Staged,
    /// Encrypts content before it is staged.
    sealer: Option<Box<ContentSealer>>,
    pub encryption: Option<Box<Encryption>>,
    mask: Option<DataKey>,
    size: u64,
    /// The first extent.
    upload: Option<BlockWriter>,
    blocks: Vec<BlockRef>,
    tail: Option<TailWriter>,
}

/// A writer of the extents after the first one.
struct TailWriter {
    group: Id,
    extents: u32,
    upload: Option<BlockWriter>,
    blocks: Vec<BlockRef>,
    guard: Arc<InUseMark>,
    /// The commit of the extent before. The client continues to send meanwhile.
    committing: Option<JoinHandle<Result<(), Error>>>,
}

impl ContentWriter {
    /// Begins content that `owner` will refer to.
    pub fn new(
        cluster: Cluster,
        in_use: Arc<InUse>,
        owner: Owner,
        durability: Durability,
        extent_blocks: usize,
    ) -> ContentWriter {
        ContentWriter {
            staged: cluster.buffers().stage(),
            cluster,
            in_use,
            owner,
            durability,
            extent_blocks,
            sealer: None,
            encryption: None,
            mask: None,
            size: 0,
            upload: None,
            blocks: Vec::new(),
            tail: None,
        }
    }

    /// Returns the memory that content is buffered in.
    pub fn pool(&self) -> &Pool {
        self.cluster.buffers()
    }

    /// Appends bytes. Waits while storage is slower than the client.
    #[boxed]
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.size += bytes.len() as u64;
        if self.sealer.is_none() {
            return self.store(bytes).await;
        }
        for piece in bytes.chunks(SEGMENT_BYTES) {
            let sealed = match &mut self.sealer {
                Some(sealer) => sealer.push(piece).await?,
                None => Bytes::new(),
            };
            self.store(sealed).await?;
        }
        Ok(())
    }

    /// Encrypts all content by a key of its own. Must precede the content.
    pub fn encrypt(&mut self, key: &DataKey, kind: EncryptionKind) -> Result<(), Error> {
        self.mask = (kind == EncryptionKind::Customer).then(|| key.clone());
        let sealer = ContentSealer::new(key, self.cluster.clone())?;
        self.sealer = Some(Box::new(sealer));
        Ok(())
    }

    /// Appends bytes as they are stored.
    async fn store(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.staged.is_empty() && bytes.len() >= BLOCK_BYTES {
                let block = bytes.split_to(BLOCK_BYTES);
                self.append(block).await?;
                continue;
            }
            let room = BLOCK_BYTES - self.staged.len();
            let piece = bytes.split_to(room.min(bytes.len()));
            self.staged.extend(piece).await?;
            if self.staged.len() == BLOCK_BYTES {
                let block = self.staged.take().await?;
                self.append(block).await?;
            }
        }
        Ok(())
    }

    /// Ends the content. The extents after the first one are on stable storage then, unless the
    /// writer is buffered.
    #[boxed]
    pub async fn finish(mut self) -> Result<Written, Error> {
        if let Some(sealer) = self.sealer.take() {
            let last = sealer.finish().await?;
            self.store(last).await?;
        }
        if self.upload.is_none() && self.staged.len() <= INLINE_BYTES {
            return self.inline().await;
        }
        if !self.staged.is_empty() {
            let block = self.staged.take().await?;
            self.append(block).await?;
        }
        let tail = match self.tail.take() {
            None => None,
            Some(tail) => Some(self.finish_tail(tail).await?),
        };
        let (form, payload, in_use) = match tail {
            None => (ContentForm::Blocks, Payload::Blocks(self.blocks), None),
            Some((tail, guard)) => {
                let rest = Bytes::from(codec::encode(&tail));
                (
                    ContentForm::Tail,
                    Payload::BlocksAnd(self.blocks, rest),
                    Some(guard),
                )
            }
        };
        Ok(Written {
            form,
            payload,
            size: self.size,
            upload: self.upload,
            encryption: self.encryption,
            mask: self.mask,
            _in_use: in_use,
        })
    }

    async fn inline(&mut self) -> Result<Written, Error> {
        let content = self.staged.take().await?;
        Ok(Written {
            form: ContentForm::Inline,
            size: self.size,
            payload: if content.is_empty() {
                Payload::Empty
            } else {
                Payload::Inline(content)
            },
            upload: None,
            encryption: self.encryption.take(),
            mask: self.mask.take(),
            _in_use: None,
        })
    }

    async fn append(&mut self, block: Bytes) -> Result<(), Error> {
        if self.blocks.len() < self.extent_blocks {
            if self.upload.is_none() {
                let row = rowkeys::owner(&self.cluster, &self.owner);
                self.upload = Some(self.cluster.block_writer(row.partition)?);
            }
            if let Some(upload) = &self.upload {
                self.blocks.push(upload.append(block).await?);
            }
            return Ok(());
        }
        let mut tail = match self.tail.take() {
            Some(tail) => tail,
            None => self.begin_tail().await?,
        };
        if tail.upload.is_none() {
            let row = rowkeys::extent(&self.cluster, &tail.group, tail.extents);
            tail.upload = Some(self.cluster.block_writer(row.partition)?);
        }
        if let Some(upload) = &tail.upload {
            tail.blocks.push(upload.append(block).await?);
        }
        if tail.blocks.len() == self.extent_blocks {
            self.commit_extent(&mut tail).await?;
        }
        self.tail = Some(tail);
        Ok(())
    }

    /// Names the tail and queues its GC task durably. If this process dies, GC finds the extents
    /// and asks the owner.
    async fn begin_tail(&self) -> Result<TailWriter, Error> {
        let group = self.cluster.random_id();
        let guard = Arc::new(self.in_use.mark(group));
        let task = GcTask::Tail {
            owner: self.owner.clone(),
            group,
        };
        self.cluster
            .queue_push(codec::encode(&task).into(), Durability::Fsync)
            .await?;
        Ok(TailWriter {
            group,
            extents: 0,
            upload: None,
            blocks: Vec::new(),
            guard,
            committing: None,
        })
    }

    async fn commit_extent(&self, tail: &mut TailWriter) -> Result<(), Error> {
        // Extents are committed in order, because GC takes the first absent one for the end.
        tail.committed().await?;
        let upload = tail.upload.take();
        let metadata = ExtentHead {
            owner: self.owner.clone(),
            store: Some(self.cluster.own_store()),
        };
        let value = Value {
            metadata: codec::encode(&metadata).into(),
            payload: Payload::Blocks(std::mem::take(&mut tail.blocks)),
            usage: None,
            version: None,
        };
        let key = rowkeys::extent(&self.cluster, &tail.group, tail.extents);
        let (cluster, durability) = (self.cluster.clone(), self.durability);
        // The task may outlive the writer. GC must not look at the tail before it ends.
        let guard = tail.guard.clone();
        tail.committing = Some(tokio::spawn(carry(async move {
            let _guard = guard;
            let how = WriteOptions {
                upload: upload.as_ref(),
                ..WriteOptions::durable(durability)
            };
            cluster.write(&key, Some(value), how).await?;
            Ok(())
        })));
        tail.extents += 1;
        Ok(())
    }

    async fn finish_tail(&self, mut tail: TailWriter) -> Result<(Tail, Arc<InUseMark>), Error> {
        if !tail.blocks.is_empty() {
            self.commit_extent(&mut tail).await?;
        }
        tail.committed().await?;
        let described = Tail {
            group: tail.group,
            extents: tail.extents,
        };
        Ok((described, tail.guard))
    }
}

impl TailWriter {
    /// Waits for the commit of the extent before.
    async fn committed(&mut self) -> Result<(), Error> {
        match self.committing.take() {
            None => Ok(()),
            Some(task) => task.await.map_err(|error| {
                Error::Internal(format!("the task that commits an extent failed: {error}"))
            })?,
        }
    }
}
