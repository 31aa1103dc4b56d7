//! Bodies that never repeat and cost little to make: shared random bytes behind a fresh header in
//! each block.
//!
//! A server cannot save anything by deduplication or compression.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// The size of the blocks, each of which has its own header.
const BLOCK_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 16;

/// The random bytes that all bodies share.
#[derive(Clone)]
pub struct Filler(Bytes);

impl Filler {
    /// Creates one block of incompressible bytes.
    pub fn new() -> Self {
        let mut block = vec![0; BLOCK_BYTES];
        blake3::Hasher::new()
            .update(b"archipel bench")
            .finalize_xof()
            .fill(&mut block);
        Self(block.into())
    }

    /// Returns a body of `size` bytes. `serial` must not repeat within a run.
    pub fn body(&self, size: usize, serial: u64) -> Fresh {
        Fresh {
            filler: self.0.clone(),
            serial,
            sent: 0,
            size,
        }
    }
}

/// See [`Filler::body`].
pub struct Fresh {
    filler: Bytes,
    serial: u64,
    sent: usize,
    size: usize,
}

impl Fresh {
    fn next(&mut self) -> Bytes {
        let within = self.sent % BLOCK_BYTES;
        let left = self.size - self.sent;
        let piece = if within == 0 {
            let mut header = [0; HEADER_BYTES];
            header[..8].copy_from_slice(&self.serial.to_le_bytes());
            header[8..].copy_from_slice(&(self.sent as u64).to_le_bytes());
            Bytes::copy_from_slice(&header[..HEADER_BYTES.min(left)])
        } else {
            self.filler.slice(within..BLOCK_BYTES.min(within + left))
        };
        self.sent += piece.len();
        piece
    }
}

impl Body for Fresh {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.sent == self.size {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(self.next()))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent == self.size
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.size - self.sent) as u64)
    }
}
