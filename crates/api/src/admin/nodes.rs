//! Nodes: the list of known ones, and the choice of one by its id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::NodeId;
use archipel_model::Model;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{At, Json, NoContent, Query, Read, Refusal};
use super::deletion::{Deletion, DryRun, Plan};
use super::layout;
use super::page::page;
use super::types::{DeletionPlan, Join, NodeInfo, NodeState, Page};
use super::{Admin, Node};

/// The fewest digits that may stand for a node.
const MIN_PREFIX: usize = 4;
/// The most addresses that a request to join may name.
const MAX_ADDRESSES: usize = 100;
/// The timeout of a join. It outlasts one address that does not answer.
const JOIN_TIMEOUT: Duration = Duration::from_secs(45);

/// The filters of the list of nodes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListNodes {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only nodes after this id: the `next` of the former page.
    after: Option<String>,
    /// Only nodes in this zone.
    zone: Option<String>,
    /// Only nodes in this state.
    state: Option<NodeState>,
}

/// Lists the nodes that this node knows, by id.
#[utoipa::path(
    get, path = "/v1/nodes", tag = "nodes", operation_id = "list_nodes",
    params(ListNodes),
    responses((status = 200, description = "Nodes", body = Page<NodeInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListNodes>,
) -> Result<Json<Page<NodeInfo>>, Refusal> {
    let mut nodes = known(&admin);
    let wanted = |node: &NodeInfo| {
        let in_zone = query.zone.is_none() || node.zone == query.zone;
        in_zone && query.state.is_none_or(|state| node.state == state)
    };
    nodes.retain(wanted);
    let part = page(nodes, |node| &node.id, query.limit, query.after.as_deref());
    part.map(Json)
}

/// Shows a node as this node knows it.
#[utoipa::path(
    get, path = "/v1/nodes/{node}", tag = "nodes", operation_id = "get_node",
    params(("node" = String, Path, description = "An id, the unambiguous beginning of one, or `self`")),
    responses((status = 200, description = "The node", body = NodeInfo)),
)]
pub(super) async fn info(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<Json<NodeInfo>, Refusal> {
    let nodes = known(&admin);
    let node = find(&nodes, &admin.model.cluster().me().node, &name)?;
    Ok(Json(node.clone()))
}

/// Returns all known nodes, by id.
pub(super) fn known(admin: &Admin) -> Vec<NodeInfo> {
    known_to(&admin.model, &*admin.node)
}

/// Returns all nodes that `node` knows, by id, with their parts in the layout.
pub(super) fn known_to(model: &Model, node: &dyn Node) -> Vec<NodeInfo> {
    let known = node.nodes().into_iter();
    let mut nodes: BTreeMap<String, NodeInfo> = known.map(|node| (node.id.clone(), node)).collect();
    let cluster = model.cluster();
    let epoch = cluster.epoch();
    let layouts = epoch.iter().flat_map(|epoch| &epoch.layouts);
    // The newest is last: what it says of a node stays.
    for role in layouts.flat_map(|layout| &layout.roles) {
        let node = nodes
            .entry(role.store.node.to_string())
            .or_insert_with(|| NodeInfo {
                store: role.store.store.to_string(),
                ..unheard_of(&role.store.node)
            });
        node.in_layout = true;
        node.zone = Some(role.zone.clone());
        node.capacity_bytes = Some(role.capacity_bytes);
    }
    for admitted in epoch.iter().flat_map(|epoch| &epoch.admitted) {
        let node = nodes
            .entry(admitted.to_string())
            .or_insert_with(|| unheard_of(admitted));
        node.admitted = true;
    }
    if let Some(me) = nodes.get_mut(&cluster.me().node.to_string()) {
        me.state = NodeState::Itself;
    }
    nodes.into_values().collect()
}

/// Describes a node that this one never met.
fn unheard_of(node: &NodeId) -> NodeInfo {
    NodeInfo {
        id: node.to_string(),
        short: node.short(),
        ..NodeInfo::default()
    }
}

/// Returns the node that `name` means: an id, the beginning of one, or `self`.
pub(super) fn find<'a>(
    nodes: &'a [NodeInfo],
    me: &NodeId,
    name: &str,
) -> Result<&'a NodeInfo, Refusal> {
    let prefix = match name {
        "self" => me.to_string(),
        name => name.to_ascii_lowercase(),
    };
    if prefix.len() < MIN_PREFIX || !prefix.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Refusal::invalid(format!(
            "node {name:?}: a node is named by `self` or by its id, of which the first {MIN_PREFIX} to 64 hexadecimal digits are enough; \
             fix: archipel node list shows the ids"
        )));
    }
    let mut meant = nodes.iter().filter(|node| node.id.starts_with(&prefix));
    match (meant.next(), meant.next()) {
        (Some(node), None) => Ok(node),
        (Some(one), Some(other)) => Err(Refusal::invalid(format!(
            "node {name:?}: {} and {} both begin so; fix: give more digits",
            one.id, other.id
        ))),
        (None, _) => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "NoSuchNode",
            format!(
                "node {name:?}: no known node's id begins so; fix: archipel node list shows those that are known, \
                 archipel node join ADDRESS makes others known"
            ),
        )),
    }
}

