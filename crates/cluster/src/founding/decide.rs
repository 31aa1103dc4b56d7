//! Decides whether all nodes of the first layout are there, and which of them proposes it.

use archipel_base::NodeId;

use crate::membership::Member;

/// The next step of a node that is in no layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Wait, for this reason.
    Wait(String),
    /// Propose a layout of these nodes.
    Propose(Vec<Member>),
}

/// Decides for node `me`, which knows `members`. `heard` tells of a cluster of which it has heard.
pub(super) fn decide(
    me: NodeId,
    members: &[Member],
    heard: Option<String>,
    first_nodes: u16,
) -> Step {
    if let Some(why) = heard {
        return Step::Wait(why);
    }
    let here = members.iter().filter(|one| !one.suspected && !one.leaving);
    let mut waiting: Vec<&Member> = here.filter(|one| one.info.first_nodes > 0).collect();
    waiting.sort_by_key(|member| member.id);
    if let Some(other) = waiting
        .iter()
        .find(|one| one.info.first_nodes != first_nodes)
    {
        let (node, its) = (other.id.short(), other.info.first_nodes);
        return Step::Wait(format!(
            "cluster.first_nodes is {its} on node {node} and {first_nodes} here; fix: set the same \
             number on all nodes"
        ));
    }
    let (there, all) = (waiting.len(), usize::from(first_nodes));
    if there > all {
        return Step::Wait(format!(
            "{there} nodes are there, but cluster.first_nodes is {all}; fix: set {there} on all \
             nodes, or stop the nodes that are too many"
        ));
    }
    if there < all {
        return Step::Wait(format!("{there} of {all} nodes are there"));
    }
    if let Some(node) = waiting.iter().find(|node| node.info.capacity_bytes == 0) {
        let node = node.id.short();
        return Step::Wait(format!("node {node} does not tell its capacity yet"));
    }
    match waiting.first() {
        Some(first) if first.id == me => Step::Propose(waiting.into_iter().cloned().collect()),
        Some(first) => Step::Wait(format!("node {} is to propose it", first.id.short())),
        None => Step::Wait("this node does not know itself yet".into()),
    }
}
