//! Reading an object's content: bounded memory, a few blocks ahead, every block verified.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use archipel_base::codec;
use archipel_base::{Id, PartitionId};
use archipel_cluster::{BlockStream, Cluster, Opened, Pin};
use archipel_storage::{BlockRef, Body, RowKey};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::active::{Active, ActiveGuard};
use crate::content::{
    BLOCK_BYTES, EXTENT_BYTES, Layout, Tail, damaged_row, decode_parts, decode_tail,
};
use crate::error::Error;
use crate::object::ObjectHead;
use crate::rowkeys;
use crate::upload::{Part, PartInfo};

/// How many blocks are read ahead of the client.
const AHEAD: usize = 2;

/// An object that was opened: its content stays as it is until this is dropped, whatever happens to the key.
pub struct ObjectReader {
    pub(crate) cluster: Cluster,
    pub(crate) row: RowKey,
    pub(crate) head: ObjectHead,
    pub(crate) content: Content,
    pub(crate) parts: Vec<PartInfo>,
    pub(crate) keep: Arc<Keep>,
    /// The first blocks, if they are on their way already.
    pub(crate) following: Mutex<Option<BlockStream>>,
}

/// What keeps the content readable.
#[derive(Default)]
pub(crate) struct Keep {
    pub _pin: Option<Pin>,
    pub _active: Option<ActiveGuard>,
}

/// Content that was found.
#[derive(Clone, PartialEq)]
pub(crate) enum Content {
    Inline(Bytes),
    Blocks(PartitionId, Vec<BlockRef>),
    Tail(PartitionId, Vec<BlockRef>, Tail),
    Parts(Id, Vec<PartInfo>),
}

impl Content {
    /// What a row of `partition` with this layout and body holds.
    pub fn of(partition: PartitionId, layout: Layout, body: Body) -> Result<Content, Error> {
        Ok(match (layout, body) {
            (Layout::Inline, Body::Empty) => Content::Inline(Bytes::new()),
            (Layout::Inline, Body::Inline(bytes)) => Content::Inline(bytes),
            (Layout::Blocks, Body::Blocks(blocks)) => Content::Blocks(partition, blocks),
            (Layout::Tail, body) => {
                Content::Tail(partition, body.blocks().to_vec(), decode_tail(&body)?)
            }
            (Layout::Parts, body) => {
                let list = decode_parts(&body)?;
                Content::Parts(list.upload, list.parts)
            }
            _ => return Err(Error::Damaged("a row's body is not of its layout".into())),
        })
    }

    /// The name under which its pieces are kept from the sweep, if it has pieces.
    pub fn name(&self) -> Option<Id> {
        match self {
            Content::Inline(_) | Content::Blocks(..) => None,
            Content::Tail(_, _, tail) => Some(tail.group),
            Content::Parts(upload, _) => Some(*upload),
        }
    }
}

impl ObjectReader {
    /// What is known of the object.
    pub fn head(&self) -> &ObjectHead {
        &self.head
    }

    /// The parts that it was uploaded in; empty if it was uploaded in one request.
    pub fn parts(&self) -> &[PartInfo] {
        &self.parts
    }

    /// Streams a range of the content; a range beyond the end is cut.
    pub fn stream(&self, range: Range<u64>) -> ObjectStream {
        let range = range.start..range.end.min(self.head.size);
        if let Content::Inline(bytes) = &self.content {
            let piece = slice(bytes, &range);
            return ObjectStream(Source::Ready(piece));
        }
        let (sender, receiver) = mpsc::channel(AHEAD);
        let following = self
            .following
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut feeder = Feeder {
            cluster: self.cluster.clone(),
            row: self.row.clone(),
            whole: self.content.clone(),
            sender,
            following: following.filter(|_| range.start == 0),
            _keep: self.keep.clone(),
        };
        let size = self.head.size;
        tokio::spawn(async move { feeder.run(size, range).await });
        ObjectStream(Source::Fed(receiver))
    }
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> Option<Bytes> {
    let length = bytes.len() as u64;
    let (start, end) = (range.start.min(length), range.end.min(length));
    (start < end).then(|| bytes.slice(start as usize..end as usize))
}

/// A stream of content, at most 1 MiB at a time.
pub struct ObjectStream(Source);

enum Source {
    Ready(Option<Bytes>),
    Fed(mpsc::Receiver<Result<Bytes, Error>>),
}

impl ObjectStream {
    /// The next piece; `None` at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        match &mut self.0 {
            Source::Ready(piece) => piece.take().map(Ok),
            Source::Fed(receiver) => receiver.recv().await,
        }
    }
}

/// The client has gone, or an error was passed on: stop.
struct Stop;

/// Reads blocks in order into the channel, whose size bounds what is read ahead.
struct Feeder {
    cluster: Cluster,
    row: RowKey,
    /// All that the object is.
    whole: Content,
    sender: mpsc::Sender<Result<Bytes, Error>>,
    following: Option<BlockStream>,
    _keep: Arc<Keep>,
}

impl Feeder {
    async fn run(&mut self, size: u64, range: Range<u64>) {
        let _ = match self.whole.clone() {
            Content::Parts(upload, parts) => self.parts(upload, parts, range).await,
            simple => self.simple(simple, size, range).await,
        };
    }

    /// Content that is not a list of parts.
    async fn simple(&mut self, content: Content, size: u64, range: Range<u64>) -> Result<(), Stop> {
        match content {
            Content::Inline(bytes) => match slice(&bytes, &range) {
                Some(piece) => self.send(piece).await,
                None => Ok(()),
            },
            Content::Blocks(partition, blocks) => self.blocks(partition, &blocks, 0, &range).await,
            Content::Tail(partition, blocks, tail) => {
                self.blocks(partition, &blocks, 0, &range).await?;
                self.tail(tail, size, &range).await
            }
            Content::Parts(..) => self.fail(Error::Damaged("a part lists parts".into())).await,
        }
    }

