//! Single blocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use archipel_base::BlockHash;
use archipel_cluster::BlockCopy;
use axum::extract::State;

use super::Admin;
use super::answer::{At, Json, Refusal};
use super::types::{BlockInfo, BlockNode, CopyState};
use super::upkeep::{name_of_row, names_deadline};

/// Shows which nodes have a block, and what refers to it. Every node reads its copy, and the references of
/// all its rows, which takes a while where there are many.
#[utoipa::path(
    get, path = "/v1/blocks/{hash}", tag = "maintenance", operation_id = "get_block",
    params(("hash" = String, Path, description = "The block's hash: 64 hexadecimal digits")),
    responses((status = 200, description = "The block", body = BlockInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(hash): At<String>,
) -> Result<Json<BlockInfo>, Refusal> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(&hash, &mut bytes).map_err(|_| {
        let why = format!("hash {hash:?}: a block is named by 64 hexadecimal digits");
        Refusal::invalid(why)
    })?;
    let hash = BlockHash(bytes);
    let upkeep = admin.model.cluster().upkeep();
    let mut info = BlockInfo {
        hash: hash.to_string(),
        ..BlockInfo::default()
    };
    let (mut rows, mut is_known) = (BTreeSet::new(), true);
    for (node, report) in upkeep.look_up_block_everywhere(hash).await {
        let mut told = BlockNode {
            node: node.to_string(),
            short: node.short(),
            ..BlockNode::default()
        };
        match report {
            Ok(report) => {
                told.copy = state(report.copy);
                told.references = report.references;
                info.bytes = info.bytes.or(report.bytes);
                rows.extend(report.rows);
            }
            Err(why) => {
                told.away = Some(why);
                is_known = false;
            }
        }
        info.nodes.push(told);
    }
    let is_good = |node: &BlockNode| node.copy == CopyState::Good;
    info.lost = is_known && info.bytes.is_some() && !info.nodes.iter().any(is_good);
    let (mut used_by, deadline) = (BTreeSet::new(), names_deadline());
    for row in &rows {
        used_by.insert(name_of_row(&admin, row, deadline).await);
    }
    info.used_by = used_by.into_iter().collect();
    Ok(Json(info))
}

fn state(copy: BlockCopy) -> CopyState {
    match copy {
        BlockCopy::Unneeded => CopyState::Unneeded,
        BlockCopy::Good => CopyState::Good,
        BlockCopy::Damaged => CopyState::Damaged,
        BlockCopy::Missing => CopyState::Missing,
        BlockCopy::Unreadable => CopyState::Unreadable,
    }
}
