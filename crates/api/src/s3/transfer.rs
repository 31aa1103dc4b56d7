//! Moves content from its source to storage and hashes it meanwhile. Memory is bounded: one batch
//! is collected while another is hashed and stored.

use std::future::Future;

use archipel_model::{Error, ObjectStream, ObjectWriter, PartWriter, Pool, Reservation};
use bytes::Bytes;

use super::body::RequestBody;
use super::checksum::{Digests, HashPipe, Wanted};
use super::error::{Code, S3Error, S3Result};

/// Small pieces are merged up to this size, so that passing them on costs little.
const BATCH_BYTES: usize = 256 << 10;

/// The piece size for a sink without a memory pool.
const SMALL_BATCH_BYTES: usize = 16 << 10;

/// Pieces of at least this size are passed on unchanged.
const LARGE_BYTES: usize = 64 << 10;

/// A source of content.
pub trait Source: Send {
    /// Returns the next piece; `None` at the end.
    fn next(&mut self) -> impl Future<Output = S3Result<Option<Bytes>>> + Send;
}

/// A destination of content.
pub trait Sink: Send {
    /// Returns the pool that provides memory for content.
    fn pool(&self) -> &Pool;

    /// Appends.
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), Error>> + Send;
}

impl Source for RequestBody {
    async fn next(&mut self) -> S3Result<Option<Bytes>> {
        RequestBody::next(self).await
    }
}

impl Source for ObjectStream {
    async fn next(&mut self) -> S3Result<Option<Bytes>> {
        Ok(ObjectStream::next(self).await.transpose()?)
    }
}

impl Sink for ObjectWriter {
    fn pool(&self) -> &Pool {
        ObjectWriter::pool(self)
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        ObjectWriter::write(self, bytes).await
    }
}

impl Sink for PartWriter {
    fn pool(&self) -> &Pool {
        PartWriter::pool(self)
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        PartWriter::write(self, bytes).await
    }
}

/// The result of a transfer.
pub struct Moved {
    /// Bytes of content.
    pub size: u64,
    /// Its hashes.
    pub digests: Digests,
}

/// Moves everything, at most `limit` bytes.
///
/// # Errors
/// [`Code::EntityTooLarge`]; those of the source and the sink.
pub async fn transfer(
    source: &mut impl Source,
    sink: &mut impl Sink,
    wanted: Wanted,
    limit: u64,
) -> S3Result<Moved> {
    let mut hashes = HashPipe::new(wanted);
    let mut size = 0;
    let mut batches = Batches::new(source, sink.pool().clone());
    while let Some(batch) = batches.next().await? {
        size += batch.len() as u64;
        if size > limit {
            // It is not known how much more would come.
            return Err(
                S3Error::from(Code::EntityTooLarge).with("MaxSizeAllowed", limit.to_string())
            );
        }
        // The hash of this batch runs on while it is stored and the next is received.
        hashes.update(batch.clone()).await?;
        sink.write(batch).await?;
    }
    Ok(Moved {
        size,
        digests: hashes.finish().await?,
    })
}

/// Merges small pieces.
struct Batches<'s, S> {
    source: &'s mut S,
    pool: Pool,
    held: Vec<u8>,
    /// The memory that `held` takes, if it is more than a little.
    share: Option<Reservation>,
    /// A piece that came behind those that are held.
    next: Option<Bytes>,
}

impl<'s, S: Source> Batches<'s, S> {
    fn new(source: &'s mut S, pool: Pool) -> Batches<'s, S> {
        Batches {
            source,
            pool,
            held: Vec::new(),
            share: None,
            next: None,
        }
    }

    async fn next(&mut self) -> S3Result<Option<Bytes>> {
        if let Some(piece) = self.next.take() {
            return Ok(Some(piece));
        }
        while let Some(piece) = self.source.next().await? {
            if piece.len() >= LARGE_BYTES || !self.has_room(piece.len()) {
                if self.held.is_empty() {
                    return Ok(Some(piece));
                }
                self.next = Some(piece);
                break;
            }
            self.held.extend_from_slice(&piece);
            if self.held.len() >= BATCH_BYTES {
                break;
            }
        }
        let batch = std::mem::take(&mut self.held);
        Ok(match self.share.take() {
            _ if batch.is_empty() => None,
            Some(share) => Some(share.guard(batch)),
            None => Some(batch.into()),
        })
    }

    fn has_room(&mut self, more: usize) -> bool {
        let length = self.held.len() + more;
        if self.share.is_none() && length > SMALL_BATCH_BYTES {
            self.share = self.pool.try_hold(BATCH_BYTES + LARGE_BYTES);
            if self.share.is_some() {
                let room = BATCH_BYTES + LARGE_BYTES - self.held.len();
                self.held.reserve_exact(room);
            }
        }
        self.share.is_some() || length <= SMALL_BATCH_BYTES
    }
}
