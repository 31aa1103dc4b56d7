use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex as Plain;

use super::*;

/// A server whose connections end when the test says so.
#[derive(Default)]
struct Fake {
    connected: AtomicUsize,
    refused: AtomicUsize,
    is_deaf: AtomicUsize,
    is_away: AtomicUsize,
    /// Connections with smaller numbers are spent.
    spent: AtomicUsize,
    taken: Plain<Vec<(usize, String)>>,
}

#[async_trait]
impl Server for Arc<Fake> {
    type Connection = usize;

    async fn connect(&self) -> Result<usize, String> {
        if self.is_away.load(Ordering::SeqCst) > 0 {
            std::future::pending::<()>().await;
        }
        Ok(self.connected.fetch_add(1, Ordering::SeqCst))
    }

    async fn send(&self, connection: &usize, message: &Message) -> Result<(), String> {
        if self.is_deaf.load(Ordering::SeqCst) > 0 {
            std::future::pending::<()>().await;
        }
        if *connection < self.refused.load(Ordering::SeqCst) {
            return Err("it is closed".into());
        }
        self.taken.lock().push((*connection, message.name.clone()));
        Ok(())
    }

    fn is_spent(&self, connection: &usize) -> bool {
        *connection < self.spent.load(Ordering::SeqCst)
    }
}

fn message(name: &str) -> Message {
    Message {
        name: name.into(),
        time_ms: 0,
        text: String::new(),
    }
}

#[tokio::test]
async fn connection_is_made_once_and_made_again_after_an_error() {
    let fake = Arc::new(Fake::default());
    let target = Reused::new(fake.clone(), "r");
    assert_eq!(fake.connected.load(Ordering::SeqCst), 0);
    target.bring(&message("a")).await.unwrap();
    target.bring(&message("b")).await.unwrap();
    // The first connection is closed meanwhile: nobody notices.
    fake.refused.store(1, Ordering::SeqCst);
    target.bring(&message("c")).await.unwrap();
    // The server refuses a new one, too.
    fake.refused.store(9, Ordering::SeqCst);
    let refused = target.bring(&message("d")).await;
    assert_eq!(refused, Err("it is closed".into()));
    fake.refused.store(0, Ordering::SeqCst);
    target.bring(&message("d")).await.unwrap();
    let taken = fake.taken.lock().clone();
    let expected = [(0, "a"), (0, "b"), (1, "c"), (3, "d")];
    assert_eq!(taken, expected.map(|(number, name)| (number, name.into())));
}

#[tokio::test]
async fn spent_connection_is_replaced_before_it_fails() {
    let fake = Arc::new(Fake::default());
    let target = Reused::new(fake.clone(), "r");
    target.bring(&message("a")).await.unwrap();
    fake.spent.store(1, Ordering::SeqCst);
    target.bring(&message("b")).await.unwrap();
    target.bring(&message("c")).await.unwrap();
    let taken = fake.taken.lock().clone();
    let expected = [(0, "a"), (1, "b"), (1, "c")];
    assert_eq!(taken, expected.map(|(number, name)| (number, name.into())));
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_answer_holds_a_delivery_for_a_bounded_time() {
    let fake = Arc::new(Fake::default());
    let target = Reused::new(fake.clone(), "r");
    fake.is_deaf.store(1, Ordering::SeqCst);
    let started = Instant::now();
    let why = target.bring(&message("a")).await.unwrap_err();
    assert_eq!(why, "it did not confirm the event in time");
    assert_eq!(started.elapsed(), TIMEOUT);
    fake.is_deaf.store(0, Ordering::SeqCst);
    target.bring(&message("a")).await.unwrap();
    // The answer of the first one may still come, so its connection is not used again.
    assert_eq!(*fake.taken.lock(), [(1, "a".into())]);
}

/// A delivery ends in time although another one connects meanwhile.
#[tokio::test(start_paused = true)]
async fn server_that_goes_away_holds_each_delivery_for_a_bounded_time() {
    let fake = Arc::new(Fake::default());
    let target = Arc::new(Reused::new(fake.clone(), "r"));
    target.bring(&message("a")).await.unwrap();
    let late = |name: &'static str| {
        let target = target.clone();
        tokio::spawn(async move {
            let started = Instant::now();
            target.bring(&message(name)).await.unwrap_err();
            started.elapsed()
        })
    };
    fake.is_deaf.store(1, Ordering::SeqCst);
    let first = late("b");
    tokio::time::sleep(TIMEOUT / 2).await;
    fake.is_away.store(1, Ordering::SeqCst);
    fake.is_deaf.store(0, Ordering::SeqCst);
    fake.refused.store(1, Ordering::SeqCst);
    let second = late("c");
    assert_eq!(first.await.unwrap(), TIMEOUT);
    assert_eq!(second.await.unwrap(), TIMEOUT);
}

#[test]
fn error_tells_each_cause_once() {
    let inner = std::io::Error::other("no\nroute\n");
    let outer = std::io::Error::other(inner);
    assert_eq!(why(&outer), "no route");
}
