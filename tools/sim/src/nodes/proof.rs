//! The proof at the end of a run: what is held is whole, all that is derived from it exact, and nothing is left of what nobody needs.

use std::time::Duration;

use archipel_cluster::Verification;
use archipel_model::Model;

use super::replicas;
use super::world::World;

/// How often it is tried to drop what is left: what one node's sweep drops may be asked for by another's.
const SWEEPS: usize = 8;
/// How long a verification, and mending what it finds, may take.
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK: Duration = Duration::from_secs(1);

/// Has everything dropped, mended and verified, and tells what is not as it should be.
pub async fn prove(world: &World) {
    drop_what_is_left(world).await;
    replicas::come_together(world).await;
    if world.record().counts.flips > 0 {
        // Finds what is damaged, and has it mended.
        verify(world).await;
        mended(world).await;
    }
    let Some(verification) = verify(world).await else {
        return;
    };
    let all_are_there = replicas::all_are_there(world);
    for part in verification.nodes {
        let node = part.node.short();
        match part.ended {
            Some(Ok(found)) if found.problems == 0 && found.unchecked.is_empty() => {}
            Some(Ok(found)) if found.problems == 0 && !all_are_there => {}
            Some(Err(_)) | None if !all_are_there => {}
            other => world.violation(format!("verification of {node}: {other:?}")),
        }
    }
}

/// All that run.
fn models(world: &World) -> Vec<Model> {
    let machines = world.machines.iter();
    machines.filter_map(|machine| machine.model()).collect()
}

/// Nobody asks any more for what is dropped here; in the end there must be nothing of the kind.
async fn drop_what_is_left(world: &World) {
    let mut left = Ok(0);
    for _ in 0..SWEEPS {
        left = sweep(world).await;
        if left == Ok(0) {
            return;
        }
    }
    world.violation(format!("content that nobody needs stays: {left:?}"));
}

/// Goes through all queues, and looks for what stands in none; tells how much there was to do.
async fn sweep(world: &World) -> Result<u64, String> {
    let mut done = 0;
    for model in models(world) {
        let orphans = model.find_orphans(Duration::ZERO, None).await;
        let swept = model.sweep_once().await;
        let text = |error: archipel_model::Error| error.to_string();
        let (orphans, swept) = (orphans.map_err(text)?, swept.map_err(text)?);
        if orphans > 0 {
            world.note(format!("{orphans} questions for content that nobody needs"));
        }
        done += orphans + swept.dropped + swept.in_use;
    }
    Ok(done)
}

/// Asks the first machine in a layout to verify all.
async fn verify(world: &World) -> Option<Verification> {
    let in_a_layout = |model: &Model| {
        let epoch = model.cluster().epoch();
        epoch.is_some_and(|epoch| epoch.incarnation_of(&model.cluster().me()).is_some())
    };
    let model = models(world).into_iter().find(in_a_layout)?;
    if let Err(error) = model.cluster().verify_start(true) {
        world.violation(format!("a verification does not begin: {error}"));
        return None;
    }
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
        let verification = model.cluster().verification();
        if let Some(ended) = verification.filter(|verification| verification.ended_ms > 0) {
            return Some(ended);
        }
    }
    world.violation("a verification does not end".into());
    None
}

/// Waits until what is damaged has been mended.
async fn mended(world: &World) {
    let mut waited = Duration::ZERO;
    loop {
        let mut all = models(world).into_iter();
        let Some(mending) = all.find_map(|model| {
            let mending = model.cluster().mending();
            (mending.waiting > 0).then_some(mending)
        }) else {
            return;
        };
        if waited >= PATIENCE {
            return world.violation(format!("a block stays damaged: {mending:?}"));
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
}
