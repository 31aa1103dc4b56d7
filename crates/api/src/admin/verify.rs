//! Verification of all nodes.

use std::sync::Arc;

use archipel_cluster::{NodePart, Verification};
use axum::extract::State;
use http::StatusCode;

use super::Admin;
use super::answer::{Accepted, Json, Read, Refusal};
use super::types::{StartVerify, VerifyInfo, VerifyNode};

/// Begins a verification of all nodes.
#[utoipa::path(
    post, path = "/v1/verify", tag = "maintenance", operation_id = "start_verification",
    request_body = StartVerify,
    responses((
        status = 202, description = "It has begun", body = VerifyInfo,
        headers(("Location" = String, description = "The operation")),
    )),
)]
pub(super) async fn start(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<StartVerify>,
) -> Result<Accepted<VerifyInfo>, Refusal> {
    let upkeep = admin.model.cluster().upkeep();
    if let Err(error) = upkeep.verify_start(ask.deep) {
        let last = upkeep.verification();
        return Err(match last.is_some_and(|last| last.ended_ms == 0) {
            true => {
                let why = "a verification is under way already; GET /v1/verify shows it";
                Refusal::new(StatusCode::CONFLICT, "VerificationRuns", why)
            }
            false => archipel_model::Error::from(error).into(),
        });
    }
    Ok(Accepted("verification".into(), describe(&admin)))
}

/// Shows the last verification that this node was asked for.
#[utoipa::path(
    get, path = "/v1/verify", tag = "maintenance", operation_id = "get_verification",
    responses((status = 200, description = "The verification", body = VerifyInfo)),
)]
pub(super) async fn show(State(admin): State<Arc<Admin>>) -> Json<VerifyInfo> {
    Json(describe(&admin))
}

/// Returns the last verification that this node was asked for.
pub(super) fn describe(admin: &Admin) -> VerifyInfo {
    let Some(verification) = admin.model.cluster().upkeep().verification() else {
        return VerifyInfo::default();
    };
    let Verification {
        deep,
        began_ms,
        ended_ms,
        moving,
        stopped,
        nodes,
    } = verification;
    VerifyInfo {
        deep,
        began_ms,
        ended_ms,
        moving,
        stopped,
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
            digest: format!("{:016x}", found.digest),
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
