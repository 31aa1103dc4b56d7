//! The cluster: nodes by zone, what goes on, and the disks of the node that was asked.

use std::time::Duration;

use archipel_api::admin::types::{
    ClusterState, DiskStatus, Join, LayoutInfo, NodeInfo, NodeStatus, OperationInfo, OperationKind,
    OperationState, RepairInfo,
};
use askama::Template;
use axum::body::Body;
use axum::extract::{Query, State};
use http::{Method, Response};
use serde::Deserialize;
use serde_json::Value;

use crate::App;
use crate::backend::path;
use crate::fault::Fault;
use crate::page::{Frame, Shown};
use crate::render::{html, see};
use crate::request::{Posted, User};
use crate::show;

mod node;
use node::{Zone, zones};

/// The query of the page.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// Anything to wait for the answers of all nodes: without scripts nothing is fetched later.
    wait: String,
}

#[derive(Template)]
#[template(path = "cluster.html")]
struct ClusterPage {
    frame: Frame,
    live: Live,
}

/// The time that the page waits for the answers of other nodes. A node that does not answer takes seconds.
const PATIENCE: Duration = Duration::from_millis(200);

/// The time that the page waits when it fetches a part of itself again.
const LONG_PATIENCE: Duration = Duration::from_secs(30);

/// The part that is fetched again and again. A part that the token may not read says so.
#[derive(Template)]
#[template(path = "cluster_live.html")]
struct Live {
    csrf: String,
    status: Result<StatusView, String>,
    zones: Result<Vec<Zone>, String>,
    operations: Result<Operations, String>,
    /// True if some node has not answered yet: the page fetches this part again at once.
    is_early: bool,
}

/// The repairs and operations of all nodes.
type Told = (Result<RepairInfo, Fault>, Result<Vec<OperationInfo>, Fault>);

struct StatusView {
    status: NodeStatus,
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
pub async fn show(State(app): State<App>, user: User, Query(waiting): Query<Waiting>) -> Shown {
    let patience = match waiting.wait.is_empty() {
        true => PATIENCE,
        false => LONG_PATIENCE,
    };
    let live = look(&app, &user, patience).await?;
    let frame = Frame::new(&user, "cluster");
    Ok(html(&ClusterPage { frame, live }))
}

/// Admits or dismisses a node, connects to one, or stops an operation: the form says what.
pub async fn change(State(app): State<App>, posted: Posted) -> Shown {
    let (admin, fields) = (posted.user.admin(&app), &posted.fields);
    let node = path(&["v1", "nodes", fields.get("node"), "admission"]);
    match fields.get("change") {
        "admit" => {
            let _: Value = admin.send(Method::PUT, &node, &Value::Null).await?;
        }
        "dismiss" => admin.delete(&node).await?,
        "stop" => {
            let of_api = path(&["v1", "operations", fields.get("operation"), "cancel"]);
            let _: Value = admin.send(Method::POST, &of_api, &Value::Null).await?;
        }
        "join" => {
            let addresses = fields.get("addresses").split([',', ' ']);
            let addresses = addresses.filter(|address| !address.is_empty());
            let ask = Join {
                addresses: addresses.map(str::to_owned).collect(),
            };
            let _: Value = admin.send(Method::POST, "/v1/nodes/join", &ask).await?;
        }
        other => return Err(Fault::unknown_change(other)),
    }
    Ok(see("/cluster"))
}

/// Shows the part that changes.
pub async fn live(State(app): State<App>, user: User) -> Shown {
    Ok(html(&look(&app, &user, LONG_PATIENCE).await?))
}

async fn look(app: &App, user: &User, patience: Duration) -> Result<Live, Fault> {
    // A task, so that the requests come to their end, and are audited with their answers.
    let asked = tokio::spawn(ask_nodes(app.clone(), user.clone()));
    let admin = user.admin(app);
    let (status, nodes, layout, told) = tokio::join!(
        admin.get::<NodeStatus>("/v1/status"),
        admin.list::<NodeInfo>("/v1/nodes"),
        admin.get::<LayoutInfo>("/v1/layout"),
        tokio::time::timeout(patience, asked),
    );
    let is_early = told.is_err();
    let (repair, operations) = match told {
        Ok(told) => told.map_err(|error| Fault::internal(&error))?,
        Err(_) => (Ok(RepairInfo::default()), Ok(Vec::new())),
    };
    let now_ms = app.clock.now_millis();
    let layout = visible(layout)?.ok();
    let health = visible(repair)?.map(|told| told.nodes).unwrap_or_default();
    let zones = visible(nodes)?.map(|nodes| zones(nodes, layout.as_ref(), health, now_ms));
    Ok(Live {
        csrf: user.session.csrf.clone(),
        status: visible(status)?.map(|status| StatusView { status }),
        zones,
        operations: visible(operations)?.map(Operations::new),
        is_early,
    })
}

/// Asks all nodes for their repairs and operations.
async fn ask_nodes(app: App, user: User) -> Told {
    let admin = user.admin(&app);
    tokio::join!(admin.get("/v1/repair"), admin.list("/v1/operations"))
}

/// Returns a part of the page, or why it is not shown. The end of the login ends the page.
fn visible<T>(part: Result<T, Fault>) -> Result<Result<T, String>, Fault> {
    match part {
        Ok(part) => Ok(Ok(part)),
        Err(fault) if fault.status == http::StatusCode::UNAUTHORIZED => Err(fault),
        Err(fault) => Ok(Err(fault.detail)),
    }
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
            "healthy" | "drained" => "good",
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
    /// Returns whether an operator may end it before it is done.
    fn can_stop(&self) -> bool {
        use OperationKind::{Lifecycle, Scrub, Verification};
        // A walk of lifecycle rules that cannot begin goes on waiting until it is stopped.
        let is_under_way = matches!(
            self.0.state,
            OperationState::Running | OperationState::Stuck
        );
        is_under_way && matches!(self.0.kind, Scrub | Verification | Lifecycle)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_the_api_cancels_can_be_stopped() {
        use OperationKind::{LayoutChange, Lifecycle, Scrub};
        use OperationState::{Idle, Running, Stuck};
        let can_stop = |kind, state| {
            let one = OperationInfo {
                kind,
                state,
                ..OperationInfo::default()
            };
            OperationView(one).can_stop()
        };
        assert!(can_stop(Scrub, Running) && can_stop(Lifecycle, Running));
        assert!(can_stop(Lifecycle, Stuck));
        assert!(!can_stop(Lifecycle, Idle) && !can_stop(LayoutChange, Stuck));
    }
}
