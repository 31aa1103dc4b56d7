//! Counters of an endpoint's requests.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The most buckets, and the most users, that have counters of their own until the restart of
/// the node. Those that come later are counted together: each series costs memory, here and in the
/// store of metrics.
const MAX_NAMED: usize = 500;

/// The label of all others. It is no name of a bucket and no id of a user.
const OTHERS: &str = "(others)";

/// The families by bucket, with their meanings.
const OF_BUCKETS: [(&str, &str); 3] = [
    (
        "bucket_requests",
        "Requests by bucket and class of status; at most 500 buckets by name",
    ),
    (
        "bucket_received_bytes",
        "Bytes of request bodies by bucket; at most 500 buckets by name",
    ),
    (
        "bucket_sent_bytes",
        "Bytes of answer bodies by bucket; at most 500 buckets by name",
    ),
];

/// The families by user, with their meanings.
const OF_USERS: [(&str, &str); 3] = [
    (
        "user_requests",
        "Requests by user, role or access key without a user, and class of status; at most 500 by unique id",
    ),
    (
        "user_received_bytes",
        "Bytes of request bodies by user, role or access key without a user; at most 500 by unique id",
    ),
    (
        "user_sent_bytes",
        "Bytes of answer bodies by user, role or access key without a user; at most 500 by unique id",
    ),
];

/// Counters of an endpoint. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    by_bucket: ByName,
    by_user: ByName,
    seconds: Family<Operation, Histogram>,
    received: Counter,
    sent: Counter,
    in_flight: Gauge,
    connections: Gauge,
    refused: Counter,
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

/// Labels: names and values.
type Labels = Vec<(&'static str, String)>;

/// Counters of the requests by bucket or by user.
#[derive(Clone)]
struct ByName {
    label: &'static str,
    named: Named,
    requests: Family<Labels, Counter>,
    received: Family<Labels, Counter>,
    sent: Family<Labels, Counter>,
}

impl ByName {
    fn new(label: &'static str) -> ByName {
        ByName {
            label,
            named: Named::default(),
            requests: Family::default(),
            received: Family::default(),
            sent: Family::default(),
        }
    }

    /// Shows the families under these names, with these meanings.
    fn show(&self, registry: &mut Registry, about: &[(&'static str, &'static str); 3]) {
        let families = [&self.requests, &self.received, &self.sent];
        for (&(name, about), family) in about.iter().zip(families) {
            show(registry, name, about, family);
        }
    }

    /// Counts a request. Returns the counter of the answer's content.
    fn count(&self, name: &str, status: &'static str, received: u64) -> Counter {
        let mut labels = vec![(self.label, self.named.label(name))];
        self.received.get_or_create(&labels).inc_by(received);
        let sent = self.sent.get_or_create_owned(&labels);
        labels.push(("status", status.to_owned()));
        self.requests.get_or_create(&labels).inc();
        sent
    }
}

/// A family that is shown also while it has no samples: an operator who looks for a metric finds
/// it, with its meaning.
struct Shown<F> {
    name: &'static str,
    about: &'static str,
    family: F,
}

impl<F> fmt::Debug for Shown<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<F: EncodeMetric + Send + Sync + 'static> Collector for Shown<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let kind = self.family.metric_type();
        let encoder = encoder.encode_descriptor(self.name, self.about, None, kind)?;
        self.family.encode(encoder)
    }
}

fn show<F: EncodeMetric + Clone + Send + Sync + 'static>(
    registry: &mut Registry,
    name: &'static str,
    about: &'static str,
    family: &F,
) {
    let family = family.clone();
    registry.register_collector(Box::new(Shown {
        name,
        about,
        family,
    }));
}

/// The names that have counters of their own.
#[derive(Clone, Default)]
struct Named(Arc<Mutex<BTreeSet<String>>>);

impl Named {
    /// Returns the label of a name: itself, or [`OTHERS`] once there are too many.
    fn label(&self, name: &str) -> String {
        let mut known = self.0.lock();
        if known.contains(name) {
            return name.to_owned();
        }
        if known.len() >= MAX_NAMED {
            return OTHERS.to_owned();
        }
        known.insert(name.to_owned());
        name.to_owned()
    }
}

/// Returns the class of a status.
fn class(status: u16) -> &'static str {
    match status {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}

