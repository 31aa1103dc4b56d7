//! Dials: those that fail, and those of a peer with several addresses.

use tokio::time::Instant;

use super::super::dial::{HEAD_START, HEAD_START_OF_KNOWN};
use super::*;

/// The address of the other tests, which answers soon.
const GOOD: &str = "127.0.0.1:1";

/// Returns the peer at these addresses.
fn at(addresses: &[&str]) -> Peer {
    Peer {
        id: PEER,
        addresses: addresses.iter().map(|text| text.to_string()).collect(),
    }
}

/// Returns the peer at an address that never answers.
fn silent() -> Peer {
    at(&[SILENT])
}

/// Returns the time that a stream over a new connection takes.
async fn opens_after(bench: &Bench, peer: &Peer) -> Duration {
    for made in bench.made() {
        made.close("broken");
    }
    let begun = Instant::now();
    bench.pool.open(peer, Class::Small).await.unwrap();
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn all_that_wait_for_a_dial_share_its_failure() {
    let bench = bench();
    let silent = silent();
    let begun = Instant::now();
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
    let begun = Instant::now();
    bench.open(Class::Small).await;
    assert!(begun.elapsed() < DIAL_TIMEOUT, "on the paused clock");
}

/// Otherwise each dial would take one more of the process's threads while the system's resolver hangs.
#[tokio::test(start_paused = true)]
async fn a_dial_looks_up_names_on_the_threads_for_lookups_alone() {
    let bench = bench();
    let named = Peer {
        id: PEER,
        addresses: Arc::new(["localhost:1".into()]),
    };
    let taken = crate::lookup::take_all_threads().await;
    let failed = bench.pool.open(&named, Class::Small).await.err();
    let text = format!("{failed:?}");
    assert!(text.contains("earlier lookups of names"), "{text}");
    assert_eq!(bench.dials.load(Ordering::SeqCst), 0);
    drop(taken);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_dead_costs_a_moment_once() {
    let (bench, peer) = (bench(), at(&[SILENT, GOOD]));
    let first = opens_after(&bench, &peer).await;
    assert!(HEAD_START <= first && first < 2 * HEAD_START, "{first:?}");
    // The address that worked comes first, also of a name.
    let again = opens_after(&bench, &peer).await;
    assert!(again < HEAD_START, "{again:?}");
    let found = vec![SILENT.parse().unwrap(), GOOD.parse().unwrap()];
    let dials = bench.dials.load(Ordering::SeqCst);
    let dialled = bench
        .pool
        .inner
        .dial_any("name:1", found, Some(PEER), Lane::SMALL);
    assert_eq!(dialled.await.unwrap().0, PEER);
    assert_eq!(bench.dials.load(Ordering::SeqCst), dials + 1);
    // Later, the order of the addresses counts again.
    minutes(11).await;
    assert!(opens_after(&bench, &peer).await >= HEAD_START);
}

#[tokio::test(start_paused = true)]
async fn addresses_of_a_name_do_not_wait_for_a_dead_one() {
    let (bench, begun) = (bench(), Instant::now());
    let found = vec![SILENT.parse().unwrap(), member()];
    let inner = &bench.pool.inner;
    let dialled = inner.dial_any("name:1", found, Some(PEER), Lane::SMALL);
    assert_eq!(dialled.await.unwrap().0, PEER);
    assert!(begun.elapsed() < 2 * HEAD_START, "on the paused clock");
}

#[tokio::test(start_paused = true)]
async fn next_address_begins_at_once_after_a_failure() {
    let (bench, peer) = (bench(), at(&[REFUSING, REFUSING, GOOD]));
    assert!(opens_after(&bench, &peer).await < HEAD_START);
}

#[tokio::test(start_paused = true)]
async fn slower_one_of_two_dials_is_dropped() {
    let (bench, peer) = (bench(), at(&[SLOW, GOOD]));
    opens_after(&bench, &peer).await;
    tokio::time::sleep(DIAL_TIMEOUT).await;
    assert_eq!(bench.dials.load(Ordering::SeqCst), 2);
    assert_eq!(bench.made().len(), 1, "one connection, and no second one");
}

#[tokio::test(start_paused = true)]
async fn dial_of_several_silent_addresses_ends() {
    let (bench, peer) = (bench(), at(&[SILENT, SILENT, SILENT]));
    let begun = Instant::now();
    assert!(bench.pool.open(&peer, Class::Small).await.is_err());
    assert!(begun.elapsed() < 2 * DIAL_TIMEOUT, "on the paused clock");
    assert_eq!(bench.pool.statistics()[0].failures, 1);
}

/// Found by reading: a connection over a long link takes longer than the usual head start, so each
/// dial made a second one, too.
#[tokio::test(start_paused = true)]
async fn address_that_worked_last_has_a_longer_head_start() {
    let bench = bench();
    opens_after(&bench, &at(&[SLOW])).await;
    let dials = bench.dials.load(Ordering::SeqCst);
    let again = opens_after(&bench, &at(&[SILENT, SLOW])).await;
    assert!(
        HEAD_START < again && again < HEAD_START_OF_KNOWN,
        "{again:?}"
    );
    assert_eq!(bench.dials.load(Ordering::SeqCst), dials + 1);
}

/// Found by reading: eight dead addresses of IPv6 hid those of IPv4.
#[tokio::test(start_paused = true)]
async fn both_families_of_a_name_with_many_addresses_are_dialled() {
    let bench = bench();
    let mut found: Vec<SocketAddr> = vec![SILENT.parse().unwrap(); 8];
    found.push("[::1]:1".parse().unwrap());
    let inner = &bench.pool.inner;
    let dialled = inner.dial_any("name:1", found, Some(PEER), Lane::SMALL);
    assert_eq!(dialled.await.unwrap().0, PEER);
}
