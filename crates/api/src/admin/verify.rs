//! Verification of all nodes.

use archipel_cluster::{NodePart, Verification};

use super::Admin;
use super::answer::Refusal;
use super::types::{StartVerify, VerifyInfo, VerifyNode};

/// Begins a verification.
pub(super) fn start(admin: &Admin, ask: StartVerify) -> Result<VerifyInfo, Refusal> {
    let begun = admin.model.cluster().upkeep().verify_start(ask.deep);
    begun.map_err(archipel_model::Error::from)?;
    Ok(show(admin))
}

/// The last one that this node was asked for.
pub(super) fn show(admin: &Admin) -> VerifyInfo {
    let Some(verification) = admin.model.cluster().upkeep().verification() else {
        return VerifyInfo::default();
    };
    let Verification {
        deep,
        began_ms,
        ended_ms,
        moving,
        nodes,
    } = verification;
    VerifyInfo {
        deep,
        began_ms,
        ended_ms,
        moving,
        nodes: nodes.into_iter().map(part).collect(),
    }
}

fn part(part: NodePart) -> VerifyNode {
    let node = VerifyNode {
        node: part.node.to_string(),
        short: part.node.short(),
        ended: part.ended.is_some(),
        step: part.step.name,
        done: part.step.done,
        all: part.step.all,
        ..VerifyNode::default()
    };
    match part.ended {
        None => node,
        Some(Err(why)) => VerifyNode {
            away: Some(why),
            ..node
        },
        Some(Ok(found)) => VerifyNode {
            rows: found.rows,
            blocks: found.blocks,
            verified: found.verified,
            compared: found.compared,
            problems: found.problems,
            told: found.told,
            unchecked: found.unchecked,
            ..node
        },
    }
}
