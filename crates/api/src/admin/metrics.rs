//! Metrics of the cluster as this node sees it. Values that the node does not know are left out, so
//! that no alert rests on a number that nobody read.

use std::fmt;
use std::sync::Arc;

use archipel_model::{Fill, Model};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::types::ClusterState;
use super::{Node, condition, nodes};

/// Registers the metrics of the cluster.
pub fn register(registry: &mut Registry, model: Model, node: Arc<dyn Node>) {
    registry.register_collector(Box::new(Cluster { model, node }));
}

/// A figure of a quota: its name, its help text, its value.
type Figure = (&'static str, &'static str, fn(&Fill) -> Option<u64>);

const BUCKETS: [Figure; 4] = [
    (
        "archipel_bucket_quota_bytes",
        "The most bytes that a bucket may hold; at most 500 buckets",
        |fill| fill.quota.bytes,
    ),
    (
        "archipel_bucket_quota_objects",
        "The most objects that a bucket may hold; at most 500 buckets",
        |fill| fill.quota.objects,
    ),
    (
        "archipel_bucket_used_bytes",
        "Bytes that a bucket with a quota holds, counted once a minute; at most 500 buckets",
        |fill| Some(fill.used.bytes),
    ),
    (
        "archipel_bucket_used_objects",
        "Objects that a bucket with a quota holds, counted once a minute; at most 500 buckets",
        |fill| Some(fill.used.objects),
    ),
];

const USERS: [Figure; 4] = [
    (
        "archipel_user_quota_bytes",
        "The most bytes that the buckets of a user may hold; at most 500 users",
        |fill| fill.quota.bytes,
    ),
    (
        "archipel_user_quota_objects",
        "The most objects that the buckets of a user may hold; at most 500 users",
        |fill| fill.quota.objects,
    ),
    (
        "archipel_user_used_bytes",
        "Bytes in the buckets of a user with a quota, counted once a minute; at most 500 users",
        |fill| Some(fill.used.bytes),
    ),
    (
        "archipel_user_used_objects",
        "Objects in the buckets of a user with a quota, counted once a minute; at most 500 users",
        |fill| Some(fill.used.objects),
    ),
];

struct Cluster {
    model: Model,
    node: Arc<dyn Node>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cluster")
    }
}

impl Collector for Cluster {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.known(&mut encoder)?;
        self.quotas(&mut encoder)?;
        self.layout(&mut encoder)
    }
}

impl Cluster {
    fn known(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let confirmed = self.model.check_control().is_ok();
        gauge(
            encoder,
            "archipel_control_confirmed",
            "1 if this node has read buckets, keys and tokens and confirmed them within the lease",
            u64::from(confirmed),
        )?;
        if let Ok(buckets) = self.model.buckets() {
            let about = "Buckets; absent while this node does not know them";
            gauge(encoder, "archipel_buckets", about, buckets.len() as u64)?;
        }
        if let Ok(keys) = self.model.access_keys() {
            let about = "Access keys; absent while this node does not know them";
            gauge(encoder, "archipel_access_keys", about, keys.len() as u64)?;
        }
        Ok(())
    }

    fn quotas(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let filled = self.model.filled_quotas();
        let kinds = [
            ("bucket", BUCKETS, filled.buckets),
            ("user", USERS, filled.users),
        ];
        for (label, figures, fills) in kinds {
            for (name, about, figure) in figures {
                let mut family = encoder.encode_descriptor(name, about, None, MetricType::Gauge)?;
                for fill in &fills {
                    if let Some(value) = figure(fill) {
                        let gauge = ConstGauge::new(value as f64);
                        gauge.encode(family.encode_family(&[(label, fill.name.as_str())])?)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn layout(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let cluster = self.model.cluster();
        let Some(epoch) = cluster.epoch() else {
            return Ok(());
        };
        let nodes = nodes::known_to(&self.model, &*self.node);
        let status = condition::assess(&epoch, &nodes);
        let away = nodes.iter().filter(|n| n.in_layout && !n.state.answers());
        let progress = cluster.layouts().progress_of(&epoch);
        let (all, done) = progress.map_or((0, 0), |p| (p.partitions, p.done));
        let gauges: [(&str, &str, u64); 9] = [
            (
                "archipel_cluster_healthy",
                "1 if all nodes of the layout answer this node",
                u64::from(status.state == ClusterState::Healthy),
            ),
            (
                "archipel_cluster_available",
                "1 if all data can be read and written, as far as this node sees",
                u64::from(status.state != ClusterState::Unavailable),
            ),
            (
                "archipel_cluster_nodes",
                "Nodes in the newest layout",
                status.nodes.into(),
            ),
            (
                "archipel_cluster_nodes_away",
                "Nodes of live layouts that do not answer this node",
                away.count() as u64,
            ),
            (
                "archipel_cluster_partitions_short",
                "Partitions that lack a copy",
                status.partitions_short.into(),
            ),
            (
                "archipel_cluster_partitions_stopped",
                "Partitions without a reachable majority of their copies",
                status.partitions_stopped.into(),
            ),
            (
                "archipel_layout_version",
                "The newest layout version that this node knows",
                status.layout_version,
            ),
            (
                "archipel_layout_change_partitions",
                "Partitions that move to a newer layout version; 0 if none do",
                all.into(),
            ),
            (
                "archipel_layout_change_partitions_done",
                "Those of them that are done",
                done.into(),
            ),
        ];
        gauges
            .into_iter()
            .try_for_each(|(name, about, value)| gauge(encoder, name, about, value))
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    about: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(value as f64);
    let metric = encoder.encode_descriptor(name, about, None, gauge.metric_type())?;
    gauge.encode(metric)
}
