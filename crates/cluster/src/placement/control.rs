//! The nodes that keep the control data.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use archipel_base::NodeId;

use super::Candidate;
use super::words::name;

/// The largest control group. More nodes would only make each write of control data slower.
const MOST: usize = 7;

/// A zone and its nodes, best first, while members are chosen.
struct Site {
    nodes: Vec<u16>,
    /// The number of its nodes that were members.
    before: usize,
}

/// Chooses the nodes of the control group: an odd number up to seven, spread as evenly as possible
/// over as many zones as possible. So with three zones or more, the loss of one zone leaves a
/// majority, unless it leaves none of the `replicas` of data either. The group survives the loss of
/// as many nodes as data with up to seven replicas does. Two members would be worse than one: both
/// would have to answer, and no operator could go on without either.
///
/// Members of `previous` stay unless that spreads the group worse. Then nodes of larger capacity
/// come first. Returns sorted indices into `candidates`; empty only if there are none.
pub fn control_group(candidates: &[Candidate], replicas: usize, previous: &[NodeId]) -> Vec<u16> {
    let sites = sites(candidates, previous);
    let largest = candidates.len().min(MOST);
    let least = replicas.min(largest).saturating_sub(1) / 2 * 2 + 1;
    let sizes = (least..=largest).rev().filter(|size| size % 2 == 1);
    let groups: Vec<Vec<usize>> = sizes.map(|size| spread(&sites, size)).collect();
    let survives = |taken: &&Vec<usize>| {
        let size: usize = taken.iter().sum();
        taken.iter().all(|in_zone| *in_zone <= size / 2)
    };
    // With fewer than three zones no group survives the loss of each zone. The largest group still
    // survives the loss of nodes.
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

/// Returns a warning if control data has one copy although there are more nodes: without that node,
/// no data can be reached, however many replicas it has.
pub fn control_warning(candidates: &[Candidate], group: &[u16]) -> Option<String> {
    let ([only], 2..) = (group, candidates.len()) else {
        return None;
    };
    let node = name(candidates.get(usize::from(*only))?);
    Some(format!(
        "warning: buckets, access keys, the keyring and the layout have one copy, on node {node}; if its disks \
         are lost, all data is lost, however many replicas it has; fix: let at least 3 nodes hold data"
    ))
}

/// Returns the zones by name, with their nodes: members first, then by capacity, then by id.
fn sites(candidates: &[Candidate], previous: &[NodeId]) -> Vec<Site> {
    let mut zones: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for (index, node) in (0..).zip(candidates) {
        zones.entry(&node.zone).or_default().push(index);
    }
    let was_member = |index: &u16| previous.contains(&candidates[usize::from(*index)].id);
    let rank = |index: &u16| {
        let node = &candidates[usize::from(*index)];
        (!was_member(index), Reverse(node.capacity_bytes), node.id)
    };
    let site = |mut nodes: Vec<u16>| {
        nodes.sort_by_key(rank);
        let before = nodes.iter().filter(|index| was_member(index)).count();
        Site { nodes, before }
    };
    zones.into_values().map(site).collect()
}

/// Returns how many nodes each zone gives to a group of `size`. The zone that has given the fewest
/// comes next; of several, one with a member that is not chosen yet.
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
