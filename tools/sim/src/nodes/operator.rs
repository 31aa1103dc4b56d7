//! The operators: they change the layout, sometimes two of them at once.

use std::sync::Arc;
use std::time::Duration;

use archipel_cluster::change::LayoutChange;
use archipel_cluster::layout::Role;
use archipel_model::Model;

use super::machine::{Called, Machine};
use super::world::{REPLICAS, World};
use crate::rng::Rng;

/// The time that an operator waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs one operator.
pub async fn run(world: Arc<World>, number: usize, mut rng: Rng) {
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(rng.between(1000, 15_000))).await;
        let machine = rng.below(world.machines.len() as u64) as usize;
        let chosen = rng.number();
        let called = world.machines[machine].call(PATIENCE, |model| {
            let world = world.clone();
            async move { operate(&world, &model, chosen).await }
        });
        match called.await {
            Called::Answered(Ok(done)) => world.note(format!("operator {number}: {done}")),
            Called::Answered(Err(why)) => world.note(format!("operator {number}: not done: {why}")),
            Called::Down | Called::Lost => world.note(format!("operator {number}: no answer")),
        }
    }
}

/// Removes a machine from the layout, or assigns or admits one whose store is not in it.
async fn operate(world: &World, model: &Model, chosen: u64) -> Result<String, String> {
    let text = |error: archipel_cluster::Error| error.to_string();
    let cluster = model.cluster();
    let epoch = cluster.epoch().ok_or("no layout")?;
    if epoch.is_changing() {
        return Err("a change is under way".into());
    }
    let roles = &epoch.newest().roles;
    let machine = &world.machines[chosen as usize % world.machines.len()];
    let named = roles.iter().find(|role| role.store.node == machine.id);
    let there = role(machine);
    if named.is_none() && world.style.admits && chosen >> 32 & 1 == 0 {
        cluster.layouts().admit(machine.id).await.map_err(text)?;
        return Ok(format!("{} is admitted", machine.id.short()));
    }
    let change = match (named, there) {
        (Some(named), Some(there)) if named.store != there.store => LayoutChange::Assign(there),
        (Some(_), _) if roles.len() > usize::from(REPLICAS) => LayoutChange::Remove(machine.id),
        (None, Some(there)) => LayoutChange::Assign(there),
        (_, _) => return Err("nothing to change".into()),
    };
    let done = format!("{change:?}");
    let staged = cluster.layouts().stage(vec![change]).await.map_err(text)?;
    cluster
        .layouts()
        .apply(staged.version, None)
        .await
        .map_err(text)?;
    world.record().counts.layouts += 1;
    Ok(done)
}

/// Admits all machines that the layout dropped, through machines that it has.
pub async fn admit_all(world: &World) {
    let serving = world.serving();
    let out = (0..world.machines.len()).filter(|machine| !serving.contains(machine));
    for (number, machine) in out.map(|number| (number, &world.machines[number])) {
        let Some(through) = serving.iter().find_map(|at| world.machines[*at].model()) else {
            return world.violation("the layout has no machine that runs".into());
        };
        match through.cluster().layouts().admit(machine.id).await {
            Ok(_) => world.note(format!("machine {number} is admitted")),
            Err(error) => world.violation(format!("machine {number} is not admitted: {error}")),
        }
    }
}

/// Returns the role that a running machine may get.
pub fn role(machine: &Machine) -> Option<Role> {
    let model = machine.model()?;
    Some(Role {
        store: model.cluster().me(),
        zone: machine.id.short(),
        capacity_bytes: 1 << 40,
    })
}
