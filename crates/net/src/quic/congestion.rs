//! Congestion control: BBR with a slow start that does not end before the first measurement, and
//! with shorter queues than BBR's own.
//!
//! BBR keeps throughput where packets get lost; CUBIC takes such losses for congestion. quinn's BBR
//! measures the shortest round trip (`ProbeRtt`) for the first time when a connection has more to
//! send than its window: it lowers the window to three quarters of the link's content until so few
//! bytes are under way, and for 200 ms more. On a connection that had carried little until then,
//! its measure of the bandwidth rests on one acknowledgement. The window falls to a few packets,
//! and the first megabyte takes six round trips. So until a connection has carried some megabytes
//! or lost a packet, its window is at least the first window plus the bytes that were acknowledged
//! since then while more was waiting. Once the round trip shows a queue, the bound on queues holds
//! for that, too: a router with a deep buffer loses no packet, and would take all of the megabytes.
//!
//! The first window of BBR is 200 packets, 240 KB. With a round trip of 20 ms that is 96 Mbit/s,
//! with 100 ms only 19 Mbit/s. With longer round trips, the first window here is what 120 Mbit/s
//! carry in a round trip, so that a block takes neither three round trips nor, at about 100 ms,
//! two.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Bbr, BbrConfig, Controller, ControllerFactory, ControllerMetrics};

/// The bandwidth is known when the window has become this large.
const LEARNT_BYTES: u64 = 4 << 20;
/// The assumed bandwidth of a link in bytes per second until it is known: 120 Mbit/s.
const ASSUMED_BYTES: f64 = 120e6 / 8.0;
/// The limit of the first window: a block with its framing.
const MOST_ASSUMED_BYTES: u64 = 1_200_000;

/// Makes a controller for each connection.
#[derive(Default)]
pub(super) struct Congestion(Arc<BbrConfig>);

impl ControllerFactory for Congestion {
    fn build(self: Arc<Self>, _now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(SlowStart::new(Bbr::new(self.0.clone(), mtu)))
    }
}

/// A controller with its own slow start and with short queues.
#[derive(Clone)]
struct SlowStart<C> {
    inner: C,
    /// The bytes acknowledged while more was waiting. `None` once the bandwidth is known.
    carried: Option<u64>,
    shortest: ShortestRoundTrip,
    queue: QueueLimit,
}

impl<C: Controller> SlowStart<C> {
    fn new(inner: C) -> SlowStart<C> {
        SlowStart {
            inner,
            carried: Some(0),
            shortest: ShortestRoundTrip::default(),
            queue: QueueLimit::default(),
        }
    }

    /// Returns the lower limit of the window, or `None` once the bandwidth is known.
    fn least(&self) -> Option<u64> {
        let assumed = self.shortest.get().as_secs_f64() * ASSUMED_BYTES;
        let first = (assumed as u64).min(MOST_ASSUMED_BYTES);
        Some(self.inner.initial_window().max(first) + self.carried?)
    }

    /// Handles an acknowledgement while more was waiting.
    fn on_busy_ack(&mut self, now: Instant, bytes: u64, usual: Duration) {
        self.carried(bytes);
        self.queue.on_ack(now, bytes, self.shortest.get(), usual);
    }

    /// Adds bytes that were acknowledged while more was waiting.
    fn carried(&mut self, bytes: u64) {
        self.carried = self.carried.map(|carried| carried.saturating_add(bytes));
        if self.least().is_some_and(|least| least >= LEARNT_BYTES) {
            self.carried = None;
        }
    }
}

