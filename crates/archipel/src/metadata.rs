//! Work on the metadata of a stopped server: conversion to another engine, and a rebuild of the
//! index of blocks.

use std::sync::Arc;

use archipel_storage::engine::convert::{self, Converted, Step};
use archipel_storage::engine::{self, EngineKind};
use archipel_storage::store::Rebuilt;
use archipel_storage::{RebuildProgress, Store};

use crate::config::Settings;
use crate::disks;
use crate::identity::Identity;
use crate::lock::FolderLock;
use crate::storage;

/// Converts the metadata of a stopped server to another engine.
///
/// # Errors
/// A text for the operator. The metadata is as it was.
pub fn convert(
    settings: &Settings,
    to: EngineKind,
    progress: &mut dyn FnMut(Step),
) -> Result<Converted, String> {
    let _lock = lock(settings)?;
    let options = storage::engine_options(settings);
    convert::convert(&settings.metadata_dir, to, &options, progress)
        .map_err(|error| format!("the metadata cannot be converted: {error}"))
}

/// Rebuilds the index of blocks of a stopped server, from its segments and rows. Refuses to do so
/// without a disk that the node ever had, unless the operator has removed its entry from the
/// registry of disks.
///
/// # Errors
/// A text for the operator. If the rebuild had begun, the server does not start until another
/// rebuild has ended.
pub async fn rebuild_blocks(
    settings: &Settings,
    progress: &Arc<RebuildProgress>,
) -> Result<Rebuilt, String> {
    let _lock = lock(settings)?;
    let identity = Identity::load(&settings.data_dir)?;
    let options = storage::store_options(settings, &identity.node_id())?;
    let numbers: Vec<u16> = options.disks.iter().map(|disk| disk.id).collect();
    let absent = disks::absent(&settings.data_dir, &numbers)?;
    if let Some((number, path)) = absent.first() {
        return Err(disks::rebuild_needs(*number, path));
    }
    let rebuilt = Store::rebuild_blocks(options, progress).await;
    rebuilt.map_err(|error| format!("the index of blocks cannot be rebuilt: {error}"))
}

/// Locks the data folder of a stopped server that has metadata.
fn lock(settings: &Settings) -> Result<FolderLock, String> {
    let folder = &settings.metadata_dir;
    match engine::kind_of(folder).map_err(|error| error.to_string())? {
        Some(_) => FolderLock::take(&settings.data_dir),
        None => Err(format!(
            "there is no metadata in {}; fix: set data_dir (and metadata_dir) to the server's folders",
            folder.display()
        )),
    }
}
