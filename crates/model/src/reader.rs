//! Reads an object's content: with bounded memory, a few blocks ahead. Every block is verified.
//! `encrypted` opens what is encrypted.

mod encrypted;

use std::ops::Range;
use std::sync::Arc;

use archipel_base::codec;
use archipel_base::{Id, PartitionId};
use archipel_cluster::{BlockStream, Cluster, OpenRow, Pin};
use archipel_storage::pool::Reservation;
use archipel_storage::{BlockRef, Payload, RowKey, VersionName};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::cipher::segments::Opener;
use crate::cipher::{ContentKey, DataKey, Locked, part_key};
use crate::error::{Error, damaged_row};
use crate::form::{
    BLOCK_BYTES, ContentForm, EXTENT_BYTES, PartInfo, Tail, decode_parts, decode_tail,
};
use crate::in_use::{InUse, InUseMark};
use crate::object::ObjectHead;
use crate::owner::{Owner, PartsId, UploadName};
use crate::rowkeys;
use crate::upload::Part;
use encrypted::unsealed;

/// The number of blocks that are read ahead of the client.
const AHEAD: usize = 2;

/// An open object. Its content stays readable until the reader is dropped, even if the object is
/// replaced or deleted.
pub struct ObjectReader {
    pub(crate) cluster: Cluster,
    pub(crate) row: RowKey,
    pub(crate) metadata: ObjectHead,
    pub(crate) access: ContentKey,
    pub(crate) content: Content,
    pub(crate) parts: Vec<PartInfo>,
    pub(crate) keep: Arc<Keep>,
    /// The first blocks, if a replica sends them already.
    pub(crate) following: Mutex<Option<BlockStream>>,
}

/// Marks that keep the content readable.
#[derive(Default)]
pub(crate) struct Keep {
    pub _pin: Option<Pin>,
    pub _in_use: Option<InUseMark>,
}

/// The content that a row refers to.
#[derive(Clone, PartialEq)]
pub(crate) enum Content {
    Inline(Bytes),
    Blocks(PartitionId, Vec<BlockRef>),
    Tail(PartitionId, Vec<BlockRef>, Tail),
    Parts(PartsId, Vec<PartInfo>),
}

impl Content {
    /// Returns the content of a row with this form and payload.
    pub fn of(row: &RowKey, form: ContentForm, payload: Payload) -> Result<Content, Error> {
        let partition = row.partition;
        Ok(match (form, payload) {
            (ContentForm::Inline, Payload::Empty) => Content::Inline(Bytes::new()),
            (ContentForm::Inline, Payload::Inline(bytes)) => Content::Inline(bytes),
            (ContentForm::Blocks, Payload::Blocks(blocks)) => Content::Blocks(partition, blocks),
            (ContentForm::Tail, payload) => {
                Content::Tail(partition, payload.blocks().to_vec(), decode_tail(&payload)?)
            }
            (ContentForm::Parts, payload) => {
                let Some(Owner::Object { bucket, key }) = rowkeys::owner_of(&row.key) else {
                    return Err(Error::Damaged("a part lists parts".into()));
                };
                let list = decode_parts(&payload)?;
                let upload = UploadName::new(&bucket, &key, &list.upload);
                Content::Parts(upload.parts(), list.parts)
            }
            _ => {
                return Err(Error::Damaged(
                    "a row's payload does not match its form".into(),
                ));
            }
        })
    }

    /// Returns the name under which the content is marked as in use; `None` if its row holds all of
    /// it.
    pub fn name(&self) -> Option<Id> {
        match self {
            Content::Inline(_) | Content::Blocks(..) => None,
            Content::Tail(_, _, tail) => Some(tail.group),
            Content::Parts(parts, _) => Some(parts.0),
        }
    }
}

impl ObjectReader {
    /// Returns the object's metadata.
    pub fn metadata(&self) -> &ObjectHead {
        &self.metadata
    }

    /// Returns the parts of the object; none if it was uploaded in one request.
    pub fn parts(&self) -> &[PartInfo] {
        &self.parts
    }

