//! A number that grows, and those who wait for it. Unlike with a `watch` of tokio, which wakes
//! them at random, they go on in the order in which they wait: so a simulation repeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Where news come from.
#[derive(Default)]
pub struct News(Arc<Inner>);

#[derive(Default)]
struct Inner {
    number: AtomicU64,
    grown: Notify,
}

/// Hears of news.
pub struct Listening {
    inner: Arc<Inner>,
    heard: u64,
}

impl News {
    /// Begins with this number.
    pub fn at(number: u64) -> News {
        let news = News::default();
        news.tell(number);
        news
    }

    /// Raises the number, and tells all.
    pub fn tell(&self, number: u64) {
        self.0.number.fetch_max(number, Ordering::SeqCst);
        self.0.grown.notify_waiters();
    }

    /// Hears of what comes from now on.
    pub fn listen(&self) -> Listening {
        Listening {
            heard: self.0.number.load(Ordering::SeqCst),
            inner: self.0.clone(),
        }
    }
}

impl Listening {
    /// Waits for a number that is higher than what was heard of.
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
