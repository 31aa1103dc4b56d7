//! Snapshots of metadata: made while the node runs, restored while it does not.
//!
//! Only a node without a cluster can restore one. In a cluster, the node would forget what it has
//! acknowledged since, while the other nodes still have it. If all nodes of a cluster were restored
//! from copies, each of them must be told to accept the others' data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archipel_api::admin::types::SnapshotInfo;
use archipel_cluster::layout::Epoch;
use archipel_storage::engine::snapshot::{self, Snapshot};
use archipel_storage::engine::{self, Engine};
use archipel_storage::{RowReader, Store};

use crate::config::Settings;
use crate::identity::Identity;
use crate::lock::FolderLock;
use crate::{process, storage};

/// The folder of the snapshots, in the data folder.
const FOLDER: &str = "snapshots";

/// Returns the folder of a node's snapshots.
pub fn folder(settings: &Settings) -> PathBuf {
    settings.data_dir.join(FOLDER)
}

/// Makes a snapshot of the committed state.
///
/// # Errors
/// A text for the operator.
pub async fn create(folder: PathBuf, store: &Store, now_ms: u64) -> Result<SnapshotInfo, String> {
    let status = store.status().await.map_err(|error| error.to_string())?;
    let at = folder.clone();
    let free = store.blocks().pool().run(move || Ok(free_bytes(&at)));
    let free = free.await.map_err(|error| error.to_string())?;
    // It must leave enough space there: for the metadata, if they are on the same file system.
    if free.is_some_and(|free| free < status.metadata_bytes.saturating_mul(2)) {
        return Err(format!(
            "too little space for a snapshot in {}: it takes as much as the metadata, and must leave \
             as much again; fix: free space there, for example by removing old snapshots",
            folder.display()
        ));
    }
    let name = snapshot::name_at(now_ms);
    let made = store.snapshot_to(&folder.join(&name)).await;
    made.map_err(|error| format!("cannot make the snapshot: {error}"))?;
    let all = list(folder).await?;
    let made = all.into_iter().find(|snapshot| snapshot.name == name);
    made.ok_or_else(|| "the snapshot is missing".into())
}

/// Returns the bytes that may still be written in a folder, which need not be there yet; `None` if
/// that is not known. Blocks the thread.
fn free_bytes(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|path| path.exists())?;
    process::free_bytes(there).ok()
}

