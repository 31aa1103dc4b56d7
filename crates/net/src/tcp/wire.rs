//! The wire format of a TCP connection: pieces of streams, each with a header of 12 bytes and at
//! most [`PIECE_BYTES`] of payload.
//!
//! Header: kind (1 byte), length of the payload (3 bytes), stream (8 bytes), big-endian. The
//! dialling end opens streams with odd numbers, the listening end with even numbers.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The limit of the payload. A more urgent piece waits at most for one of this size.
pub(super) const PIECE_BYTES: usize = 64 << 10;
const HEAD_BYTES: usize = 12;

/// The kind of a piece. Unknown kinds are skipped, because a later release may add some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Kind {
    /// Opens a stream.
    Open = 0,
    /// Bytes of a stream.
    Data = 1,
    /// The sender ends the stream in good order.
    End = 2,
    /// The sender breaks the stream off.
    Reset = 3,
    /// The receiver wants no more of the stream.
    Stop = 4,
    /// The receiver grants credit for more bytes (4 bytes).
    Credit = 5,
    /// A keep-alive (8 bytes, repeated in the answer).
    Ping = 6,
    /// The answer to a keep-alive.
    Pong = 7,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        let all = [Open, Data, End, Reset, Stop, Credit, Ping, Pong];
        all.get(usize::from(byte)).copied()
    }
}

/// A received piece.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub kind: Kind,
    pub stream: u64,
    pub payload: Bytes,
}

/// Writes the header of a piece whose payload is no longer than [`PIECE_BYTES`].
pub(super) fn put_head(into: &mut BytesMut, kind: Kind, length: usize, stream: u64) {
    into.put_u8(kind as u8);
    into.put_uint(length as u64, 3);
    into.put_u64(stream);
}

/// Writes a piece.
pub(super) fn put(into: &mut BytesMut, kind: Kind, stream: u64, payload: &[u8]) {
    put_head(into, kind, payload.len(), stream);
    into.put_slice(payload);
}

/// Removes the next complete piece of a known kind from the buffer, if it has arrived.
///
/// # Errors
/// A text if the piece is too long. The connection must be closed.
pub(super) fn take(from: &mut BytesMut) -> Result<Option<Piece>, String> {
    while let Some(mut head) = from.get(..HEAD_BYTES) {
        let (kind, length, stream) = (head.get_u8(), head.get_uint(3) as usize, head.get_u64());
        if length > PIECE_BYTES {
            return Err(format!("a piece of {length} bytes"));
        }
        if from.len() < HEAD_BYTES + length {
            from.reserve(HEAD_BYTES + length - from.len());
            return Ok(None);
        }
        from.advance(HEAD_BYTES);
        let payload = from.split_to(length).freeze();
        if let Some(kind) = Kind::of(kind) {
            return Ok(Some(Piece {
                kind,
                stream,
                payload,
            }));
        }
    }
    Ok(None)
}
