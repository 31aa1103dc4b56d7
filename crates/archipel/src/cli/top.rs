//! `archipel top`: a live view of the nodes, their traffic and their repairs.

use std::collections::BTreeMap;
use std::time::Duration;

use archipel_api::admin::types::{NodeInfo, NodeState, NodeStatus, RepairInfo, RepairNode};
use clap::Args;
use serde::Serialize;
use tokio::time::Instant;

use super::table;
use super::target::Target;
use super::{escape, scrub, terminal};
use crate::client::Failure;
use crate::config::size;

/// `archipel top`
#[derive(Args)]
pub struct TopArgs {
    /// The server.
    #[command(flatten)]
    target: Target,
    /// The time between two looks, in seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// End after this many looks. Without a terminal and without this, there is one
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
}

/// Counters of the server that is asked, by name.
type Counters = BTreeMap<String, f64>;

/// The counters that are shown as rates.
const RATES: [(&str, &str); 7] = [
    ("S3 requests", "archipel_s3_requests_total"),
    ("K2V requests", "archipel_k2v_requests_total"),
    ("web requests", "archipel_web_requests_total"),
    ("received", "archipel_s3_received_bytes_total"),
    ("sent", "archipel_s3_sent_bytes_total"),
    ("commits", "archipel_metadata_commits_total"),
    ("blocks written", "archipel_blocks_appended_total"),
];

/// One look: what `--json` prints.
#[derive(Serialize)]
struct Look {
    status: NodeStatus,
    nodes: Vec<NodeInfo>,
    repair: RepairInfo,
    /// Rates of the server that was asked, for each second; absent at the first look.
    rates: Option<BTreeMap<&'static str, f64>>,
}

/// Shows looks until the end.
pub async fn run(args: &TopArgs) -> Result<(), Failure> {
    let client = args.target.client()?;
    let live = terminal::height().filter(|_| !args.target.json);
    let count = args.count.unwrap_or(match live {
        Some(_) => u64::MAX,
        None => 1,
    });
    let mut before: Option<(Instant, Counters)> = None;
    for number in 0..count {
        if number > 0 {
            tokio::time::sleep(Duration::from_secs(args.interval)).await;
        }
        let counters = counters(&client.text("/metrics").await?);
        let now = Instant::now();
        let rates = before.as_ref().map(|(then, old)| {
            let seconds = now.duration_since(*then).as_secs_f64();
            rates(old, &counters, seconds)
        });
        before = Some((now, counters));
        let look = Look {
            status: client.get("/v1/status").await?,
            nodes: client.list("/v1/nodes").await?,
            repair: client.get("/v1/repair").await?,
            rates,
        };
        if args.target.json {
            table::print_json(&look)?;
        } else {
            show(&look, live)?;
        }
    }
    Ok(())
}

/// Returns the sums of the counters that are shown, over all their labels.
fn counters(metrics: &str) -> Counters {
    let mut sums = Counters::new();
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let name = series.split('{').next().unwrap_or_default();
        if RATES.iter().any(|(_, shown)| *shown == name)
            && let Ok(value) = value.parse::<f64>()
        {
            *sums.entry(name.to_owned()).or_default() += value;
        }
    }
    sums
}

fn rates(old: &Counters, new: &Counters, seconds: f64) -> BTreeMap<&'static str, f64> {
    let rate = |(_, name): &(&'static str, &'static str)| {
        let (before, after) = (old.get(*name)?, new.get(*name)?);
        // A restarted server counts from 0.
        let grown = (after - before).max(0.0);
        Some((*name, grown / seconds.max(0.001)))
    };
    RATES.iter().filter_map(rate).collect()
}

