//! At rest all replicas of a partition hold the same, and whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{BlockHash, Id, PartitionId, Stamp};
use archipel_cluster::layout::{Epoch, StoreName, all_partitions};
use archipel_storage::engine::Flow;
use archipel_storage::rows::{Granularity, Window};
use archipel_storage::{BlockRef, RowKey, RowReader, Store};
use bytes::Bytes;

use super::world::World;

/// How long nodes may take to bring one another up to date once everything works.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How often it is looked whether they have.
const LOOK: Duration = Duration::from_secs(20);
/// How long it is waited for what needs stores that are gone.
const PATIENCE_FOR_ABSENT: Duration = Duration::from_secs(120);
/// More months than a run has.
const MONTHS: usize = 1000;

/// The rows of a partition: stamp, write, and whether there is a value.
type Rows = BTreeMap<Bytes, (Stamp, Id, bool)>;

/// The months of a partition.
type Months = Vec<(u32, Window)>;

/// Waits until all replicas are equal, and tells if they do not get so, or if they are equal and not whole.
pub async fn come_together(world: &World) {
    let mut waited = Duration::ZERO;
    loop {
        match difference(world).await {
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
    for (number, machine) in world.machines.iter().enumerate() {
        let Some(model) = machine.model() else {
            continue;
        };
        // What was put back and belongs to no layout is emptied when one names it, and serves nobody before.
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

/// Waits until no tombstone and no bare promise is left, if all stores of the layout are there to agree.
pub async fn forget_what_was_deleted(world: &World) {
    let (mut waited, mut left) = (Duration::ZERO, None);
    while waited < PATIENCE {
        if waited.as_secs() % 300 == 0 {
            world.pass_hours(2);
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
        left = match litter(world).await {
            Ok(None) => {
                return world.note(format!("what was deleted is forgotten after {waited:?}"));
            }
            Ok(left) => left,
            Err(error) => return world.violation(format!("a store cannot be read: {error}")),
        };
        if waited >= PATIENCE_FOR_ABSENT && !all_are_there(world) {
            return world.note("what was deleted waits for stores that are gone");
        }
    }
    if let Some(left) = left {
        world.violation(format!("a tombstone or a promise stays: {left}"));
    }
}

/// Whether every store that a layout names runs.
pub fn all_are_there(world: &World) -> bool {
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

/// A tombstone or a promise that is left somewhere.
async fn litter(world: &World) -> Result<Option<String>, archipel_storage::Error> {
    for (number, machine) in world.machines.iter().enumerate() {
        let Some(model) = machine.model() else {
            continue;
        };
        // A store that is in no layout is asked nothing, and one that is forgets what is not its own.
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
                rows.scan_heads(partition, &[], from, &mut |key, row| {
                    if !row.is_live() {
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
            let why = model.cluster().healing().floors;
            return Ok(Some(format!("at {number} {found}; {why:?}")));
        }
    }
    Ok(None)
}

/// Where two replicas that are there differ.
async fn difference(world: &World) -> Result<Option<String>, archipel_storage::Error> {
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
            // One whose disks were lost is not there.
            let Some((number, store)) = stores.get(&member.node) else {
                continue;
            };
            let months = store.read(move |rows| months(rows, partition)).await?;
            match &first {
                None => first = Some((*number, store.clone(), months)),
                Some((_, _, same)) if *same == months => {}
                Some((other, their, _)) => {
                    let (ours, theirs) = (rows_of(store, partition), rows_of(their, partition));
                    let what = first_difference(ours.await?, theirs.await?);
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
        rows.scan_heads(partition, &[], from, &mut |key, row| {
            if row.is_written() {
                let what = (row.stamp, row.write, row.is_live());
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
        None => "their fingerprints, but not their rows".into(),
    }
}

/// The blocks of rows of a machine that another one holds, too.
pub async fn copied(
    world: &World,
    place: usize,
) -> Result<BTreeSet<BlockHash>, archipel_storage::Error> {
    let stores: BTreeMap<usize, Store> = world
        .machines
        .iter()
        .enumerate()
        .filter_map(|(number, machine)| Some((number, machine.model()?.cluster().store().clone())))
        .collect();
    let mut copied = BTreeSet::new();
    let Some(store) = stores.get(&place) else {
        return Ok(copied);
    };
    for partition in all_partitions() {
        let rows = rows_of(store, partition).await?;
        if rows.is_empty() {
            continue;
        }
        let mut elsewhere = Vec::new();
        for (_, other) in stores.iter().filter(|(number, _)| **number != place) {
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

/// A row that refers to a block that is not here.
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
    Ok(value.map_or(Vec::new(), |v| v.body.blocks().to_vec()))
}