    /// The blocks that begin at `offset` of the content, as far as they touch `range`.
    async fn blocks(
        &mut self,
        partition: PartitionId,
        blocks: &[BlockRef],
        offset: u64,
        range: &Range<u64>,
    ) -> Result<(), Stop> {
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
            return Ok(());
        };
        let mut at = range.start.max(*first);
        let mut stream = match self.following.take() {
            Some(stream) => stream,
            // A block has at most 1 MiB.
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
            at += piece.len() as u64;
            self.pass(piece, &within).await?;
        }
        Ok(())
    }

    async fn tail(&mut self, tail: Tail, size: u64, range: &Range<u64>) -> Result<(), Stop> {
        let first = range.start.saturating_sub(EXTENT_BYTES) / EXTENT_BYTES;
        for index in first as u32..tail.extents {
            let offset = EXTENT_BYTES * (u64::from(index) + 1);
            if offset >= range.end.min(size) {
                break;
            }
            let key = rowkeys::extent(&self.cluster, &tail.group, index);
            let found = self.or_fail(self.cluster.open_row(&key).await).await?;
            let Some(Opened {
                value,
                pin: _pin,
                following,
            }) = found
            else {
                let why = format!("extent {index} of {} is missing", tail.group);
                return self.fail(Error::Damaged(why)).await;
            };
            self.following = following.filter(|_| offset >= range.start);
            self.blocks(key.partition, value.body.blocks(), offset, range)
                .await?;
        }
        Ok(())
    }

    async fn parts(
        &mut self,
        upload: Id,
        parts: Vec<PartInfo>,
        range: Range<u64>,
    ) -> Result<(), Stop> {
        let mut start = 0;
        for part in parts {
            let end = start + part.size;
            if end > range.start && start < range.end {
                let within = range.start.saturating_sub(start)..(range.end - start).min(part.size);
                let opened = self.open_part(&upload, &part).await;
                let (content, _pin, following) = self.or_fail(opened).await?;
                self.following = following.filter(|_| within.start == 0);
                self.simple(content, part.size, within).await?;
            }
            start = end;
        }
        Ok(())
    }

    async fn open_part(
        &self,
        upload: &Id,
        info: &PartInfo,
    ) -> Result<(Content, Pin, Option<BlockStream>), Error> {
        let key = rowkeys::part(&self.cluster, upload, info.number, &info.attempt);
        let Some(opened) = self.cluster.open_row(&key).await? else {
            let why = format!("part {} of upload {upload} is missing", info.number);
            return Err(Error::Damaged(why));
        };
        let value = opened.value;
        let part: Part = codec::decode(&value.head).map_err(damaged_row)?;
        if part.size != info.size {
            return Err(Error::Damaged(
                "a part is not of the size that is listed".into(),
            ));
        }
        let content = Content::of(key.partition, part.layout, value.body)?;
        Ok((content, opened.pin, opened.following))
    }

    /// Waits until a block may be read. A block holds a share of the node's memory until the
    /// client has it, so while memory is short nothing is read ahead.
    async fn room(&self) -> Result<(), Stop> {
        let wanted = match self.cluster.is_short_of_buffers() {
            true => AHEAD,
            false => 1,
        };
        let room = self.sender.reserve_many(wanted).await;
        room.map(|_| ()).map_err(|_| Stop)
    }

    /// Sends a range of a block, at the client's pace.
    async fn pass(&self, block: Bytes, range: &Range<u64>) -> Result<(), Stop> {
        let length = block.len() as u64;
        let within = range.start.min(length) as usize..range.end.min(length) as usize;
        let pool = self.cluster.store().blocks().pool();
        let mut content = self.or_fail(pool.outgoing(block, within).await).await?;
        while let Some(piece) = self.or_fail(content.next().await).await? {
            self.send(piece).await?;
        }
        Ok(())
    }

    async fn send(&self, piece: Bytes) -> Result<(), Stop> {
        self.sender.send(Ok(piece)).await.map_err(|_| Stop)
    }

    async fn fail(&self, error: Error) -> Result<(), Stop> {
        let error = match error {
            Error::Damaged(why) if self.is_replaced().await => Error::Unavailable(format!(
                "the object was replaced or deleted while it was read: {why}"
            )),
            error => error,
        };
        tracing::error!(%error, "reading an object failed");
        let _ = self.sender.send(Err(error)).await;
        Err(Stop)
    }

    /// Whether the object is another one by now. If it was replaced while nobody could ask this node what it reads, its content is
    /// gone, and nothing is wrong.
    async fn is_replaced(&self) -> bool {
        match self.cluster.open_row(&self.row).await {
            Ok(None) => true,
            Ok(Some(Opened { value, .. })) => {
                let head = codec::decode::<ObjectHead>(&value.head);
                let now = head.map(|head| Content::of(self.row.partition, head.layout, value.body));
                now.is_ok_and(|now| now.is_ok_and(|now| now != self.whole))
            }
            Err(_) => false,
        }
    }

    async fn or_fail<T, E: Into<Error>>(&self, result: Result<T, E>) -> Result<T, Stop> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => match self.fail(error.into()).await {
                Ok(()) | Err(Stop) => Err(Stop),
            },
        }
    }
}

/// Marks the content as being read.
pub(crate) fn keep(active: &Arc<Active>, content: &Content, pin: Pin) -> Arc<Keep> {
    Arc::new(Keep {
        _pin: Some(pin),
        _active: content.name().map(|name| active.enter(name)),
    })
}

const _: () = assert!(EXTENT_BYTES.is_multiple_of(BLOCK_BYTES as u64));
