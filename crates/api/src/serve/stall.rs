//! Closes connections whose client does not read its answers.

use std::future::Future;
use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A connection on which writing must not stand still for longer than a limit.
pub struct StallLimited<T> {
    inner: T,
    limit: Duration,
    /// Runs while writes make no progress.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> StallLimited<T> {
    /// Limits `inner`.
    pub fn new(inner: T, limit: Duration) -> StallLimited<T> {
        StallLimited {
            inner,
            limit,
            stalled: None,
        }
    }

    /// Watches the outcome of a write.
    fn watch<R>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let limit = self.limit;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallLimited<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StallLimited<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::StallLimited;

    /// The paused clock jumps to the timer as soon as nothing else can go on.
    #[tokio::test(start_paused = true)]
    async fn client_that_reads_nothing_is_disconnected() {
        let (_client, server) = duplex(64);
        let mut limited = StallLimited::new(server, Duration::from_secs(60));
        let error = limited.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_slowly_stays_connected() {
        let (mut client, server) = duplex(64);
        let mut limited = StallLimited::new(server, Duration::from_secs(60));
        let reading = tokio::spawn(async move {
            let mut piece = [0; 100];
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                client.read_exact(&mut piece).await.unwrap();
            }
        });
        limited.write_all(&[0; 1000]).await.unwrap();
        reading.await.unwrap();
    }
}
