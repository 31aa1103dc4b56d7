//! Reads an object's content with bounded memory. `feeder` reads blocks ahead, `encrypted` opens
//! what is encrypted, and `channel` brings the pieces to the client's stream.

mod channel;
mod encrypted;
mod feeder;

use std::ops::Range;
use std::sync::Arc;

use archipel_base::{Id, PartitionId, boxed};
use archipel_cluster::{BlockStream, Cluster, Pin};
use archipel_storage::{BlockRef, Payload, RowKey};
use archipel_traces::carry;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::cipher::{ContentKey, Locked};
use crate::error::Error;
use crate::form::{ContentForm, PartInfo, Tail, decode_parts, decode_tail};
use crate::in_use::{InUse, InUseMark};
use crate::object::ObjectHead;
use crate::owner::{Owner, PartsId, UploadName};
use crate::rowkeys;
use channel::PieceReceiver;
use encrypted::unsealed;
use feeder::Feeder;

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
    /// The list is shared: that of a large object takes more than a MiB.
    Parts(PartsId, Arc<[PartInfo]>),
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
                Content::Parts(upload.parts(), list.parts.into())
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
        match &self.content {
            Content::Parts(_, parts) => parts,
            _ => &[],
        }
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
        let (sender, receiver) = channel::channel();
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
            parked: None,
            following: following.filter(|_| range.start == 0),
            _keep: self.keep.clone(),
        };
        let size = self.metadata.size;
        tokio::spawn(carry(async move { feeder.run(size, range).await }));
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
    Fed(PieceReceiver),
}

impl ObjectStream {
    /// Returns the next piece; `None` at the end and after an error.
    #[boxed]
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        match &mut self.0 {
            Source::Ready(piece) => piece.take(),
            Source::Fed(receiver) => receiver.next().await,
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

#[cfg(test)]
mod tests;
