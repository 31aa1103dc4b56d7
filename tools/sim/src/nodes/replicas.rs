//! At rest all replicas of a partition hold the same rows, with their content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{BlockHash, Id, PartitionId, Stamp};
use archipel_cluster::layout::{Epoch, StoreName, all_partitions};
use archipel_storage::engine::Flow;
use archipel_storage::rows::{Granularity, Window};
use archipel_storage::{BlockRef, RowKey, RowMetadata, RowReader, RowVersion, Store};
use bytes::Bytes;

use super::world::World;

/// The time in which nodes must bring one another up to date once all faults are over.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The interval of the checks.
const LOOK: Duration = Duration::from_secs(20);
/// The time to wait for tombstones that need absent stores.
const PATIENCE_FOR_ABSENT: Duration = Duration::from_secs(120);
/// More months than a run has.
const MONTHS: usize = 1000;

/// The rows of a partition: stamp, write, metadata and version.
type Rows = BTreeMap<Bytes, (Stamp, Id, Option<Bytes>, Option<RowVersion>)>;

/// The months of a partition.
type Months = Vec<(u32, Window)>;

/// Waits until all replicas are equal. Reports a violation if they do not become equal, or are
/// equal and lack content.
pub async fn converge(world: &World) {
    let mut waited = Duration::ZERO;
    loop {
        match difference(world, Compare::Digests).await {
            Ok(None) => break,
            Ok(Some(what)) if waited >= PATIENCE => {
                return world.violation(format!("replicas stay different: {what}"));
            }
            Err(error) => return world.violation(format!("a store cannot be read: {error}")),
            Ok(Some(what)) => world.note(format!("replicas are different: {what}")),
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
    world.note(format!("all replicas are equal after {waited:?}"));
    let mut different = difference(world, Compare::Rows).await;
    if let Ok(Some(_)) = different {
        // Tombstones may have been dropped at one of two replicas between their reads. A true
        // difference stays.
        tokio::time::sleep(LOOK).await;
        different = difference(world, Compare::Rows).await;
    }
    match different {
        Ok(None) => {}
        Ok(Some(what)) => world.violation(format!("rows of one stamp are different: {what}")),
        Err(error) => world.violation(format!("a store cannot be read: {error}")),
    }
    for (number, machine) in world.machines.iter().enumerate() {
        let Some(model) = machine.model() else {
            continue;
        };
        // A store that was rolled back and belongs to no layout is wiped when one names it, and
        // answers for nothing before.
        let me = model.cluster().me();
        let named = model
            .cluster()
            .epoch()
            .is_some_and(|e| e.incarnation_of(&me).is_some());
        if !named {
            continue;
        }
        match dangling(model.cluster().store()).await {
            Ok(None) => {}
            Ok(Some(row)) => world.violation(format!(
                "machine {number} has a row without its content: {row:?}"
            )),
            Err(error) => world.violation(format!("a store cannot be read: {error}")),
        }
    }
}

/// Waits until no tombstone and no bare promise is left, if all stores of the layout run to agree.
pub async fn drop_tombstones(world: &World) {
    let (mut waited, mut left) = (Duration::ZERO, None);
    while waited < PATIENCE {
        if waited.as_secs() % 300 == 0 {
            world.pass_hours(2);
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
        left = match leftover(world).await {
            Ok(None) => {
                return world.note(format!("all tombstones are dropped after {waited:?}"));
            }
            Ok(left) => left,
            Err(error) => return world.violation(format!("a store cannot be read: {error}")),
        };
        if waited >= PATIENCE_FOR_ABSENT && !all_stores_run(world) {
            return world.note("tombstones wait for stores that are gone");
        }
    }
    if let Some(left) = left {
        world.violation(format!("a tombstone or a promise stays: {left}"));
    }
}

/// Returns true if every store that a layout names runs.
pub fn all_stores_run(world: &World) -> bool {
    let running = world.machines.iter().filter_map(|machine| machine.model());
    let stores: BTreeSet<StoreName> = running.map(|model| model.cluster().me()).collect();
    let epochs = world
        .machines
        .iter()
        .filter_map(|machine| machine.model()?.cluster().epoch());
    let named = epochs.flat_map(|epoch| epoch.config.members());
    named
        .into_iter()
        .all(|member| stores.contains(&member.node))
}

/// Returns a tombstone or promise that is left on any machine.
async fn leftover(world: &World) -> Result<Option<String>, archipel_storage::Error> {
    for (number, machine) in world.machines.iter().enumerate() {
        let Some(model) = machine.model() else {
            continue;
        };
        // A store in no layout takes part in no floor. A store in one drops rows that are not its
        // own.
        let (me, epoch) = (model.cluster().me(), model.cluster().epoch());
        let own: Vec<PartitionId> = all_partitions()
            .filter(|p| {
                epoch
                    .iter()
                    .any(|e| e.replicas(*p).iter().flatten().any(|m| m.node == me))
            })
            .collect();
        let look = move |rows: &RowReader<'_>| {
            let mut found = None;
            for partition in own {
                let from = std::ops::Bound::Unbounded;
                rows.scan_metadata(partition, &[], from, &mut |key, row| {
                    if !row.as_ref().is_some_and(RowMetadata::is_live) {
                        let key = key.escape_ascii();
                        found = Some(format!("{partition}/{key}: {row:?}"));
                    }
                    Ok(Flow::Continue)
                })?;
            }
            Ok(found)
        };
        let found = model.cluster().store().read(look).await?;
        if let Some(found) = found {
            let why = model.cluster().upkeep().anti_entropy_status().floors;
            return Ok(Some(format!("at {number} {found}; {why:?}")));
        }
    }
    Ok(None)
}

/// The way in which replicas are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    /// The digests of keys and stamps, as anti-entropy does.
    Digests,
    /// Each row. Under one stamp all replicas must hold the same.
    Rows,
}

/// Returns a difference between two running replicas.
async fn difference(
    world: &World,
    how: Compare,
) -> Result<Option<String>, archipel_storage::Error> {
    let mut stores: BTreeMap<StoreName, (usize, Store)> = BTreeMap::new();
    let mut newest: Option<Arc<Epoch>> = None;
    for (number, machine) in world.machines.iter().enumerate() {
        let Some(model) = machine.model() else {
            continue;
        };
        let cluster = model.cluster();
        stores.insert(cluster.me(), (number, cluster.store().clone()));
        newest = newest
            .into_iter()
            .chain(cluster.epoch())
            .max_by_key(|epoch| epoch.number());
    }
    let Some(epoch) = newest else {
        return Ok(Some("nobody knows a layout".into()));
    };
    for partition in all_partitions() {
        let mut first: Option<(usize, Store, Months)> = None;
        for member in epoch.replicas(partition).into_iter().flatten() {
            // A store whose disks were lost is absent.
            let Some((number, store)) = stores.get(&member.node) else {
                continue;
            };
            let months = store.read(move |rows| months(rows, partition)).await?;
            match &first {
                None => first = Some((*number, store.clone(), months)),
                Some((_, _, same)) if how == Compare::Digests && *same == months => {}
                Some((other, their, same)) => {
                    let (ours, theirs) = (rows_of(store, partition), rows_of(their, partition));
                    let (ours, theirs) = (ours.await?, theirs.await?);
                    if *same == months && ours == theirs {
                        continue;
                    }
                    let what = first_difference(ours, theirs);
                    return Ok(Some(format!("{partition} at {number} and {other}: {what}")));
                }
            }
        }
    }
    Ok(None)
}

fn months(rows: &RowReader<'_>, partition: PartitionId) -> Result<Months, archipel_storage::Error> {
    rows.windows(partition, Granularity::Month, 0, MONTHS)
}

async fn rows_of(store: &Store, partition: PartitionId) -> Result<Rows, archipel_storage::Error> {
    let look = move |rows: &RowReader<'_>| {
        let mut found = Rows::new();
        let from = std::ops::Bound::Unbounded;
        rows.scan_metadata(partition, &[], from, &mut |key, row| {
            let Some(row) = row else {
                let key = key.escape_ascii();
                return Err(archipel_storage::Error::Damaged(format!(
                    "{partition}/{key}"
                )));
            };
            if row.is_written() {
                let version = row.version.map(|version| *version);
                let what = (row.stamp, row.write, row.metadata, version);
                found.insert(Bytes::copy_from_slice(key), what);
            }
            Ok(Flow::Continue)
        })?;
        Ok(found)
    };
    store.read(look).await
}

