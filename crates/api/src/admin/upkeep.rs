//! Scrubbing, mending and healing.

use archipel_cluster::{Healing, Mending, PeerHealing, Scrubbing};

use super::Admin;
use super::answer::Refusal;
use super::types::{BlockTrouble, HealingInfo, MendingInfo, ScrubInfo, StartScrub, Upkeep};

/// How scrubbing and mending go on this node.
pub(super) async fn show(admin: &Admin) -> Upkeep {
    let cluster = admin.model.cluster();
    Upkeep {
        scrub: scrub_info(cluster.scrubbing()),
        mending: mending_info(admin, cluster.mending()).await,
        healing: healing_info(&cluster.healing()),
    }
}

fn healing_info(healing: &Healing) -> HealingInfo {
    let peers = &healing.peers;
    let sum = |of: fn(&PeerHealing) -> u64| peers.iter().map(of).sum::<u64>();
    HealingInfo {
        away: sum(|peer| u64::from(peer.away)),
        partitions: sum(|peer| peer.partitions),
        rows: sum(|peer| peer.rows),
        waiting_bytes: healing.waiting_bytes,
        came_rows: healing.rows,
        came_bytes: healing.block_bytes,
        trouble: peers.iter().find_map(|peer| peer.trouble.clone()),
    }
}

/// Begins a pass now; everything damaged that waits is tried again, too.
pub(super) async fn start(admin: &Admin, ask: StartScrub) -> Result<Upkeep, Refusal> {
    if ask.rate == Some(0) {
        return Err(Refusal::invalid(
            "a rate of 0 would never end: stop the scrub instead",
        ));
    }
    let cluster = admin.model.cluster();
    cluster.scrub_start(ask.rate).await.map_err(failed)?;
    cluster.hurry_mending();
    Ok(show(admin).await)
}

/// Ends the pass that runs.
pub(super) async fn stop(admin: &Admin) -> Result<Upkeep, Refusal> {
    admin.model.cluster().scrub_stop().await.map_err(failed)?;
    Ok(show(admin).await)
}

fn failed(error: archipel_cluster::Error) -> Refusal {
    archipel_model::Error::from(error).into()
}

/// Scrubbing.
pub(super) fn scrub_info(scrub: Scrubbing) -> ScrubInfo {
    ScrubInfo {
        running: scrub.running,
        asked: scrub.asked,
        rate: scrub.rate,
        began_ms: scrub.began_ms,
        ended_ms: scrub.ended_ms,
        next_ms: scrub.next_ms,
        blocks: scrub.blocks,
        bytes: scrub.bytes,
        stored_bytes: scrub.stored_bytes,
        damaged: scrub.damaged,
    }
}

/// Mending, with what is damaged called by its name.
pub(super) async fn mending_info(admin: &Admin, mending: Mending) -> MendingInfo {
    let mut troubles = Vec::with_capacity(mending.troubles.len());
    for trouble in mending.troubles {
        let mut used_by = Vec::with_capacity(trouble.rows.len());
        for row in &trouble.rows {
            used_by.push(admin.model.name_of_row(row).await);
        }
        troubles.push(BlockTrouble {
            block: trouble.hash.to_string(),
            why: trouble.why,
            used_by,
        });
    }
    MendingInfo {
        waiting: mending.waiting,
        mended: mending.mended,
        failed: mending.failed,
        stuck: mending.stuck,
        troubles,
    }
}