impl<C: Controller + Clone + 'static> Controller for SlowStart<C> {
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
        // `rtt` is updated only later, and it never forgets its minimum, although paths change.
        self.shortest
            .on_ack(now, now.saturating_duration_since(sent));
        let (shortest, usual) = (self.shortest.get(), rtt.get());
        if app_limited {
            self.queue.on_spare_window(shortest, usual);
        } else {
            self.on_busy_ack(now, bytes, usual);
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
        // The loss may mean that the link's queue is full.
        self.carried = None;
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let window = self.inner.window().max(self.least().unwrap_or_default());
        match self.queue.most_bytes(self.shortest.get()) {
            Some(most) => window.min(most.max(self.initial_window())),
            None => window,
        }
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

/// The shortest recent round trip. While more is sent than the link carries, BBR lets the link's
/// queue run empty every 10 s (`ProbeRtt`), so that the recent round trips include one without a
/// queue.
#[derive(Clone, Default)]
struct ShortestRoundTrip {
    since: Option<Instant>,
    now: Option<Duration>,
    before: Option<Duration>,
}

impl ShortestRoundTrip {
    /// A round trip is remembered for this long at least, and for twice as long at most.
    const REMEMBERED: Duration = Duration::from_secs(15);

    fn on_ack(&mut self, now: Instant, round_trip: Duration) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= ShortestRoundTrip::REMEMBERED {
            (self.since, self.before) = (Some(now), self.now.take());
        }
        self.now = Some(self.now.map_or(round_trip, |now| now.min(round_trip)));
    }

    fn get(&self) -> Duration {
        let both = self.now.into_iter().chain(self.before);
        both.min().unwrap_or_default()
    }
}

/// The bandwidth of a link, measured while packets queue before it.
///
/// BBR keeps twice as much under way as the link holds. The link then has a queue as long as
/// itself, and every small message waits in it: 40 ms more with 100 Mbit/s and 40 ms. Once the
/// round trip shows a queue at the end of a round, and until there is less to send than the window,
/// the window is a third more than what recently came through in the shortest round trip. That is
/// enough to bridge losses and to discover more bandwidth.
#[derive(Clone, Default)]
struct QueueLimit {
    since: Option<Instant>,
    bytes: u64,
    /// Bytes per second in the last rounds.
    rates: [u64; QueueLimit::ROUNDS],
    next: usize,
    /// True while packets queue.
    queues: bool,
}

impl QueueLimit {
    /// BBR probes for more bandwidth in one round trip of eight. The result counts until the next
    /// probe.
    const ROUNDS: usize = 10;
    /// The minimum length of a round, which otherwise takes a round trip.
    const LEAST: Duration = Duration::from_millis(10);
    /// The bytes under way, relative to what the link holds.
    const MORE: f64 = 4.0 / 3.0;
    /// The variation of round trips without a queue.
    const NOISE: Duration = Duration::from_millis(2);

    /// Handles an acknowledgement while there is less to send than the window: it says nothing
    /// about the link.
    fn on_spare_window(&mut self, shortest: Duration, usual: Duration) {
        if !QueueLimit::shows_queue(shortest, usual) {
            *self = QueueLimit::default();
        }
    }

    fn shows_queue(shortest: Duration, usual: Duration) -> bool {
        usual > shortest + shortest / 4 + QueueLimit::NOISE
    }

    /// Handles an acknowledgement while more was waiting.
    fn on_ack(&mut self, now: Instant, bytes: u64, shortest: Duration, usual: Duration) {
        self.bytes += bytes;
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since);
        if passed >= shortest.max(QueueLimit::LEAST) {
            self.rates[self.next] = (self.bytes as f64 / passed.as_secs_f64()) as u64;
            self.next = (self.next + 1) % QueueLimit::ROUNDS;
            (self.since, self.bytes) = (Some(now), 0);
            // Not before: until then, the usual round trip may still be that of a slow handshake.
            self.queues |= QueueLimit::shows_queue(shortest, usual);
        }
    }

    /// Returns the upper limit of the bytes under way, if packets queue.
    fn most_bytes(&self, shortest: Duration) -> Option<u64> {
        let fastest = self.rates.iter().max().filter(|_| self.queues)?;
        let carried = *fastest as f64 * shortest.as_secs_f64();
        Some((carried * QueueLimit::MORE) as u64)
    }
}
