//! The first layout of nodes that find each other: no operator assigns them.
//!
//! Each of them knows how many they are. Once all are there, the first of them by id proposes a
//! layout, the others promise to be part of it, and then it is in force. A node that is in a layout
//! already takes no part, and a node that hears of a layout joins that cluster instead.
//!
//! | module | what it holds |
//! |---|---|
//! | `decide` | decides if all are there, and which of them proposes; pure |
//!
//! Promises and proposals are in `node/epochs/first.rs`.
//!
//! # Invariants
//! - Two first layouts with a node in common never both come into force.
//! - A node that has heard of a cluster proposes, promises and commits none.

use std::time::Duration;

use archipel_base::boxed;
use archipel_net::Class;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::layout::{Epoch, Redundancy, Role, StoreName};
use crate::membership::{Member, Members};
use crate::node::epochs::{FateCall, FateReply, Promise};
use crate::node::peers::Directory as _;
use crate::node::wire::method;
use crate::reconfigure::plan;

mod decide;

use decide::{Step, decide};

#[cfg(test)]
mod tests;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// The most replicas of a first layout whose settings name no number.
const USUAL_REPLICAS: usize = 3;

/// The first layout as the settings want it.
#[derive(Clone, Debug)]
pub struct FirstLayout {
    /// The number of nodes that form it. All of them have the same number.
    pub nodes: u16,
    /// The number of copies; `None` for three, or fewer with fewer nodes.
    pub replicas: Option<u8>,
    /// The zone of nodes that tell none.
    pub zone: String,
}

