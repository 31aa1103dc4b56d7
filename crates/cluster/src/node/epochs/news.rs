//! A number that grows, and listeners that wait for it. They continue in the order in which they
//! wait, so that a simulation repeats exactly. A `watch` of tokio wakes its listeners in random
//! order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archipel_base::boxed;
use tokio::sync::Notify;

/// A source of news.
#[derive(Default)]
pub struct News(Arc<Inner>);

#[derive(Default)]
struct Inner {
    number: AtomicU64,
    grown: Notify,
}

/// A listener to news.
pub struct Listening {
    inner: Arc<Inner>,
    heard: u64,
}

impl News {
    /// Creates a source that begins with this number.
    pub fn at(number: u64) -> News {
        let news = News::default();
        news.tell(number);
        news
    }

    /// Raises the number and wakes all listeners.
    pub fn tell(&self, number: u64) {
        self.0.number.fetch_max(number, Ordering::SeqCst);
        self.0.grown.notify_waiters();
    }

    /// Returns a listener to all later news.
    pub fn listen(&self) -> Listening {
        Listening {
            heard: self.0.number.load(Ordering::SeqCst),
            inner: self.0.clone(),
        }
    }
}

impl Listening {
    /// Waits until the number is higher than the last one that this listener heard. Returns it.
    #[boxed]
    pub async fn changed(&mut self) -> u64 {
        loop {
            let grown = self.inner.grown.notified();
            let number = self.inner.number.load(Ordering::SeqCst);
            if number > self.heard {
                self.heard = number;
                return number;
            }
            grown.await;
        }
    }
}
