//! Opens encrypted content on its way to a client.
//!
//! A segment must be in memory as a whole to be opened, and what it opens to waits for the client.
//! A few segments of a block are opened together while memory can be held for them, because each
//! piece on its way to the client costs a hand-over and a write to its connection. Else they are
//! opened one by one.
//!
//! While no memory can be held even for that, the segment is parked as it is stored. It is then
//! opened again for each small piece that the client takes, in memory that nothing else can use up.

use std::ops::Range;

use archipel_storage::pool::Staged;
use bytes::Bytes;

use super::feeder::{Feeder, Stop};
use super::{Content, ObjectReader, slice};
use crate::cipher::segments::{Opener, SEGMENT_BYTES, sealed_size};
use crate::cipher::{CustomerKey, DataKey};
use crate::error::Error;

/// The most segments that are opened together. They are opened on an async thread, which must not
/// be kept for long, and they should still be in the processor's cache when they are sent.
const TOGETHER: usize = 4;

/// The size of the pieces in which a parked segment is sent, in bytes. Each connection holds two or
/// three of them.
const PIECE_BYTES: usize = 8 << 10;

/// Opens a range of sealed content.
pub(super) fn unsealed(
    key: &DataKey,
    sealed: &Bytes,
    size: u64,
    range: &Range<u64>,
) -> Result<Option<Bytes>, Error> {
    let (mut opener, needed) = Opener::new(key, size, range).ok_or_else(not_opened)?;
    let needed = slice(sealed, &needed).unwrap_or_default();
    let opened = opener.push(&needed).map_err(|_| not_opened())?;
    opener.finish().map_err(|_| not_opened())?;
    Ok((!opened.is_empty()).then(|| opened.into()))
}

fn not_opened() -> Error {
    Error::Damaged("encrypted content does not open".into())
}

impl ObjectReader {
    /// Gives the customer's key of an object that is encrypted by one. Without it the content
    /// cannot be read.
    ///
    /// # Errors
    /// [`Error::WrongKey`].
    pub fn unlock(&mut self, customer: &CustomerKey) -> Result<(), Error> {
        let encryption = self.metadata.encryption.as_deref();
        match self.access.open(encryption, customer) {
            true => Ok(()),
            false => Err(Error::WrongKey),
        }
    }
}

impl Feeder {
    /// Sends a range of content that is no list of parts. Opens it if there is a key.
    pub(super) async fn simple(
        &mut self,
        content: Content,
        size: u64,
        range: Range<u64>,
        key: Option<&DataKey>,
    ) -> Result<(), Stop> {
        let Some(key) = key else {
            return self.stored(content, size, range).await;
        };
        let opened = Opener::new(key, size, &range).ok_or_else(not_opened);
        let (opener, sealed) = self.or_fail(opened).await?;
        self.opener = Some(Box::new(opener));
        self.stored(content, sealed_size(size), sealed).await?;
        let is_cut = self.parked.take().is_some();
        let ended = self.opener.take().map_or(Ok(()), |opener| opener.finish());
        match ended {
            Ok(()) if !is_cut => Ok(()),
            _ => self.fail(not_opened()).await,
        }
    }

    /// Sends stored bytes, or what they open to.
    pub(super) async fn send(&mut self, mut stored: Bytes) -> Result<(), Stop> {
        if self.opener.is_none() {
            return self.sender.send(stored).await;
        }
        while let Some(opener) = self.opener.as_mut().filter(|_| !stored.is_empty()) {
            let pool = self.cluster.buffers();
            if self.share.is_none() && self.parked.is_none() {
                self.share = pool.try_hold(4 * SEGMENT_BYTES);
            }
            if self.share.is_some() {
                let several = opener.lacks_for(TOGETHER).min(stored.len());
                let opens = opener.opens(several);
                let memory = (opens > SEGMENT_BYTES).then(|| pool.try_hold(opens));
                let memory = memory.flatten();
                let take = memory.as_ref().map_or(opener.lacks(), |_| several);
                let now = stored.split_to(take.clamp(1, stored.len()));
                let opened = opener.push(&now).map_err(|_| not_opened());
                let piece = self.or_fail(opened).await?;
                if !piece.is_empty() {
                    let piece = match memory {
                        Some(memory) => memory.guard(piece),
                        None => piece.into(),
                    };
                    self.sender.send(piece).await?;
                }
                continue;
            }
            let wanted = opener.lacks();
            let parked = self.parked.as_ref().map_or(0, Staged::len);
            let lacks = wanted.saturating_sub(parked);
            let now = stored.split_to(lacks.clamp(1, stored.len()));
            let mut segment = self.parked.take().unwrap_or_else(|| pool.stage());
            let extended = segment.extend(now).await;
            self.or_fail(extended).await?;
            if segment.len() < wanted {
                self.parked = Some(segment);
            } else {
                self.send_parked(&segment).await?;
            }
        }
        Ok(())
    }

    /// Sends what a segment opens to, in small pieces.
    async fn send_parked(&mut self, segment: &Staged) -> Result<(), Stop> {
        let mut sent = 0;
        loop {
            self.room().await?;
            let opened = self.open_parked(segment, sent).await;
            let (piece, is_last) = self.or_fail(opened).await?;
            sent += piece.len();
            if !piece.is_empty() {
                self.sender.send(piece).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Returns a piece of what a segment opens to, and whether it is the last one. The next segment
    /// follows then.
    async fn open_parked(&mut self, segment: &Staged, at: usize) -> Result<(Bytes, bool), Error> {
        let pool = self.cluster.buffers();
        let _memory = pool.reserve_for_cipher(2 * SEGMENT_BYTES).await;
        let sealed = segment.read().await?;
        let Some(opener) = &mut self.opener else {
            return Err(not_opened());
        };
        let mut behind = opener.clone();
        let opened = behind.push(&sealed).map_err(|_| not_opened())?;
        let end = opened.len().min(at + PIECE_BYTES);
        let piece = Bytes::copy_from_slice(opened.get(at..end).unwrap_or_default());
        let is_last = end == opened.len();
        if is_last {
            *opener = behind;
        }
        Ok((piece, is_last))
    }
}
