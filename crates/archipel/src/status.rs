//! What the node says of itself: for `archipel status` and `/health`.

use std::net::SocketAddr;
use std::sync::Arc;

use archipel_api::admin::Node;
use archipel_api::admin::types::{DiskStatus, NodeStatus};
use archipel_base::clock::WallClock;
use archipel_storage::Store;
use futures_util::future::BoxFuture;

use crate::config::{Settings, durability_name};
use crate::identity::Identity;
use crate::version;

/// The node as the admin API shows it.
pub struct NodeView {
    settings: Arc<Settings>,
    store: Store,
    node_id: String,
    s3_address: SocketAddr,
    clock: Arc<dyn WallClock>,
    started_ms: u64,
}

impl NodeView {
    /// Looks at a node that starts now.
    pub fn new(
        settings: Arc<Settings>,
        store: Store,
        identity: &Identity,
        s3_address: SocketAddr,
        clock: Arc<dyn WallClock>,
    ) -> NodeView {
        NodeView {
            settings,
            store,
            node_id: identity.node_id(),
            s3_address,
            started_ms: clock.now_millis(),
            clock,
        }
    }

    async fn look(&self) -> NodeStatus {
        let disks = self.disks().await;
        let mut status = NodeStatus {
            node_id: self.node_id.clone(),
            version: version::VERSION.into(),
            commit: version::COMMIT.map(String::from),
            boot: self.store.boot(),
            uptime_seconds: self.clock.now_millis().saturating_sub(self.started_ms) / 1000,
            s3_endpoint: format!("http://{}", self.s3_address),
            region: self.settings.s3.region.clone(),
            engine: self.settings.engine.name().into(),
            durability: durability_name(self.settings.durability).into(),
            ..NodeStatus::default()
        };
        match self.store.status().await {
            Ok(store) => {
                status.metadata_bytes = store.metadata_bytes;
                let read_only = store
                    .read_only
                    .map(|why| format!("metadata takes no writes: {why}"));
                status.troubles.extend(read_only);
            }
            Err(error) => status.troubles.push(format!("metadata: {error}")),
        }
        status.troubles.extend(disks.iter().filter_map(trouble));
        status.disks = disks;
        status
    }

    async fn disks(&self) -> Vec<DiskStatus> {
        Vec::new()
    }
}

fn trouble(disk: &DiskStatus) -> Option<String> {
    let failed = disk.state.starts_with("failed");
    failed.then(|| format!("disk {}: {}", disk.path, disk.state))
}

impl Node for NodeView {
    fn status(&self) -> BoxFuture<'_, NodeStatus> {
        Box::pin(self.look())
    }
}
