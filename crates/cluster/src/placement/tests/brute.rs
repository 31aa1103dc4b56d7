//! Placement against exhaustive search: capacity, moves and load are optimal, in this order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{assert_sound, node};
use crate::placement::{Assignment, Candidate, Goal, Previous, Zones, place};
use archipel_base::PartitionId;

/// A small case: the nodes, the goal, and the previous holders.
#[derive(Debug, Clone)]
struct Case {
    nodes: Vec<Candidate>,
    goal: Goal,
    before: Vec<Vec<u16>>,
}

/// The criteria, in order: bytes of a partition, then replicas that stay (more is better in both),
/// then the load (less is better).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Worth {
    partition_bytes: u64,
    kept: usize,
    load: std::cmp::Reverse<u64>,
}

impl Case {
    fn distinct(&self) -> usize {
        let zones: BTreeSet<&str> = self.nodes.iter().map(|node| node.zone.as_str()).collect();
        match self.goal.zones {
            Zones::AtLeast(least) => least,
            Zones::Maximum => self.goal.replicas.min(zones.len()),
        }
    }

    /// Returns all sets of nodes that may hold a partition, as bits.
    fn allowed(&self) -> Vec<u32> {
        let fits = |set: &u32| {
            let nodes = (0..self.nodes.len()).filter(|n| set >> n & 1 == 1);
            let zones: BTreeSet<&str> = nodes.map(|n| self.nodes[n].zone.as_str()).collect();
            set.count_ones() as usize == self.goal.replicas && zones.len() >= self.distinct()
        };
        (0..1 << self.nodes.len()).filter(fits).collect()
    }

    /// Returns the worth of the best assignment. Its load is minimal only among assignments that
    /// keep as many replicas.
    fn best(&self) -> Option<Worth> {
        let allowed = self.allowed();
        let mut sets = vec![0; self.goal.partitions.into()];
        // Finds the largest partition first, because loads are compared only among assignments that
        // fit.
        let mut size = 0;
        each(&allowed, &mut sets, 0, &mut |sets| {
            size = size.max(self.fits(sets))
        });
        let mut best = None;
        each(&allowed, &mut sets, 0, &mut |sets| {
            if self.fits(sets) >= size {
                best = best.max(Some(self.worth(sets, size)));
            }
        });
        best.filter(|best| best.partition_bytes > 0)
    }

    fn loads(&self, sets: &[u32]) -> Vec<u64> {
        let load = |n| sets.iter().filter(|set| *set >> n & 1 == 1).count() as u64;
        (0..self.nodes.len()).map(load).collect()
    }

    /// Returns the largest partition for which an assignment fits.
    fn fits(&self, sets: &[u32]) -> u64 {
        let loads = self
            .nodes
            .iter()
            .zip(self.loads(sets))
            .filter(|(_, load)| *load > 0);
        loads
            .map(|(node, load)| node.capacity_bytes / load)
            .min()
            .unwrap_or(0)
    }

    fn worth(&self, sets: &[u32], partition_bytes: u64) -> Worth {
        let before = self
            .before
            .iter()
            .map(|nodes| nodes.iter().fold(0, |set, n| set | 1 << n));
        let kept = sets
            .iter()
            .zip(before)
            .map(|(set, before): (&u32, u32)| (set & before).count_ones() as usize);
        // Scaled by a number that all capacities divide.
        let scale: u64 = 27_720;
        let load = self
            .nodes
            .iter()
            .zip(self.loads(sets))
            .map(|(node, load)| load * load * scale / node.capacity_bytes);
        Worth {
            partition_bytes,
            kept: kept.sum(),
            load: std::cmp::Reverse(load.sum()),
        }
    }
}

