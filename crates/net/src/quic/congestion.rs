//! Congestion control: BBR, and a slow start that it does not break off before it has measured anything.
//!
//! BBR keeps throughput where packets get lost, which CUBIC takes for congestion. quinn's BBR measures the round trip (`ProbeRtt`: a window of
//! three quarters of what it takes for the link's content, until so little is under way, and 200 ms more) for the first time when a connection has more to
//! send than its window. On a connection that had carried only little until then, its measure of the bandwidth rests on one acknowledgement: the
//! window falls to a few packets, and the first megabyte takes six round trips. So until a connection has carried some megabytes, or lost a
//! packet, its window is at least the first one and what was acknowledged since while more was waiting.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Bbr, BbrConfig, Controller, ControllerFactory, ControllerMetrics};

/// When the window has become so large, the bandwidth is known.
const LEARNT_BYTES: u64 = 4 << 20;

/// Makes a controller for each connection.
#[derive(Default)]
pub(super) struct Congestion(Arc<BbrConfig>);

impl ControllerFactory for Congestion {
    fn build(self: Arc<Self>, _now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Learning::new(Bbr::new(self.0.clone(), mtu)))
    }
}

/// A controller with a slow start of its own.
#[derive(Clone)]
struct Learning<C> {
    inner: C,
    /// The window at least; none once the controller has learnt.
    least: Option<u64>,
}

impl<C: Controller> Learning<C> {
    fn new(inner: C) -> Learning<C> {
        let least = Some(inner.initial_window());
        Learning { inner, least }
    }

    /// So much was acknowledged while more was waiting.
    fn carried(&mut self, bytes: u64) {
        let grown = self.least.map(|least| least.saturating_add(bytes));
        self.least = grown.filter(|least| *least < LEARNT_BYTES);
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
        if !app_limited {
            self.carried(bytes);
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
        self.least = None;
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window().max(self.least.unwrap_or_default())
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

    #[test]
    fn a_loss_ends_it() {
        let mut small = Learning::new(Fixed(5_000));
        let now = tokio::time::Instant::now().into_std();
        small.on_congestion_event(now, now, false, 1_000);
        assert_eq!(small.window(), 5_000);
    }
}
