//! Nodes, layouts and the state of the cluster in the admin API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node in `GET /v1/nodes`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct NodeInfo {
    /// Its identity: its public key, 64 hexadecimal digits.
    pub id: String,
    /// The first digits of it, enough to tell nodes apart.
    pub short: String,
    /// The name of its store, 32 hexadecimal digits; another one if its disks were lost.
    pub store: String,
    /// Its zone: that of the layout, or else the one that the node reports.
    pub zone: Option<String>,
    /// The capacity in bytes: that of the layout, or else the one that the node reports; 0 for a
    /// gateway.
    pub capacity_bytes: Option<u64>,
    /// The addresses at which other nodes reach it.
    pub addresses: Vec<String>,
    /// The state of the node as this node sees it.
    pub state: NodeState,
    /// The time of its last sign of life, in milliseconds since 1970; 0 if there was none. For the
    /// node that answers, the time of its start.
    pub since_ms: u64,
    /// Its release; empty if unknown.
    pub version: String,
    /// The epoch of the layout that it knows; 0 if unknown.
    pub epoch: u64,
    /// True if it has told an older epoch than this node knows for a minute: it answers, and learns
    /// no newer layouts.
    #[serde(default)]
    pub lagging: bool,
    /// The highest feature level that it speaks; 0 if unknown.
    #[serde(default)]
    pub level: u32,
    /// The round-trip time in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// The transport between it and this node: `quic` or `tcp`; empty if unknown.
    #[serde(default)]
    pub transport: String,
    /// True if a live layout contains it.
    pub in_layout: bool,
    /// True if an operator admitted it: other nodes answer it although it is in no layout.
    #[serde(default)]
    pub admitted: bool,
}

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It answers.
    Alive,
    /// It has not answered lately.
    Suspected,
    /// It has been silent for long, or was never seen.
    #[default]
    Gone,
    /// It is the node that was asked.
    #[serde(rename = "self")]
    Itself,
}

impl NodeState {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            NodeState::Alive => "alive",
            NodeState::Suspected => "suspected",
            NodeState::Gone => "gone",
            NodeState::Itself => "self",
        }
    }

    /// Returns true if the node answers now.
    pub fn answers(self) -> bool {
        matches!(self, NodeState::Alive | NodeState::Itself)
    }
}

/// `POST /v1/nodes/join`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Nodes of the cluster to join: `host:port` each; one that answers is enough.
    pub addresses: Vec<String>,
}

/// The number of copies, and of zones that hold them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Redundancy {
    /// Copies of everything, on as many nodes.
    pub replicas: u8,
    /// The fewest zones that hold copies. If absent, all zones, up to one for each copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<u8>,
}

/// `GET /v1/layout`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LayoutInfo {
    /// The number of the newest layout version.
    pub version: u64,
    /// The number of the epoch, which grows with each version that begins or ends.
    pub epoch: u64,
    /// The number of copies.
    pub redundancy: Redundancy,
    /// The number of partitions.
    pub partitions: u32,
    /// The nodes and their shares.
    pub nodes: Vec<LayoutNode>,
    /// The staged changes, if there are any.
    pub staged: Option<StagedInfo>,
    /// The reason why the staged changes are unknown, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged_unknown: Option<String>,
    /// The progress of a change that is under way.
    pub progress: Option<ProgressInfo>,
}

/// A node's part in a layout.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LayoutNode {
    /// The node.
    pub id: String,
    /// The first digits of its id.
    pub short: String,
    /// Its zone.
    pub zone: String,
    /// The capacity in bytes; 0 for a gateway.
    pub capacity_bytes: u64,
    /// The number of partitions of which it holds a copy.
    pub partitions: u32,
    /// Its share of all copies: 0 to 1.
    pub share: f64,
    /// True if it holds buckets, keys and the layout.
    pub control: bool,
}

