//! Old backups: a machine's disks are copied, and later put back behind its back, so that it has forgotten what it did since.
//!
//! This is done only once the others have heard how much further it was: what is put back from before that cannot be noticed
//! by anybody, and is not promised to be.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;

use super::faults;
use super::machine::Backup;
use super::world::World;
use crate::rng::Rng;

/// Copies a machine's disks, lets days pass, and puts the copy back if there comes a moment at which that must be noticed.
pub async fn run(world: Arc<World>, mut rng: Rng) {
    rest(&mut rng, 1000, 20_000).await;
    let place = rng.below(world.machines.len() as u64) as usize;
    let Some(backup) = world.machines[place].back_up() else {
        return;
    };
    let members = members(&world);
    world.note(format!(
        "the disks of {place} are copied at {:?}",
        backup.mark
    ));
    rest(&mut rng, 3000, 15_000).await;
    // So that tombstones of what the copy still has may go.
    world.pass_hours(rng.between(1, 48));
    rest(&mut rng, 12_000, 30_000).await;
    while !world.is_calm() {
        rest(&mut rng, 100, 2000).await;
        let spoiled = world.record().counts.spoiled() > 0;
        if !spoiled && is_known_to_be_old(&world, place, &backup, &members).await {
            return put_back(&world, place, &backup, &mut rng).await;
        }
    }
}

async fn rest(rng: &mut Rng, least: u64, most: u64) {
    tokio::time::sleep(Duration::from_millis(rng.between(least, most))).await;
}

async fn put_back(world: &World, place: usize, backup: &Backup, rng: &mut Rng) {
    let blocks_too = rng.chance(70);
    faults::crash(world, place, rng);
    world.note(format!(
        "the disks of {place} are put back to {:?}, blocks too: {blocks_too}",
        backup.mark
    ));
    world.record().counts.put_back += 1;
    world.machines[place].put_back(backup, blocks_too);
    rest(rng, 1, 3000).await;
    faults::start(world, place).await;
}

/// The nodes of all live layouts that anybody knows.
fn members(world: &World) -> BTreeSet<NodeId> {
    let models = world.machines.iter().filter_map(|machine| machine.model());
    let epochs = models.filter_map(|model| model.cluster().epoch());
    let members = epochs.flat_map(|epoch| epoch.config.members());
    members.map(|member| member.node.node).collect()
}

/// Whether the machine runs on the store that was copied, and all who were with it in a layout then, or are now, remember
/// that it was further.
async fn is_known_to_be_old(
    world: &World,
    place: usize,
    backup: &Backup,
    before: &BTreeSet<NodeId>,
) -> bool {
    let now = members(world);
    let store = world.machines[place]
        .model()
        .map(|model| model.cluster().me());
    if store != Some(backup.store) {
        return false;
    }
    for (other, machine) in world.machines.iter().enumerate() {
        if other == place || !(before.contains(&machine.id) || now.contains(&machine.id)) {
            continue;
        }
        let Some(model) = machine.model() else {
            return false;
        };
        let remembered = model.cluster().remembers(backup.store.store).await;
        if !matches!(remembered, Ok(Some(mark)) if mark > backup.mark) {
            return false;
        }
    }
    true
}
