//! The window of a connection, with a controller that never changes its own.

use std::collections::VecDeque;

use super::*;

#[derive(Clone)]
struct Fixed(u64);

impl Controller for Fixed {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.0
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        240_000
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[test]
fn window_grows_until_the_bandwidth_is_known() {
    let mut small = SlowStart::new(Fixed(5_000));
    assert_eq!(small.window(), 240_000);
    assert_eq!(SlowStart::new(Fixed(900_000)).window(), 900_000);
    small.carried(100_000);
    assert_eq!(small.window(), 340_000);
    small.carried(LEARNT_BYTES);
    assert_eq!(small.window(), 5_000);
}

fn begin() -> Instant {
    tokio::time::Instant::now().into_std()
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn first_window_fits_the_round_trip() {
    let window_at = |round_trip| {
        let mut small = SlowStart::new(Fixed(5_000));
        // The first round trip is long because of a slow peer.
        small.shortest.on_ack(begin(), millis(900));
        small.shortest.on_ack(begin(), millis(round_trip));
        small.window()
    };
    assert_eq!(
        [1, 19, 40, 80, 400].map(window_at),
        [240_000, 285_000, 600_000, 1_200_000, 1_200_000]
    );
}

#[test]
fn shortest_round_trip_is_forgotten_when_the_path_becomes_longer() {
    let (mut shortest, begin) = (ShortestRoundTrip::default(), begin());
    shortest.on_ack(begin, millis(20));
    shortest.on_ack(begin + millis(14_000), millis(40));
    assert_eq!(shortest.get(), millis(20));
    shortest.on_ack(begin + millis(16_000), millis(40));
    assert_eq!(shortest.get(), millis(20));
    shortest.on_ack(begin + millis(31_000), millis(40));
    assert_eq!(shortest.get(), millis(40));
}

/// Uses 10 MB/s over 40 ms, which are 400 KB.
#[test]
fn queue_limits_the_window_to_about_what_the_link_holds() {
    let (mut large, begin) = (SlowStart::new(Fixed(9_000_000)), begin());
    large.carried = None;
    large.shortest.on_ack(begin, millis(40));
    let send = |large: &mut SlowStart<Fixed>, from: u64, usual| {
        for at in (from..from + 1000).step_by(10) {
            let now = begin + millis(at);
            large.queue.on_ack(now, 100_000, millis(40), millis(usual));
        }
    };
    send(&mut large, 0, 45);
    assert_eq!(large.window(), 9_000_000);
    send(&mut large, 1000, 60);
    let capped = large.window();
    assert!((530_000..670_000).contains(&capped), "{capped}");
    // The limit's own effect does not end it. Less data to send ends it.
    send(&mut large, 2000, 45);
    assert_eq!(large.window(), capped);
    large.queue.on_spare_window(millis(40), millis(60));
    assert_eq!(large.window(), capped);
    large.queue.on_spare_window(millis(40), millis(45));
    assert_eq!(large.window(), 9_000_000);
}

/// Sends all that the window permits over 10 Mbit/s and 40 ms, where the router loses nothing.
#[test]
fn slow_start_does_not_fill_a_deep_buffer() {
    const PACKET: usize = 1250;
    let (mut small, begin) = (SlowStart::new(Fixed(5_000)), begin());
    let (mut usual, mut most) = (millis(40), 0);
    // When each packet under way was sent, the oldest first.
    let mut under_way: VecDeque<u64> = VecDeque::new();
    for now in 0..2000 {
        // The link carries one packet in a millisecond.
        let arrives = under_way.front().is_some_and(|sent| sent + 40 <= now);
        if arrives && let Some(sent) = under_way.pop_front() {
            let (now, round_trip) = (begin + millis(now), millis(now - sent));
            small.shortest.on_ack(now, round_trip);
            small.on_busy_ack(now, PACKET as u64, usual);
            usual = (usual * 7 + round_trip) / 8;
        }
        while under_way.len() * PACKET < small.window() as usize {
            under_way.push_back(now);
        }
        most = most.max(under_way.len() * PACKET);
    }
    assert!(small.carried.is_some(), "the slow start is not over");
    // The first window, and what is added until a round has shown the queue.
    assert!((600_000..800_000).contains(&most), "{most}");
    assert_eq!(small.window(), 240_000);
}

/// A node that is busy may answer the handshake late, which is no queue.
#[test]
fn a_slow_handshake_does_not_slow_the_start() {
    let (mut small, begin) = (SlowStart::new(Fixed(5_000)), begin());
    small.shortest.on_ack(begin, millis(40));
    let mut usual = millis(300);
    for at in 1..=200 {
        small.on_busy_ack(begin + millis(at), 10_000, usual);
        usual = (usual * 7 + millis(40)) / 8;
    }
    assert_eq!(small.window(), 600_000 + 2_000_000);
}

#[test]
fn packet_loss_ends_the_slow_start() {
    let mut small = SlowStart::new(Fixed(5_000));
    let now = begin();
    small.on_congestion_event(now, now, false, 1_000);
    assert_eq!(small.window(), 5_000);
}