/// The staged changes and their consequences.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StagedInfo {
    /// The layout version that it would become.
    pub version: u64,
    /// The number of times that the staged changes were edited.
    #[serde(default)]
    pub revision: u64,
    /// Nodes that join, change or leave.
    pub nodes: Vec<StagedNode>,
    /// The new number of copies, if it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<Redundancy>,
    /// The data that would move and the reasons, in plain words.
    pub plan: Vec<String>,
    /// The reason why the changes cannot be applied, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The layout that it would become; empty if it cannot be applied.
    pub result: Vec<LayoutNode>,
}

/// A node that comes, changes or goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StagedNode {
    /// The node.
    pub id: String,
    /// The first digits of its id.
    pub short: String,
    /// The node's new role; absent if the node leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<StagedRole>,
}

/// The new role of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StagedRole {
    /// Its zone.
    pub zone: String,
    /// The capacity in bytes; 0 for a gateway.
    pub capacity_bytes: u64,
}

/// The progress of a layout change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProgressInfo {
    /// The layout version that data moves from.
    pub from_version: u64,
    /// The one that it moves to.
    pub to_version: u64,
    /// The number of partitions that move.
    pub partitions: u32,
    /// The number of them that are done.
    pub done: u32,
    /// The number of rows that were looked at.
    pub rows: u64,
    /// The reason why the change is stuck, if it is.
    pub trouble: Option<String>,
    /// The node that drives it.
    pub driver: String,
}

/// `POST /v1/layout/stage`: what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Nodes that join or change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assign: Vec<Assign>,
    /// Nodes that leave: an id, the unambiguous beginning of one, or `self`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// The new number of copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<Redundancy>,
}

/// A node that comes or changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// An id, the unambiguous beginning of one, or `self`.
    pub node: String,
    /// Its zone. If absent, the former one, or the one that the node reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The capacity in bytes, 0 for a gateway. If absent, the former one, or the one that the node
    /// reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
}

/// `POST /v1/layout/apply`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// The version that is staged, as it was shown.
    pub version: u64,
    /// The revision of the staged changes that the client saw: later ones are not applied unseen.
    /// If absent, any revision is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// `POST /v1/layout/remove-dead`
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveDead {
    /// The node that is lost for good: an id, or the unambiguous beginning of one.
    pub node: String,
    /// True to do it; false to learn the consequences only.
    #[serde(default)]
    pub confirm: bool,
}

/// The consequences of no longer waiting for a dead node.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RemovedInfo {
    /// The node.
    pub id: String,
    /// The layout version that waits for it.
    pub version: u64,
    /// True if acknowledged data may be lost.
    pub may_lose: bool,
    /// The consequences in plain words: how many copies are left of how many partitions.
    pub risk: Vec<String>,
    /// True if it was done.
    pub done: bool,
}

/// An entry in `GET /v1/layout/history`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct HistoryInfo {
    /// The epoch.
    pub epoch: u64,
    /// The layout versions that were live in it.
    pub versions: Vec<u64>,
    /// The start, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The state of the cluster, in `GET /v1/status`, as this node sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClusterStatus {
    /// Nodes in the layout.
    pub nodes: u32,
    /// Their zones.
    pub zones: u32,
    /// The newest layout version.
    pub layout_version: u64,
    /// The epoch.
    pub epoch: u64,
    /// The feature level that all nodes speak.
    #[serde(default)]
    pub level: u32,
    /// True if data moves to a newer layout version.
    pub changing: bool,
    /// The state in one word.
    pub state: ClusterState,
    /// The number of partitions that lack a copy.
    pub partitions_short: u32,
    /// The number of partitions without a reachable majority: their objects can be neither read nor
    /// written.
    pub partitions_stopped: u32,
    /// Faults, risks and advice, in plain words.
    pub advice: Vec<String>,
}

/// The state of the cluster in one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClusterState {
    /// All nodes of the layout answer.
    Healthy,
    /// Some do not answer; everything can be read and written.
    Degraded,
    /// So many do not answer that something cannot be read or written.
    Unavailable,
}

impl ClusterState {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ClusterState::Healthy => "healthy",
            ClusterState::Degraded => "degraded",
            ClusterState::Unavailable => "unavailable",
        }
    }
}
