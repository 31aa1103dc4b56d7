//! Opens encrypted content on its way to a client.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::feeder::{Feeder, Stop};
use super::{Content, ObjectReader, slice};
use crate::cipher::segments::{Opener, SEGMENT_BYTES, sealed_size};
use crate::cipher::{CustomerKey, DataKey};
use crate::error::Error;

/// The pause until an encrypted object looks again for memory to be opened in.
const SHARE_PAUSE: Duration = Duration::from_millis(20);

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
    /// Gives the customer's key of an object that is encrypted by one. Without it the content cannot be
    /// read.
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
        self.hold_share().await?;
        let opened = Opener::new(key, size, &range).ok_or_else(not_opened);
        let (opener, sealed) = self.or_fail(opened).await?;
        self.opener = Some(Box::new(opener));
        self.stored(content, sealed_size(size), sealed).await?;
        let ended = self.opener.take().map_or(Ok(()), |opener| opener.finish());
        self.or_fail(ended.map_err(|_| not_opened())).await
    }

    /// Waits for the memory of opened segments, for as long as the client waits.
    async fn hold_share(&mut self) -> Result<(), Stop> {
        while self.share.is_none() {
            if self.sender.is_closed() {
                return Err(Stop);
            }
            self.share = self.cluster.buffers().try_hold(4 * SEGMENT_BYTES);
            if self.share.is_none() {
                tokio::time::sleep(SHARE_PAUSE).await;
            }
        }
        Ok(())
    }

    /// Sends stored bytes, or what they open to.
    pub(super) async fn send(&mut self, stored: Bytes) -> Result<(), Stop> {
        if self.opener.is_none() {
            return self.sender.send(Ok(stored)).await.map_err(|_| Stop);
        }
        let mut sealed = &stored[..];
        while let Some(opener) = self.opener.as_mut().filter(|_| !sealed.is_empty()) {
            let (now, later) = sealed.split_at(opener.lacks().clamp(1, sealed.len()));
            let opened = opener.push(now).map_err(|_| not_opened());
            sealed = later;
            let piece = self.or_fail(opened).await?;
            if !piece.is_empty() {
                let sent = self.sender.send(Ok(piece.into())).await;
                sent.map_err(|_| Stop)?;
            }
        }
        Ok(())
    }
}
