//! The parts that a node is made of.

use std::sync::Arc;

use archipel_base::clock::WallClock;
use archipel_base::random::Random;
use archipel_base::stamp::StampClock;
use archipel_base::{Id, NodeId};
use archipel_net::rpc::Rpc;
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, Store, Value, VersionName};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::peers::Directory;
use crate::node::sizes::Sizes;
use crate::node::times::Times;
use crate::register::Intent;
use crate::register::versions::MOST_DEAD;

/// The rules that the model adds to rows.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Returns the GC task that follows from a row's replacement, for the durable work queue.
    /// Called in the transaction of the change.
    pub on_replace: fn(&RowKey, &Value, Option<&Value>) -> Option<Bytes>,
    /// Returns the row of the same partition that points to the write of this value, and the write.
    pub points: fn(&RowKey, &Value) -> Option<(RowKey, Intent)>,
    /// Returns the write that a row with this metadata points to.
    pub intent: fn(&[u8]) -> Option<Intent>,
    /// Returns the value of a row once it points to a write. `None` if the value cannot be read.
    pub with_intent: fn(&Value, Intent) -> Option<Value>,
    /// Returns true if a live row with this metadata holds as a guard of a write that expects
    /// this of it: see [`Guard`](crate::Guard).
    pub holds: fn(&RowKey, &[u8], &[u8]) -> bool,
    /// Returns the limit that a live row with this metadata sets as a guard, if it sets one.
    pub limit: fn(&RowKey, &[u8]) -> Option<UsageLimit>,
    /// Returns the beginning of the keys of an object's kept versions, by the key of the object's
    /// row, and sorts after the rows of all objects. Sixteen bytes follow it. `None` for rows
    /// without versions.
    pub kept_prefix: fn(&RowKey) -> Option<Bytes>,
    /// Returns the object's row and the name of the version that a kept row holds.
    pub kept_in: fn(&RowKey) -> Option<(RowKey, VersionName)>,
    /// Returns true if a version does not permit at this time, in milliseconds since 1970, what an
    /// operation would take from it: see [`Taking`].
    pub refuses: fn(&Value, &[u8], u64) -> bool,
    /// Returns the topics under which changes of this row are told to those who
    /// [watch](crate::Watch) them; `None` if nobody may watch it.
    pub topics: fn(&RowKey) -> Option<Topics>,
    /// The largest number of versions that a replica tells, dead ones among them, to find the
    /// newest living one: [`MOST_DEAD`], but for tests. It is the same on all nodes, because a
    /// shorter list is taken for all that there is.
    pub most_dead: usize,
}

/// A thing that an operation would take from a version of an object: the version itself, or a
/// protection that it has. Each replica that holds the version may [refuse](Hooks::refuses) it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Taking {
    /// The name of the version.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub from: VersionName,
    /// The thing that is taken, in the model's encoding.
    #[serde(rename = "w")]
    pub what: Bytes,
}

/// A limit on a counter of a partition. A replica refuses what would lift its own counter above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsageLimit {
    /// The counter's identity: a bucket.
    pub group: Id,
    /// The most objects.
    pub objects: u64,
    /// The most bytes.
    pub bytes: u64,
}

/// The two topics of a change: numbers that the model derives from the row's key. Two rows may have
/// the same number; a watcher looks at its row anyway.
pub type Topics = [u64; 2];

impl Hooks {
    /// Hooks that do nothing: each live row holds.
    pub const NONE: Hooks = Hooks {
        on_replace: |_, _, _| None,
        points: |_, _| None,
        intent: |_| None,
        with_intent: |_, _| None,
        holds: |_, _, _| true,
        limit: |_, _| None,
        kept_prefix: |_| None,
        kept_in: |_| None,
        refuses: |_, _, _| false,
        topics: |_| None,
        most_dead: MOST_DEAD,
    };
}

/// The membership, as it answers other nodes.
#[async_trait]
pub trait Listener: Send + Sync + 'static {
    /// Answers gossip of another node.
    async fn gossip(&self, from: NodeId, message: Bytes) -> Result<Bytes, String>;
}

/// The parts of which a cluster is opened.
pub struct ClusterOptions {
    /// The local store.
    pub store: Store,
    /// This node.
    pub node: NodeId,
    /// The highest feature level that this node speaks: [`LEVEL`](crate::layout::LEVEL), but for
    /// tests.
    pub level: u32,
    /// Issues stamps for this run of this node.
    pub stamps: StampClock,
    /// The time of day.
    pub wall: Arc<dyn WallClock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// The durability of buckets that have no setting of their own.
    pub durability: Durability,
    /// The sizes of pages, messages and transactions.
    pub sizes: Sizes,
    /// The node's waiting times.
    pub times: Times,
    /// The rules of the model.
    pub hooks: Hooks,
    /// The connections to other nodes; `None` for a node that stays alone.
    pub network: Option<Network>,
}

/// The part of the options that does not change.
pub(crate) struct Settings {
    pub store: Store,
    pub stamps: StampClock,
    pub wall: Arc<dyn WallClock>,
    pub random: Arc<dyn Random>,
    pub durability: Durability,
    pub sizes: Sizes,
    pub times: Times,
}

/// The connections to other nodes.
pub struct Network {
    /// Calls other nodes.
    pub rpc: Rpc,
    /// Knows the addresses of nodes.
    pub directory: Arc<dyn Directory>,
    /// Answers gossip.
    pub listener: Arc<dyn Listener>,
}
