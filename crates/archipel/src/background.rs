//! The work of a node beside its endpoints: repair, rebalancing, expiry, garbage collection.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use archipel_cluster::AntiEntropyOptions;
use archipel_model::Model;
use archipel_storage::Store;
use futures_util::FutureExt;
use tokio::task::JoinSet;

use crate::config::Settings;
use crate::{drain, keyring};

const DAY_SECONDS: u64 = 24 * 3600;

/// The pause before work that panicked begins again.
const AGAIN: Duration = Duration::from_secs(60);

/// Starts all of it. The tasks may be dropped at any moment.
pub fn start(settings: &Settings, model: &Model, store: &Store) -> JoinSet<()> {
    let mut tasks = Tasks {
        model: model.clone(),
        all: JoinSet::new(),
    };
    tasks.spawn("rebalancing", |model| async move {
        model.cluster().layouts().run_rebalance().await;
    });
    tasks.spawn("anti-entropy", |model| async move {
        let upkeep = model.cluster().upkeep();
        upkeep.run_anti_entropy(AntiEntropyOptions::default()).await;
    });
    tasks.spawn("repair", |model| async move {
        model.cluster().upkeep().run_repair().await;
    });
    let scrub_cycle = Duration::from_secs(u64::from(settings.limits.scrub_days) * DAY_SECONDS);
    tasks.spawn("scrub", move |model| async move {
        model.cluster().upkeep().run_scrub(scrub_cycle).await;
    });
    tasks.spawn("control data", |model| async move {
        model.refresh_forever().await;
    });
    tasks.spawn("expiry", |model| async move { model.run_expiry().await });
    tasks.spawn("quotas", |model| async move {
        model.count_quotas_forever().await;
    });
    tasks.spawn("events", |model| async move {
        model.deliver_events().await;
    });
    tasks.spawn("keyring", keyring::rewrap);
    tasks.spawn("rotation of keys", |model| async move {
        model.sweep_forever().await;
    });
    tasks.spawn("search for orphans", |model| async move {
        model.find_orphans_forever().await;
    });
    tasks.spawn("garbage collection", |model| async move {
        model.run_gc().await;
    });
    let blocks = store.blocks().clone();
    tasks.spawn("draining of disks", move |_| drain::forever(blocks.clone()));
    tasks.all
}

struct Tasks {
    model: Model,
    all: JoinSet<()>,
}

impl Tasks {
    fn spawn<F>(&mut self, work: &'static str, run: impl Fn(Model) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let model = self.model.clone();
        self.all
            .spawn(again_if_it_panics(work, move || run(model.clone())));
    }
}

/// Runs work to its end. After a panic it begins again: the node would go on without it, and nobody
/// would notice. To end the process would make a defect of this work an outage at each start.
async fn again_if_it_panics<F: Future<Output = ()>>(work: &'static str, run: impl Fn() -> F) {
    // The panic hook logs the panic itself.
    while AssertUnwindSafe(run()).catch_unwind().await.is_err() {
        let seconds = AGAIN.as_secs();
        tracing::error!(
            work,
            seconds,
            "background work panicked: it begins again after a pause"
        );
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_panics_begins_again() {
        let runs = AtomicU32::new(0);
        let run = || async {
            let before = runs.fetch_add(1, Ordering::SeqCst);
            assert_eq!(before, 2, "as it is meant to");
        };
        again_if_it_panics("test", run).await;
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }
}
