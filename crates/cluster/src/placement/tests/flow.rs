//! Placement against a plain minimum-cost flow over all arcs: the fewest moves in cases too large
//! for exhaustive search.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use proptest::prelude::*;

use super::{assert_sound, node};
use crate::placement::{Candidate, Goal, Placement, Previous, Zones, place};
use archipel_base::PartitionId;

/// An arc with its remaining capacity. Its reverse is the arc with the last bit flipped.
struct Arc {
    to: usize,
    left: u32,
    cost: i64,
}

/// A flow network, solved by shortest augmenting paths with the search of Bellman and Ford.
#[derive(Default)]
struct Flow {
    arcs: Vec<Arc>,
    from: Vec<Vec<usize>>,
}

impl Flow {
    fn vertex(&mut self) -> usize {
        self.from.push(Vec::new());
        self.from.len() - 1
    }

    fn arc(&mut self, from: usize, to: usize, most: usize, cost: i64) {
        for (from, to, left, cost) in [(from, to, most as u32, cost), (to, from, 0, -cost)] {
            self.from[from].push(self.arcs.len());
            self.arcs.push(Arc { to, left, cost });
        }
    }

    /// Returns the largest flow and its least cost.
    fn solve(&mut self, source: usize, sink: usize) -> (usize, i64) {
        let (mut units, mut cost) = (0, 0);
        while let Some((distance, path)) = self.shortest(source, sink) {
            for arc in path {
                self.arcs[arc].left -= 1;
                self.arcs[arc ^ 1].left += 1;
            }
            units += 1;
            cost += distance;
        }
        (units, cost)
    }

    fn shortest(&self, source: usize, sink: usize) -> Option<(i64, Vec<usize>)> {
        let mut reached: BTreeMap<usize, (i64, Option<usize>)> =
            BTreeMap::from([(source, (0, None))]);
        let mut waiting = VecDeque::from([source]);
        while let Some(vertex) = waiting.pop_front() {
            let (distance, _) = reached[&vertex];
            for arc in &self.from[vertex] {
                let Arc { to, left, cost } = self.arcs[*arc];
                let nearer = reached
                    .get(&to)
                    .is_none_or(|(known, _)| distance + cost < *known);
                if left > 0 && nearer {
                    reached.insert(to, (distance + cost, Some(*arc)));
                    waiting.push_back(to);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = sink;
        while let (_, Some(arc)) = *reached.get(&at)? {
            path.push(arc);
            at = self.arcs[arc ^ 1].to;
        }
        Some((reached[&sink].0, path))
    }
}

/// Returns the fewest moves with which `placement`'s capacity is possible. Asserts that no larger
/// capacity is.
fn fewest_moves(
    nodes: &[Candidate],
    goal: &Goal,
    partition_bytes: u64,
    old: &[Vec<usize>],
) -> Option<i64> {
    let mut zones: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        zones.entry(&node.zone).or_default().push(place);
    }
    let distinct = match goal.zones {
        Zones::AtLeast(least) => least,
        Zones::Maximum => goal.replicas.min(zones.len()),
    };
    let mut flow = Flow::default();
    let (source, sink) = (flow.vertex(), flow.vertex());
    let stores: Vec<usize> = nodes.iter().map(|_| flow.vertex()).collect();
    for (node, store) in nodes.iter().zip(&stores) {
        flow.arc(
            *store,
            sink,
            (node.capacity_bytes / partition_bytes) as usize,
            0,
        );
    }
    for before in old {
        let (spread, free) = (flow.vertex(), flow.vertex());
        flow.arc(source, spread, distinct, 0);
        flow.arc(source, free, goal.replicas - distinct, 0);
        for places in zones.values() {
            let zone = flow.vertex();
            flow.arc(spread, zone, 1, 0);
            flow.arc(free, zone, goal.replicas, 0);
            for place in places {
                flow.arc(zone, stores[*place], 1, i64::from(!before.contains(place)));
            }
        }
    }
    let (units, cost) = flow.solve(source, sink);
    (units == old.len() * goal.replicas).then_some(cost)
}

fn old_places(
    previous: &[Candidate],
    placement: &Placement,
    nodes: &[Candidate],
) -> Vec<Vec<usize>> {
    let place = |old: &u16| {
        nodes
            .iter()
            .position(|node| node.id == previous[usize::from(*old)].id)
    };
    let partitions = (0..placement.assignment.partitions() as u16).map(PartitionId);
    partitions
        .map(|p| {
            placement
                .assignment
                .of(p)
                .iter()
                .filter_map(place)
                .collect()
        })
        .collect()
}

/// A change: the nodes by zone and capacity before and after (0: not there), the partitions, and
/// the replicas and zones before and after.
type ChangeCase = (Vec<(u8, u64, u64)>, u16, (usize, usize), (usize, usize));

fn changes() -> impl Strategy<Value = ChangeCase> {
    let node = (
        0..5_u8,
        0..=30_u64,
        prop_oneof![Just(0), 4..=9_u64, 1..=40_u64],
    );
    let pair = || (1..=4_usize, 1..=4_usize);
    (
        prop::collection::vec(node, 4..=12),
        4..=24_u16,
        pair(),
        pair(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_flow_moves_less((nodes, partitions, replicas, zones) in changes()) {
        let there = |capacity: fn(&(u8, u64, u64)) -> u64| -> Vec<Candidate> {
            let all = (0..).zip(&nodes).map(|(number, it)| node(number, &it.0.to_string(), capacity(it)));
            all.filter(|node| node.capacity_bytes > 0).collect()
        };
        let goal = |replicas, zones| Goal { partitions, replicas, zones: Zones::AtLeast(zones) };
        let (before, after) = (there(|it| it.1), there(|it| it.2));
        let (old_goal, new_goal) = (goal(replicas.0, zones.0), goal(replicas.1, zones.1));
        let Ok(old) = place(&before, &old_goal, None) else { return Ok(()) };
        let previous = Previous { nodes: &before, assignment: &old.assignment };
        let Ok(new) = place(&after, &new_goal, Some(&previous)) else { return Ok(()) };
        assert_sound(&after, &new_goal, &new);
        let held = old_places(&before, &old, &after);
        prop_assert_eq!(fewest_moves(&after, &new_goal, new.partition_bytes, &held), Some(new.moved as i64));
        prop_assert_eq!(fewest_moves(&after, &new_goal, new.partition_bytes + 1, &held), None);
    }
}
