//! Reads content into the channel of a stream, a few blocks ahead. Every block is verified.
//!
//! While no memory can be held, a block is parked on the disk until the client has taken it. For
//! the first block of an answer, that is not done before the client asks for more than its
//! beginning. Else clients that ask for thousands of objects and read nothing would keep the disk
//! busy. That block is then read a second time, and no block is read more often.

use std::ops::Range;
use std::sync::Arc;

use archipel_base::codec;
use archipel_base::pieces::MAX_PIECE_BYTES;
use archipel_base::{PartitionId, boxed};
use archipel_cluster::{BlockStream, Cluster, OpenRow, Pin};
use archipel_storage::pool::{Reservation, Staged};
use archipel_storage::{BlockRef, RowKey, VersionName};
use bytes::Bytes;

use super::channel::PieceSender;
use super::{AHEAD, Content, Keep, slice};
use crate::cipher::segments::Opener;
use crate::cipher::{DataKey, part_key};
use crate::error::{Error, damaged_row};
use crate::form::{PartInfo, Tail};
use crate::object::ObjectHead;
use crate::owner::PartsId;
use crate::rowkeys;
use crate::upload::Part;

/// The size of the pieces at the beginning of an answer, in bytes, while no memory can be held.
/// They are copies that count for no reservation. [`AHEAD`] of them are sent.
pub(super) const FIRST_BYTES: usize = 8 << 10;

/// The reason to stop: the client has gone, or the stream has got an error.
pub(super) struct Stop;

/// A task that reads blocks in order into a channel. The size of the channel bounds how far it
/// reads ahead.
pub(super) struct Feeder {
    pub cluster: Cluster,
    pub row: RowKey,
    pub version: VersionName,
    /// The content of the whole object.
    pub whole: Content,
    pub sender: PieceSender,
    /// The key of the content, or of its upload.
    pub key: Option<DataKey>,
    /// Opens what is read at present.
    pub opener: Option<Box<Opener>>,
    /// The memory of segments that are opened one by one. Those that are opened together have
    /// memory of their own until the client has them.
    pub share: Option<Reservation>,
    /// The sealed bytes of the next segment so far, while there is no such memory.
    pub parked: Option<Staged>,
    pub following: Option<BlockStream>,
    pub _keep: Arc<Keep>,
}

impl Feeder {
    #[boxed]
    pub async fn run(&mut self, size: u64, range: Range<u64>) {
        let _ = match self.whole.clone() {
            Content::Parts(id, parts) => self.parts(id, &parts, range).await,
            simple => {
                let key = self.key.clone();
                self.simple(simple, size, range, key.as_ref()).await
            }
        };
    }

    /// Sends a range of the bytes that are stored.
    #[boxed]
    pub async fn stored(
        &mut self,
        content: Content,
        size: u64,
        range: Range<u64>,
    ) -> Result<(), Stop> {
        match content {
            Content::Inline(bytes) => match slice(&bytes, &range) {
                Some(piece) => self.send(piece).await,
                None => Ok(()),
            },
            Content::Blocks(partition, blocks) => self.blocks(partition, &blocks, 0, &range).await,
            Content::Tail(partition, blocks, tail) => {
                self.blocks(partition, &blocks, 0, &range).await?;
                let extent = blocks.iter().map(|block| u64::from(block.len)).sum();
                self.tail(tail, extent, size, &range).await
            }
            Content::Parts(..) => self.fail(Error::Damaged("a part lists parts".into())).await,
        }
    }

    /// Sends those bytes of `blocks` that are in `range`. The first block begins at `offset` of the
    /// content.
    async fn blocks(
        &mut self,
        partition: PartitionId,
        blocks: &[BlockRef],
        offset: u64,
        range: &Range<u64>,
    ) -> Result<(), Stop> {
        let mut range = range.clone();
        while let Some(at) = self.some_of(partition, blocks, offset, &range).await? {
            self.sender.asked().await?;
            range.start = at;
        }
        Ok(())
    }

