//! The changes that a request stages.

use std::collections::BTreeSet;

use archipel_base::NodeId;
use archipel_cluster::change::{LayoutChange, Staged};
use archipel_cluster::layout::{self, Epoch, Role, StoreName};

use super::super::answer::Refusal;
use super::super::nodes;
use super::super::types::{Assign, NodeInfo, Stage};

/// Returns the changes that `ask` names. `known` are the nodes that this one, `me`, knows.
pub(super) fn of(
    ask: &Stage,
    known: &[NodeInfo],
    me: &NodeId,
    epoch: &Epoch,
    staged: &Staged,
) -> Result<Vec<LayoutChange>, Refusal> {
    let mut named = BTreeSet::new();
    let mut find = |name: &str| {
        let node = nodes::find(known, me, name)?;
        // Otherwise the last of several values would count.
        match named.insert(node.id.clone()) {
            true => Ok(node),
            false => Err(Refusal::invalid(format!(
                "node {}: it is named twice; fix: name each node once, with one zone and capacity",
                node.short
            ))),
        }
    };
    let mut changes = Vec::new();
    for assign in &ask.assign {
        let node = find(&assign.node)?;
        changes.push(LayoutChange::Assign(role(node, assign, epoch, staged)?));
    }
    for name in &ask.remove {
        changes.push(removal(find(name)?, epoch, staged)?);
    }
    changes.extend(ask.redundancy.map(|asked| {
        LayoutChange::Redundancy(layout::Redundancy {
            replicas: asked.replicas,
            zones: asked.zones,
        })
    }));
    Ok(changes)
}

/// Returns the new role of a node. Values that the request leaves out come from the staged role,
/// the former role or the node's own report, in that order.
fn role(node: &NodeInfo, ask: &Assign, epoch: &Epoch, staged: &Staged) -> Result<Role, Refusal> {
    let store = store_name(node)?;
    let before = match staged.roles.get(&store.node) {
        Some(staged) => staged.as_ref(),
        None => epoch.newest().role_of(&store.node),
    };
    let unknown = |key: &str, fix: &str| {
        let short = &node.short;
        Refusal::invalid(format!(
            "{key} of node {short}: not given, and the node tells none; fix: {fix}"
        ))
    };
    let zone = ask
        .zone
        .clone()
        .or_else(|| before.map(|role| role.zone.clone()));
    let zone = zone.or_else(|| node.zone.clone());
    let capacity = ask
        .capacity_bytes
        .or_else(|| before.map(|role| role.capacity_bytes));
    let capacity = capacity.or(node.capacity_bytes);
    Ok(Role {
        store,
        zone: zone.ok_or_else(|| unknown("zone", "add --zone NAME, the site where it stands"))?,
        capacity_bytes: capacity.ok_or_else(|| {
            unknown(
                "capacity",
                "add --capacity SIZE such as 500GiB, or --gateway",
            )
        })?,
    })
}

fn removal(node: &NodeInfo, epoch: &Epoch, staged: &Staged) -> Result<LayoutChange, Refusal> {
    let store = store_name(node)?;
    let is_in = epoch.newest().role_of(&store.node).is_some();
    if !is_in && !matches!(staged.roles.get(&store.node), Some(Some(_))) {
        let (short, version) = (&node.short, epoch.newest().version);
        return Err(Refusal::invalid(format!(
            "node {short}: layout version {version} does not have it, so there is nothing to remove; fix: archipel layout show lists its nodes"
        )));
    }
    Ok(LayoutChange::Remove(store.node))
}

/// Returns the node and its store; both came as text from the node's membership.
fn store_name(node: &NodeInfo) -> Result<StoreName, Refusal> {
    let parsed = node.id.parse().ok().zip(node.store.parse().ok());
    let (id, store) = parsed.ok_or_else(|| {
        let (short, store) = (&node.short, &node.store);
        Refusal::invalid(format!(
            "node {short}: its store is not known yet ({store:?}); fix: start it, and try again when archipel node list shows it alive"
        ))
    })?;
    Ok(StoreName { node: id, store })
}
