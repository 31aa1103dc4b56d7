//! Nodes, layouts and the state of the cluster, as the admin API shows them.

use serde::{Deserialize, Serialize};

/// A node in `GET /v1/nodes`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its identity: its public key, 64 hexadecimal digits.
    pub id: String,
    /// The first digits of it, enough to tell nodes apart.
    pub short: String,
    /// The name of its store, 32 hexadecimal digits; another one if its disks were lost.
    pub store: String,
    /// Its site, as the layout says, or else as the node itself tells.
    pub zone: Option<String>,
    /// How much it may hold, in bytes, as the layout says, or else as the node itself tells; 0 for a gateway.
    pub capacity_bytes: Option<u64>,
    /// Where other nodes reach it.
    pub addresses: Vec<String>,
    /// Whether it is there, as this node sees it.
    pub state: NodeState,
    /// When it was last heard of (of itself: when it started), in milliseconds since 1970; 0 if never.
    pub since_ms: u64,
    /// Its release; empty if unknown.
    pub version: String,
    /// The epoch of the layout that it knows; 0 if unknown.
    pub epoch: u64,
    /// How long a message takes there and back, in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// What carries what goes between it and this node: `quic` or `tcp`; empty if unknown.
    #[serde(default)]
    pub transport: String,
    /// Whether a live layout has it.
    pub in_layout: bool,
}

/// Whether a node is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It answers.
    Alive,
    /// It did not answer lately.
    Suspected,
    /// It was not heard of for long, or never.
    #[default]
    Gone,
    /// It is the node that was asked.
    #[serde(rename = "self")]
    Itself,
}

impl NodeState {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            NodeState::Alive => "alive",
            NodeState::Suspected => "suspected",
            NodeState::Gone => "gone",
            NodeState::Itself => "self",
        }
    }

    /// Whether it can be counted on now.
    pub fn answers(self) -> bool {
        matches!(self, NodeState::Alive | NodeState::Itself)
    }
}

/// `POST /v1/nodes/join`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Nodes of the cluster to join: `host:port` each; one that answers is enough.
    pub addresses: Vec<String>,
}

/// How many copies there are, and over how many zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redundancy {
    /// Copies of everything, on as many nodes.
    pub replicas: u8,
    /// In at least so many zones; absent: in as many as there are, up to one for each copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<u8>,
}

/// `GET /v1/layout`
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LayoutInfo {
    /// The number of the newest layout version.
    pub version: u64,
    /// The number of the epoch, which grows with each version that begins or ends.
    pub epoch: u64,
    /// How many copies there are.
    pub redundancy: Redundancy,
    /// How many partitions the data is divided into.
    pub partitions: u32,
    /// Who has which part.
    pub nodes: Vec<LayoutNode>,
    /// What is staged, if anything is.
    pub staged: Option<StagedInfo>,
    /// Why it cannot be known what is staged, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged_unknown: Option<String>,
    /// How far a change is that is under way.
    pub progress: Option<ProgressInfo>,
}

/// A node's part in a layout.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LayoutNode {
    /// The node.
    pub id: String,
    /// The first digits of its id.
    pub short: String,
    /// Its site.
    pub zone: String,
    /// How much it may hold, in bytes; 0 for a gateway.
    pub capacity_bytes: u64,
    /// Of how many partitions it holds a copy.
    pub partitions: u32,
    /// Of all copies, its share: 0 to 1.
    pub share: f64,
    /// Whether it holds buckets, keys and the layout.
    pub control: bool,
}

/// What is staged, and what it would lead to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StagedInfo {
    /// The layout version that it would become.
    pub version: u64,
    /// How often what is staged was changed.
    #[serde(default)]
    pub revision: u64,
    /// Nodes that come, change or go.
    pub nodes: Vec<StagedNode>,
    /// How many copies there are to be, if that changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<Redundancy>,
    /// What would move and why, in plain words.
    pub plan: Vec<String>,
    /// Why it cannot be applied, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The layout that it would become; empty if it cannot be applied.
    pub result: Vec<LayoutNode>,
}

/// A node that comes, changes or goes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StagedNode {
    /// The node.
    pub id: String,
    /// The first digits of its id.
    pub short: String,
    /// What it will be; absent if it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<StagedRole>,
}

/// What a node will be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StagedRole {
    /// Its site.
    pub zone: String,
    /// How much it may hold, in bytes; 0 for a gateway.
    pub capacity_bytes: u64,
}

/// How far a change of the layout is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgressInfo {
    /// The layout version that data moves from.
    pub from_version: u64,
    /// The one that it moves to.
    pub to_version: u64,
    /// How many partitions move.
    pub partitions: u32,
    /// How many of them are done.
    pub done: u32,
    /// How many rows were moved.
    pub rows: u64,
    /// Why it does not go on, if so.
    pub trouble: Option<String>,
    /// The node that drives it.
    pub driver: String,
}

/// `POST /v1/layout/stage`: what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Nodes that come or change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assign: Vec<Assign>,
    /// Nodes that go: an id, the unambiguous beginning of one, or `self`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// How many copies there are to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<Redundancy>,
}

/// A node that comes or changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// An id, the unambiguous beginning of one, or `self`.
    pub node: String,
    /// Its site; absent: as before, or as the node tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How much it may hold, in bytes, 0 for a gateway; absent: as before, or as the node tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
}

/// `POST /v1/layout/apply`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apply {
    /// The version that is staged, as it was shown.
    pub version: u64,
    /// The revision of what is staged, as it was shown: what was staged later is not applied unseen. Absent: whatever is staged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// `POST /v1/layout/skip-dead`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkipDead {
    /// The node that is lost for good: an id, or the unambiguous beginning of one.
    pub node: String,
    /// Whether it is to be done; otherwise it is only said what it would mean.
    #[serde(default)]
    pub confirm: bool,
}

/// What waiting no more for a node means.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SkippedInfo {
    /// The node.
    pub id: String,
    /// The layout version that waits for it.
    pub version: u64,
    /// Whether something that was acknowledged may be lost.
    pub may_lose: bool,
    /// What it means, in plain words: how many copies are left of how many partitions.
    pub risk: Vec<String>,
    /// Whether it was done.
    pub done: bool,
}

/// An entry in `GET /v1/layout/history`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryInfo {
    /// The epoch.
    pub epoch: u64,
    /// The layout versions that were live in it.
    pub versions: Vec<u64>,
    /// When it began, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The state of the cluster, in `GET /v1/status`, as this node sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Nodes in the layout.
    pub nodes: u32,
    /// Their zones.
    pub zones: u32,
    /// The newest layout version.
    pub layout_version: u64,
    /// The epoch.
    pub epoch: u64,
    /// Whether data moves to a newer layout version.
    pub changing: bool,
    /// In one word.
    pub state: ClusterState,
    /// How many partitions lack a copy.
    pub partitions_short: u32,
    /// How many have no majority of their copies in reach: what they hold cannot be read or written.
    pub partitions_stopped: u32,
    /// What is wrong, what is at risk and what to do, in plain words.
    pub advice: Vec<String>,
}

/// The state of the cluster in one word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClusterState {
    /// All nodes of the layout answer.
    Healthy,
    /// Some do not; everything can be read and written.
    Degraded,
    /// So many do not that something cannot be read or written.
    Unavailable,
}

impl ClusterState {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ClusterState::Healthy => "healthy",
            ClusterState::Degraded => "degraded",
            ClusterState::Unavailable => "unavailable",
        }
    }
}