    /// Sends what [`blocks`](Feeder::blocks) sends, or the beginning of it. Returns the offset of
    /// the rest, which is to be read once the client asks for it; `None` if there is no rest.
    async fn some_of(
        &mut self,
        partition: PartitionId,
        blocks: &[BlockRef],
        offset: u64,
        range: &Range<u64>,
    ) -> Result<Option<u64>, Stop> {
        let mut end = offset;
        let placed = blocks.iter().map(|block| {
            let start = end;
            end += u64::from(block.len);
            (start, *block)
        });
        let touched = |(start, block): &(u64, BlockRef)| {
            start + u64::from(block.len) > range.start && *start < range.end
        };
        let (starts, wanted): (Vec<u64>, Vec<BlockRef>) = placed.filter(touched).unzip();
        let Some(first) = starts.first() else {
            return Ok(None);
        };
        let mut at = range.start.max(*first);
        let mut stream = match self.following.take() {
            Some(stream) => stream,
            // The difference fits because a block has at most 1 MiB.
            None => (self.cluster.read_blocks(partition, wanted)).in_pieces((at - first) as u32),
        };
        let end = end.min(range.end);
        while at < end {
            self.room().await?;
            let Some(piece) = stream.next().await else {
                return Err(Stop);
            };
            let piece = self.or_fail(piece).await?;
            let within = 0..end - at;
            let wanted = within.end.min(piece.len() as u64);
            let passed = self.pass(piece, &within).await?;
            at += passed;
            if passed < wanted {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Sends those bytes of a tail that are in `range`. All its extents but the last have `extent`
    /// bytes, as the first one of the content has.
    async fn tail(
        &mut self,
        tail: Tail,
        extent: u64,
        size: u64,
        range: &Range<u64>,
    ) -> Result<(), Stop> {
        let Some(first) = range.start.saturating_sub(extent).checked_div(extent) else {
            let why = format!("the extents of {} are empty", tail.group);
            return self.fail(Error::Damaged(why)).await;
        };
        for index in first as u32..tail.extents {
            let offset = extent * (u64::from(index) + 1);
            if offset >= range.end.min(size) {
                break;
            }
            let key = rowkeys::extent(&self.cluster, &tail.group, index);
            let found = self.or_fail(self.cluster.open_row(&key, &[]).await).await?;
            let Some(OpenRow {
                value,
                pin: _pin,
                following,
            }) = found
            else {
                let why = format!("extent {index} of {} is missing", tail.group);
                return self.fail(Error::Damaged(why)).await;
            };
            self.following = following.filter(|_| offset >= range.start);
            self.blocks(key.partition, value.payload.blocks(), offset, range)
                .await?;
        }
        Ok(())
    }

    async fn parts(
        &mut self,
        id: PartsId,
        parts: &[PartInfo],
        range: Range<u64>,
    ) -> Result<(), Stop> {
        let mut start = 0;
        for part in parts {
            let end = start + part.size;
            if end > range.start && start < range.end {
                let within = range.start.saturating_sub(start)..(range.end - start).min(part.size);
                let opened = self.open_part(&id, part).await;
                let (content, _pin, following) = self.or_fail(opened).await?;
                self.following = following.filter(|_| within.start == 0);
                let key = self.key.as_ref().map(|key| part_key(key, &part.attempt));
                self.simple(content, part.size, within, key.as_ref())
                    .await?;
            }
            start = end;
        }
        Ok(())
    }

    async fn open_part(
        &self,
        id: &PartsId,
        info: &PartInfo,
    ) -> Result<(Content, Pin, Option<BlockStream>), Error> {
        let key = rowkeys::part(&self.cluster, id, info.number, &info.attempt);
        let Some(opened) = self.cluster.open_row(&key, &[]).await? else {
            let why = format!("part {} of the object is missing", info.number);
            return Err(Error::Damaged(why));
        };
        let value = opened.value;
        let part: Part = codec::decode(&value.metadata).map_err(damaged_row)?;
        if part.size != info.size {
            return Err(Error::Damaged(
                "a part is not of the size that is listed".into(),
            ));
        }
        let content = Content::of(&key, part.form, value.payload)?;
        Ok((content, opened.pin, opened.following))
    }

    /// Waits until the next block may be read. A block occupies the node's memory until the client
    /// has it, so the task does not read ahead while memory is short.
    #[boxed]
    pub async fn room(&self) -> Result<(), Stop> {
        let wanted = if self.cluster.is_short_of_buffers() {
            AHEAD
        } else {
            1
        };
        self.sender.room(wanted).await
    }

    /// Sends a range of a block to the client. Waits while the client is slower. Returns the number
    /// of bytes that were sent: fewer if nothing was sent before, no memory can be held, and the
    /// client asks for no more than that.
    #[boxed]
    pub async fn pass(&mut self, block: Bytes, range: &Range<u64>) -> Result<u64, Stop> {
        let length = block.len() as u64;
        let mut within = range.start.min(length) as usize..range.end.min(length) as usize;
        let mut sent = 0;
        // A piece of another node's block is short. To ask for it again would cost a round trip.
        let is_long = within.len() > MAX_PIECE_BYTES;
        if is_long && !self.sender.has_sent() && !self.cluster.buffers().can_hold(block.len()) {
            if let Some(opener) = &self.opener {
                // A segment is opened as a whole. The block before may have brought some of it.
                let parked = self.parked.as_ref().map_or(0, Staged::len);
                let lacks = opener.lacks().saturating_sub(parked);
                within.end = within.end.min(within.start + lacks);
            } else {
                for _ in 0..AHEAD {
                    let behind = within.start + FIRST_BYTES;
                    let piece = Bytes::copy_from_slice(&block[within.start..behind]);
                    // There is room for it, so that the block waits for no client.
                    self.send(piece).await?;
                    within.start = behind;
                    sent += FIRST_BYTES as u64;
                }
                // The tasks that can go on do so. Among them is that of a client which reads: it
                // asks for more, and its block need not be read again.
                tokio::task::yield_now().await;
                if !self.sender.is_asked() {
                    return Ok(sent);
                }
            }
        }
        let mut content = self
            .or_fail(self.cluster.buffers().outgoing(block, within).await)
            .await?;
        loop {
            // Thousands of clients may read nothing: then a piece is fetched once the last one is
            // gone.
            self.room().await?;
            let Some(piece) = self.or_fail(content.next().await).await? else {
                return Ok(sent);
            };
            sent += piece.len() as u64;
            self.send(piece).await?;
        }
    }

    #[boxed]
    pub async fn fail(&self, error: Error) -> Result<(), Stop> {
        let error = match error {
            Error::Damaged(why) if self.is_replaced().await => Error::Unavailable(format!(
                "the object was replaced or deleted while it was read: {why}"
            )),
            error => error,
        };
        tracing::error!(%error, "reading an object failed");
        self.sender.fail(error).await;
        Err(Stop)
    }

    /// Returns true if the version is gone or has other content now. If it was replaced while GC
    /// could not ask this node what it reads, the old content is gone and nothing is damaged.
    async fn is_replaced(&self) -> bool {
        let found = self.cluster.version_of(&self.row, self.version).await;
        match found.map(|found| found.and_then(|report| report.value)) {
            Ok(None) => true,
            Ok(Some(value)) => codec::decode::<ObjectHead>(&value.metadata).is_ok_and(|head| {
                Content::of(&self.row, head.form, value.payload).is_ok_and(|now| now != self.whole)
            }),
            Err(_) => false,
        }
    }

    pub async fn or_fail<T, E: Into<Error>>(&self, result: Result<T, E>) -> Result<T, Stop> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => match self.fail(error.into()).await {
                Ok(()) | Err(Stop) => Err(Stop),
            },
        }
    }
}
