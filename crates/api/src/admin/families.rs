//! The reference of metrics: what is registered, also what has no sample yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{Json, Query, Refusal};
use super::page::page;
use super::types::{MetricInfo, Page};
use super::{Admin, node};

/// The labels of the metrics of an endpoint, by the end of their names.
const OF_ENDPOINTS: [(&str, &[&str]); 8] = [
    ("_requests", &["operation", "status"]),
    ("_request_seconds", &["operation"]),
    ("_bucket_requests", &["bucket", "status"]),
    ("_bucket_received_bytes", &["bucket"]),
    ("_bucket_sent_bytes", &["bucket"]),
    ("_user_requests", &["user", "status"]),
    ("_user_received_bytes", &["user"]),
    ("_user_sent_bytes", &["user"]),
];

/// The endpoints, as the names of their metrics begin.
const ENDPOINTS: [&str; 5] = ["s3", "web", "k2v", "acme", "console"];

/// The labels of other metrics, by the beginning of their names. The longest one counts.
const LABELS: [(&str, &[&str]); 14] = [
    ("archipel_build", &["version", "commit"]),
    ("archipel_bucket_quota_", &["bucket"]),
    ("archipel_bucket_used_", &["bucket"]),
    ("archipel_calls_", &["method"]),
    ("archipel_calls_in_flight", &[]),
    ("archipel_certificate_file_", &["file"]),
    ("archipel_certificate_", &["domain"]),
    ("archipel_discovered_addresses", &["source"]),
    ("archipel_discovery_failures", &["source"]),
    ("archipel_disk_", &["disk"]),
    ("archipel_events_", &["target"]),
    ("archipel_peer_", &["peer"]),
    ("archipel_user_quota_", &["user"]),
    ("archipel_user_used_", &["user"]),
];

/// The filters of the list of metrics.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListMetrics {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only metrics after this name: the `next` of the former page.
    after: Option<String>,
    /// Only metrics whose name begins so.
    prefix: Option<String>,
}

/// Lists the metrics that `GET /metrics` of this node can show, by name, with their labels and meaning.
#[utoipa::path(
    get, path = "/v1/metrics", tag = "metrics", operation_id = "list_metrics",
    params(ListMetrics),
    responses((status = 200, description = "Metrics", body = Page<MetricInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListMetrics>,
) -> Result<Json<Page<MetricInfo>>, Refusal> {
    let text = node::encoded(&admin).await?;
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let all = families(&text).into_iter();
    let all = all.filter(|one| one.name.starts_with(prefix));
    page(all, |one| &one.name, query.limit, query.after.as_deref()).map(Json)
}

/// Returns what the text of OpenMetrics describes, by name.
fn families(text: &str) -> Vec<MetricInfo> {
    let mut found = BTreeMap::<&str, (&str, &str)>::new();
    for line in text.lines() {
        if let Some((name, about)) = described(line, "# HELP ") {
            found.entry(name).or_default().1 = about;
        } else if let Some((name, kind)) = described(line, "# TYPE ") {
            found.entry(name).or_default().0 = kind;
        }
    }
    let info = |(name, (kind, about)): (&str, (&str, &str))| MetricInfo {
        name: name.to_owned(),
        kind: kind.to_owned(),
        labels: labels(name).iter().map(|one| (*one).to_owned()).collect(),
        about: about.trim_end_matches('.').to_owned(),
    };
    found.into_iter().map(info).collect()
}

fn described<'l>(line: &'l str, what: &str) -> Option<(&'l str, &'l str)> {
    line.strip_prefix(what)?.split_once(' ')
}

/// Returns the labels of a metric.
fn labels(name: &str) -> &'static [&'static str] {
    for endpoint in ENDPOINTS {
        let end = name
            .strip_prefix("archipel_")
            .and_then(|name| name.strip_prefix(endpoint));
        let of_endpoint = OF_ENDPOINTS.iter().find(|(known, _)| end == Some(known));
        if let Some((_, labels)) = of_endpoint {
            return labels;
        }
    }
    let known = LABELS.iter().filter(|(begin, _)| name.starts_with(begin));
    let longest = known.max_by_key(|(begin, _)| begin.len());
    longest.map_or(&[], |(_, labels)| labels)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::serve::Metrics;

    #[test]
    fn metrics_of_an_endpoint_are_listed_with_the_labels_that_their_samples_have() {
        let mut registry = Registry::with_prefix("archipel");
        for endpoint in ENDPOINTS {
            let metrics = Metrics::register(&mut registry, endpoint);
            metrics.answered("Get", 200, std::time::Duration::ZERO, 1);
            metrics.concerned(Some("b"), Some("u"), 200, 1).bytes(1);
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let listed = families(&text);
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let mut seen = 0;
        for sample in samples {
            let (name, rest) = sample.split_once(['{', ' ']).unwrap();
            let labels: Vec<&str> = match sample.contains('{') {
                true => rest
                    .split_inclusive("=\"")
                    .filter_map(|part| part.strip_suffix("=\""))
                    .filter_map(|part| part.rsplit([',', '{']).next())
                    .filter(|label| *label != "le")
                    .collect(),
                false => Vec::new(),
            };
            let ends = ["", "_total", "_bucket", "_count", "_sum"];
            let family = listed.iter().find(|one| {
                ends.iter()
                    .any(|end| name.strip_suffix(end) == Some(&one.name))
            });
            assert_eq!(family.unwrap().labels, labels, "{sample}");
            seen += 1;
        }
        assert!(seen > 5 * 12, "{seen}");
    }

    #[test]
    fn the_longest_beginning_counts() {
        assert_eq!(labels("archipel_calls_made"), ["method"]);
        assert!(labels("archipel_calls_in_flight").is_empty());
        assert!(labels("archipel_buckets").is_empty());
    }
}