    /// Returns a stream of a range of the content. The range is cut at the end of the object.
    pub fn stream(&self, range: Range<u64>) -> ObjectStream {
        let range = range.start..range.end.min(self.metadata.size);
        let key = match self.access.key() {
            Ok(key) => key.cloned(),
            Err(Locked) => return ObjectStream(Source::Ready(Some(Err(Error::KeyNeeded)))),
        };
        if let Content::Inline(bytes) = &self.content {
            let piece = match &key {
                None => Ok(slice(bytes, &range)),
                Some(key) => unsealed(key, bytes, self.metadata.size, &range),
            };
            return ObjectStream(Source::Ready(piece.transpose()));
        }
        let (sender, receiver) = mpsc::channel(AHEAD);
        let following = self.following.lock().take();
        let mut feeder = Feeder {
            cluster: self.cluster.clone(),
            row: self.row.clone(),
            version: self.metadata.id.at(),
            whole: self.content.clone(),
            sender,
            key,
            opener: None,
            share: None,
            following: following.filter(|_| range.start == 0),
            _keep: self.keep.clone(),
        };
        let size = self.metadata.size;
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
    Ready(Option<Result<Bytes, Error>>),
    Fed(mpsc::Receiver<Result<Bytes, Error>>),
}

impl ObjectStream {
    /// Returns the next piece; `None` at the end and after an error.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        match &mut self.0 {
            Source::Ready(piece) => piece.take(),
            Source::Fed(receiver) => receiver.recv().await,
        }
    }
}

/// The reason to stop: the client has gone, or the stream has got an error.
struct Stop;

/// A task that reads blocks in order into a channel. The size of the channel bounds how far it
/// reads ahead.
struct Feeder {
    cluster: Cluster,
    row: RowKey,
    version: VersionName,
    /// The content of the whole object.
    whole: Content,
    sender: mpsc::Sender<Result<Bytes, Error>>,
    /// The key of the content, or of its upload.
    key: Option<DataKey>,
    /// Opens what is read at present.
    opener: Option<Box<Opener>>,
    /// The memory that opened segments take.
    share: Option<Reservation>,
    following: Option<BlockStream>,
    _keep: Arc<Keep>,
}

impl Feeder {
    async fn run(&mut self, size: u64, range: Range<u64>) {
        let _ = match self.whole.clone() {
            Content::Parts(id, parts) => self.parts(id, parts, range).await,
            simple => {
                let key = self.key.clone();
                self.simple(simple, size, range, key.as_ref()).await
            }
        };
    }

    /// Sends a range of the bytes that are stored.
    async fn stored(&mut self, content: Content, size: u64, range: Range<u64>) -> Result<(), Stop> {
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

    /// Sends those bytes of `blocks` that are in `range`. The first block begins at `offset` of the
    /// content.
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
        parts: Vec<PartInfo>,
        range: Range<u64>,
    ) -> Result<(), Stop> {
        let mut start = 0;
        for part in parts {
            let end = start + part.size;
            if end > range.start && start < range.end {
                let within = range.start.saturating_sub(start)..(range.end - start).min(part.size);
                let opened = self.open_part(&id, &part).await;
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
        let Some(opened) = self.cluster.open_row(&key).await? else {
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
    async fn room(&self) -> Result<(), Stop> {
        let wanted = if self.cluster.is_short_of_buffers() {
            AHEAD
        } else {
            1
        };
        let room = self.sender.reserve_many(wanted).await;
        room.map(|_| ()).map_err(|_| Stop)
    }

    /// Sends a range of a block to the client. Waits while the client is slower.
    async fn pass(&mut self, block: Bytes, range: &Range<u64>) -> Result<(), Stop> {
        let length = block.len() as u64;
        let within = range.start.min(length) as usize..range.end.min(length) as usize;
        let mut content = self
            .or_fail(self.cluster.buffers().outgoing(block, within).await)
            .await?;
        while let Some(piece) = self.or_fail(content.next().await).await? {
            self.send(piece).await?;
        }
        Ok(())
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

    async fn or_fail<T, E: Into<Error>>(&self, result: Result<T, E>) -> Result<T, Stop> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => match self.fail(error.into()).await {
                Ok(()) | Err(Stop) => Err(Stop),
            },
        }
    }
}

/// Marks the content as in use by a reader.
pub(crate) fn keep(in_use: &Arc<InUse>, content: &Content, pin: Pin) -> Arc<Keep> {
    Arc::new(Keep {
        _pin: Some(pin),
        _in_use: content.name().map(|name| in_use.mark(name)),
    })
}

const _: () = assert!(EXTENT_BYTES.is_multiple_of(BLOCK_BYTES as u64));
