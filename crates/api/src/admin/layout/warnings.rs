//! Warnings about staged changes that can be applied, and may be mistakes.

use archipel_base::{NodeId, size};
use archipel_cluster::change::Staged;
use archipel_cluster::layout::{Layout, Role};

use super::super::types::NodeInfo;

/// Returns a warning for each staged role that may be a mistake. `known` are all nodes with their
/// parts in the layout, and `announced` are nodes as they report themselves.
pub(super) fn of(
    staged: &Staged,
    current: &Layout,
    known: &[NodeInfo],
    announced: &[NodeInfo],
) -> Vec<String> {
    let roles = staged.roles.iter();
    let new = roles.filter_map(|(node, role)| Some((node, role.as_ref()?)));
    let new = new.filter(|(node, role)| current.role_of(node) != Some(*role));
    new.flat_map(|(node, role)| {
        [
            silence(role, known),
            capacity(role, announced),
            zone(node, role, staged, current),
        ]
    })
    .flatten()
    .collect()
}

/// Warns of a node that does not answer: it may be one that an operator has just removed. A gateway
/// holds no copies.
fn silence(role: &Role, known: &[NodeInfo]) -> Option<String> {
    let id = role.store.node.to_string();
    let known = known.iter().find(|known| known.id == id)?;
    (role.capacity_bytes > 0 && !known.state.answers()).then(|| {
        let (short, state) = (role.store.node.short(), known.state.name());
        format!(
            "warning: node {short} does not answer ({state}): what is placed on it lacks a copy until it does"
        )
    })
}

/// Warns of a node whose disks are smaller than its capacity.
fn capacity(role: &Role, announced: &[NodeInfo]) -> Option<String> {
    let id = role.store.node.to_string();
    let announced = announced
        .iter()
        .find(|node| node.id == id)?
        .capacity_bytes?;
    (role.capacity_bytes > announced).then(|| {
        let (short, asked) = (role.store.node.short(), size::show(role.capacity_bytes));
        let there = size::show(announced);
        format!(
            "warning: node {short} gets data for {asked}, and its disks hold {there}: it runs full before the others"
        )
    })
}

/// Warns of a zone whose name differs from that of another one only in case.
fn zone(node: &NodeId, role: &Role, staged: &Staged, current: &Layout) -> Option<String> {
    let stay = current.roles.iter();
    let stay = stay.filter(|role| !staged.roles.contains_key(&role.store.node));
    let come = staged.roles.values().flatten();
    let mut others = stay.chain(come).filter(|other| other.store.node != *node);
    let alike =
        |other: &&Role| other.zone != role.zone && other.zone.eq_ignore_ascii_case(&role.zone);
    let (zone, other) = (&role.zone, &others.find(alike)?.zone);
    Some(format!(
        "warning: zone {zone} is another one than zone {other}: copies may be in both"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use archipel_base::Id;
    use archipel_cluster::layout::StoreName;

    use super::super::super::types::NodeState;
    use super::*;

    const GIB: u64 = 1 << 30;

    fn role(last: u8, zone: &str, capacity_bytes: u64) -> Role {
        Role {
            store: StoreName {
                node: NodeId([last; 32]),
                store: Id([last; 16]),
            },
            zone: zone.into(),
            capacity_bytes,
        }
    }

    fn staged(roles: &[&Role]) -> Staged {
        let roles = roles.iter();
        let roles = roles.map(|role| (role.store.node, Some((*role).clone())));
        Staged {
            version: 2,
            revision: 1,
            roles: roles.collect::<BTreeMap<_, _>>(),
            redundancy: None,
        }
    }

    fn node(role: &Role, state: NodeState) -> NodeInfo {
        NodeInfo {
            id: role.store.node.to_string(),
            state,
            capacity_bytes: Some(4 * GIB),
            ..NodeInfo::default()
        }
    }

    #[test]
    fn mistakes_in_staged_roles_are_warned_of() {
        let (one, two) = (role(1, "paris", GIB), role(2, "oslo", 4 * GIB));
        let current = Layout::single(one.store, &one.zone, one.capacity_bytes);
        let warnings = |new: &Role, state: NodeState| {
            let nodes = [node(&one, NodeState::Itself), node(new, state)];
            of(&staged(&[&one, new]), &current, &nodes, &nodes)
        };
        assert!(warnings(&two, NodeState::Alive).is_empty());
        let short = two.store.node.short();
        let gone = warnings(&two, NodeState::Gone);
        let told = format!("warning: node {short} does not answer (gone)");
        assert!(gone.len() == 1 && gone[0].starts_with(&told), "{gone:?}");
        assert!(warnings(&role(2, "oslo", 0), NodeState::Gone).is_empty());
        let large = warnings(&role(2, "oslo", 1 << 50), NodeState::Alive);
        let told = format!("node {short} gets data for 1.0 PiB, and its disks hold 4.0 GiB");
        assert!(large.len() == 1 && large[0].contains(&told), "{large:?}");
        let alike = warnings(&role(2, "Paris", GIB), NodeState::Alive);
        let told = "warning: zone Paris is another one than zone paris";
        assert!(alike.len() == 1 && alike[0].starts_with(told), "{alike:?}");
    }
}
