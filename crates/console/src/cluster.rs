//! The cluster: nodes by zone, what goes on, and the disks of the node that was asked.

use std::collections::BTreeMap;

use archipel_api::admin::types::{
    ClusterState, DiskStatus, Join, LayoutInfo, NodeInfo, NodeState, NodeStatus, OperationInfo,
    OperationState,
};
use askama::Template;
use axum::body::Body;
use axum::extract::State;
use http::{Method, Response};
use serde_json::Value;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

#[derive(Template)]
#[template(path = "cluster.html")]
struct ClusterPage {
    frame: Frame,
    live: Live,
}

/// The part that is fetched again and again. A part that the token may not read says so.
#[derive(Template)]
#[template(path = "cluster_live.html")]
struct Live {
    csrf: String,
    status: Result<StatusView, String>,
    zones: Result<Vec<Zone>, String>,
    operations: Result<Operations, String>,
}

struct StatusView {
    status: NodeStatus,
}

struct Zone {
    name: String,
    nodes: Vec<NodeView>,
}

struct NodeView {
    node: NodeInfo,
    /// Its share of all copies, if the layout is known.
    share: Option<(u32, u64)>,
    now_ms: u64,
}

struct Operations {
    busy: Vec<OperationView>,
    idle: Vec<OperationView>,
}

struct OperationView(OperationInfo);

/// Sends to the first page.
pub async fn home(_: User) -> Response<Body> {
    see("/cluster")
}

/// Shows the page.
pub async fn show(State(app): State<App>, user: User) -> Shown {
    let live = look(&app, &user).await?;
    let frame = Frame::new(&user, "cluster");
    Ok(html(&ClusterPage { frame, live }))
}

/// Admits or dismisses a node, or connects to one: the form says what.
pub async fn change(State(app): State<App>, posted: Posted) -> Shown {
    let (admin, fields) = (posted.user.admin(&app), &posted.fields);
    let node = path(&["v1", "nodes", fields.get("node"), "admission"]);
    match fields.get("change") {
        "admit" => {
            let _: Value = admin.send(Method::PUT, &node, &Value::Null).await?;
        }
        "dismiss" => admin.delete(&node).await?,
        "join" => {
            let addresses = fields.get("addresses").split([',', ' ']);
            let addresses = addresses.filter(|address| !address.is_empty());
            let ask = Join {
                addresses: addresses.map(str::to_owned).collect(),
            };
            let _: Value = admin.send(Method::POST, "/v1/nodes/join", &ask).await?;
        }
        other => return Err(Fault::invalid(format!("there is no change {other:?}"))),
    }
    Ok(see("/cluster"))
}

/// Shows the part that changes.
pub async fn live(State(app): State<App>, user: User) -> Shown {
    Ok(html(&look(&app, &user).await?))
}

async fn look(app: &App, user: &User) -> Result<Live, Fault> {
    let admin = user.admin(app);
    let (status, nodes, layout, operations) = tokio::join!(
        admin.get::<NodeStatus>("/v1/status"),
        admin.list::<NodeInfo>("/v1/nodes"),
        admin.get::<LayoutInfo>("/v1/layout"),
        admin.list::<OperationInfo>("/v1/operations"),
    );
    let now_ms = app.clock.now_millis();
    let layout = visible(layout)?.ok();
    let zones = visible(nodes)?.map(|nodes| zones(nodes, layout.as_ref(), now_ms));
    Ok(Live {
        csrf: user.session.csrf.clone(),
        status: visible(status)?.map(|status| StatusView { status }),
        zones,
        operations: visible(operations)?.map(Operations::new),
    })
}

/// Returns a part of the page, or why it is not shown. The end of the login ends the page.
fn visible<T>(part: Result<T, Fault>) -> Result<Result<T, String>, Fault> {
    match part {
        Ok(part) => Ok(Ok(part)),
        Err(fault) if fault.status == http::StatusCode::UNAUTHORIZED => Err(fault),
        Err(fault) => Ok(Err(fault.detail)),
    }
}

fn zones(nodes: Vec<NodeInfo>, layout: Option<&LayoutInfo>, now_ms: u64) -> Vec<Zone> {
    let mut zones: BTreeMap<String, Vec<NodeView>> = BTreeMap::new();
    for node in nodes {
        let of_layout = layout.and_then(|layout| layout.nodes.iter().find(|n| n.id == node.id));
        let share = of_layout.map(|n| (n.partitions, (n.share * 100.0).round() as u64));
        let zone = node.zone.clone().unwrap_or_else(|| "no zone yet".into());
        zones.entry(zone).or_default().push(NodeView {
            node,
            share,
            now_ms,
        });
    }
    let zones = zones.into_iter();
    zones.map(|(name, nodes)| Zone { name, nodes }).collect()
}

