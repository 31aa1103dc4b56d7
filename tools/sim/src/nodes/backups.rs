//! Old backups: a machine's disks are copied, and later replaced by the copy without the machine's
//! knowledge. So it has forgotten its work since then.
//!
//! This happens only after the other machines have heard of its later marks. Nobody can notice a
//! rollback to an unknown mark, and the product does not promise to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;

use super::faults;
use super::machine::Backup;
use super::world::World;
use crate::rng::Rng;

/// Copies a machine's disks, lets days pass, and restores the copy at a moment when the others must
/// notice.
pub async fn run(world: Arc<World>, mut rng: Rng) {
    rest(&mut rng, 1000, 20_000).await;
    let index = rng.below(world.machines.len() as u64) as usize;
    let Some(backup) = world.machines[index].back_up() else {
        return;
    };
    let members = members(&world);
    world.note(format!(
        "the disks of {index} are copied at {:?}",
        backup.mark
    ));
    rest(&mut rng, 3000, 15_000).await;
    // This gives tombstones of rows in the copy time to be dropped.
    world.pass_hours(rng.between(1, 48));
    rest(&mut rng, 12_000, 30_000).await;
    while !world.is_calm() {
        rest(&mut rng, 100, 2000).await;
        let spoiled = world.record().counts.spoiled() > 0;
        if !spoiled && is_known_to_be_old(&world, index, &backup, &members).await {
            return roll_back(&world, index, &backup, &mut rng).await;
        }
    }
}

async fn rest(rng: &mut Rng, least: u64, most: u64) {
    tokio::time::sleep(Duration::from_millis(rng.between(least, most))).await;
}

async fn roll_back(world: &World, index: usize, backup: &Backup, rng: &mut Rng) {
    let blocks_too = rng.chance(70);
    faults::crash(world, index, rng);
    if !world.machines[index].is_off() {
        return;
    }
    world.note(format!(
        "the disks of {index} are rolled back to {:?}, blocks too: {blocks_too}",
        backup.mark
    ));
    world.record().counts.rolled_back += 1;
    world.machines[index].roll_back(backup, blocks_too);
    rest(rng, 1, 3000).await;
    faults::start(world, index).await;
}

/// Returns the nodes of all live layouts that any machine knows.
fn members(world: &World) -> BTreeSet<NodeId> {
    let models = world.machines.iter().filter_map(|machine| machine.model());
    let epochs = models.filter_map(|model| model.cluster().epoch());
    let members = epochs.flat_map(|epoch| epoch.config.members());
    members.map(|member| member.node.node).collect()
}

/// Returns true if the machine runs on the copied store, and all machines that shared a layout with
/// it then or share one now remember a later mark.
async fn is_known_to_be_old(
    world: &World,
    index: usize,
    backup: &Backup,
    before: &BTreeSet<NodeId>,
) -> bool {
    let now = members(world);
    let store = world.machines[index]
        .model()
        .map(|model| model.cluster().me());
    if store != Some(backup.store) {
        return false;
    }
    for (other, machine) in world.machines.iter().enumerate() {
        if other == index || !(before.contains(&machine.id) || now.contains(&machine.id)) {
            continue;
        }
        let Some(model) = machine.model() else {
            return false;
        };
        let remembered = model.cluster().upkeep().remembers(backup.store.store).await;
        if !matches!(remembered, Ok(Some(mark)) if mark > backup.mark) {
            return false;
        }
    }
    true
}
