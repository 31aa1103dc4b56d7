//! The faults: links, power, disks, clocks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::BlockHash;
use archipel_base::random::SeededRandom;
use archipel_net::simulated::Link;

use super::disks::Room;
use super::power::FULL;
use super::world::World;
use super::{disks, replicas};
use crate::rng::Rng;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a random link, near or far, good or bad.
pub fn link(rng: &mut Rng) -> Link {
    Link {
        latency: millis(rng.between(1, 80)),
        jitter: millis(rng.between(0, 60)),
        loss_per_mille: if rng.chance(40) {
            rng.between(1, 50) as u32
        } else {
            0
        },
        bytes_per_second: rng.chance(20).then_some(2 << 20),
    }
}

/// Causes faults until it is time to stop.
pub async fn go_wrong(world: Arc<World>, mut rng: Rng) {
    while !world.is_calm() {
        tokio::time::sleep(millis(rng.between(50, 4000))).await;
        match rng.below(100) {
            0..25 => cut_some(&world, &mut rng),
            25..45 => {
                world.note("links work again");
                world.network.end_all_cuts();
            }
            45..58 => crash_some(&world, &mut rng).await,
            58..60 => lose_disk(&world, &mut rng).await,
            60..75 => start_all(&world).await,
            75..78 => blackout(&world, &mut rng).await,
            78..90 => change_link(&world, &mut rng),
            90..97 => move_clock(&world, &mut rng),
            // A machine that is off or cut off stays so for days.
            _ => world.pass_hours(rng.between(1, 72)),
        }
    }
}

/// Ends all faults.
pub async fn end_all(world: &World) {
    world.note("all faults are over");
    disks::free_all(world);
    world.network.end_all_cuts();
    for from in &world.machines {
        for to in &world.machines {
            world.network.set_link(from.id, to.id, super::world::near());
        }
        from.clock.set_skew(0);
    }
    start_all(world).await;
}

fn pick(world: &World, rng: &mut Rng) -> usize {
    rng.below(world.machines.len() as u64) as usize
}

/// Cuts one direction, both, or a machine off from all others.
fn cut_some(world: &World, rng: &mut Rng) {
    let (one, other) = (pick(world, rng), pick(world, rng));
    let (id, other_id) = (world.machines[one].id, world.machines[other].id);
    let alone = rng.chance(40);
    let (there, back) = (rng.chance(80), rng.chance(80));
    world.note(format!("cut {one} {other} alone={alone} {there} {back}"));
    for peer in world.machines.iter().map(|machine| machine.id) {
        if peer == id || !(alone || peer == other_id) {
            continue;
        }
        if there {
            world.network.cut(id, peer);
        }
        if back {
            world.network.cut(peer, id);
        }
    }
}

/// Cuts a machine's power, if it is on.
pub fn crash(world: &World, index: usize, rng: &mut Rng) {
    if world.machines[index].is_up() {
        world.note(format!("machine {index} loses power"));
        let now = world.now_millis();
        let mut record = world.record();
        record.counts.crashes += 1;
        record.loose.cut(now);
        drop(record);
        world.machines[index].crash(&SeededRandom::new(rng.number()));
    }
}

/// Crashes one machine, most often for a short while.
async fn crash_some(world: &World, rng: &mut Rng) {
    let index = pick(world, rng);
    crash(world, index, rng);
    if rng.chance(70) {
        tokio::time::sleep(millis(rng.between(1, 3000))).await;
        start(world, index).await;
    }
}

/// Lets a machine come back empty: it is another store until an operator assigns it. This happens
/// at most once, because a second loss could be too many.
async fn lose_disk(world: &World, rng: &mut Rng) {
    let index = pick(world, rng);
    if !world.style.loses_disk || world.record().counts.spoiled() > 0 {
        return;
    }
    crash(world, index, rng);
    if !world.machines[index].is_off() {
        return;
    }
    world.note(format!("the disks of {index} are lost"));
    world.record().counts.disks_lost += 1;
    world.machines[index].lose_disks();
    tokio::time::sleep(millis(rng.between(1, 3000))).await;
    start(world, index).await;
}

/// Flips bits on the disk of one machine, unless another one's is spoiled, because there must be a
/// good copy of everything. So they flip only in blocks of rows that another machine held as well
/// at two checks in a row. A row that only one replica holds was not acknowledged, and nobody could
/// repair it.
pub async fn flip_bits(world: Arc<World>, mut rng: Rng) {
    let index = pick(&world, &mut rng);
    let mut copied_before = BTreeSet::new();
    while !world.is_calm() {
        tokio::time::sleep(millis(rng.between(500, 10_000))).await;
        let counts = world.record().counts;
        if counts.disks_lost + counts.rolled_back > 0 {
            return;
        }
        let crashes = world.record().counts.crashes;
        let copied = match replicas::copied(&world, index).await {
            Ok(copied) => copied,
            // Its machine lost power meanwhile.
            Err(_) if world.record().counts.crashes > crashes => BTreeSet::new(),
            Err(error) => return world.violation(format!("a store cannot be read: {error}")),
        };
        let both: Vec<BlockHash> = copied.intersection(&copied_before).copied().collect();
        copied_before = copied;
        let Some(block) = both.get(rng.below(both.len().max(1) as u64) as usize) else {
            continue;
        };
        if let Some(at) = world.machines[index].flip(block, &mut rng) {
            world.note(format!("a bit flips on the disk of {index}: {at:?}"));
            world.record().counts.flips += 1;
        }
    }
}

/// Cuts the power of all machines, and starts them again.
pub async fn blackout(world: &World, rng: &mut Rng) {
    world.note("a blackout");
    for index in 0..world.machines.len() {
        crash(world, index, rng);
    }
    tokio::time::sleep(millis(rng.between(1, 3000))).await;
    start_all(world).await;
}

/// Switches a machine on, if it is off.
pub async fn start(world: &World, index: usize) {
    let machine = &world.machines[index];
    if !machine.is_off() {
        return;
    }
    world.note(format!("machine {index} starts"));
    while let Err(why) = machine.start().await {
        if !why.contains(FULL) {
            return world.violation(format!("machine {index} does not start: {why}"));
        }
        // Each run begins with a commit. The operator makes room for it.
        world.note(format!("machine {index} needs room to start"));
        machine.set_room(Room::Free);
    }
}

async fn start_all(world: &World) {
    for index in 0..world.machines.len() {
        start(world, index).await;
    }
}

fn change_link(world: &World, rng: &mut Rng) {
    let (from, to) = (pick(world, rng), pick(world, rng));
    let link = link(rng);
    world.note(format!("link {from} {to} {link:?}"));
    world
        .network
        .set_link(world.machines[from].id, world.machines[to].id, link);
}

/// Moves clocks by some milliseconds, now and then by seconds, and at most one of them by minutes.
fn move_clock(world: &World, rng: &mut Rng) {
    let index = pick(world, rng);
    let far = match rng.below(10) {
        0..6 => 200,
        6..8 => 5_000,
        _ => 600_000,
    };
    let skew = rng.between(0, 2 * far) as i64 - far as i64;
    let mut others = world
        .machines
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != index);
    if far > 5_000 && others.any(|(_, machine)| machine.clock.skew().abs() > 5_000) {
        // Two of three clocks must be right.
        return;
    }
    world.note(format!("the clock of {index} is off by {skew} ms"));
    world.machines[index].clock.set_skew(skew);
}