impl Metrics {
    /// Registers all counters of an endpoint. Their names begin with the endpoint's.
    pub fn register(registry: &mut Registry, endpoint: &str) -> Metrics {
        let metrics = Metrics {
            requests: Family::default(),
            by_bucket: ByName::new("bucket"),
            by_user: ByName::new("user"),
            seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 4.0, 9))
            }),
            received: Counter::default(),
            sent: Counter::default(),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            refused: Counter::default(),
        };
        let m = &metrics;
        let registry = registry.sub_registry_with_prefix(endpoint);
        show(
            registry,
            "requests",
            "Requests by operation and status",
            &m.requests,
        );
        m.by_bucket.show(registry, &OF_BUCKETS);
        m.by_user.show(registry, &OF_USERS);
        show(
            registry,
            "request_seconds",
            "Time until an answer begins, by operation",
            &m.seconds,
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
        registry.register(
            "refused_connections",
            "Connections that were refused because their address has too many",
            m.refused.clone(),
        );
        metrics
    }

    /// Counts a request that was answered.
    pub fn answered(&self, operation: &'static str, status: u16, time: Duration, received: u64) {
        self.requests
            .get_or_create(&Request { operation, status })
            .inc();
        let seconds = self.seconds.get_or_create(&Operation { operation });
        seconds.observe(time.as_secs_f64());
        self.received.inc_by(received);
    }

    /// Counts a request about this bucket, of this user or role, by unique id. Both exist: a client
    /// cannot make series by naming what does not. Returns what counts the answer's content.
    pub fn concerned(
        &self,
        bucket: Option<&str>,
        user: Option<&str>,
        status: u16,
        received: u64,
    ) -> Sent {
        let status = class(status);
        let of_bucket = bucket.map(|name| self.by_bucket.count(name, status, received));
        let of_user = user.map(|name| self.by_user.count(name, status, received));
        let all = [Some(self.sent.clone()), of_bucket, of_user];
        Sent(all.into_iter().flatten().collect())
    }

    /// Counts a connection that was refused.
    pub fn refused(&self) {
        self.refused.inc();
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

/// Counts the content of one answer: for the endpoint, the bucket and the user.
pub struct Sent(Vec<Counter>);

impl Sent {
    /// Counts content that was sent.
    pub fn bytes(&self, bytes: u64) {
        for counter in &self.0 {
            counter.inc_by(bytes);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_beyond_the_bound_are_counted_together() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, "s3");
        for number in 0..MAX_NAMED + 3 {
            let sent = metrics.concerned(Some(&format!("b{number}")), Some("AK1"), 200, 7);
            sent.bytes(2);
        }
        drop(metrics.concerned(Some("b0"), None, 404, 0));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let series = |name: &str| {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines.map(String::from).collect::<Vec<_>>()
        };
        let of_buckets = series("s3_bucket_requests_total{");
        assert_eq!(of_buckets.len(), MAX_NAMED + 2);
        let others = r#"s3_bucket_requests_total{bucket="(others)",status="2xx"} 3"#;
        assert!(of_buckets.iter().any(|line| line == others), "{text}");
        let missing = r#"s3_bucket_requests_total{bucket="b0",status="4xx"} 1"#;
        assert!(of_buckets.iter().any(|line| line == missing));
        let bytes = r#"s3_bucket_received_bytes_total{bucket="(others)"} 21"#;
        assert_eq!(series(bytes).len(), 1);
        for sample in [
            r#"s3_bucket_sent_bytes_total{bucket="(others)"} 6"#,
            r#"s3_user_received_bytes_total{user="AK1"} 3521"#,
            r#"s3_user_sent_bytes_total{user="AK1"} 1006"#,
            "s3_sent_bytes_total 1006",
        ] {
            assert_eq!(series(sample), [sample]);
        }
        let keys = series("s3_user_requests_total{");
        assert_eq!(
            keys,
            [r#"s3_user_requests_total{user="AK1",status="2xx"} 503"#]
        );
    }

    #[test]
    fn families_are_shown_before_the_first_request() {
        let mut registry = Registry::default();
        let _unused = Metrics::register(&mut registry, "k2v");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "# TYPE k2v_requests counter",
            "# TYPE k2v_bucket_sent_bytes counter",
            "# TYPE k2v_request_seconds histogram",
            "# HELP k2v_requests Requests by operation and status",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}
