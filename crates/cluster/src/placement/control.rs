//! Which nodes keep the control data.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use archipel_base::NodeId;

use super::Candidate;

/// The most nodes in a control group: more only make each write of control data slower.
const MOST: usize = 7;

/// A zone while members are chosen: its nodes, best first.
struct Site {
    nodes: Vec<u16>,
    /// How many of its nodes were members.
    before: usize,
}

/// Chooses the nodes of the control group: an odd number up to seven, as evenly over as many zones as can be, so that the
/// loss of one zone leaves a majority wherever there are three zones.
///
/// Members of `previous` stay where that does not spread the group worse; then nodes of larger capacity come first. Places
/// in `candidates`, sorted; empty only if there are none.
pub fn control_group(candidates: &[Candidate], previous: &[NodeId]) -> Vec<u16> {
    let sites = sites(candidates, previous);
    let largest = candidates.len().min(MOST);
    let sizes = (1..=largest).rev().filter(|size| size % 2 == 1);
    let groups: Vec<Vec<usize>> = sizes.map(|size| spread(&sites, size)).collect();
    let survives = |taken: &&Vec<usize>| {
        let size: usize = taken.iter().sum();
        taken.iter().all(|in_zone| *in_zone <= size / 2)
    };
    // With fewer than three zones none survives the loss of each: then as many as can be, for the nodes' sake.
    let Some(taken) = groups.iter().find(survives).or(groups.first()) else {
        return Vec::new();
    };
    let members = sites
        .iter()
        .zip(taken)
        .flat_map(|(site, taken)| &site.nodes[..*taken]);
    let mut members: Vec<u16> = members.copied().collect();
    members.sort_unstable();
    members
}

/// The zones by name, with their nodes: members first, then by capacity, then by id.
fn sites(candidates: &[Candidate], previous: &[NodeId]) -> Vec<Site> {
    let mut zones: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for (place, node) in (0..).zip(candidates) {
        zones.entry(&node.zone).or_default().push(place);
    }
    let was_member = |place: &u16| previous.contains(&candidates[usize::from(*place)].id);
    let rank = |place: &u16| {
        let node = &candidates[usize::from(*place)];
        (!was_member(place), Reverse(node.capacity_bytes), node.id)
    };
    let site = |mut nodes: Vec<u16>| {
        nodes.sort_by_key(rank);
        let before = nodes.iter().filter(|place| was_member(place)).count();
        Site { nodes, before }
    };
    zones.into_values().map(site).collect()
}

/// How many nodes each zone gives to a group of `size`: one after another from the zone that has given the fewest, among
/// these from one with a member that is not taken yet.
fn spread(sites: &[Site], size: usize) -> Vec<usize> {
    let mut taken = vec![0; sites.len()];
    for _ in 0..size {
        let with_nodes = (0..sites.len()).filter(|zone| taken[*zone] < sites[*zone].nodes.len());
        let next =
            with_nodes.min_by_key(|zone| (taken[*zone], sites[*zone].before <= taken[*zone]));
        if let Some(zone) = next {
            taken[zone] += 1;
        }
    }
    taken
}
