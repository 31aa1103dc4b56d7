//! The node's view of itself, for `archipel status` and `/health`.

use std::net::SocketAddr;
use std::sync::Arc;

use archipel_api::admin::Node;
use archipel_api::admin::types::{
    CertificateInfo, DiskStatus, NodeInfo, NodeState, NodeStatus, SnapshotInfo,
};
use archipel_base::Id;
use archipel_base::clock::WallClock;
use archipel_cluster::layout::LEVEL;
use archipel_cluster::membership::Member;
use archipel_net::dual::is_tcp;
use archipel_storage::blocks::{self, DiskState};
use archipel_storage::{Error, Store};
use futures_util::future::BoxFuture;

use crate::acme::Acme;
use crate::certificates::InUse;
use crate::config::{Settings, Transport, durability_name};
use crate::identity::Identity;
use crate::listeners::{self, Addresses};
use crate::network::Links;
use crate::snapshots;
use crate::storage::Storage;
use crate::version;

/// A suspected node that was silent for this long is shown as gone.
const GONE_MS: u64 = 60_000;

/// The node as the admin API shows it.
pub struct NodeView {
    settings: Arc<Settings>,
    store: Store,
    /// The numbers of the disks in the settings, in their order.
    numbers: Vec<u16>,
    /// Warnings about disks on one file system.
    shared_disks: Vec<String>,
    node_id: String,
    addresses: Addresses,
    clock: Arc<dyn WallClock>,
    links: Option<Links>,
    acme: Option<Acme>,
    certificates: InUse,
    started_ms: u64,
}

impl NodeView {
    /// Creates the view of a starting node.
    pub fn new(
        settings: Arc<Settings>,
        storage: Storage,
        identity: &Identity,
        addresses: Addresses,
        clock: Arc<dyn WallClock>,
        links: Option<Links>,
        acme: Option<Acme>,
    ) -> NodeView {
        NodeView {
            settings,
            store: storage.store,
            numbers: storage.disk_numbers,
            shared_disks: storage.shared_disks,
            node_id: identity.node_id(),
            addresses,
            started_ms: clock.now_millis(),
            clock,
            links,
            acme,
            certificates: InUse::default(),
        }
    }

    /// Warns of these certificates when they end.
    pub fn with_certificates(self, certificates: InUse) -> NodeView {
        NodeView {
            certificates,
            ..self
        }
    }

    fn url(&self, section: &str, address: SocketAddr) -> String {
        listeners::url(&self.settings, section, address)
    }

    async fn look(&self) -> NodeStatus {
        let disks = self.disks().await;
        let mut status = NodeStatus {
            node_id: self.node_id.clone(),
            version: version::VERSION.into(),
            commit: version::COMMIT.map(String::from),
            boot: self.store.boot(),
            uptime_seconds: self.clock.now_millis().saturating_sub(self.started_ms) / 1000,
            s3_endpoint: self.url("s3", self.addresses.s3),
            web_endpoint: self.addresses.web.map(|web| self.url("web", web)),
            k2v_endpoint: self.addresses.k2v.map(|k2v| self.url("k2v", k2v)),
            console_endpoint: self.addresses.console.map(|at| self.url("console", at)),
            region: self.settings.s3.region.clone(),
            engine: self.settings.engine.name().into(),
            durability: durability_name(self.settings.durability).into(),
            transport: self.links.as_ref().map(|l| l.transport.name().into()),
            warnings: listeners::plain_text(&self.settings, self.addresses),
            ..NodeStatus::default()
        };
        status.warnings.extend(self.shared_disks.clone());
        status
            .warnings
            .extend(self.links.iter().flat_map(Links::warnings));
        status
            .warnings
            .extend(self.acme.iter().flat_map(Acme::warnings));
        let of_files = self.certificates.warnings(self.clock.now_millis());
        status.warnings.extend(of_files);
        match self.store.status().await {
            Ok(store) => {
                status.metadata_bytes = store.metadata_bytes;
                let read_only = store
                    .read_only
                    .map(|why| format!("the metadata accepts no writes: {why}"));
                status.troubles.extend(read_only);
                if !store.has_room {
                    status.warnings.push(self.no_room());
                }
            }
            Err(error) => status.troubles.push(format!("metadata: {error}")),
        }
        self.add_disks(&mut status, disks);
        status
    }

