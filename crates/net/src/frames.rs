//! Encoding of frames in a stream of bytes: a length of four bytes (big-endian), then the payload.

use archipel_base::NodeId;
use bytes::{Buf, Bytes, BytesMut};

use crate::error::Error;
use crate::transport::MAX_FRAME_BYTES;

/// Returns the length prefix of `frame`.
///
/// # Errors
/// [`Error::Protocol`] if the frame is too long.
pub(crate) fn prefix(peer: NodeId, frame: &Bytes) -> Result<[u8; 4], Error> {
    if frame.len() > MAX_FRAME_BYTES {
        Err(too_long(peer, frame.len()))
    } else {
        Ok((frame.len() as u32).to_be_bytes())
    }
}

fn too_long(peer: NodeId, length: usize) -> Error {
    Error::Protocol(peer, format!("a frame of {length} bytes"))
}

/// A buffer that assembles frames from the bytes of a stream.
#[derive(Default)]
pub(crate) struct Assembler(BytesMut);

impl Assembler {
    /// Appends bytes of the stream.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns true if no bytes of an incomplete frame are left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of buffered bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn length(&self) -> Option<usize> {
        let length = self.0.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*length) as usize)
    }

    /// Returns true if [`next`](Assembler::next) would return a frame or an error.
    pub fn is_ready(&self) -> bool {
        self.length()
            .is_some_and(|length| length > MAX_FRAME_BYTES || self.0.len() >= 4 + length)
    }

    /// Returns the next complete frame of `peer`, if it has arrived.
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
            // An empty buffer would keep the frame's memory until more bytes arrive.
            self.0 = BytesMut::new();
        }
        Ok(Some(frame))
    }
}
