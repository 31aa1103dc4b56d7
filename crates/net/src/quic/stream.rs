//! Frames on a QUIC stream.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use quinn::{RecvStream, SendStream, VarInt};

use crate::error::Error;
use crate::transport::{Class, MAX_FRAME_BYTES, ReceiveFrames, SendFrames, Stream};

/// What is more urgent goes first; of content, what is nearest to its end.
pub(super) fn priority(class: Class) -> i32 {
    match class {
        Class::Control => i32::MAX,
        Class::Small => i32::MAX - 1,
        Class::Data { remaining } => -((remaining >> 16).min(1 << 30) as i32),
        Class::Background => i32::MIN,
    }
}

pub(super) fn stream_of(
    peer: NodeId,
    send: SendStream,
    receive: RecvStream,
    used: Arc<AtomicU64>,
) -> Stream {
    Stream {
        send: Box::new(Sender {
            peer,
            stream: send,
            finished: false,
            _used: used.clone(),
        }),
        receive: Box::new(Receiver {
            peer,
            stream: receive,
            buffer: BytesMut::new(),
            ended: false,
            _used: used,
        }),
    }
}

struct Sender {
    peer: NodeId,
    stream: SendStream,
    finished: bool,
    /// Keeps the connection from being tidied away.
    _used: Arc<AtomicU64>,
}

#[async_trait]
impl SendFrames for Sender {
    async fn send(&mut self, frame: Bytes) -> Result<(), Error> {
        if frame.len() > MAX_FRAME_BYTES {
            let why = format!("a frame of {} bytes", frame.len());
            return Err(Error::Protocol(self.peer, why));
        }
        let length = Bytes::copy_from_slice(&(frame.len() as u32).to_be_bytes());
        let written = self.stream.write_all_chunks(&mut [length, frame]).await;
        written.map_err(|error| Error::Broken(self.peer, error.to_string()))
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.finished = true;
        let finished = self.stream.finish();
        finished.map_err(|error| Error::Broken(self.peer, error.to_string()))
    }

    fn set_class(&mut self, class: Class) {
        // A stream that is over needs no priority.
        let _ = self.stream.set_priority(priority(class));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Quinn would end it in good order.
        if !self.finished {
            let _ = self.stream.reset(VarInt::from_u32(0));
        }
    }
}

struct Receiver {
    peer: NodeId,
    stream: RecvStream,
    buffer: BytesMut,
    ended: bool,
    _used: Arc<AtomicU64>,
}

impl Receiver {
    /// A whole frame, if it is there.
    fn take(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(length) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME_BYTES {
            let why = format!("a frame of {length} bytes");
            return Err(Error::Protocol(self.peer, why));
        }
        if self.buffer.len() < 4 + length {
            self.buffer.reserve(4 + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(4);
        let frame = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            // It would keep the frame's memory for as long as nothing more comes.
            self.buffer = BytesMut::new();
        }
        Ok(Some(frame))
    }
}

#[async_trait]
impl ReceiveFrames for Receiver {
    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            let chunk = self.stream.read_chunk(MAX_FRAME_BYTES, true).await;
            let chunk = chunk.map_err(|error| Error::Broken(self.peer, error.to_string()))?;
            match chunk {
                Some(chunk) => self.buffer.extend_from_slice(&chunk.bytes),
                None if self.buffer.is_empty() => self.ended = true,
                None => {
                    let why = "it ended within a frame";
                    return Err(Error::Broken(self.peer, why.into()));
                }
            }
        }
    }
}
