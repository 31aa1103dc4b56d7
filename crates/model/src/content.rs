//! Where an object's content is, and how it is written.
//!
//! Small content stands in the row. Up to 64 blocks (one extent) are the row's own. What follows
//! is a **tail**: extents of 64 blocks, each a row of its own in a partition of its own. A
//! multipart object holds no content itself: its row lists the rows of its parts, which have
//! content in these same three forms.

use std::sync::Arc;

use archipel_base::Id;
use archipel_base::codec::{self, Versioned};
use archipel_cluster::{Cluster, How, Upload};
use archipel_storage::engine::Durability;
use archipel_storage::pool::{Pool, Staged};
use archipel_storage::{BlockRef, Body, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::active::{Active, ActiveGuard};
use crate::error::Error;
use crate::rowkeys::{self, Owner};
use crate::sweep::Check;
use crate::upload::PartInfo;

/// Content up to this many bytes stands in the row.
pub const INLINE_BYTES: usize = 16 * 1024;
/// The size of a block.
pub const BLOCK_BYTES: usize = 1 << 20;
/// How many blocks an extent has.
pub const EXTENT_BLOCKS: usize = 64;
/// The size of a full extent.
pub const EXTENT_BYTES: u64 = (BLOCK_BYTES * EXTENT_BLOCKS) as u64;

/// The form that content has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Layout {
    /// In the row (or empty).
    #[serde(rename = "i")]
    Inline,
    /// Blocks of the row.
    #[serde(rename = "b")]
    Blocks,
    /// Blocks of the row, then a [`Tail`].
    #[serde(rename = "t")]
    Tail,
    /// A [`PartList`].
    #[serde(rename = "p")]
    Parts,
}

/// Where the content behind the first extent is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Tail {
    /// The name that its extents have in common.
    #[serde(rename = "g")]
    pub group: Id,
    /// How many there are; all but the last are full.
    #[serde(rename = "n")]
    pub extents: u32,
}

impl Versioned for Tail {
    const VERSION: u8 = 1;
}

/// The parts of a multipart object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PartList {
    /// The upload that they belong to.
    #[serde(rename = "u")]
    pub upload: Id,
    /// In order.
    #[serde(rename = "p")]
    pub parts: Vec<PartInfo>,
}

impl Versioned for PartList {
    const VERSION: u8 = 1;
}

/// The head of an extent's row: whom to ask whether it is still needed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ExtentHead {
    #[serde(rename = "o")]
    pub owner: Owner,
    /// The store of the node that wrote it, whose queue holds the question.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Id>,
}

impl Versioned for ExtentHead {
    const VERSION: u8 = 1;
}

/// Content that was written and waits for the row that makes it real.
pub(crate) struct Written {
    pub layout: Layout,
    pub body: Body,
    pub size: u64,
    /// Brings the blocks to where the row will be, and keeps them until it holds them.
    pub upload: Option<Upload>,
    /// Keeps the tail from being swept until the row holds it.
    _active: Option<Arc<ActiveGuard>>,
}

/// Writes content: blocks as they fill, extents as they fill. Dropping it leaves nothing behind
/// but extents that the sweep finds.
pub(crate) struct ContentWriter {
    cluster: Cluster,
    active: Arc<Active>,
    owner: Owner,
    durability: Durability,
    /// The next block, as far as it has come.
    staged: Staged,
    size: u64,
    /// The first extent.
    upload: Option<Upload>,
    blocks: Vec<BlockRef>,
    tail: Option<TailWriter>,
}

/// What stands behind the first extent, as it grows.
struct TailWriter {
    group: Id,
    extents: u32,
    upload: Option<Upload>,
    blocks: Vec<BlockRef>,
    guard: Arc<ActiveGuard>,
    /// The extent before, on its way: the client goes on meanwhile.
    committing: Option<JoinHandle<Result<(), Error>>>,
}

impl ContentWriter {
    /// Begins content that `owner` will hold.
    pub fn new(
        cluster: Cluster,
        active: Arc<Active>,
        owner: Owner,
        durability: Durability,
    ) -> ContentWriter {
        ContentWriter {
            staged: cluster.store().blocks().pool().stage(),
            cluster,
            active,
            owner,
            durability,
            size: 0,
            upload: None,
            blocks: Vec::new(),
            tail: None,
        }
    }

    /// Where memory for content is taken.
    pub fn pool(&self) -> &Pool {
        self.cluster.store().blocks().pool()
    }

