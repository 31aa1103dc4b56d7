//! Encrypts content on its way to storage, in bounded memory.
//!
//! A segment can be encrypted once all of it is there, and until then it waits for the client.
//! While no memory can be held for that, it waits in scratch, in pieces that are encrypted by keys
//! that only this process knows. Segments that are complete pass through memory that nothing else
//! can use up.

use archipel_cluster::Cluster;
use archipel_storage::pool::{Reservation, Staged};
use bytes::Bytes;

use crate::cipher::DataKey;
use crate::cipher::segments::{Opener, SEGMENT_BYTES, Sealer, sealed_size};
use crate::cipher::wrap::{self, KEY_BYTES};
use crate::error::Error;

/// The content of a segment that may wait in memory without a share of it.
const UNRESERVED_BYTES: usize = 16 << 10;

/// The memory that a segment takes while it is encrypted: itself and the result, each with what
/// follows.
const PASSING_BYTES: usize = 4 * SEGMENT_BYTES;

/// Encrypts one content.
pub(super) struct ContentSealer {
    sealer: Sealer,
    cluster: Cluster,
    /// The memory that the present segment takes, if it is more than a little.
    share: Option<Reservation>,
    /// The beginning of the present segment, if there is no such memory.
    hidden: Option<Hidden>,
}

/// Content that waits outside of memory.
struct Hidden {
    /// The pieces, one after another, each encrypted by its key.
    staged: Staged,
    /// The key of each piece, and the length of its content.
    pieces: Vec<(DataKey, usize)>,
}

impl ContentSealer {
    /// Returns a sealer of content with this key.
    pub fn new(key: &DataKey, cluster: Cluster) -> Result<ContentSealer, Error> {
        Ok(ContentSealer {
            sealer: Sealer::new(key).ok_or_else(not_sealed)?,
            cluster,
            share: None,
            hidden: None,
        })
    }

    /// Appends at most a segment of content. Returns the segments that are full and not the last.
    /// They hold their memory until they are dropped, so they must not wait for a client.
    ///
    /// # Errors
    /// The error of the scratch file's disk; [`Error::Internal`].
    pub(super) async fn push(&mut self, piece: &[u8]) -> Result<Bytes, Error> {
        let hidden = self.hidden.as_ref().map_or(0, Hidden::len);
        let length = hidden + self.sealer.held() + piece.len();
        if self.share.is_none() && length > UNRESERVED_BYTES {
            self.share = self.cluster.buffers().try_hold(2 * SEGMENT_BYTES);
        }
        if self.share.is_some() || length <= UNRESERVED_BYTES {
            self.uncover().await?;
            return Ok(self.seal(piece)?.into());
        }
        let memory = self.cluster.buffers();
        let memory = memory.reserve_for_cipher(PASSING_BYTES).await;
        if length > SEGMENT_BYTES {
            self.uncover().await?;
        }
        let sealed = self.seal(piece)?;
        if self.sealer.held() > UNRESERVED_BYTES {
            self.hide().await?;
        }
        // The rest may wait for the client, without the memory of the segment that was sealed.
        self.sealer.shrink_held(UNRESERVED_BYTES);
        Ok(memory.guard(sealed))
    }

    /// Returns the last segment, as [`push`](ContentSealer::push) does.
    ///
    /// # Errors
    /// As `push`.
    pub(super) async fn finish(mut self) -> Result<Bytes, Error> {
        let memory = match self.share.take() {
            Some(share) => share,
            None if self.hidden.is_some() => {
                let memory = self.cluster.buffers();
                memory.reserve_for_cipher(PASSING_BYTES).await
            }
            None => Reservation::default(),
        };
        self.uncover().await?;
        let sealed = self.sealer.finish().map_err(|_| not_sealed())?;
        Ok(memory.guard(sealed))
    }

    fn seal(&mut self, content: &[u8]) -> Result<Vec<u8>, Error> {
        self.sealer.push(content).map_err(|_| not_sealed())
    }

    /// Moves what is in memory of the present segment out of it, so that nothing waits there for
    /// the client.
    async fn hide(&mut self) -> Result<(), Error> {
        let content = self.sealer.take_held();
        let mut fresh = [0; KEY_BYTES];
        self.cluster.fill_random(&mut fresh);
        let key = DataKey::new(fresh);
        wrap::wipe(&mut fresh);
        let sealed = encrypted(&key, &content).ok_or_else(not_sealed)?;
        let pool = self.cluster.buffers();
        let hidden = self.hidden.get_or_insert_with(|| Hidden {
            staged: pool.stage(),
            pieces: Vec::new(),
        });
        hidden.pieces.push((key, content.len()));
        hidden.staged.extend(sealed.into()).await?;
        Ok(())
    }

