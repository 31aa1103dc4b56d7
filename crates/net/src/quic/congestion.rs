//! Congestion control: BBR, a slow start that it does not break off before it has measured anything, and shorter queues than its own.
//!
//! BBR keeps throughput where packets get lost, which CUBIC takes for congestion. quinn's BBR measures the round trip (`ProbeRtt`: a window of
//! three quarters of what it takes for the link's content, until so little is under way, and 200 ms more) for the first time when a connection has more to
//! send than its window. On a connection that had carried only little until then, its measure of the bandwidth rests on one acknowledgement: the
//! window falls to a few packets, and the first megabyte takes six round trips. So until a connection has carried some megabytes, or lost a
//! packet, its window is at least the first one and what was acknowledged since while more was waiting.
//!
//! The first window of BBR is 200 packets, 240 KB: in a round trip of 20 ms that is 96 Mbit/s, in one of 100 ms only 19. Where the round trip is
//! longer, the first window is what 120 Mbit/s carry in it, so that a block does not take three of them, nor two where it is about 100 ms.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Bbr, BbrConfig, Controller, ControllerFactory, ControllerMetrics};

/// When the window has become so large, the bandwidth is known.
const LEARNT_BYTES: u64 = 4 << 20;
/// What a link is taken to carry until it is known, per second: 120 Mbit/s.
const ASSUMED_BYTES: f64 = 120e6 / 8.0;
/// The first window at most: a block with what goes around it.
const MOST_ASSUMED_BYTES: u64 = 1_200_000;

/// Makes a controller for each connection.
#[derive(Default)]
pub(super) struct Congestion(Arc<BbrConfig>);

impl ControllerFactory for Congestion {
    fn build(self: Arc<Self>, _now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Learning::new(Bbr::new(self.0.clone(), mtu)))
    }
}

/// A controller with a slow start of its own, and no long queues.
#[derive(Clone)]
struct Learning<C> {
    inner: C,
    /// What was acknowledged while more was waiting; `None` once the controller has learnt.
    carried: Option<u64>,
    shortest: Shortest,
    filled: Filled,
}

impl<C: Controller> Learning<C> {
    fn new(inner: C) -> Learning<C> {
        Learning {
            inner,
            carried: Some(0),
            shortest: Shortest::default(),
            filled: Filled::default(),
        }
    }

    /// The window at least.
    fn least(&self) -> Option<u64> {
        let assumed = self.shortest.get().as_secs_f64() * ASSUMED_BYTES;
        let first = (assumed as u64).min(MOST_ASSUMED_BYTES);
        Some(self.inner.initial_window().max(first) + self.carried?)
    }

    /// So much was acknowledged while more was waiting.
    fn carried(&mut self, bytes: u64) {
        self.carried = self.carried.map(|carried| carried.saturating_add(bytes));
        if self.least().is_some_and(|least| least >= LEARNT_BYTES) {
            self.carried = None;
        }
    }
}

impl<C: Controller + Clone + 'static> Controller for Learning<C> {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        // `rtt` knows of it only later, and keeps its shortest for ever, though ways change.
        self.shortest
            .on_ack(now, now.saturating_duration_since(sent));
        let (shortest, usual) = (self.shortest.get(), rtt.get());
        if app_limited {
            self.filled.rest(shortest, usual);
        } else {
            self.carried(bytes);
            self.filled.on_ack(now, bytes, shortest, usual);
        }
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        // It may be the link's queue that is full.
        self.carried = None;
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let most = self.filled.most_bytes(self.shortest.get());
        let most = most.unwrap_or(u64::MAX);
        let window = self.inner.window().min(most.max(self.initial_window()));
        window.max(self.least().unwrap_or_default())
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        metrics.congestion_window = self.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The shortest round trip of late. While more is sent than the link carries, BBR lets its queue run empty every 10 s
/// (`ProbeRtt`), so one of these is among it.
#[derive(Clone, Default)]
struct Shortest {
    since: Option<Instant>,
    now: Option<Duration>,
    before: Option<Duration>,
}

impl Shortest {
    /// How long one is remembered: so long to twice as long.
    const REMEMBERED: Duration = Duration::from_secs(15);

    fn on_ack(&mut self, now: Instant, round_trip: Duration) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= Shortest::REMEMBERED {
            (self.since, self.before) = (Some(now), self.now.take());
        }
        self.now = Some(self.now.map_or(round_trip, |now| now.min(round_trip)));
    }

    fn get(&self) -> Duration {
        let both = self.now.into_iter().chain(self.before);
        both.min().unwrap_or_default()
    }
}