/// Takes part in the first layout, until this node is in a layout. Run it in a task of its own.
/// `waits_for` is told what it waits for; it is empty if it waits for nothing.
#[boxed]
pub async fn form(
    cluster: &Cluster,
    members: &Members,
    first: FirstLayout,
    waits_for: &watch::Sender<String>,
) {
    if cluster.epoch().is_some() {
        return;
    }
    members.change(|info| info.first_nodes = first.nodes);
    let (mut news, mut epochs) = (members.changed(), cluster.epoch_changes());
    while cluster.epoch().is_none() {
        let lost = members.not_found().map(|address| {
            format!(
                "no node answers at {address}, and a cluster may be there; fix: start that node, or remove \
                 the address from what cluster.join or cluster.discover names"
            )
        });
        cluster
            .epochs
            .wait_for_first(first.nodes.into(), lost.clone());
        let waits = step(cluster, members, &first, lost).await;
        if let Some(waits) = waits
            && waits_for.send_if_modified(|said| replaced(said, &waits))
        {
            tracing::info!("the first layout waits: {waits}");
        }
        tokio::select! {
            biased;
            _ = epochs.changed() => {}
            _ = news.changed() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    waits_for.send_replace(String::new());
    members.change(|info| info.first_nodes = 0);
}

/// Puts `new` in the place of `old`. Returns true if they differ.
fn replaced(old: &mut String, new: &str) -> bool {
    let differ = old != new;
    new.clone_into(old);
    differ
}

/// Does what is to be done now. Returns what it waits for. `lost` tells of an address at which no
/// node was found: a node proposes nothing before it has reached all that it was told of.
async fn step(
    cluster: &Cluster,
    members: &Members,
    first: &FirstLayout,
    lost: Option<String>,
) -> Option<String> {
    if let Some(promise) = cluster.epochs.promised() {
        return follow_up(cluster, &promise).await.err();
    }
    let heard = members.heard_of_cluster();
    match decide(cluster.me().node, &members.list(), heard, first.nodes) {
        Step::Wait(why) => Some(why),
        Step::Propose(_) if lost.is_some() => lost,
        Step::Propose(nodes) => propose(cluster, &nodes, first).await.err(),
    }
}

/// Asks the node that proposed the layout for its fate.
async fn follow_up(cluster: &Cluster, promise: &Promise) -> Result<(), String> {
    let founder = &promise.founder;
    let waits = |why: String| {
        let node = founder.node.short();
        format!(
            "node {node} proposed it and must bring it into force ({why}). If that node is lost for \
             good, stop this node and empty its data_dir: it holds no data yet"
        )
    };
    let call = FateCall {
        cluster: promise.cluster,
        store: founder.store,
    };
    let peers = cluster.peers().map_err(|error| error.to_string())?;
    let asked = peers.call(&founder.node, method::FATE, Class::Control, &call);
    match asked.await.map_err(|error| waits(error.to_string()))? {
        FateReply::Open => Ok(()),
        FateReply::InForce => {
            let learnt = cluster.learn_from(&founder.node).await;
            learnt.map_err(|error| waits(error.to_string()))
        }
        FateReply::Dropped => {
            let released = cluster.epochs.release(cluster.store(), promise).await;
            released.map_err(|error| waits(error.to_string()))
        }
    }
}

/// Proposes the layout of these nodes, and brings it into force once all others have promised.
async fn propose(cluster: &Cluster, nodes: &[Member], first: &FirstLayout) -> Result<(), String> {
    let epoch = planned(cluster, nodes, first).await?;
    cluster.epochs.propose(&epoch).await?;
    if let Err(why) = collect(cluster, &epoch).await {
        cluster.epochs.withdraw().await;
        return Err(why);
    }
    let cluster_id = epoch.cluster;
    let heard = || cluster.heard_of_cluster();
    let committed = cluster.epochs.commit(cluster.store(), epoch, heard);
    match committed.await {
        Ok(()) => {
            tracing::info!(cluster = %cluster_id, nodes = nodes.len(), "the first layout is in force");
            cluster.tell_epoch().await;
            Ok(())
        }
        Err(error) => Err(format!("it cannot be brought into force here: {error}")),
    }
}

/// Returns the first epoch of a new cluster of these nodes.
async fn planned(
    cluster: &Cluster,
    nodes: &[Member],
    first: &FirstLayout,
) -> Result<Epoch, String> {
    let usual = nodes.len().min(USUAL_REPLICAS) as u8;
    let redundancy = Redundancy {
        replicas: first.replicas.unwrap_or(usual),
        zones: None,
    };
    let roles: Vec<Role> = nodes.iter().map(|node| role(node, &first.zone)).collect();
    let levels = nodes.iter().map(|node| node.info.level);
    let level = levels.min().unwrap_or_default().min(cluster.level());
    let planning = move || {
        let planned = plan::layout(None, 1, redundancy, roles);
        planned.map_err(archipel_storage::Error::Refused)
    };
    let planned = cluster.store().blocks().pool().run(planning).await;
    let (layout, explanation) = planned.map_err(|error| error.to_string())?;
    for line in explanation {
        tracing::info!("first layout: {line}");
    }
    Ok(Epoch {
        level,
        ..Epoch::first(cluster.random_id(), layout)
    })
}

fn role(node: &Member, zone: &str) -> Role {
    let told = &node.info.zone;
    Role {
        store: StoreName {
            node: node.id,
            store: node.info.store,
        },
        zone: if told.is_empty() { zone } else { told }.to_owned(),
        capacity_bytes: node.info.capacity_bytes,
    }
}

/// Asks all other nodes of the layout for their promise.
async fn collect(cluster: &Cluster, epoch: &Epoch) -> Result<(), String> {
    let peers = cluster.peers().map_err(|error: Error| error.to_string())?;
    let (bytes, me) = (Bytes::from(epoch.encode()), cluster.me().node);
    let others = epoch.newest().roles.iter().map(|role| role.store.node);
    let asked = others.filter(|node| *node != me).map(|node| {
        let bytes = bytes.clone();
        async move {
            let call = peers.call_bytes(&node, method::PROPOSE, Class::Control, bytes);
            let short = node.short();
            let answer = call.await;
            answer
                .map(drop)
                .map_err(|error| format!("node {short} does not promise: {error}"))
        }
    });
    join_all(asked).await.into_iter().collect()
}
