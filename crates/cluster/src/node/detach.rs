//! Operations that continue although their callers have gone away.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use archipel_traces::carry;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// A future that continues in a task of its own if it is dropped before its end. While its caller
/// waits, it needs no task. This saves two hand-overs between threads.
pub(crate) struct DetachOnDrop<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> DetachOnDrop<T> {
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> DetachOnDrop<T> {
        DetachOnDrop(Some(Box::pin(future)))
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // The future is taken out while it is polled, because a future that panicked must not
        // continue.
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

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        // Without a runtime the process is about to end.
        if let Some(future) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(carry(future));
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
    async fn dropped_future_runs_to_its_end() {
        let (go, ends) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
        let mut begun = DetachOnDrop::new(count(go.clone(), ends.clone()));
        assert!(futures_util::poll!(&mut begun).is_pending());
        let never_polled = DetachOnDrop::new(count(go.clone(), ends.clone()));
        drop((begun, never_polled));
        for ended in 1..=2 {
            go.notify_one();
            while ends.load(Ordering::SeqCst) < ended {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn ended_or_panicked_future_does_not_run_again() {
        let ends = Arc::new(AtomicU32::new(0));
        let go = Arc::new(Notify::new());
        go.notify_one();
        DetachOnDrop::new(count(go, ends.clone())).await;
        let (panics, counted) = (ends.clone(), ends.clone());
        let broken: DetachOnDrop<()> = DetachOnDrop::new(async move {
            panics.fetch_add(1, Ordering::SeqCst);
            panic!("as it is meant to");
        });
        assert!(tokio::spawn(broken).await.is_err());
        tokio::task::yield_now().await;
        assert_eq!(counted.load(Ordering::SeqCst), 2);
    }
}