/// What a link carries once packets queue before it.
///
/// BBR keeps twice as much under way as the link holds, so that a queue as long as the link stands before it, in which everything small waits, too: on
/// 100 Mbit/s and 40 ms another 40 ms. Once the round trip tells of a queue, and until there is less to send than the window, the window is a third more than
/// what came through lately in the shortest round trip: enough to bridge what gets lost, and to find out that the link carries more.
#[derive(Clone, Default)]
struct Filled {
    since: Option<Instant>,
    bytes: u64,
    /// Bytes a second in the last rounds.
    rates: [u64; Filled::ROUNDS],
    next: usize,
    /// Packets queue.
    queues: bool,
}

impl Filled {
    /// BBR looks for more in one round trip of eight; what came through then counts until it does so again.
    const ROUNDS: usize = 10;
    /// A round takes a round trip, and this at least.
    const LEAST: Duration = Duration::from_millis(10);
    /// How much more is under way than the link holds.
    const MORE: f64 = 4.0 / 3.0;
    /// Round trips stray by so much without a queue.
    const NOISE: Duration = Duration::from_millis(2);

    /// Less is to be sent than the window holds: what comes through says nothing of the link.
    fn rest(&mut self, shortest: Duration, usual: Duration) {
        if !Filled::tells_of_queue(shortest, usual) {
            *self = Filled::default();
        }
    }

    fn tells_of_queue(shortest: Duration, usual: Duration) -> bool {
        usual > shortest + shortest / 4 + Filled::NOISE
    }

    /// So much came through while more was waiting.
    fn on_ack(&mut self, now: Instant, bytes: u64, shortest: Duration, usual: Duration) {
        self.queues |= Filled::tells_of_queue(shortest, usual);
        self.bytes += bytes;
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        if passed >= shortest.max(Filled::LEAST) {
            self.rates[self.next] = (self.bytes as f64 / passed.as_secs_f64()) as u64;
            self.next = (self.next + 1) % Filled::ROUNDS;
            (self.since, self.bytes) = (Some(now), 0);
        }
    }

    /// The most that is to be under way, if packets queue.
    fn most_bytes(&self, shortest: Duration) -> Option<u64> {
        let fastest = self.rates.iter().max().filter(|_| self.queues)?;
        let carried = *fastest as f64 * shortest.as_secs_f64();
        Some((carried * Filled::MORE) as u64)
    }
}

#[cfg(test)]
mod tests {
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
    fn a_window_grows_until_the_bandwidth_is_known() {
        let mut small = Learning::new(Fixed(5_000));
        assert_eq!(small.window(), 240_000);
        assert_eq!(Learning::new(Fixed(900_000)).window(), 900_000);
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
    fn the_first_window_is_made_for_the_round_trip() {
        let window_at = |round_trip| {
            let mut small = Learning::new(Fixed(5_000));
            // The first one took long for some reason of the peer.
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
    fn the_shortest_round_trip_is_forgotten_when_the_way_has_become_longer() {
        let (mut shortest, begin) = (Shortest::default(), begin());
        shortest.on_ack(begin, millis(20));
        shortest.on_ack(begin + millis(14_000), millis(40));
        assert_eq!(shortest.get(), millis(20));
        shortest.on_ack(begin + millis(16_000), millis(40));
        assert_eq!(shortest.get(), millis(20));
        shortest.on_ack(begin + millis(31_000), millis(40));
        assert_eq!(shortest.get(), millis(40));
    }

    /// 10 MB/s over 40 ms are 400 KB.
    #[test]
    fn a_queue_keeps_the_window_near_what_the_link_holds() {
        let (mut large, begin) = (Learning::new(Fixed(9_000_000)), begin());
        large.carried = None;
        large.shortest.on_ack(begin, millis(40));
        let send = |large: &mut Learning<Fixed>, from: u64, usual| {
            for at in (from..from + 1000).step_by(10) {
                let now = begin + millis(at);
                large.filled.on_ack(now, 100_000, millis(40), millis(usual));
            }
        };
        send(&mut large, 0, 45);
        assert_eq!(large.window(), 9_000_000);
        send(&mut large, 1000, 60);
        let capped = large.window();
        assert!((530_000..670_000).contains(&capped), "{capped}");
        // Its own effect does not end it, and there being less to send does.
        send(&mut large, 2000, 45);
        assert_eq!(large.window(), capped);
        large.filled.rest(millis(40), millis(60));
        assert_eq!(large.window(), capped);
        large.filled.rest(millis(40), millis(45));
        assert_eq!(large.window(), 9_000_000);
    }

    #[test]
    fn a_loss_ends_it() {
        let mut small = Learning::new(Fixed(5_000));
        let now = begin();
        small.on_congestion_event(now, now, false, 1_000);
        assert_eq!(small.window(), 5_000);
    }
}
