//! The work of a node beside its endpoints: repair, rebalancing, expiry, garbage collection.

use std::time::Duration;

use archipel_cluster::AntiEntropyOptions;
use archipel_model::Model;
use archipel_storage::Store;
use tokio::task::JoinSet;

use crate::config::Settings;
use crate::{drain, keyring};

const DAY_SECONDS: u64 = 24 * 3600;

/// Starts all of it. The tasks may be dropped at any moment.
pub fn start(settings: &Settings, model: &Model, store: &Store) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let model = model.clone();
    let cluster = model.cluster().clone();
    tasks.spawn(async move { cluster.layouts().run_rebalance().await });
    let cluster = model.cluster().clone();
    tasks.spawn(async move {
        cluster
            .upkeep()
            .run_anti_entropy(AntiEntropyOptions::default())
            .await
    });
    let cluster = model.cluster().clone();
    tasks.spawn(async move { cluster.upkeep().run_repair().await });
    let cluster = model.cluster().clone();
    let scrub_cycle = Duration::from_secs(u64::from(settings.limits.scrub_days) * DAY_SECONDS);
    tasks.spawn(async move { cluster.upkeep().run_scrub(scrub_cycle).await });
    let refresher = model.clone();
    tasks.spawn(async move { refresher.refresh_forever().await });
    let expiry = model.clone();
    tasks.spawn(async move { expiry.run_expiry().await });
    let counter = model.clone();
    tasks.spawn(async move { counter.count_quotas_forever().await });
    let events = model.clone();
    tasks.spawn(async move { events.deliver_events().await });
    tasks.spawn(keyring::rewrap(model.clone()));
    let rotation = model.clone();
    tasks.spawn(async move { rotation.sweep_forever().await });
    let orphan_finder = model.clone();
    tasks.spawn(async move { orphan_finder.find_orphans_forever().await });
    tasks.spawn(async move { model.run_gc().await });
    tasks.spawn(drain::forever(store.blocks().clone()));
    tasks
}