/// Calls for every choice of a set for each partition.
fn each(allowed: &[u32], sets: &mut Vec<u32>, from: usize, call: &mut impl FnMut(&[u32])) {
    if from == sets.len() {
        return call(sets);
    }
    for set in allowed {
        sets[from] = *set;
        each(allowed, sets, from + 1, call);
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let nodes = prop::collection::vec((0..4_u8, 1..=12_u64), 1..=5);
    let goal = (1..=6_u16, 1..=4_usize, 0..=4_usize);
    let random = prop::collection::vec(prop::collection::vec(0..5_u16, 0..=4), 6);
    // A previous layout: each node's capacity (0: it was not there), and the replicas.
    let placed = (prop::collection::vec(0..=12_u64, 5), 1..=4_usize);
    let before = prop_oneof![
        random.prop_map(Before::Random),
        placed.prop_map(|(capacities, replicas)| Before::Placed(capacities, replicas)),
    ];
    (nodes, goal, before).prop_map(case)
}

/// The previous holders of the partitions: anywhere, or by a placement.
#[derive(Debug, Clone)]
enum Before {
    Random(Vec<Vec<u16>>),
    Placed(Vec<u64>, usize),
}

type Wishes = (u16, usize, usize);

fn case((nodes, (partitions, replicas, zones), before): (Vec<(u8, u64)>, Wishes, Before)) -> Case {
    let nodes: Vec<Candidate> = (0..)
        .zip(nodes)
        .map(|(number, (zone, capacity))| node(number, &zone.to_string(), capacity))
        .collect();
    let replicas = replicas.min(nodes.len());
    let there: BTreeSet<&str> = nodes.iter().map(|node| node.zone.as_str()).collect();
    let zones = match zones.min(replicas).min(there.len()) {
        0 => Zones::Maximum,
        least => Zones::AtLeast(least),
    };
    let mut case = Case {
        nodes,
        goal: Goal {
            partitions,
            replicas,
            zones,
        },
        before: Vec::new(),
    };
    // Keeps the case small enough for exhaustive search.
    while case.allowed().len().pow(case.goal.partitions.into()) > 20_000 {
        case.goal.partitions -= 1;
    }
    case.before = match before {
        Before::Random(before) => random_before(&case, before),
        Before::Placed(capacities, replicas) => placed_before(&case, &capacities, replicas),
    };
    case
}

fn random_before(case: &Case, before: Vec<Vec<u16>>) -> Vec<Vec<u16>> {
    let known = |held: Vec<u16>| -> Vec<u16> {
        let set: BTreeSet<u16> = held
            .into_iter()
            .filter(|n| usize::from(*n) < case.nodes.len())
            .collect();
        set.into_iter().collect()
    };
    before
        .into_iter()
        .take(case.goal.partitions.into())
        .map(known)
        .collect()
}

fn placed_before(case: &Case, capacities: &[u64], replicas: usize) -> Vec<Vec<u16>> {
    let then = |(place, (now, capacity)): (u16, (&Candidate, &u64))| {
        let capacity_bytes = *capacity;
        (
            place,
            Candidate {
                capacity_bytes,
                ..now.clone()
            },
        )
    };
    let all = (0..).zip(case.nodes.iter().zip(capacities)).map(then);
    let (places, nodes): (Vec<u16>, Vec<Candidate>) =
        all.filter(|(_, node)| node.capacity_bytes > 0).unzip();
    let goal = Goal {
        replicas,
        zones: Zones::AtLeast(1),
        ..case.goal
    };
    let Ok(placement) = place(&nodes, &goal, None) else {
        return vec![Vec::new(); case.goal.partitions.into()];
    };
    let held = |partition| {
        let held = placement.assignment.of(PartitionId(partition)).iter();
        held.map(|place| places[usize::from(*place)]).collect()
    };
    (0..case.goal.partitions).map(held).collect()
}

/// Returns the previous assignment. Nodes that are gone fill the slots that a case leaves open.
fn previous(case: &Case) -> (Vec<Candidate>, Assignment) {
    let mut nodes = case.nodes.clone();
    let gone = nodes.len() as u16;
    nodes.push(node(100, "gone", 5));
    let fill = |held: &Vec<u16>| {
        let mut held = held.clone();
        held.resize(4, gone);
        held
    };
    let places = case.before.iter().flat_map(fill).collect();
    (nodes, Assignment::new(4, places).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn no_assignment_is_better(case in cases()) {
        let (nodes, assignment) = previous(&case);
        let previous = Previous { nodes: &nodes, assignment: &assignment };
        let found = place(&case.nodes, &case.goal, Some(&previous));
        let Some(best) = case.best() else {
            prop_assert!(found.is_err());
            return Ok(());
        };
        let found = found.unwrap();
        assert_sound(&case.nodes, &case.goal, &found);
        let set = |partition| {
            let places = found.assignment.of(PartitionId(partition)).iter();
            places.fold(0, |set, place| set | 1 << place)
        };
        let sets: Vec<u32> = (0..case.goal.partitions).map(set).collect();
        prop_assert_eq!(case.worth(&sets, found.partition_bytes), best);
        prop_assert_eq!(found.moved, sets.len() * case.goal.replicas - best.kept);
    }
}

/// A case that random cases seldom meet: two large zones have room for all, but not for three zones
/// each.
#[test]
fn a_third_zone_limits_four_replicas() {
    let capacities = [("a", 12), ("a", 12), ("b", 12), ("b", 12), ("c", 3)];
    let nodes = (0..)
        .zip(capacities)
        .map(|(number, (zone, bytes))| node(number, zone, bytes));
    let case = Case {
        nodes: nodes.collect(),
        goal: Goal {
            partitions: 3,
            replicas: 4,
            zones: Zones::AtLeast(3),
        },
        before: vec![Vec::new(); 3],
    };
    let found = place(&case.nodes, &case.goal, None).unwrap();
    assert_sound(&case.nodes, &case.goal, &found);
    assert_eq!(found.partition_bytes, 1);
    assert_eq!(case.best().map(|best| best.partition_bytes), Some(1));
}

/// A full node keeps its partitions, although an empty one could take some.
#[test]
fn a_replica_that_may_stay_does_not_move_for_an_even_load() {
    let case = Case {
        nodes: vec![node(0, "a", 4), node(1, "b", 3), node(2, "b", 12)],
        goal: Goal {
            partitions: 4,
            replicas: 2,
            zones: Zones::Maximum,
        },
        before: vec![vec![0, 1]; 4],
    };
    let (nodes, assignment) = previous(&case);
    let previous = Previous {
        nodes: &nodes,
        assignment: &assignment,
    };
    let found = place(&case.nodes, &case.goal, Some(&previous)).unwrap();
    assert_eq!((found.partition_bytes, found.moved), (1, 1));
}
