//! The checked request, and the largest partition that it allows.

use std::collections::BTreeSet;

use super::{Candidate, Goal, PlacementError, Zones};

/// A checked problem.
pub(super) struct Problem<'a> {
    pub(super) candidates: &'a [Candidate],
    /// For each candidate the number of its zone.
    pub(super) zone_of: Vec<u16>,
    /// The number of zones.
    pub(super) zones: usize,
    pub(super) partitions: u64,
    pub(super) replicas: usize,
    /// The number of replicas of a partition that may share a zone with another one.
    pub(super) doubles: usize,
}

impl<'a> Problem<'a> {
    /// Checks the request.
    pub(super) fn new(
        candidates: &'a [Candidate],
        goal: &Goal,
    ) -> Result<Problem<'a>, PlacementError> {
        check(candidates, goal)?;
        let zones: BTreeSet<&str> = candidates.iter().map(|node| node.zone.as_str()).collect();
        let replicas = goal.replicas;
        let distinct = match goal.zones {
            Zones::AtLeast(asked) if asked > replicas => {
                return Err(PlacementError::MoreZonesThanReplicas { asked, replicas });
            }
            Zones::AtLeast(asked) if asked > zones.len() => {
                let zones = zones.len();
                return Err(PlacementError::TooFewZones { asked, zones });
            }
            Zones::AtLeast(asked) => asked,
            Zones::Maximum => replicas.min(zones.len()),
        };
        let names: Vec<&str> = zones.into_iter().collect();
        let number =
            |node: &Candidate| names.partition_point(|name| *name < node.zone.as_str()) as u16;
        Ok(Problem {
            candidates,
            zone_of: candidates.iter().map(number).collect(),
            zones: names.len(),
            partitions: goal.partitions.into(),
            replicas,
            doubles: replicas - distinct,
        })
    }

    /// Returns how many partitions of a size a node can hold.
    pub(super) fn room(&self, node: &Candidate, partition_bytes: u64) -> u64 {
        (node.capacity_bytes / partition_bytes.max(1)).min(self.partitions)
    }

    /// Returns the largest size of a partition that allows an assignment.
    pub(super) fn partition_bytes(&self) -> Result<u64, PlacementError> {
        let largest = self.candidates.iter().map(|node| node.capacity_bytes).max();
        let fits = |size| self.shortage(size).is_none();
        match largest_that(u128::from(largest.unwrap_or(0)), |size| fits(size as u64)) {
            0 => Err(self.too_small()),
            size => Ok(size as u64),
        }
    }

    /// Returns how much could be stored if partitions were arbitrarily many and small.
    pub(super) fn upper_bound_bytes(&self) -> u64 {
        let all = self
            .candidates
            .iter()
            .map(|node| u128::from(node.capacity_bytes));
        let bound = largest_that(all.sum::<u128>() / self.replicas as u128, |usable| {
            self.bound(usable, |node| usable.min(node.capacity_bytes.into()))
                .is_none()
        });
        u64::try_from(bound).unwrap_or(u64::MAX)
    }

    /// Returns, for each node, true if its capacity is short while other nodes have capacity left.
    pub(super) fn limits(&self, partition_bytes: u64) -> Vec<bool> {
        let larger = partition_bytes.saturating_add(1);
        let Some(most) = self.shortage(larger) else {
            return vec![false; self.candidates.len()];
        };
        let held = self.by_zone(|node| self.room(node, larger).into());
        let is_short = |(node, zone): (&Candidate, &u16)| {
            held[usize::from(*zone)] < most && self.room(node, larger) < self.partitions
        };
        let short: Vec<bool> = self
            .candidates
            .iter()
            .zip(&self.zone_of)
            .map(is_short)
            .collect();
        if short.iter().all(|short| *short) {
            return vec![false; short.len()];
        }
        short
    }

    /// Returns `None` if an assignment with partitions of this size exists. Otherwise returns how
    /// many replicas the violated cut lets a zone hold at most.
    fn shortage(&self, partition_bytes: u64) -> Option<u128> {
        self.bound(self.partitions.into(), |node| {
            self.room(node, partition_bytes).into()
        })
    }

    /// Checks the two cuts. `unit` is the size of one copy of everything, `held` the part that a
    /// node holds.
    fn bound(&self, unit: u128, held: impl Fn(&Candidate) -> u128) -> Option<u128> {
        let held = self.by_zone(held);
        let taken = |most: u128| held.iter().map(|zone| (*zone).min(most)).sum::<u128>();
        let (replicas, doubles) = (self.replicas as u128, self.doubles as u128);
        let cuts = [
            (unit * (doubles + 1), unit * replicas),
            (unit, unit * (replicas - doubles)),
        ];
        cuts.into_iter()
            .find(|(most, needed)| taken(*most) < *needed)
            .map(|(most, _)| most)
    }

    fn by_zone(&self, held: impl Fn(&Candidate) -> u128) -> Vec<u128> {
        let mut sums = vec![0; self.zones];
        for (node, zone) in self.candidates.iter().zip(&self.zone_of) {
            sums[usize::from(*zone)] += held(node);
        }
        sums
    }

    fn too_small(&self) -> PlacementError {
        let sum = |sum: u64, node: &Candidate| sum.saturating_add(node.capacity_bytes);
        PlacementError::TooSmall {
            capacity_bytes: self.candidates.iter().fold(0, sum),
            partitions: self.partitions,
            replicas: self.replicas,
        }
    }
}

/// Refuses errors that do not depend on zones.
fn check(candidates: &[Candidate], goal: &Goal) -> Result<(), PlacementError> {
    let is_none = matches!(goal.zones, Zones::AtLeast(0));
    let zeros = [
        (goal.partitions == 0, "partitions"),
        (goal.replicas == 0, "replicas"),
        (is_none, "zones"),
    ];
    if let Some((_, what)) = zeros.into_iter().find(|(is_zero, _)| *is_zero) {
        return Err(PlacementError::Zero { what });
    }
    let (nodes, replicas) = (candidates.len(), goal.replicas);
    if nodes < replicas {
        return Err(PlacementError::TooFewNodes { replicas, nodes });
    }
    if nodes > usize::from(u16::MAX) {
        return Err(PlacementError::TooManyNodes { nodes });
    }
    let mut known = BTreeSet::new();
    for node in candidates {
        if node.capacity_bytes == 0 {
            return Err(PlacementError::NoCapacity { node: node.id });
        }
        if !known.insert(node.id) {
            return Err(PlacementError::Twice { node: node.id });
        }
    }
    Ok(())
}

/// Returns the largest number up to `most` for which `holds` is true. If `holds` is true for a
/// number, it must be true for all smaller ones. It counts as true for 0.
fn largest_that(most: u128, holds: impl Fn(u128) -> bool) -> u128 {
    let (mut yes, mut no) = (0, most + 1);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}
