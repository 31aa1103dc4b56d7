//! The proof at the end of a run: all content is whole, all derived data is exact, and no garbage
//! is left.

use std::time::Duration;

use archipel_cluster::Verification;
use archipel_model::Model;

use super::replicas;
use super::world::World;

/// The number of collections. Garbage that one node drops may have kept another node's.
const COLLECTIONS: usize = 8;
/// The time limit of a verification with its repairs.
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK: Duration = Duration::from_secs(1);

/// Collects garbage, repairs and verifies, and reports every fault.
pub async fn prove(world: &World) {
    collect_all_garbage(world).await;
    replicas::converge(world).await;
    if world.record().counts.flips > 0 {
        // This finds damage and has it repaired.
        verify(world).await;
        await_repairs(world).await;
    }
    let Some(verification) = verify(world).await else {
        return;
    };
    let all_run = replicas::all_stores_run(world);
    for part in verification.nodes {
        let node = part.node.short();
        match part.ended {
            Some(Ok(found)) if found.problems == 0 && found.unchecked.is_empty() => {}
            Some(Ok(found)) if found.problems == 0 && !all_run => {}
            Some(Err(_)) | None if !all_run => {}
            other => world.violation(format!("verification of {node}: {other:?}")),
        }
    }
}

/// Returns the models of all machines that run and are not shut out.
fn models(world: &World) -> Vec<Model> {
    let machines = world.serving().into_iter();
    let models = machines.filter_map(|number| world.machines[number].model());
    models.collect()
}

/// Garbage that a collection found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Garbage {
    /// Orphans, and rows that were dropped.
    done: u64,
    /// Content that may be in use.
    in_use: u64,
}

/// Collects garbage until there is none. In the end nothing may be left, except what a version may
/// refer to that only a lost store would know of.
async fn collect_all_garbage(world: &World) {
    let mut left = Ok(Garbage::default());
    for _ in 0..COLLECTIONS {
        left = collect_garbage(world).await;
        if left == Ok(Garbage::default()) {
            return;
        }
    }
    match left {
        Ok(Garbage { done: 0, .. }) if !replicas::all_stores_run(world) => {
            world.note(format!("garbage waits for stores that are gone: {left:?}"));
        }
        _ => world.violation(format!("garbage stays: {left:?}")),
    }
}

/// Runs all GC tasks, and looks for orphans without a task. Returns how much there was to do.
async fn collect_garbage(world: &World) -> Result<Garbage, String> {
    let mut found = Garbage::default();
    for model in models(world) {
        let orphans = model.find_orphans(Duration::ZERO, None).await;
        let report = model.run_all_gc_tasks().await;
        let text = |error: archipel_model::Error| error.to_string();
        let (orphans, report) = (orphans.map_err(text)?, report.map_err(text)?);
        if orphans > 0 {
            world.note(format!("{orphans} GC tasks for orphans"));
        }
        found.done += orphans + report.dropped;
        found.in_use += report.in_use + report.failed;
    }
    Ok(found)
}

/// Asks the first machine in a layout to verify all nodes.
async fn verify(world: &World) -> Option<Verification> {
    let in_a_layout = |model: &Model| {
        let epoch = model.cluster().epoch();
        epoch.is_some_and(|epoch| epoch.incarnation_of(&model.cluster().me()).is_some())
    };
    let model = models(world).into_iter().find(in_a_layout)?;
    if let Err(error) = model.cluster().upkeep().verify_start(true) {
        world.violation(format!("a verification does not begin: {error}"));
        return None;
    }
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
        let verification = model.cluster().upkeep().verification();
        if let Some(ended) = verification.filter(|verification| verification.ended_ms > 0) {
            return Some(ended);
        }
    }
    world.violation("a verification does not end".into());
    None
}

/// Waits until all damage is repaired.
async fn await_repairs(world: &World) {
    let mut waited = Duration::ZERO;
    loop {
        let mut all = models(world).into_iter();
        let Some(status) = all.find_map(|model| {
            let status = model.cluster().upkeep().repair_status();
            (status.waiting > 0).then_some(status)
        }) else {
            return;
        };
        if waited >= PATIENCE {
            return world.violation(format!("a block stays damaged: {status:?}"));
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
}
