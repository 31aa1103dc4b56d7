//! Answers to other nodes about rows and blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use archipel_base::codec::{self, Versioned};
use archipel_base::pieces::{self, FIRST_PIECE_BYTES};
use archipel_base::{NodeId, PartitionId, Stamp};
use archipel_net::{Class, SendFrames, Stream};
use archipel_storage as storage;
use archipel_storage::{BlockRef, Pin};
use archipel_traces::describe;
use bytes::Bytes;
use tokio::time::Instant;

use super::Data;
use crate::node::detach::DetachOnDrop;
use crate::node::wire::{FetchCall, Refusal, RowCall, RowReply, UploadOpen, frame};
use crate::register::{Answer, Request};

/// The most blocks that one fetch may ask for.
const MAX_FETCH: usize = 4096;

fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, String> {
    codec::decode(bytes).map_err(|error| error.to_string())
}

/// Tells the partition of what is served to the span of a sampled call.
fn about(partition: PartitionId) {
    describe(|record| record.set("archipel.partition", partition.0));
}

impl Data {
    /// Answers a row call of another node. A change goes on although its caller goes away; the wait
    /// for a newer layout does not, so that the permits of calls bound what waits.
    pub(crate) async fn serve_row(self: &Arc<Data>, from: NodeId, call: RowCall) -> RowReply {
        about(call.address.partition);
        let is_read = matches!(call.request, Request::Read { .. });
        // The time for the newer layout is part of it.
        let until = Instant::now() + self.answer_time();
        let answer = match self.keep_up(from, call.address.epoch).await {
            Err(error) => Err(storage::Error::Busy(error.to_string())),
            Ok(()) if is_read => self.answer_before(until, call).await,
            Ok(()) => {
                let data = self.clone();
                DetachOnDrop::new(async move { data.answer_before(until, call).await }).await
            }
        };
        RowReply(answer.map_err(Refusal::from))
    }

    /// Notes the epoch number that another node tells, and asks for the epoch if it is newer and
    /// the node is trusted to tell it.
    pub(crate) fn hear_epoch(self: &Arc<Data>, from: NodeId, message: &[u8]) {
        let number = message.try_into().map_or(0, u64::from_be_bytes);
        if number > self.epochs.number() && self.trusts(&from) {
            let data = self.clone();
            tokio::spawn(async move {
                if let Err(error) = data.learn_from(&from).await {
                    tracing::warn!(%error, from = %from.short(), "a newer layout cannot be learnt");
                }
            });
        }
    }
}

/// Receives blocks and then the requests of the row that refers to them. At the end, blocks without
/// a reference are dropped.
pub(crate) async fn serve_upload(
    data: &Arc<Data>,
    from: NodeId,
    mut stream: Stream,
) -> Result<(), String> {
    let text = |error: archipel_net::Error| error.to_string();
    let first = stream.receive.receive().await.map_err(text)?;
    let UploadOpen { address } = decode(&first.ok_or("an upload without its first frame")?)?;
    about(address.partition);
    let upload = data.store().appender();
    let mut failed: Option<storage::Error> = None;
    while let Some(mut content) = stream.receive.receive().await.map_err(text)? {
        if content.is_empty() {
            return Err("an empty frame".into());
        }
        match content.split_to(1)[0] {
            frame::BLOCK if failed.is_none() => failed = upload.append(content).await.err(),
            frame::BLOCK => {}
            frame::CALL => {
                let call: RowCall = decode(&content)?;
                if call.address.partition != address.partition {
                    return Err("a row of another partition".into());
                }
                check_still_admitted(data, &from)?;
                if failed.is_none() {
                    failed = upload.sync().await.err();
                }
                let reply = match failed.clone() {
                    Some(error) => RowReply(Err(error.into())),
                    None => data.serve_row(from, call).await,
                };
                let reply = codec::encode(&reply);
                stream.send.send(reply.into()).await.map_err(text)?;
            }
            other => return Err(format!("an upload frame of kind {other}")),
        }
    }
    stream.send.finish().await.map_err(text)
}

/// Refuses a node that was removed since it opened a stream.
fn check_still_admitted(data: &Data, from: &NodeId) -> Result<(), String> {
    match data.epoch() {
        Some(epoch) if !epoch.admits(from) => {
            Err(format!("node {} is in no layout any more", from.short()))
        }
        _ => Ok(()),
    }
}

