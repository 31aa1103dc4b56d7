//! Frames in a stream of bytes: a length of four bytes (big-endian), then the payload.

use archipel_base::NodeId;
use bytes::{Buf, Bytes, BytesMut};

use crate::error::Error;
use crate::transport::MAX_FRAME_BYTES;

/// What goes before a frame of `frame`'s length.
///
/// # Errors
/// [`Error::Protocol`] if it is too long.
pub(crate) fn prefix(peer: NodeId, frame: &Bytes) -> Result<[u8; 4], Error> {
    match frame.len() > MAX_FRAME_BYTES {
        true => Err(too_long(peer, frame.len())),
        false => Ok((frame.len() as u32).to_be_bytes()),
    }
}

fn too_long(peer: NodeId, length: usize) -> Error {
    Error::Protocol(peer, format!("a frame of {length} bytes"))
}

/// Puts frames together again.
#[derive(Default)]
pub(crate) struct Assembler(BytesMut);

impl Assembler {
    /// More of the stream.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Whether nothing of a frame is left over.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes that are kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn length(&self) -> Option<usize> {
        let length = self.0.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*length) as usize)
    }

    /// Whether [`next`](Assembler::next) has something to say.
    pub fn is_ready(&self) -> bool {
        self.length()
            .is_some_and(|length| length > MAX_FRAME_BYTES || self.0.len() >= 4 + length)
    }

    /// A whole frame of `peer`, if it is there.
    pub fn next(&mut self, peer: NodeId) -> Result<Option<Bytes>, Error> {
        let Some(length) = self.length() else {
            return Ok(None);
        };
        if length > MAX_FRAME_BYTES {
            return Err(too_long(peer, length));
        }
        if self.0.len() < 4 + length {
            self.0.reserve(4 + length - self.0.len());
            return Ok(None);
        }
        self.0.advance(4);
        let frame = self.0.split_to(length).freeze();
        if self.0.is_empty() {
            // It would keep the frame's memory for as long as nothing more comes.
            self.0 = BytesMut::new();
        }
        Ok(Some(frame))
    }
}