fn first_difference(ours: Rows, theirs: Rows) -> String {
    let mut keys = ours.keys().chain(theirs.keys());
    let differs = keys.find(|key| ours.get(*key) != theirs.get(*key));
    match differs {
        Some(key) => format!(
            "{}: {:?} and {:?}",
            key.escape_ascii(),
            ours.get(key),
            theirs.get(key)
        ),
        None => "their digests, but not their rows".into(),
    }
}

/// Returns the blocks of rows of a machine that another one holds, too.
pub async fn copied(
    world: &World,
    index: usize,
) -> Result<BTreeSet<BlockHash>, archipel_storage::Error> {
    let stores: BTreeMap<usize, Store> = world
        .machines
        .iter()
        .enumerate()
        .filter_map(|(number, machine)| Some((number, machine.model()?.cluster().store().clone())))
        .collect();
    let mut copied = BTreeSet::new();
    let Some(store) = stores.get(&index) else {
        return Ok(copied);
    };
    for partition in all_partitions() {
        let rows = rows_of(store, partition).await?;
        if rows.is_empty() {
            continue;
        }
        let mut elsewhere = Vec::new();
        for (_, other) in stores.iter().filter(|(number, _)| **number != index) {
            elsewhere.push(rows_of(other, partition).await?);
        }
        for (key, row) in rows {
            if elsewhere.iter().any(|rows| rows.get(&key) == Some(&row)) {
                let blocks = blocks_of(store, &RowKey { partition, key }).await?;
                copied.extend(blocks.iter().map(|block| block.hash));
            }
        }
    }
    Ok(copied)
}

/// Returns a row that refers to a missing block.
async fn dangling(store: &Store) -> Result<Option<RowKey>, archipel_storage::Error> {
    for partition in all_partitions() {
        for (key, _) in rows_of(store, partition).await? {
            let key = RowKey { partition, key };
            let blocks = blocks_of(store, &key).await?;
            if !store.missing_blocks(blocks).await?.is_empty() {
                return Ok(Some(key));
            }
        }
    }
    Ok(None)
}

async fn blocks_of(store: &Store, key: &RowKey) -> Result<Vec<BlockRef>, archipel_storage::Error> {
    let wanted = key.clone();
    let row = store.read(move |rows| rows.row(&wanted)).await?;
    let value = row.and_then(|row| row.value);
    Ok(value.map_or(Vec::new(), |v| v.payload.blocks().to_vec()))
}
