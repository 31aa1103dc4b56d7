//! Incoming connections that have proven nothing.

use super::super::admission::ROOM;
use super::*;

#[tokio::test(start_paused = true)]
async fn unproven_connections_are_limited_and_dropped_after_a_timeout() {
    let bench = bench();
    for n in 0..ROOM + 5 {
        bench.knock(false, stranger(n)).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.pool.refused(), 5);
    tokio::time::sleep(2 * DIAL_TIMEOUT).await;
    assert_eq!(bench.pool.refused(), ROOM as u64 + 5);
    assert!(bench.pool.statistics().is_empty());
    // There is room for connections again.
    bench.knock(true, stranger(0)).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.made().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_strangers_does_not_keep_members_out() {
    let bench = bench();
    // The one has connected before, and this node has dialled the other.
    let other = SocketAddr::from(([127, 0, 0, 2], 1));
    bench.knock(true, other).await;
    bench.open(Class::Small).await;
    for n in 0..4 * ROOM {
        bench.knock(false, stranger(n)).await;
    }
    bench.knock(true, stranger(1000)).await;
    bench.knock(true, other).await;
    bench.knock(true, member()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.made().len(), 4, "the two members, each twice");
    assert_eq!(bench.pool.refused() as usize, 3 * ROOM + 1);
}

#[tokio::test(start_paused = true)]
async fn one_address_does_not_take_all_the_room_of_strangers() {
    let bench = bench();
    for _ in 0..4 * ROOM {
        bench.knock(false, stranger(1)).await;
    }
    bench.knock(true, stranger(2)).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.made().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_address_does_not_take_all_the_room_of_members() {
    let bench = bench();
    let other = SocketAddr::from(([127, 0, 0, 2], 1));
    bench.knock(true, other).await;
    bench.knock(true, member()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..4 * ROOM {
        bench.knock(false, other).await;
    }
    bench.knock(true, member()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.made().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn addresses_are_validated_while_many_have_proven_nothing() {
    let bench = bench();
    bench.knock(true, stranger(0)).await;
    for n in 0..10 {
        bench.knock(false, stranger(n)).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.asked.load(Ordering::SeqCst), 0, "a round trip less");
    for n in 0..20 {
        bench.knock(false, stranger(n)).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.asked.load(Ordering::SeqCst), 14);
}

/// Found by reading: of two dials that began one shortly after the other, the slower one counted as
/// refused, and was logged as a warning.
#[tokio::test(start_paused = true)]
async fn attempts_that_the_other_end_closes_do_not_count_as_refused() {
    let bench = bench();
    bench.gone.store(true, Ordering::SeqCst);
    for n in 0..4 * ROOM {
        bench.knock(true, stranger(n)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(bench.pool.refused(), 0);
    bench.gone.store(false, Ordering::SeqCst);
    bench.knock(true, stranger(0)).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.made().len(), 1);
}
