//! Dials that fail.

use super::*;

/// Returns the peer at an address that never answers.
fn silent() -> Peer {
    Peer {
        id: PEER,
        addresses: Arc::new([SILENT.into()]),
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_wait_for_a_dial_share_its_failure() {
    let bench = bench();
    let silent = silent();
    let begun = tokio::time::Instant::now();
    let opens = (0..100).map(|_| bench.pool.open(&silent, Class::Small));
    for opened in futures_util::future::join_all(opens).await {
        assert!(matches!(opened, Err(Error::Unreachable(PEER, _))));
    }
    assert_eq!(begun.elapsed(), DIAL_TIMEOUT, "on the paused clock");
    assert_eq!(bench.dials.load(Ordering::SeqCst), 1);
    assert_eq!(bench.pool.statistics()[0].failures, 1);
    // Nothing is left: the next caller dials again.
    assert!(bench.pool.inner.dialling.lock().is_empty());
    assert!(bench.pool.open(&silent, Class::Small).await.is_err());
    assert_eq!(bench.dials.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn callers_that_give_up_leave_one_dial_behind() {
    let bench = bench();
    let silent = silent();
    for _ in 0..100 {
        let opening = bench.pool.open(&silent, Class::Small);
        let opened = tokio::time::timeout(Duration::from_millis(1), opening).await;
        assert!(opened.is_err());
    }
    assert_eq!(bench.dials.load(Ordering::SeqCst), 1);
    minutes(1).await;
    assert_eq!(bench.dials.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn peer_at_a_new_address_does_not_wait_for_its_old_one() {
    let bench = bench();
    let silent = silent();
    let opening = bench.pool.open(&silent, Class::Small);
    let opened = tokio::time::timeout(Duration::from_millis(1), opening).await;
    assert!(opened.is_err());
    let begun = tokio::time::Instant::now();
    bench.open(Class::Small).await;
    assert!(begun.elapsed() < DIAL_TIMEOUT, "on the paused clock");
}