/// Sends local blocks in the wanted order, or a row and the blocks that it refers to.
pub(crate) async fn serve_fetch(
    data: &Arc<Data>,
    node: NodeId,
    mut stream: Stream,
) -> Result<(), String> {
    let text = |error: archipel_net::Error| error.to_string();
    let first = stream.receive.receive().await.map_err(text)?;
    let call: FetchCall = decode(&first.ok_or("a fetch without a request")?)?;
    if call.blocks.len() > MAX_FETCH {
        return Err(format!("more than {MAX_FETCH} blocks at once"));
    }
    about(call.partition);
    let (blocks, _pin) = match call.row {
        None => (call.blocks.clone(), data.store().pin(&call.blocks)),
        Some(row) => {
            let is_background = row.background;
            let (reply, blocks, pin) = read_and_pin(data, node, row).await;
            let reply = codec::encode(&reply);
            stream.send.send(reply.into()).await.map_err(text)?;
            if !is_background {
                // The caller did not know yet how long the content is.
                let remaining = blocks.iter().map(|block| u64::from(block.len)).sum();
                stream.send.set_class(Class::Data { remaining });
            }
            (blocks, pin)
        }
    };
    let mut from = call.from as usize;
    for block in &blocks {
        check_still_admitted(data, &node)?;
        let content = data.store().read_block(block).await;
        let content = content.map_err(|error| {
            data.tell(|events| events.block_read_failed(block.hash, call.partition, &error));
            error.to_string()
        })?;
        let skipped = std::mem::take(&mut from);
        if call.in_pieces && content.len() > FIRST_PIECE_BYTES {
            send_values(data, &mut *stream.send, content.clone()).await?;
            send_content(data, &mut *stream.send, content, skipped).await?;
        } else {
            send_content(data, &mut *stream.send, content, 0).await?;
        }
    }
    stream.send.finish().await.map_err(text)
}

/// Sends an empty frame, and the values that verify the pieces of a block.
async fn send_values(data: &Data, send: &mut dyn SendFrames, content: Bytes) -> Result<(), String> {
    let pool = data.store().blocks().pool();
    let values = pool.run(move || Ok(pieces::values(&content)));
    let values = values.await.map_err(|error| error.to_string())?;
    for frame in [Bytes::new(), values.into()] {
        send.send(frame).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Sends the pieces of a block that end after `from`, each in a frame or more. A reader that takes
/// the block whole gets it in these frames, too: on a slow link each of them shows that it comes.
async fn send_content(
    data: &Data,
    send: &mut dyn SendFrames,
    content: Bytes,
    from: usize,
) -> Result<(), String> {
    let mut start = 0;
    let mut lengths = VecDeque::from(pieces::lengths(content.len()));
    while let Some(piece) = lengths.front().filter(|piece| start + **piece <= from) {
        start += piece;
        lengths.pop_front();
    }
    // The other node reads at its client's pace. If memory is short here, the parts are shorter
    // than pieces.
    let (pool, end) = (data.store().blocks().pool(), content.len());
    let outgoing = pool.outgoing(content, start..end).await;
    let mut outgoing = outgoing.map_err(|error| error.to_string())?;
    while let Some(mut part) = outgoing.next().await.map_err(|error| error.to_string())? {
        while let Some(left) = lengths.front_mut().filter(|_| !part.is_empty()) {
            let frame = part.split_to(part.len().min(*left));
            *left -= frame.len();
            if *left == 0 {
                lengths.pop_front();
            }
            send.send(frame).await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Reads a row, and pins the blocks of its payload while the row still refers to them.
async fn read_and_pin(
    data: &Arc<Data>,
    from: NodeId,
    call: RowCall,
) -> (RowReply, Vec<BlockRef>, Pin) {
    loop {
        let reply = data.serve_row(from, call.clone()).await;
        let (blocks, stamp) = match &reply.0 {
            Ok(Answer::Found { version, .. }) => {
                let payload = version.value.as_ref().map(|value| value.payload.blocks());
                (payload.unwrap_or_default().to_vec(), version.stamp)
            }
            _ => (Vec::new(), Stamp::ZERO),
        };
        let pin = data.store().pin(&blocks);
        let key = call.row_key();
        let same = blocks.is_empty() || {
            let metadata = data.store().look_up(move |rows| rows.metadata(&key)).await;
            // If the row cannot be read again, its blocks cannot be read either.
            metadata.map_or(true, |metadata| {
                metadata.is_some_and(|metadata| metadata.stamp == stamp)
            })
        };
        if same {
            return (reply, blocks, pin);
        }
    }
}

#[cfg(test)]
mod tests;