impl StatusView {
    fn tone(&self) -> &'static str {
        match self.status.cluster.as_ref().map(|cluster| cluster.state) {
            Some(ClusterState::Healthy) if self.status.troubles.is_empty() => "good",
            Some(ClusterState::Healthy | ClusterState::Degraded) => "warn",
            Some(ClusterState::Unavailable) => "bad",
            None => "idle",
        }
    }

    fn state(&self) -> &'static str {
        match &self.status.cluster {
            Some(cluster) => cluster.state.name(),
            None => "in no cluster yet",
        }
    }

    /// Returns faults, risks and advice.
    fn remarks(&self) -> Vec<&str> {
        let of_cluster = self.status.cluster.iter().flat_map(|c| &c.advice);
        let all = self.status.troubles.iter().chain(of_cluster);
        let all = all.chain(&self.status.warnings);
        all.map(String::as_str).collect()
    }

    fn buckets(&self) -> String {
        self.status.buckets.map_or("unknown".into(), show::count)
    }

    fn keys(&self) -> String {
        self.status
            .access_keys
            .map_or("unknown".into(), show::count)
    }

    fn metadata(&self) -> String {
        show::bytes(self.status.metadata_bytes)
    }

    fn uptime(&self) -> String {
        show::duration(self.status.uptime_seconds)
    }

    fn damaged(&self) -> u64 {
        self.status.upkeep.repair.waiting
    }

    fn behind(&self) -> String {
        show::count(self.status.upkeep.anti_entropy.rows)
    }

    fn disks(&self) -> Vec<DiskView<'_>> {
        self.status.disks.iter().map(DiskView).collect()
    }
}

struct DiskView<'a>(&'a DiskStatus);

impl DiskView<'_> {
    fn tone(&self) -> &'static str {
        match self.0.state.as_str() {
            "healthy" => "good",
            "draining" => "busy",
            "full" => "warn",
            _ => "bad",
        }
    }

    /// Returns how many hundredths are not free: other programs' data counts, too.
    fn taken(&self) -> u64 {
        let taken = self.0.capacity_bytes.saturating_sub(self.0.free_bytes);
        show::percent(taken, self.0.capacity_bytes)
    }

    fn used(&self) -> String {
        show::bytes(self.0.used_bytes)
    }

    fn free(&self) -> String {
        show::bytes(self.0.free_bytes)
    }
}

impl NodeView {
    fn tone(&self) -> &'static str {
        match self.node.state {
            NodeState::Alive | NodeState::Itself => "good",
            NodeState::Suspected => "warn",
            NodeState::Gone => "bad",
        }
    }

    fn state(&self) -> String {
        match self.node.state {
            NodeState::Itself => "answers this page".into(),
            NodeState::Alive => "alive".into(),
            state if self.node.since_ms == 0 => format!("{}, never seen", state.name()),
            state => {
                let silent = self.now_ms.saturating_sub(self.node.since_ms) / 1000;
                format!("{}, silent for {}", state.name(), show::duration(silent))
            }
        }
    }

    fn capacity(&self) -> String {
        match self.node.capacity_bytes {
            Some(0) => "gateway".into(),
            Some(bytes) => show::bytes(bytes),
            None => "unknown".into(),
        }
    }

    fn latency(&self) -> String {
        let ms = self.node.round_trip_ms;
        ms.map_or("–".into(), |ms| format!("{ms:.1} ms"))
    }

    fn holds(&self) -> String {
        match self.share {
            Some((partitions, percent)) => format!("{partitions} partitions, {percent} %"),
            None => "not in the layout".into(),
        }
    }
}

impl Operations {
    fn new(all: Vec<OperationInfo>) -> Operations {
        let (idle, busy): (Vec<_>, Vec<_>) = all
            .into_iter()
            .map(OperationView)
            .partition(|op| matches!(op.0.state, OperationState::Idle | OperationState::Done));
        Operations { busy, idle }
    }
}

impl OperationView {
    fn tone(&self) -> &'static str {
        match self.0.state {
            OperationState::Running => "busy",
            OperationState::Stuck => "bad",
            OperationState::Unknown => "warn",
            OperationState::Idle | OperationState::Done => "idle",
        }
    }

    fn percent(&self) -> Option<u64> {
        self.0.all.map(|all| show::percent(self.0.done, all))
    }

    fn amount(&self) -> String {
        let unit = self.0.unit.as_deref().unwrap_or_default();
        let number = |n: u64| match unit {
            "bytes" => show::bytes(n),
            unit => format!("{} {unit}", show::count(n)),
        };
        match (self.0.all, self.0.left) {
            (Some(all), _) => format!("{} of {}", number(self.0.done), number(all)),
            (None, Some(left)) => format!("{} left", number(left)),
            (None, None) => String::new(),
        }
    }

    fn times(&self) -> String {
        let parts = [
            ("began", self.0.began_ms),
            ("ended", self.0.ended_ms),
            ("next", self.0.next_ms),
        ];
        let parts = parts.iter().filter_map(|(name, ms)| {
            let ms = ms.filter(|ms| *ms > 0)?;
            Some(format!("{name} {}", show::time(ms)))
        });
        parts.collect::<Vec<_>>().join(" · ")
    }
}
