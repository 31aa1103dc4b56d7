//! What this node answers to others.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use archipel_base::codec::{self, Versioned};
use archipel_base::pieces::{self, FIRST_PIECE_BYTES};
use archipel_base::{NodeId, Stamp};
use archipel_net::rpc::Service;
use archipel_net::{SendFrames, Stream};
use archipel_storage as storage;
use archipel_storage::engine::Durability;
use archipel_storage::{BlockRef, Pin};
use async_trait::async_trait;
use bytes::Bytes;

use crate::inner::Inner;
use crate::lasting::Lasting;
use crate::register::{Answer, Request};
use crate::wire::{
    CounterCall, CounterReply, FetchCall, Refusal, RowCall, RowReply, UploadOpen, frame, method,
};

/// The most blocks that one fetch may ask for.
const MAX_FETCH: usize = 4096;

/// Answers other nodes. Ends with the cluster that it is of.
pub(crate) struct NodeService(pub Weak<Inner>);

impl NodeService {
    fn inner(&self) -> Result<Arc<Inner>, String> {
        self.0
            .upgrade()
            .ok_or_else(|| "this node is closing".into())
    }
}

fn decode<T: Versioned>(bytes: &[u8]) -> Result<T, String> {
    codec::decode(bytes).map_err(|error| error.to_string())
}

#[async_trait]
impl Service for NodeService {
    async fn call(&self, from: NodeId, name: &str, request: Bytes) -> Result<Bytes, String> {
        let inner = self.inner()?;
        match name {
            method::ROW => {
                let call: RowCall = decode(&request)?;
                let is_read = matches!(call.request, Request::Read { .. });
                let reply = match is_read && call.address.epoch <= inner.epochs.number() {
                    true => inner.serve_row(from, call).await,
                    // A caller that goes away does not undo half of it.
                    false => Lasting::new(async move { inner.serve_row(from, call).await }).await,
                };
                Ok(codec::encode(&reply).into())
            }
            method::LIST => {
                let reply = inner.serve_list(from, decode(&request)?).await?;
                Ok(codec::encode(&reply).into())
            }
            method::COUNTER => {
                let CounterCall { partition, group } = decode(&request)?;
                let read = inner
                    .store()
                    .read(move |rows| rows.counter(partition, group));
                let (objects, bytes) = read.await.map_err(|error| error.to_string())?;
                Ok(codec::encode(&CounterReply(objects, bytes)).into())
            }
            method::EPOCH => {
                inner.hear_epoch(from, &request);
                inner.epochs.settled().await;
                let epoch = inner.epochs.current().ok_or("no layout is known here")?;
                Ok(epoch.encode().into())
            }
            method::VERIFY => {
                let reply = inner.serve_verify(decode(&request)?);
                Ok(codec::encode(&reply).into())
            }
            method::DIGEST => {
                let reply = inner.serve_digests(decode(&request)?).await?;
                Ok(codec::encode(&reply).into())
            }
            method::CARE => {
                let care = inner.serve_care(decode(&request)?).await;
                Ok(codec::encode(&care.map_err(|error| error.to_string())?).into())
            }
            method::GOSSIP => inner.gossip(from, request).await,
            method::NOTICE => {
                inner.hear_notice(request).await;
                Ok(Bytes::new())
            }
            method::QUESTION => {
                let yes = u8::from(inner.answer_question(&request));
                Ok(vec![yes].into())
            }
            other => inner.serve_heal(from, other, request).await,
        }
    }

    async fn stream(&self, from: NodeId, name: &str, stream: Stream) -> Result<(), String> {
        let inner = self.inner()?;
        match name {
            method::UPLOAD => serve_upload(&inner, from, stream).await,
            method::FETCH => serve_fetch(&inner, from, stream).await,
            other => Err(format!("no such stream: {other}")),
        }
    }
}

impl Inner {
    /// Answers a row call of another node.
    pub(crate) async fn serve_row(self: &Arc<Inner>, from: NodeId, call: RowCall) -> RowReply {
        let learnt = self.keep_up(from, call.address.epoch).await;
        let answer = match learnt {
            Ok(()) => self.answer(call).await,
            Err(error) => Err(storage::Error::Busy(error.to_string())),
        };
        RowReply(answer.map_err(Refusal::from))
    }

    /// A node tells which epoch it knows; a newer one is asked for.
    fn hear_epoch(self: &Arc<Inner>, from: NodeId, message: &[u8]) {
        let number = message.try_into().map_or(0, u64::from_be_bytes);
        if number > self.epochs.number() {
            let inner = self.clone();
            tokio::spawn(async move {
                if let Err(error) = inner.learn_from(&from).await {
                    tracing::warn!(%error, from = %from.short(), "a newer layout cannot be learnt");
                }
            });
        }
    }

    /// Learns the layout of whoever knows a newer one.
    pub(crate) async fn keep_up(&self, from: NodeId, epoch: u64) -> Result<(), crate::Error> {
        match self.epochs.number() < epoch {
            true => self.learn_from(&from).await,
            false => Ok(()),
        }
    }
}

