//! The optimum: keep the replicas that can stay, fill by cheapest paths, level the load by free
//! ones.

use super::PlacementError;
use super::network::Network;
use super::search::{Search, distances};

/// The result of the searches: the potentials of the nodes, and of a node with room.
struct Potentials {
    nodes: Vec<i32>,
    room: i32,
}

/// Completes an empty network, optimally.
pub(super) fn solve(network: &mut Network<'_>) -> Result<(), PlacementError> {
    keep(network);
    let potentials = fill(network)?;
    while level(network, &potentials) {}
    Ok(())
}

/// Keeps replicas where they were, as long as there is room. If a node holds too much, it gives up
/// partitions that have lost the fewest replicas so far, so that none loses all.
fn keep(network: &mut Network<'_>) {
    let mut kept: Vec<Vec<u16>> = vec![Vec::new(); network.nodes()];
    for partition in 0..network.partitions() {
        for node in network.keepable(partition) {
            kept[usize::from(node)].push(partition);
        }
    }
    let mut lost = vec![0_u32; network.partitions().into()];
    for (node, mut partitions) in (0..).zip(kept) {
        partitions
            .sort_by_key(|partition| (lost[usize::from(*partition)], scatter(*partition, node)));
        let too_many = partitions.len().saturating_sub(network.room(node));
        for (place, partition) in partitions.into_iter().enumerate() {
            if place < too_many {
                lost[usize::from(partition)] += 1;
            } else {
                network.add(partition, node);
            }
        }
    }
}

/// Adds the missing replicas by paths of least weight.
fn fill(network: &mut Network<'_>) -> Result<Potentials, PlacementError> {
    let mut potentials = Potentials {
        nodes: vec![0; network.nodes()],
        room: 0,
    };
    loop {
        let missing = fill_tightly(network, &potentials);
        if missing == 0 {
            return Ok(potentials);
        }
        raise(network, &mut potentials).ok_or(PlacementError::NotFound { missing })?;
    }
}

/// Adds as many replicas as tight paths can, one for each partition in turn. Returns how many are
/// still missing.
fn fill_tightly(network: &mut Network<'_>, potentials: &Potentials) -> usize {
    // No later path of the same potentials leads out of a node where a search failed.
    let mut closed = vec![false; network.nodes()];
    let mut lacking: Vec<u16> = (0..network.partitions()).collect();
    let mut missing = 0;
    while !lacking.is_empty() {
        lacking.retain(|partition| {
            let lacks = network.lacks(*partition);
            let done = lacks == 0 || !add(network, potentials, *partition, &mut closed);
            missing += if done { lacks } else { 0 };
            !done
        });
    }
    missing
}

/// Adds a replica of a partition by a shortest tight path to the node that is emptiest for its
/// capacity.
fn add(
    network: &mut Network<'_>,
    potentials: &Potentials,
    partition: u16,
    closed: &mut [bool],
) -> bool {
    let mut search = Search::new(&potentials.nodes, closed);
    let mut seen = search.add(network, partition);
    while !seen.is_empty() {
        // No node's potential is above that of room, and no node with room is below it. So the path
        // is a cheapest one.
        let found = seen.iter().copied().filter(|node| network.has_room(*node));
        let best = found.min_by(|a, b| {
            let tie = || scatter(partition, *a).cmp(&scatter(partition, *b));
            network.compare_adding(*a, *b).then_with(tie)
        });
        if let Some(node) = best {
            search.follow(network, node);
            return true;
        }
        seen = search.step(network, &seen);
    }
    search.close(closed);
    false
}

/// Raises potentials until there is a tight path again. Returns `None` if there is no path at all.
///
/// Each potential rises by the node's distance from missing replicas, in excess of the known
/// distance, but by no more than that of room. So the potentials stay lower bounds of the
/// exchanges.
fn raise(network: &Network<'_>, potentials: &mut Potentials) -> Option<()> {
    let distances = distances(network);
    let with_room = (0..)
        .zip(&distances)
        .filter(|(node, _)| network.has_room(*node));
    let room = with_room.filter_map(|(_, distance)| *distance).min()?;
    let most = room - potentials.room;
    // Otherwise a tight path existed, and the loop would never end.
    if most <= 0 {
        return None;
    }
    for (potential, distance) in potentials.nodes.iter_mut().zip(distances) {
        *potential += distance.map_or(most, |distance| most.min(distance - *potential));
    }
    potentials.room = room;
    Some(())
}

/// Moves one partition's worth of load by a path without weight to a node where it costs less.
/// Returns true if there was such a path.
///
/// Nodes are searched in the order of their load. A node that one search saw without success leads
/// nowhere for a later one.
fn level(network: &mut Network<'_>, potentials: &Potentials) -> bool {
    let can_give = |node: &u16| {
        !network.holds(*node).is_empty() && potentials.nodes[usize::from(*node)] == potentials.room
    };
    let mut givers: Vec<u16> = (0..network.nodes() as u16).filter(can_give).collect();
    givers.sort_by(|a, b| network.compare_removing(*b, *a));
    let mut search = Search::new(&potentials.nodes, &vec![false; network.nodes()]);
    for giver in givers {
        if search.is_seen(giver) {
            continue;
        }
        search.start_at(giver);
        let mut best: Option<u16> = None;
        let mut seen = vec![giver];
        while !seen.is_empty() {
            seen = search.step(network, &seen);
            let takers = seen.iter().copied().filter(|node| network.has_room(*node));
            best = best
                .into_iter()
                .chain(takers)
                .min_by(|a, b| network.compare_adding(*a, *b));
        }
        if let Some(taker) = best.filter(|taker| network.is_better(giver, *taker)) {
            search.follow(network, taker);
            return true;
        }
    }
    false
}

/// Returns a fixed order that differs for each partition, so that equal nodes do not always go
/// together.
fn scatter(partition: u16, node: u16) -> u32 {
    let both = (u32::from(partition) << 16) | u32::from(node);
    let mixed = (both ^ (both >> 15)).wrapping_mul(0x2c1b_3c6d);
    (mixed ^ (mixed >> 12)).wrapping_mul(0x297a_2d39)
}
