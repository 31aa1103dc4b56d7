//! What goes on although nobody waits for it any more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// A future that is never cut short: dropped before its end, it goes on in a task of its own. As long as somebody waits for it, it
/// needs none, which saves handing it to another thread and back.
pub(crate) struct Lasting<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Lasting<T> {
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Lasting<T> {
        Lasting(Some(Box::pin(future)))
    }
}

impl<T: Send + 'static> Future for Lasting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out meanwhile: what panics must not go on.
        let Some(mut future) = self.0.take() else {
            return Poll::Pending;
        };
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            self.0 = Some(future);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Lasting<T> {
    fn drop(&mut self) {
        // Without a runtime the process is about to end.
        if let Some(future) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    async fn count(go: Arc<Notify>, ends: Arc<AtomicU32>) {
        go.notified().await;
        ends.fetch_add(1, Ordering::SeqCst);
    }

    #[tokio::test]
    async fn what_is_dropped_before_its_end_goes_on() {
        let (go, ends) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
        let mut begun = Lasting::new(count(go.clone(), ends.clone()));
        assert!(futures_util::poll!(&mut begun).is_pending());
        let never_polled = Lasting::new(count(go.clone(), ends.clone()));
        drop((begun, never_polled));
        for ended in 1..=2 {
            go.notify_one();
            while ends.load(Ordering::SeqCst) < ended {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn what_ended_or_panicked_does_not() {
        let ends = Arc::new(AtomicU32::new(0));
        let go = Arc::new(Notify::new());
        go.notify_one();
        Lasting::new(count(go, ends.clone())).await;
        let (panics, counted) = (ends.clone(), ends.clone());
        let broken: Lasting<()> = Lasting::new(async move {
            panics.fetch_add(1, Ordering::SeqCst);
            panic!("as it is meant to");
        });
        assert!(tokio::spawn(broken).await.is_err());
        tokio::task::yield_now().await;
        assert_eq!(counted.load(Ordering::SeqCst), 2);
    }
}