    /// Returns the disks, and asks for each that takes no new blocks if it is known to be empty.
    async fn disks(&self) -> Result<Vec<DiskStatus>, Error> {
        let blocks = self.store.blocks();
        let mut shown = Vec::new();
        for disk in blocks.ask_disks().await? {
            let is_empty = match disk.state {
                DiskState::Active => false,
                DiskState::Draining | DiskState::Failed => {
                    let (asked, number) = (blocks.clone(), disk.id);
                    let is_empty = move || asked.is_disk_known_empty(number);
                    blocks.pool().run(is_empty).await?
                }
            };
            shown.push(self.shown(disk, is_empty));
        }
        Ok(shown)
    }

    fn add_disks(&self, status: &mut NodeStatus, disks: Result<Vec<DiskStatus>, Error>) {
        match disks {
            Ok(disks) => {
                status.disks = disks;
                let troubles = status.disks.iter().filter_map(trouble);
                status.troubles.extend(troubles);
            }
            // A list without disks would look like a node without disks.
            Err(error) => status.troubles.push(format!("disks: {error}")),
        }
    }

    fn no_room(&self) -> String {
        format!(
            "the metadata takes no new data: there is little space left on the disk of {}, or for LMDB's file; \
             fix: free space, or raise metadata_map_size and restart",
            self.settings.metadata_dir.display()
        )
    }

    /// Returns a disk with its current path. `is_empty` is true if nothing needs a block on it.
    fn shown(&self, disk: blocks::DiskStatus, is_empty: bool) -> DiskStatus {
        let number = self.numbers.iter().position(|number| *number == disk.id);
        let configured = number.and_then(|place| self.settings.disks.get(place));
        let state = match disk.state {
            DiskState::Failed => {
                let left = if is_empty {
                    "; no blocks are left on it"
                } else {
                    ""
                };
                format!("failed: {}{left}", disk.reason.unwrap_or_default())
            }
            DiskState::Draining if is_empty => "drained".into(),
            DiskState::Draining => "draining".into(),
            DiskState::Active if disk.free_bytes == 0 => "full".into(),
            DiskState::Active => "healthy".into(),
        };
        DiskStatus {
            number: disk.id,
            path: configured
                .map(|c| c.path.display().to_string())
                .unwrap_or_default(),
            state,
            used_bytes: disk.used_bytes,
            free_bytes: disk.free_bytes,
            capacity_bytes: disk.total_bytes,
        }
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

    fn nodes(&self) -> Vec<NodeInfo> {
        let Some(links) = &self.links else {
            return vec![NodeInfo {
                id: self.node_id.clone(),
                short: self.node_id.chars().take(8).collect(),
                store: self.store.identity().to_string(),
                state: NodeState::Itself,
                since_ms: self.started_ms,
                version: version::VERSION.into(),
                level: LEVEL,
                ..NodeInfo::default()
            }];
        };
        let members = links.members.list();
        members.into_iter().map(|m| self.member(links, m)).collect()
    }

    fn join(&self, addresses: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        if let Some(links) = self.links.clone() {
            return Box::pin(async move {
                let joined = links.members.join(&addresses).await;
                joined.map_err(|why| {
                    let fix = "check that a node with the same secret listens there, and that no firewall blocks the connection";
                    format!("{why}; fix: {fix}")
                })
            });
        }
        let addresses = addresses.join(", ");
        let refused = format!(
            "addresses = {addresses}: this server has no [cluster] section, so it cannot join a cluster; \
             fix: add the section to its configuration and restart it"
        );
        Box::pin(async { Err(refused) })
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<SnapshotInfo, String>> {
        Box::pin(self.make_snapshot())
    }

    fn snapshots(&self) -> BoxFuture<'_, Result<Vec<SnapshotInfo>, String>> {
        Box::pin(snapshots::list(snapshots::folder(&self.settings)))
    }

    fn certificates(&self) -> Vec<CertificateInfo> {
        let now_ms = self.clock.now_millis();
        let domains = self.acme.iter().flat_map(Acme::domains);
        domains
            .map(|(name, domain)| domain.describe(name, now_ms))
            .collect()
    }
}

impl NodeView {
    async fn make_snapshot(&self) -> Result<SnapshotInfo, String> {
        let folder = snapshots::folder(&self.settings);
        snapshots::create(folder, &self.store, self.clock.now_millis()).await
    }