/// Removes what interrupted snapshots and restores left in the folders of a node that starts. The
/// folders are locked, and the metadata is not open yet.
pub async fn remove_remains(settings: Arc<Settings>) {
    let remove = move || snapshot::remove_remains(&folder(&settings), &settings.metadata_dir);
    let removed = tokio::task::spawn_blocking(remove).await;
    let error = match removed {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!("the remains of a snapshot take space: {error}");
}

/// Lists the snapshots, oldest first.
///
/// # Errors
/// A text for the operator.
pub async fn list(folder: PathBuf) -> Result<Vec<SnapshotInfo>, String> {
    let listed = tokio::task::spawn_blocking(move || snapshot::list(&folder));
    let listed = listed.await.map_err(|error| error.to_string())?;
    let listed = listed.map_err(|error| error.to_string())?;
    Ok(listed.into_iter().map(info).collect())
}

fn info(snapshot: Snapshot) -> SnapshotInfo {
    SnapshotInfo {
        name: snapshot.name,
        made_ms: snapshot.made_ms,
        bytes: snapshot.bytes,
    }
}

/// Replaces the metadata of a stopped server by a snapshot. Returns the path of the old metadata.
///
/// # Errors
/// A text for the operator.
pub fn restore(settings: &Settings, name: &str) -> Result<PathBuf, String> {
    let known = snapshot::list(&folder(settings)).map_err(|error| error.to_string())?;
    if !known.iter().any(|snapshot| snapshot.name == name) {
        return Err(format!(
            "there is no snapshot {name}; fix: archipel snapshot list names them"
        ));
    }
    if settings.cluster.network.is_some() {
        return Err(in_cluster());
    }
    let _lock = FolderLock::take(&settings.data_dir)?;
    let snapshot = folder(settings).join(name);
    check(settings, &snapshot)?;
    let kept = snapshot::beside(&settings.metadata_dir, &format!("before-{name}"));
    let options = storage::engine_options(settings);
    snapshot::restore(&snapshot, &settings.metadata_dir, &kept, &options)
        .map_err(|error| error.to_string())?;
    Ok(kept)
}

/// Makes the cluster accept the data of a node whose folders were restored, as were those of all
/// its other nodes. Returns the number of the newest layout epoch that the node knows.
///
/// # Errors
/// A text for the operator.
pub async fn accept(settings: Settings) -> Result<u64, String> {
    if !settings.data_dir.exists() {
        let folder = settings.data_dir.display();
        return Err(format!("there is no folder {folder}; fix: set data_dir"));
    }
    let _lock = FolderLock::take(&settings.data_dir)?;
    let identity = Identity::load(&settings.data_dir)?;
    let storage = storage::open(Arc::new(settings), &identity).await?;
    let accepted = archipel_cluster::accept_rollback(&storage.store, identity.node()).await;
    let closed = storage.store.close().await;
    let accepted = accepted.map_err(|error| error.to_string())?;
    closed.map_err(|error| format!("cannot close the storage: {error}"))?;
    Ok(accepted)
}

fn in_cluster() -> String {
    "this node belongs to a cluster: with older metadata it would forget what it has acknowledged since, and the other \
     nodes still hold all of it; fix: let it start empty, see docs/operations/metadata-damaged.md"
        .into()
}

/// Checks that the snapshot is complete, belongs to this node, and was made without a cluster.
fn check(settings: &Settings, snapshot: &Path) -> Result<(), String> {
    let kind = engine::kind_of(snapshot).map_err(|error| error.to_string())?;
    if kind != Some(settings.engine) {
        let engine = settings.engine.name();
        return Err(format!(
            "the snapshot is not from the engine {engine}; fix: set engine to the snapshot's engine"
        ));
    }
    let opened: Arc<dyn Engine> = engine::open(
        settings.engine,
        snapshot,
        &storage::engine_options(settings),
    )
    .map_err(|error| format!("cannot open the snapshot: {error}; fix: choose another one"))?;
    let inspected = inspect(&*opened, &Identity::load(&settings.data_dir)?);
    inspected
        .map_err(|error| format!("cannot read the snapshot: {error}; fix: choose another one"))?
}

fn inspect(
    engine: &dyn Engine,
    identity: &Identity,
) -> Result<Result<(), String>, archipel_storage::Error> {
    let txn = engine.read()?;
    let rows = RowReader::new(&*txn);
    let node = identity.node();
    if rows
        .meta("node")?
        .is_some_and(|owner| owner[..] != node.as_bytes()[..])
    {
        return Ok(Err(
            "the snapshot belongs to another node; fix: choose one of this node".into(),
        ));
    }
    let epoch = rows.meta("epoch")?.map(|bytes| Epoch::decode(&bytes));
    match epoch {
        None => {}
        Some(Ok(epoch)) if epoch.layouts.iter().all(|layout| layout.roles.len() == 1) => {}
        Some(Ok(_)) => return Ok(Err(in_cluster())),
        Some(Err(error)) => {
            return Ok(Err(format!(
                "the layout in the snapshot: {error}; fix: choose another one"
            )));
        }
    }
    let report = rows.verify()?;
    Ok(match report.told.first() {
        None => Ok(()),
        Some(first) => Err(format!(
            "problems in the snapshot: {}; the first: {first}; fix: choose another one",
            report.problems
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    /// The metadata may be on another disk, with much space. Nothing can be written to `/proc`.
    #[tokio::test]
    async fn a_snapshot_needs_space_where_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let settings = config::for_demo(folder.path().to_owned(), any, any, any, any);
        let identity = Identity::load(folder.path()).unwrap();
        let storage = storage::open(Arc::new(settings), &identity).await.unwrap();
        let store = storage.store;
        let refused = create("/proc/snapshots".into(), &store, 1).await;
        let why = refused.unwrap_err();
        let is_told = why.contains("too little space") && why.contains("fix: free space");
        assert!(is_told, "{why}");
        create(folder.path().join(FOLDER), &store, 2).await.unwrap();
        store.close().await.unwrap();
    }
}