    /// Moves what is hidden into memory again, before the rest of the segment.
    async fn uncover(&mut self) -> Result<(), Error> {
        let Some(mut hidden) = self.hidden.take() else {
            return Ok(());
        };
        let all = hidden.staged.take().await?;
        let rest = self.sealer.take_held();
        let mut left = &all[..];
        for (key, length) in &hidden.pieces {
            let size = sealed_size(*length as u64) as usize;
            let (piece, behind) = left.split_at_checked(size).ok_or_else(not_uncovered)?;
            let content = decrypted(key, piece, *length).ok_or_else(not_uncovered)?;
            self.refill(&content)?;
            left = behind;
        }
        self.refill(&rest)
    }

    /// Appends content that was there before. All of it is at most a segment, which is full only
    /// once more follows.
    fn refill(&mut self, content: &[u8]) -> Result<(), Error> {
        match self.seal(content)?.is_empty() {
            true => Ok(()),
            false => Err(not_sealed()),
        }
    }
}

impl Hidden {
    /// Returns the length of the content.
    fn len(&self) -> usize {
        self.pieces.iter().map(|(_, length)| length).sum()
    }
}

/// Returns content encrypted by a key of its own.
fn encrypted(key: &DataKey, content: &[u8]) -> Option<Vec<u8>> {
    let mut sealer = Sealer::new(key)?;
    let mut sealed = sealer.push(content).ok()?;
    sealed.extend(sealer.finish().ok()?);
    Some(sealed)
}

fn decrypted(key: &DataKey, sealed: &[u8], length: usize) -> Option<Vec<u8>> {
    let length = length as u64;
    let (mut opener, _) = Opener::new(key, length, &(0..length))?;
    let content = opener.push(sealed).ok()?;
    opener.finish().ok()?;
    Some(content)
}

fn not_sealed() -> Error {
    Error::Internal("content cannot be encrypted".into())
}

fn not_uncovered() -> Error {
    Error::Internal("a scratch file was changed by something else".into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use archipel_base::NodeId;
    use archipel_base::random::SeededRandom;
    use archipel_cluster::memory_store;
    use archipel_storage::pool::PoolOptions;
    use archipel_storage::store::Threads;

    use super::*;

    /// Returns a sealer for which there is no memory to hold, and the memory.
    async fn without_memory() -> (ContentSealer, Reservation) {
        let random = Arc::new(SeededRandom::new(1));
        let store = memory_store(random.clone(), Threads::Own).unwrap();
        let cluster = Cluster::with_store(store, NodeId::default(), random, crate::HOOKS, None);
        let cluster = cluster.await.unwrap();
        let pool = cluster.buffers().clone();
        let held = pool.try_hold(PoolOptions::default().holdable_bytes);
        let sealer = ContentSealer::new(&DataKey::new([1; 32]), cluster);
        (sealer.unwrap(), held.unwrap())
    }

    /// A client stalls in the middle of a segment, and there is no memory to hold.
    #[tokio::test]
    async fn nothing_readable_waits_outside_of_memory() {
        let (mut sealer, _held) = without_memory().await;
        for _ in 0..2 {
            let sealed = sealer.push(&[7; 20_000]).await.unwrap();
            assert!(sealed.is_empty());
            assert_eq!(sealer.sealer.held(), 0);
        }
        let hidden = sealer.hidden.as_ref().unwrap();
        assert_eq!(hidden.len(), 40_000);
        let stored = hidden.staged.read().await.unwrap();
        assert_eq!(stored.len(), 40_032);
        assert!(!stored.windows(8).any(|window| window == [7; 8]));
        assert!(stored[..20_016] != stored[20_016..]);
    }

    /// A little of the next segment used to wait in the memory of the whole one before it.
    #[tokio::test]
    async fn what_waits_after_a_segment_takes_little_memory() {
        let (mut sealer, _held) = without_memory().await;
        for _ in 0..3 {
            assert!(sealer.push(&[7; 20_000]).await.unwrap().is_empty());
        }
        let sealed = sealer.push(&[7; 10_000]).await.unwrap();
        assert_eq!(sealed.len() as u64, sealed_size(SEGMENT_BYTES as u64));
        assert_eq!(sealer.sealer.held(), 70_000 - SEGMENT_BYTES);
        assert!(sealer.sealer.held_capacity() <= UNRESERVED_BYTES);
    }
}
