//! Counters of a door's requests.

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

/// Counters of a door. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    requests: Family<Request, Counter>,
    of_buckets: Family<OfBucket, Counter>,
    received_of_buckets: Family<Bucket, Counter>,
    sent_of_buckets: Family<Bucket, Counter>,
    of_users: Family<OfUser, Counter>,
    received_of_users: Family<User, Counter>,
    sent_of_users: Family<User, Counter>,
    buckets: Named,
    users: Named,
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

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfBucket {
    bucket: String,
    status: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Bucket {
    bucket: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfUser {
    user: String,
    status: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct User {
    user: String,
}

/// A family that is shown also while it has no samples: an operator who looks for a metric finds it, with its
/// meaning.
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
    /// Registers all counters of a door. Their names begin with the door's.
    pub fn register(registry: &mut Registry, door: &str) -> Metrics {
        let metrics = Metrics {
            requests: Family::default(),
            of_buckets: Family::default(),
            received_of_buckets: Family::default(),
            sent_of_buckets: Family::default(),
            of_users: Family::default(),
            received_of_users: Family::default(),
            sent_of_users: Family::default(),
            buckets: Named::default(),
            users: Named::default(),
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
        let registry = registry.sub_registry_with_prefix(door);
        show(
            registry,
            "requests",
            "Requests by operation and status",
            &m.requests,
        );
        show(
            registry,
            "bucket_requests",
            "Requests by bucket and class of status; at most 500 buckets by name",
            &m.of_buckets,
        );
        show(
            registry,
            "bucket_received_bytes",
            "Bytes of request bodies by bucket; at most 500 buckets by name",
            &m.received_of_buckets,
        );
        show(
            registry,
            "bucket_sent_bytes",
            "Bytes of answer bodies by bucket; at most 500 buckets by name",
            &m.sent_of_buckets,
        );
        show(
            registry,
            "user_requests",
            "Requests by user, role or access key without a user, and class of status; at most 500 by unique id",
            &m.of_users,
        );
        show(
            registry,
            "user_received_bytes",
            "Bytes of request bodies by user, role or access key without a user; at most 500 by unique id",
            &m.received_of_users,
        );
        show(
            registry,
            "user_sent_bytes",
            "Bytes of answer bodies by user, role or access key without a user; at most 500 by unique id",
            &m.sent_of_users,
        );
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
        let mut sent = vec![self.sent.clone()];
        if let Some(bucket) = bucket {
            let bucket = self.buckets.label(bucket);
            let of = Bucket {
                bucket: bucket.clone(),
            };
            let counter = self.received_of_buckets.get_or_create_owned(&of);
            counter.inc_by(received);
            sent.push(self.sent_of_buckets.get_or_create_owned(&of));
            let of = OfBucket { bucket, status };
            self.of_buckets.get_or_create(&of).inc();
        }
        if let Some(user) = user {
            let user = self.users.label(user);
            let of = User { user: user.clone() };
            let counter = self.received_of_users.get_or_create_owned(&of);
            counter.inc_by(received);
            sent.push(self.sent_of_users.get_or_create_owned(&of));
            self.of_users.get_or_create(&OfUser { user, status }).inc();
        }
        Sent(sent)
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

/// Counts the content of one answer: for the door, the bucket and the user.
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
