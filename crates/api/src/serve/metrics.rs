//! Counters of a door's requests.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Counters of a door. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    seconds: Family<Operation, Histogram>,
    received: Counter,
    sent: Counter,
    in_flight: Gauge,
    connections: Gauge,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Request {
    operation: &'static str,
    status: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

impl Metrics {
    /// Registers all counters of a door. Their names begin with the door's.
    pub fn register(registry: &mut Registry, door: &str) -> Metrics {
        let metrics = Metrics {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 4.0, 9))
            }),
            received: Counter::default(),
            sent: Counter::default(),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
        };
        let m = &metrics;
        let registry = registry.sub_registry_with_prefix(door);
        registry.register(
            "requests",
            "Requests by operation and status",
            m.requests.clone(),
        );
        registry.register(
            "request_seconds",
            "Time until an answer begins, by operation",
            m.seconds.clone(),
        );
        registry.register(
            "received_bytes",
            "Bytes of request bodies",
            m.received.clone(),
        );
        registry.register("sent_bytes", "Bytes of answer bodies", m.sent.clone());
        registry.register(
            "requests_in_flight",
            "Requests not yet answered in full",
            m.in_flight.clone(),
        );
        registry.register("connections", "Open connections", m.connections.clone());
        metrics
    }

    /// A request was answered.
    pub fn answered(&self, operation: &'static str, status: u16, time: Duration, received: u64) {
        self.requests
            .get_or_create(&Request { operation, status })
            .inc();
        let seconds = self.seconds.get_or_create(&Operation { operation });
        seconds.observe(time.as_secs_f64());
        self.received.inc_by(received);
    }

    /// Counts content that was sent.
    pub fn sent(&self, bytes: u64) {
        self.sent.inc_by(bytes);
    }

    /// Counts a request as in progress until the guard is dropped.
    pub fn enter(&self) -> Guard {
        Guard::new(&self.in_flight)
    }

    /// Counts a connection until the guard is dropped.
    pub fn connected(&self) -> Guard {
        Guard::new(&self.connections)
    }
}

/// Counts down when it is dropped.
pub struct Guard(Gauge);

impl Guard {
    fn new(gauge: &Gauge) -> Guard {
        gauge.inc();
        Guard(gauge.clone())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