/// Blocks come in, then the row that makes them real. What no row refers to at the end goes.
async fn serve_upload(inner: &Arc<Inner>, from: NodeId, mut stream: Stream) -> Result<(), String> {
    let text = |error: archipel_net::Error| error.to_string();
    let first = stream.receive.receive().await.map_err(text)?;
    let UploadOpen { address } = decode(&first.ok_or("an upload without a beginning")?)?;
    let upload = inner.store().upload();
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
                if failed.is_none() && call.durability() == Durability::Fsync {
                    failed = upload.sync().await.err();
                }
                let reply = match failed.clone() {
                    Some(error) => RowReply(Err(error.into())),
                    None => inner.serve_row(from, call).await,
                };
                let reply = codec::encode(&reply);
                stream.send.send(reply.into()).await.map_err(text)?;
            }
            other => return Err(format!("an upload's frame of kind {other}")),
        }
    }
    stream.send.finish().await.map_err(text)
}

/// Sends blocks that are here, in the order asked for; or a row and the blocks that it refers to.
async fn serve_fetch(inner: &Arc<Inner>, from: NodeId, mut stream: Stream) -> Result<(), String> {
    let text = |error: archipel_net::Error| error.to_string();
    let first = stream.receive.receive().await.map_err(text)?;
    let call: FetchCall = decode(&first.ok_or("a fetch without a question")?)?;
    if call.blocks.len() > MAX_FETCH {
        return Err(format!("more than {MAX_FETCH} blocks at once"));
    }
    let (blocks, _pin) = match call.row {
        None => (call.blocks.clone(), inner.store().pin(&call.blocks)),
        Some(row) => {
            let (reply, blocks, pin) = read_and_pin(inner, from, row).await;
            let reply = codec::encode(&reply);
            stream.send.send(reply.into()).await.map_err(text)?;
            (blocks, pin)
        }
    };
    let mut from = call.from as usize;
    for block in &blocks {
        let content = inner.store().read_block(block).await;
        let content = content.map_err(|error| {
            inner.mend.note_read(block.hash, call.partition, &error);
            error.to_string()
        })?;
        match call.in_pieces && content.len() > FIRST_PIECE_BYTES {
            true => send_pieces(inner, &mut *stream.send, content, from).await?,
            false => send_whole(inner, &mut *stream.send, content).await?,
        }
        from = 0;
    }
    stream.send.finish().await.map_err(text)
}

async fn send_whole(
    inner: &Inner,
    send: &mut dyn SendFrames,
    content: Bytes,
) -> Result<(), String> {
    // The other node takes it at its client's pace: in parts, if memory is short here.
    let pool = inner.store().blocks().pool();
    let whole = 0..content.len();
    let outgoing = pool.outgoing(content, whole).await;
    let mut outgoing = outgoing.map_err(|error| error.to_string())?;
    while let Some(part) = outgoing.next().await.map_err(|error| error.to_string())? {
        send.send(part).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Sends the pieces of a block that end behind `from`, and before them what they are verified by.
async fn send_pieces(
    inner: &Inner,
    send: &mut dyn SendFrames,
    content: Bytes,
    from: usize,
) -> Result<(), String> {
    let pool = inner.store().blocks().pool();
    let (whole, len) = (content.clone(), content.len());
    let values = pool.run(move || Ok(pieces::values(&whole)));
    let values = values.await.map_err(|error| error.to_string())?;
    for frame in [Bytes::new(), values.into()] {
        send.send(frame).await.map_err(|error| error.to_string())?;
    }
    let mut start = 0;
    let mut lengths = VecDeque::from(pieces::lengths(len));
    while let Some(piece) = lengths.front().filter(|piece| start + **piece <= from) {
        start += piece;
        lengths.pop_front();
    }
    let outgoing = pool.outgoing(content, start..len).await;
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

/// Reads a row, and pins the blocks of its body while it still refers to them.
async fn read_and_pin(
    inner: &Arc<Inner>,
    from: NodeId,
    call: RowCall,
) -> (RowReply, Vec<BlockRef>, Pin) {
    loop {
        let reply = inner.serve_row(from, call.clone()).await;
        let (blocks, stamp) = match &reply.0 {
            Ok(Answer::Found { version, .. }) => {
                let body = version.value.as_ref().map(|value| value.body.blocks());
                (body.unwrap_or_default().to_vec(), version.stamp)
            }
            _ => (Vec::new(), Stamp::ZERO),
        };
        let pin = inner.store().pin(&blocks);
        let key = call.row_key();
        let same = blocks.is_empty() || {
            let head = inner.store().look_up(move |rows| rows.head(&key)).await;
            // If it cannot be read again, the blocks cannot be either.
            head.map_or(true, |head| head.is_some_and(|head| head.stamp == stamp))
        };
        if same {
            return (reply, blocks, pin);
        }
    }
}