    fn member(&self, links: &Links, member: Member) -> NodeInfo {
        let id = member.id.to_string();
        let state = match (id == self.node_id, member.suspected) {
            (true, _) => NodeState::Itself,
            (false, false) => NodeState::Alive,
            (false, true) if member.heard_ms_ago >= GONE_MS => NodeState::Gone,
            (false, true) => NodeState::Suspected,
        };
        let heard_ms = self.clock.now_millis().saturating_sub(member.heard_ms_ago);
        let tcp = member.info.addresses.iter().any(|a| is_tcp(a));
        let transport = if tcp { Transport::Tcp } else { links.transport };
        let round_trip = links.rpc.round_trip(&member.id);
        NodeInfo {
            short: member.id.short(),
            // A store that is not known yet has the default name.
            store: match member.info.store {
                store if store == Id::default() => String::new(),
                store => store.to_string(),
            },
            addresses: member.info.addresses,
            since_ms: if id == self.node_id {
                self.started_ms
            } else {
                heard_ms
            },
            version: member.info.version,
            epoch: member.info.epoch,
            level: member.info.level,
            lagging: member.lagging,
            round_trip_ms: round_trip.map(|time| time.as_secs_f64() * 1000.0),
            zone: Some(member.info.zone).filter(|zone| !zone.is_empty()),
            capacity_bytes: Some(member.info.capacity_bytes).filter(|bytes| *bytes > 0),
            transport: transport.name().into(),
            id,
            state,
            ..NodeInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use archipel_base::clock::SystemClock;
    use bytes::Bytes;
    use tempfile::TempDir;

    use crate::{config, storage};

    use super::*;

    async fn view(folder: &TempDir) -> NodeView {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let settings = config::for_demo(folder.path().to_owned(), any, any, any, any);
        let settings = Arc::new(settings);
        let identity = Identity::load(folder.path()).unwrap();
        let storage = storage::open(settings.clone(), &identity).await.unwrap();
        let addresses = Addresses {
            s3: any,
            web: None,
            k2v: None,
            console: None,
        };
        let clock = Arc::new(SystemClock);
        NodeView::new(settings, storage, &identity, addresses, clock, None, None)
    }

    #[tokio::test]
    async fn a_disk_is_shown_as_drained_once_nothing_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let view = view(&folder).await;
        let blocks = view.store.blocks();
        let state = async || view.look().await.disks[0].state.clone();
        assert_eq!(state().await, "healthy");
        let upload = blocks.appender();
        upload.append(Bytes::from(vec![7; 3000])).await.unwrap();
        blocks.set_draining(blocks.disks()[0].id, true).unwrap();
        assert_eq!(state().await, "draining");
        drop(upload);
        let drained = async {
            // The records of the upload are freed in the background.
            while state().await != "drained" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, drained).await.unwrap();
    }

    #[tokio::test]
    async fn disks_that_cannot_be_asked_are_a_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let view = view(&folder).await;
        let status = view.look().await;
        assert_eq!((status.disks.len(), status.troubles.len()), (1, 0));
        let mut status = NodeStatus::default();
        let failed = Error::Failed("a storage job panicked".into());
        view.add_disks(&mut status, Err(failed));
        let trouble = "disks: storage failed: a storage job panicked";
        assert_eq!(status.troubles, [trouble]);
    }
}