fn show(look: &Look, height: Option<usize>) -> Result<(), Failure> {
    let mut lines = vec![escape::line(&headline(&look.status)).into_owned()];
    lines.extend(traffic(look));
    let width = terminal::width();
    let rows: Vec<[String; 7]> = look.nodes.iter().map(|node| row(node, look)).collect();
    let headings = [
        "NODE",
        "ZONE",
        "STATE",
        "ROUND TRIP",
        "SCRUB",
        "TO FETCH",
        "DAMAGED",
    ];
    lines.push(String::new());
    lines.extend(table::lines(headings, &rows, width, terminal::colours()));
    lines.push(String::new());
    let advice = look.repair.advice.iter();
    lines.extend(advice.map(|line| escape::line(line).into_owned()));
    if let Some(height) = height {
        // One screen: what does not fit is left out, and the last line stays free.
        lines.truncate(height.saturating_sub(1));
        table::painted("\x1b[H\x1b[2J")?;
    }
    lines.iter().try_for_each(|line| table::painted(line))
}

fn headline(status: &NodeStatus) -> String {
    let cluster = status.cluster.as_ref().map(|cluster| {
        let state = cluster.state.name();
        let nodes = table::count(cluster.nodes.into(), "node");
        let zones = table::count(cluster.zones.into(), "zone");
        format!(
            "{state}: {nodes}, {zones}, layout {}",
            cluster.layout_version
        )
    });
    let short: String = status.node_id.chars().take(8).collect();
    format!(
        "{}; asked node {short}, up {}",
        cluster.unwrap_or("in no layout".into()),
        table::span(status.uptime_seconds)
    )
}

/// Describes the traffic of the asked node in lines that fit a terminal.
fn traffic(look: &Look) -> Vec<String> {
    let Some(rates) = &look.rates else {
        return vec!["traffic of this node: known from the second look on".into()];
    };
    let shown = |(label, name): &(&str, &'static str)| {
        let rate = rates.get(name)?;
        Some(match name.contains("bytes") {
            true => format!("{label} {}/s", size::show(*rate as u64)),
            false => format!("{label} {rate:.1}/s"),
        })
    };
    let line = |some: &[(&'static str, &'static str)]| {
        let each: Vec<String> = some.iter().filter_map(shown).collect();
        format!("this node: {}", each.join(", "))
    };
    RATES.chunks(3).map(line).collect()
}

fn row(node: &NodeInfo, look: &Look) -> [String; 7] {
    let told = look.repair.nodes.iter().find(|told| told.node == node.id);
    let told = told.filter(|told| told.away.is_none());
    let of = |show: fn(&RepairNode) -> String| told.map_or("-".into(), show);
    let trip = node.round_trip_ms.map(|ms| format!("{ms:.1} ms"));
    let trip = trip.filter(|_| node.state != NodeState::Itself);
    [
        node.short.clone(),
        node.zone.clone().unwrap_or("-".into()),
        node.state.name().to_owned(),
        trip.unwrap_or("-".into()),
        of(|told| match told.scrub.running {
            true => format!("{} %", scrub::percent(&told.scrub)),
            false => "-".into(),
        }),
        of(|told| {
            let rows: u64 = told.behind.iter().map(|behind| behind.rows).sum();
            table::count(rows, "row")
        }),
        of(|told| told.repair.waiting.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# TYPE archipel_s3_requests counter
archipel_s3_requests_total{operation=\"GetObject\",status=\"200\"} 30
archipel_s3_requests_total{operation=\"PutObject\",status=\"200\"} 12
archipel_s3_requests_in_flight 7
";

    #[test]
    fn counters_are_summed_over_their_labels() {
        let sums = counters(TEXT);
        assert_eq!(sums.get("archipel_s3_requests_total"), Some(&42.0));
        assert_eq!(sums.len(), 1);
    }

    #[test]
    fn a_rate_is_what_came_in_the_time_and_never_negative() {
        let (old, new) = (counters(TEXT), counters(&TEXT.replace(" 30", " 50")));
        assert_eq!(
            rates(&old, &new, 2.0).get("archipel_s3_requests_total"),
            Some(&10.0)
        );
        assert_eq!(
            rates(&new, &old, 2.0).get("archipel_s3_requests_total"),
            Some(&0.0)
        );
    }
}
