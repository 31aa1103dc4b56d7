//! Writes to the buffer that all streams of a connection share.
//!
//! QUIC sends what is in the buffer by priority, but takes bytes into it in no order: once it is
//! full, each stream that waits gets some of the room that becomes free. So many background streams
//! would leave little of the link to a client's stream.
//!
//! Therefore a background stream steps back while another stream waits to send: after the buffer
//! has got room, it lets a moment pass before it writes, and it writes little at once. The other
//! stream has taken the room by then, unless its own peer holds it up, which quinn does not tell.
//! Nothing is reserved and nothing is locked: a background stream that is reset, or whose peer
//! stops reading, holds up no other, and a client that stops reading holds up no repair.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use quinn::{SendStream, WriteError};

use crate::pool::UsageGuard;
use crate::transport::Class;

/// The most that a background stream writes at once. Beside a client that stops reading, each one
/// still carries this much in two milliseconds: 32 MB/s.
const PART_BYTES: usize = 64 << 10;
/// The head start of all other streams.
const HEAD_START: Duration = Duration::from_millis(1);

/// A stream that takes bytes as far as its connection's buffer has room.
pub(super) trait Buffered: Send {
    /// Writes some of the chunks, and removes that from them. Waits until there is room.
    /// Cancel-safe.
    fn write_some(
        &mut self,
        chunks: &mut [Bytes],
    ) -> impl Future<Output = Result<(), WriteError>> + Send;
}

impl Buffered for SendStream {
    async fn write_some(&mut self, chunks: &mut [Bytes]) -> Result<(), WriteError> {
        self.write_chunks(chunks).await.map(|_| ())
    }
}

/// Writes a frame and its length.
pub(super) async fn write(
    stream: &mut impl Buffered,
    class: Class,
    usage: &UsageGuard,
    length: Bytes,
    mut frame: Bytes,
) -> Result<(), WriteError> {
    if class != Class::Background {
        let _sends = usage.sends();
        let mut chunks = [length, frame];
        while has_bytes(&chunks) {
            stream.write_some(&mut chunks).await?;
        }
        return Ok(());
    }
    let mut chunks = [length, Bytes::new()];
    loop {
        chunks[1] = frame.split_to(frame.len().min(PART_BYTES));
        while has_bytes(&chunks) {
            step_back(usage, stream.write_some(&mut chunks)).await?;
        }
        if frame.is_empty() {
            return Ok(());
        }
    }
}

fn has_bytes(chunks: &[Bytes]) -> bool {
    chunks.iter().any(|chunk| !chunk.is_empty())
}

/// Waits for a write, and lets all other streams write first each time that there is room.
async fn step_back<T>(usage: &UsageGuard, writing: impl Future<Output = T>) -> T {
    let mut writing = pin!(writing);
    loop {
        if usage.has_senders() {
            tokio::time::sleep(HEAD_START).await;
        }
        let mut is_woken = false;
        let written = poll_fn(|context| {
            if is_woken {
                return Poll::Ready(None);
            }
            is_woken = true;
            writing.as_mut().poll(context).map(Some)
        });
        if let Some(written) = written.await {
            return written;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use parking_lot::Mutex;

    use super::*;
    use crate::pool::Usage;

    /// The buffer of a connection. All that wait are woken once it has room, as by quinn.
    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Room>>);

    #[derive(Default)]
    struct Room {
        bytes: usize,
        waiting: Vec<Waker>,
    }

    /// A stream, and how many bytes it has written.
    struct Writer {
        buffer: Buffer,
        written: Arc<AtomicUsize>,
        is_held_up: bool,
    }

    impl Buffered for Writer {
        async fn write_some(&mut self, chunks: &mut [Bytes]) -> Result<(), WriteError> {
            poll_fn(|context| {
                let mut room = self.buffer.0.lock();
                if self.is_held_up || room.bytes == 0 {
                    room.waiting.push(context.waker().clone());
                    return Poll::Pending;
                }
                for chunk in chunks.iter_mut() {
                    let part = chunk.split_to(chunk.len().min(room.bytes));
                    room.bytes -= part.len();
                    self.written.fetch_add(part.len(), Ordering::SeqCst);
                }
                Poll::Ready(Ok(()))
            })
            .await
        }
    }

    /// Lets eight background streams and one of a client write over 20 MB/s for a second. Returns
    /// what the client's has written, and what the others have.
    async fn shares(is_held_up: bool) -> (usize, usize) {
        let (buffer, usage) = (Buffer::default(), Usage::new());
        let [client, background] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        for n in 0..9 {
            let is_client = n == 4;
            let (class, written) = match is_client {
                true => (Class::Data { remaining: 1 << 30 }, &client),
                false => (Class::Background, &background),
            };
            let mut writer = Writer {
                buffer: buffer.clone(),
                written: Arc::clone(written),
                is_held_up: is_client && is_held_up,
            };
            let usage = usage.hold();
            tokio::spawn(async move {
                let (length, frame) = (Bytes::from(vec![0; 4]), Bytes::from(vec![0; 1 << 20]));
                let mut is_open = true;
                while is_open {
                    let writing = write(&mut writer, class, &usage, length.clone(), frame.clone());
                    is_open = writing.await.is_ok();
                }
            });
        }
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let mut room = buffer.0.lock();
            room.bytes += 200_000;
            room.waiting.drain(..).for_each(Waker::wake);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        let written = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (written(&client), written(&background))
    }

    #[tokio::test(start_paused = true)]
    async fn background_streams_leave_the_buffer_to_a_client() {
        let (client, background) = shares(false).await;
        assert!(client > 19_000_000, "{client}, {background}");
    }

    /// A client that stops reading would stop all repair.
    #[tokio::test(start_paused = true)]
    async fn background_streams_go_on_beside_a_client_that_reads_nothing() {
        let (client, background) = shares(true).await;
        assert_eq!(client, 0);
        assert!(background > 15_000_000, "{background}");
    }
}