    /// Appends; waits while storage is behind.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        self.size += bytes.len() as u64;
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

    /// Ends the content; what is behind the first extent is on stable storage then (unless it is buffered).
    pub async fn finish(mut self) -> Result<Written, Error> {
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
        let (layout, body, active) = match tail {
            None => (Layout::Blocks, Body::Blocks(self.blocks), None),
            Some((tail, guard)) => {
                let rest = Bytes::from(codec::encode(&tail));
                (
                    Layout::Tail,
                    Body::BlocksAnd(self.blocks, rest),
                    Some(guard),
                )
            }
        };
        Ok(Written {
            layout,
            body,
            size: self.size,
            upload: self.upload,
            _active: active,
        })
    }

    async fn inline(&mut self) -> Result<Written, Error> {
        let content = self.staged.take().await?;
        Ok(Written {
            layout: Layout::Inline,
            size: content.len() as u64,
            body: match content.is_empty() {
                true => Body::Empty,
                false => Body::Inline(content),
            },
            upload: None,
            _active: None,
        })
    }

    async fn append(&mut self, block: Bytes) -> Result<(), Error> {
        if self.blocks.len() < EXTENT_BLOCKS {
            if self.upload.is_none() {
                let row = self.owner.row(&self.cluster);
                self.upload = Some(self.cluster.upload(row.partition)?);
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
            tail.upload = Some(self.cluster.upload(row.partition)?);
        }
        if let Some(upload) = &tail.upload {
            tail.blocks.push(upload.append(block).await?);
        }
        if tail.blocks.len() == EXTENT_BLOCKS {
            self.commit_extent(&mut tail).await?;
        }
        self.tail = Some(tail);
        Ok(())
    }

    /// Names the tail, and notes durably that it must be checked: if this process dies, its
    /// extents are found by asking the owner.
    async fn begin_tail(&self) -> Result<TailWriter, Error> {
        let group = self.cluster.random_id();
        let guard = Arc::new(self.active.enter(group));
        let check = Check::Tail {
            owner: self.owner.clone(),
            group,
        };
        self.cluster
            .queue_push(codec::encode(&check).into(), Durability::Fsync)
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
        // In order: the sweep takes the first that is missing for the end.
        tail.committed().await?;
        let upload = tail.upload.take();
        let head = ExtentHead {
            owner: self.owner.clone(),
            store: Some(self.cluster.me().store),
        };
        let value = Value {
            head: codec::encode(&head).into(),
            body: Body::Blocks(std::mem::take(&mut tail.blocks)),
            tally: None,
        };
        let key = rowkeys::extent(&self.cluster, &tail.group, tail.extents);
        let (cluster, durability) = (self.cluster.clone(), self.durability);
        // The task may outlive the writer: the sweep must not look before it is over.
        let guard = tail.guard.clone();
        tail.committing = Some(tokio::spawn(async move {
            let _guard = guard;
            let how = How {
                durability,
                guards: Vec::new(),
                upload: upload.as_ref(),
            };
            cluster.write(&key, Some(value), how).await?;
            Ok(())
        }));
        tail.extents += 1;
        Ok(())
    }

    async fn finish_tail(&self, mut tail: TailWriter) -> Result<(Tail, Arc<ActiveGuard>), Error> {
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
    /// Waits for the extent that is on its way.
    async fn committed(&mut self) -> Result<(), Error> {
        match self.committing.take() {
            None => Ok(()),
            Some(task) => task
                .await
                .map_err(|error| Error::Internal(format!("an extent broke off: {error}")))?,
        }
    }
}

/// The tail that a body of [`Layout::Tail`] names.
pub(crate) fn decode_tail(body: &Body) -> Result<Tail, Error> {
    match body {
        Body::BlocksAnd(_, rest) => codec::decode(rest).map_err(damaged_row),
        _ => Err(Error::Damaged("a row lacks the list of its extents".into())),
    }
}

/// The parts that a body of [`Layout::Parts`] lists.
pub(crate) fn decode_parts(body: &Body) -> Result<PartList, Error> {
    match body {
        Body::Inline(list) => codec::decode(list).map_err(damaged_row),
        _ => Err(Error::Damaged("a row lacks the list of its parts".into())),
    }
}

/// A row that cannot be decoded.
pub(crate) fn damaged_row(error: codec::DecodeError) -> Error {
    Error::Damaged(format!("a row cannot be read: {error}"))
}
