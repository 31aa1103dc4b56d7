//! From staged roles to a layout: roles in, placement and an explanation out.

use std::collections::BTreeMap;

use archipel_base::NodeId;

use crate::layout::{Layout, PARTITIONS, Redundancy, Role};
use crate::placement::{
    Assignment, Candidate, Goal, LOST, Previous, Zones, control_group, control_warning, explain,
    place,
};

/// Returns the layout of these roles, with as little to move from `current` as possible, and an
/// explanation. The first layout has nothing before it.
///
/// # Errors
/// A text for the operator, with value and fix.
pub(crate) fn layout(
    current: Option<&Layout>,
    version: u64,
    redundancy: Redundancy,
    roles: Vec<Role>,
) -> Result<(Layout, Vec<String>), String> {
    let storage: Vec<usize> = (0..roles.len())
        .filter(|place| roles[*place].capacity_bytes > 0)
        .collect();
    let candidates: Vec<Candidate> = storage.iter().map(|p| candidate(&roles[*p])).collect();
    let goal = Goal {
        partitions: PARTITIONS,
        replicas: redundancy.replicas.into(),
        zones: match redundancy.zones {
            Some(zones) => Zones::AtLeast(zones.into()),
            None => Zones::Maximum,
        },
    };
    let before = current.map_or(&[][..], |current| &current.roles);
    let has_lost = lost_stores(before, &roles);
    let before: Vec<Candidate> = before.iter().map(candidate).collect();
    let assigned = current.and_then(|current| {
        let replicas = current.redundancy.replicas.into();
        let places = current.assignment.iter();
        // A copy on a store that its node has no more is lost: it moves there, or elsewhere.
        let held = places.map(|place| match has_lost.get(usize::from(*place)) {
            Some(true) => LOST,
            _ => *place,
        });
        Assignment::new(replicas, held.collect())
    });
    let previous = assigned.as_ref().map(|assignment| Previous {
        nodes: &before,
        assignment,
    });
    let placed = place(&candidates, &goal, previous.as_ref()).map_err(|error| error.to_string())?;
    let mut explanation = explain(&candidates, &goal, &placed, previous.as_ref(), None);
    let lost = before.iter().zip(&has_lost).filter(|(_, lost)| **lost);
    explanation.extend(lost.map(|(node, _)| {
        let short = node.id.short();
        format!(
            "node {short} has another store than before: nothing of the former one is used again"
        )
    }));
    let controls = current.map_or(&[][..], |current| &current.control).iter();
    let controls: Vec<NodeId> = controls
        .filter_map(|place| before.get(usize::from(*place)))
        .map(|candidate| candidate.id)
        .collect();
    // The candidates are the storage nodes alone. The indexes in a layout are those of all roles.
    let role = |place: u16| storage[usize::from(place)] as u16;
    let control = control_group(&candidates, goal.replicas, &controls);
    explanation.extend(control_warning(&candidates, &control));
    let layout = Layout {
        version,
        redundancy,
        assignment: placed
            .assignment
            .places()
            .iter()
            .copied()
            .map(role)
            .collect(),
        control: control.into_iter().map(role).collect(),
        roles,
    };
    Ok((layout, explanation))
}

/// Returns, for each role of before, true if its node has another store in the new ones.
fn lost_stores(before: &[Role], roles: &[Role]) -> Vec<bool> {
    let stores = roles.iter().map(|role| (role.store.node, role.store));
    let stores: BTreeMap<_, _> = stores.collect();
    let has_lost = |old: &Role| {
        let new = stores.get(&old.store.node);
        new.is_some_and(|new| *new != old.store)
    };
    before.iter().map(has_lost).collect()
}

fn candidate(role: &Role) -> Candidate {
    Candidate {
        id: role.store.node,
        zone: role.zone.clone(),
        capacity_bytes: role.capacity_bytes,
    }
}

#[cfg(test)]
mod tests;
