//! Streams of frames on a QUIC connection.

use archipel_base::NodeId;
use async_trait::async_trait;
use bytes::Bytes;
use quinn::{RecvStream, SendStream, VarInt};

use super::write::write;
use crate::error::Error;
use crate::frames::{self, Assembler};
use crate::pool::UsageGuard;
use crate::transport::{Class, MAX_FRAME_BYTES, ReceiveFrames, SendFrames, Stream};

/// Returns the priority of a class: urgent classes first, and of content the streams nearest to
/// their end.
fn priority(class: Class) -> i32 {
    match class {
        Class::Control => i32::MAX,
        Class::Small => i32::MAX - 1,
        Class::Data { remaining } => -(Class::rank(remaining) as i32),
        Class::Background => i32::MIN,
    }
}

pub(super) fn stream_of(
    peer: NodeId,
    send: SendStream,
    receive: RecvStream,
    class: Class,
    held: UsageGuard,
) -> Stream {
    let mut send = Sender {
        peer,
        stream: send,
        class,
        finished: false,
        held: held.clone(),
    };
    send.set_class(class);
    Stream {
        send: Box::new(send),
        receive: Box::new(Receiver {
            peer,
            stream: receive,
            buffer: Assembler::default(),
            ended: false,
            _held: held,
        }),
    }
}

struct Sender {
    peer: NodeId,
    stream: SendStream,
    class: Class,
    finished: bool,
    /// Keeps the connection from being closed as idle.
    held: UsageGuard,
}

#[async_trait]
impl SendFrames for Sender {
    async fn send(&mut self, frame: Bytes) -> Result<(), Error> {
        let length = Bytes::copy_from_slice(&frames::prefix(self.peer, &frame)?);
        let class = self.class.after(frame.len());
        let written = write(&mut self.stream, self.class, &self.held, length, frame).await;
        written.map_err(|error| Error::Broken(self.peer, error.to_string()))?;
        if class != self.class {
            self.set_class(class);
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.finished = true;
        let finished = self.stream.finish();
        finished.map_err(|error| Error::Broken(self.peer, error.to_string()))
    }

    fn set_class(&mut self, class: Class) {
        self.class = class;
        // A finished stream needs no priority.
        let _ = self.stream.set_priority(priority(class));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Without a reset, quinn would end the stream properly.
        if !self.finished {
            let _ = self.stream.reset(VarInt::from_u32(0));
        }
    }
}

struct Receiver {
    peer: NodeId,
    stream: RecvStream,
    buffer: Assembler,
    ended: bool,
    _held: UsageGuard,
}

#[async_trait]
impl ReceiveFrames for Receiver {
    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(frame) = self.buffer.next(self.peer)? {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            let chunk = self.stream.read_chunk(MAX_FRAME_BYTES, true).await;
            let chunk = chunk.map_err(|error| Error::Broken(self.peer, error.to_string()))?;
            match chunk {
                Some(chunk) => self.buffer.extend(&chunk.bytes),
                None if self.buffer.is_empty() => self.ended = true,
                None => {
                    let why = "it ended within a frame";
                    return Err(Error::Broken(self.peer, why.into()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_classes_and_content_near_its_end_are_sent_first() {
        let content = |remaining| Class::Data { remaining };
        let order = [
            Class::Control,
            Class::Small,
            content(0),
            content(1 << 19),
            content(1 << 40),
            content(u64::MAX),
            Class::Background,
        ];
        let priorities = order.map(priority);
        assert!(
            priorities.is_sorted_by(|one, next| one > next),
            "{priorities:?}"
        );
    }
}