/// Admits a node that is in no layout: other nodes answer it from now on. An id of 64 digits may be
/// that of a node that is not known yet. Nodes of the layout need no admission.
#[utoipa::path(
    put, path = "/v1/nodes/{node}/admission", tag = "nodes", operation_id = "admit_node",
    params(("node" = String, Path, description = "An id, or the unambiguous beginning of one")),
    responses((status = 204, description = "It is admitted")),
)]
pub(super) async fn admit(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
) -> Result<NoContent, Refusal> {
    let id = named(&admin, &name)?;
    let layouts = admin.model.cluster().layouts();
    layouts.admit(id).await.map_err(layout::refusal)?;
    Ok(NoContent)
}

/// Takes the admission of a node back: other nodes refuse it from now on.
#[utoipa::path(
    delete, path = "/v1/nodes/{node}/admission", tag = "nodes", operation_id = "dismiss_node",
    params(
        ("node" = String, Path, description = "An id, or the unambiguous beginning of one"),
        DryRun,
    ),
    responses(
        (status = 204, description = "It is not admitted"),
        (status = 200, description = "With `dry_run`: what would happen", body = DeletionPlan),
    ),
)]
pub(super) async fn dismiss(
    State(admin): State<Arc<Admin>>,
    At(name): At<String>,
    Query(how): Query<DryRun>,
) -> Result<Deletion, Refusal> {
    let id = named(&admin, &name)?;
    if how.dry_run {
        return Ok(plan(&admin, &id));
    }
    let layouts = admin.model.cluster().layouts();
    layouts.dismiss(id).await.map_err(layout::refusal)?;
    Ok(Deletion::Done)
}

/// Says what the dismissal of a node would do.
fn plan(admin: &Admin, id: &NodeId) -> Deletion {
    let epoch = admin.model.cluster().epoch();
    let obstacle = match &epoch {
        None => Some("this node is in no layout".to_owned()),
        Some(epoch) if epoch.has_member(id) => Some(format!(
            "it is in the layout; fix: archipel layout remove {}",
            id.short()
        )),
        Some(_) => None,
    };
    let is_admitted = epoch.is_some_and(|epoch| epoch.admitted.contains(id));
    let gone = is_admitted.then(|| "other nodes refuse it from then on".to_owned());
    let gone: Vec<String> = gone.into_iter().collect();
    let plan = Plan::default().blocked(obstacle);
    plan.takes("its admission", &gone).finish()
}

/// Returns the id that `name` means: that of a known node, or a whole id.
fn named(admin: &Admin, name: &str) -> Result<NodeId, Refusal> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let nodes = known(admin);
    let node = find(&nodes, &admin.model.cluster().me().node, name)?;
    node.id.parse().map_err(|_| {
        let short = &node.short;
        Refusal::invalid(format!("node {short}: its id is no id"))
    })
}

/// Joins the cluster of other nodes. Answers with the nodes that are known then, up to 1000.
#[utoipa::path(
    post, path = "/v1/nodes/join", tag = "nodes", operation_id = "join_nodes",
    request_body = Join,
    responses((status = 200, description = "Nodes", body = Page<NodeInfo>)),
)]
pub(super) async fn join(
    State(admin): State<Arc<Admin>>,
    Read(ask): Read<Join>,
) -> Result<Json<Page<NodeInfo>>, Refusal> {
    if ask.addresses.is_empty() || ask.addresses.len() > MAX_ADDRESSES {
        let count = ask.addresses.len();
        return Err(Refusal::invalid(format!(
            "addresses: {count} are given; fix: give 1 to {MAX_ADDRESSES}, host:port each"
        )));
    }
    ask.addresses
        .iter()
        .try_for_each(|address| check_address(address))?;
    let cannot = |why: String| Refusal::new(StatusCode::CONFLICT, "CannotJoin", why);
    match tokio::time::timeout(JOIN_TIMEOUT, admin.node.join(ask.addresses.clone())).await {
        Ok(joined) => joined.map_err(cannot)?,
        Err(_) => {
            let (addresses, seconds) = (ask.addresses.join(", "), JOIN_TIMEOUT.as_secs());
            return Err(cannot(format!(
                "addresses = {addresses}: no answer within {seconds} s; fix: check that a node listens there and that no firewall is between"
            )));
        }
    }
    page(known(&admin), |node| &node.id, None, None).map(Json)
}

fn check_address(address: &str) -> Result<(), Refusal> {
    let plain = address.strip_prefix("tcp://").unwrap_or(address);
    let port = plain.rsplit_once(':').filter(|(host, port)| {
        let bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        !host.is_empty() && !bare_v6 && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    match port {
        Some(_) if address.len() <= 300 => Ok(()),
        _ => Err(Refusal::invalid(format!(
            "addresses: {address:?} is not host:port; fix: write for example b.example.net:3901, 192.0.2.7:3901 or [2001:db8::7]:3901"
        ))),
    }
}
