//! Content that waits for a client. It is in memory if some can be held, or else parked in a
//! scratch file. Stalled clients therefore slow others down at worst, and never block them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::{Pool, Reservation};
use crate::disk::ScratchFile;
use crate::engine::Result;
use crate::error::Error;

/// The number of bytes that any content may take without a reservation.
const UNRESERVED_BYTES: usize = 16 << 10;

/// The capacities of growing content. There are few steps, because each may copy.
const CAPACITIES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// The size of the pieces in which parked content is read, in bytes. Each connection holds two or three of
/// them.
const PIECE_BYTES: usize = 8 << 10;

/// A block that is assembled from the pieces that a client sends.
pub struct Staged {
    pool: Pool,
    content: Content,
}

enum Content {
    Memory(Growing),
    Parked(Parked),
}

/// Content in memory.
#[derive(Default)]
struct Growing {
    bytes: Vec<u8>,
    /// The number of bytes that are reserved for it.
    reserved: usize,
    reservation: Reservation,
}

/// A block on its way to a client.
pub struct Outgoing {
    pool: Pool,
    left: Left,
}

enum Left {
    Memory(Option<Bytes>),
    Parked { content: Parked, at: usize },
}

/// Content in a scratch file, or in memory if there are no scratch files.
struct Parked {
    place: ParkedIn,
    len: usize,
}

enum ParkedIn {
    File(Arc<ScratchFile>),
    Memory(Vec<u8>),
}

impl Staged {
    pub(super) fn new(pool: Pool) -> Staged {
        Staged {
            pool,
            content: Content::Memory(Growing::default()),
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Memory(growing) => growing.bytes.len(),
            Content::Parked(parked) => parked.len,
        }
    }

    /// Returns true if there are no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// The error of the scratch file's disk.
    pub async fn extend(&mut self, piece: Bytes) -> Result<()> {
        if let Content::Memory(growing) = &mut self.content {
            if growing.make_room(&self.pool, piece.len()) {
                growing.bytes.extend_from_slice(&piece);
                return Ok(());
            }
            let there = std::mem::take(growing);
            let mut parked = Parked::begin(&self.pool).await?;
            parked.append(&self.pool, there.finish()).await?;
            self.content = Content::Parked(parked);
        }
        match &mut self.content {
            Content::Parked(parked) => parked.append(&self.pool, piece).await,
            Content::Memory(..) => Ok(()),
        }
    }

    /// Returns a copy of the whole content. The caller has reserved memory for it.
    ///
    /// # Errors
    /// The error of the scratch file's disk.
    pub async fn read(&self) -> Result<Vec<u8>> {
        match &self.content {
            Content::Memory(growing) => Ok(growing.bytes.clone()),
            Content::Parked(parked) => parked.read(&self.pool, 0, parked.len).await,
        }
    }

    /// Takes the whole content and leaves none, even after an error. The bytes hold their share of
    /// the memory until they are dropped, so they must not wait for a client.
    ///
    /// # Errors
    /// The error of the scratch file's disk.
    pub async fn take(&mut self) -> Result<Bytes> {
        let empty = Content::Memory(Growing::default());
        match std::mem::replace(&mut self.content, empty) {
            Content::Memory(growing) => Ok(growing.finish()),
            Content::Parked(parked) => {
                let reservation = self.pool.reserve(parked.len).await;
                let bytes = parked.read(&self.pool, 0, parked.len).await?;
                Ok(reservation.guard(bytes))
            }
        }
    }
}

impl Growing {
    /// Makes room for `more` bytes. Returns false if there is no memory to hold.
    fn make_room(&mut self, pool: &Pool, more: usize) -> bool {
        let wanted = self.bytes.len() + more;
        if wanted <= self.reserved.max(UNRESERVED_BYTES) {
            return true;
        }
        let step = CAPACITIES.into_iter().find(|step| wanted <= *step);
        let capacity = step.unwrap_or(wanted);
        let Some(reservation) = pool.try_hold(capacity - self.reserved) else {
            return false;
        };
        self.reservation.merge(reservation);
        self.reserved = capacity;
        self.bytes.reserve_exact(capacity - self.bytes.len());
        true
    }

    fn finish(self) -> Bytes {
        match self.reserved {
            0 => Bytes::from(self.bytes),
            _ => self.reservation.guard(self.bytes),
        }
    }
}

impl Outgoing {
    pub(super) async fn new(pool: Pool, block: Bytes, range: Range<usize>) -> Result<Outgoing> {
        // A small part of a block is copied, because otherwise the whole block would stay in
        // memory.
        let left = match range.len() {
            0 => Left::Memory(None),
            1..=UNRESERVED_BYTES => Left::Memory(Some(Bytes::copy_from_slice(&block[range]))),
            _ => match pool.keep(block) {
                Ok(block) => Left::Memory(Some(block.slice(range))),
                Err(block) => {
                    let mut content = Parked::begin(&pool).await?;
                    content.append(&pool, block.slice(range)).await?;
                    Left::Parked { content, at: 0 }
                }
            },
        };
        Ok(Outgoing { pool, left })
    }

    /// Returns the next piece, which may be held for any time; `None` at the end.
    ///
    /// # Errors
    /// The error of the scratch file's disk.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        match &mut self.left {
            Left::Memory(whole) => Ok(whole.take()),
            Left::Parked { content, at } => {
                let len = PIECE_BYTES.min(content.len - *at);
                if len == 0 {
                    return Ok(None);
                }
                let piece = content.read(&self.pool, *at, len).await?;
                *at += len;
                Ok(Some(Bytes::from(piece)))
            }
        }
    }
}

impl Parked {
    async fn begin(pool: &Pool) -> Result<Parked> {
        let place = match pool.scratch.clone() {
            None => ParkedIn::Memory(Vec::new()),
            Some(scratch) => {
                let file = pool
                    .run_parking(move || scratch.file().map_err(failed))
                    .await?;
                ParkedIn::File(Arc::new(file))
            }
        };
        Ok(Parked { place, len: 0 })
    }

    async fn append(&mut self, pool: &Pool, piece: Bytes) -> Result<()> {
        let (at, len) = (self.len as u64, piece.len());
        match &mut self.place {
            ParkedIn::Memory(bytes) => bytes.extend_from_slice(&piece),
            ParkedIn::File(file) => {
                let file = file.clone();
                let write = move || file.write_all_at(&piece, at).map_err(failed);
                pool.run_parking(write).await?;
            }
        }
        self.len += len;
        Ok(())
    }

    async fn read(&self, pool: &Pool, at: usize, len: usize) -> Result<Vec<u8>> {
        match &self.place {
            ParkedIn::Memory(bytes) => {
                let piece = bytes.get(at..at + len);
                let short = || Error::Failed("parked content is short".into());
                Ok(piece.ok_or_else(short)?.to_vec())
            }
            ParkedIn::File(file) => {
                let file = file.clone();
                let read = move || {
                    let mut bytes = vec![0; len];
                    file.read_exact_at(&mut bytes, at as u64).map_err(failed)?;
                    Ok(bytes)
                };
                pool.run_parking(read).await
            }
        }
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::from_io("a scratch file", &error)
}
