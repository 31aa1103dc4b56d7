//! Opens the model of a node.

use std::sync::Arc;

use archipel_base::clock::WallClock;
use archipel_base::random::SystemRandom;
use archipel_base::stamp::StampClock;
use archipel_cluster::{Cluster, ClusterOptions};
use archipel_model::{Model, ModelOptions};
use archipel_storage::Store;

use crate::config::Settings;
use crate::identity::Identity;
use crate::network::Links;
use crate::{founding, keyring, storage};

/// Opens the model on a store of this node. Without links to other nodes, it is a cluster of its
/// own.
///
/// # Errors
/// A text for the operator.
pub async fn open(
    settings: &Settings,
    store: &Store,
    identity: &Identity,
    links: Option<&Links>,
    wall: Arc<dyn WallClock>,
) -> Result<Model, String> {
    let cluster = Cluster::open(ClusterOptions {
        store: store.clone(),
        node: identity.node(),
        level: archipel_cluster::layout::LEVEL,
        stamps: StampClock::new(store.writer()),
        wall: wall.clone(),
        random: Arc::new(SystemRandom),
        durability: settings.durability,
        sizes: archipel_cluster::Sizes::USUAL,
        times: archipel_cluster::Times::USUAL,
        hooks: archipel_model::HOOKS,
        network: links.map(Links::network),
    })
    .await
    .map_err(|error| format!("cannot read the layout: {error}"))?;
    if settings.cluster.founds_alone() && cluster.epoch().is_none() {
        founding::check(settings, store.boot(), identity)?;
        let capacity = storage::capacity_bytes(settings, store).await;
        let founded = cluster.found(&settings.cluster.zone, capacity).await;
        founded.map_err(|error| format!("cannot write the layout: {error}"))?;
    }
    if let Some(links) = links {
        // Before others are served: a node of a cluster that answers as if it was in none lets
        // others form a second one. And before anything is written: a node that is alone has no
        // other clock to wait for.
        links.members.tell_layout_of(&cluster);
    }
    let limits = &settings.limits;
    let options = ModelOptions {
        control_lease: limits.control_lease,
        suspension_clock: wall,
        day: limits.lifecycle_day,
        buckets_per_user: limits.buckets_per_user,
        ring_secrets: keyring::secrets(settings)?,
        ..ModelOptions::default()
    };
    Model::open_with(cluster, options)
        .await
        .map_err(|error| format!("cannot read the buckets and keys: {error}"))
}
