//! Learning newer layouts from other nodes, and telling them the epoch that is known here.

use std::collections::BTreeSet;
use std::time::Duration;

use super::driver::Members;
use crate::cluster::Cluster;

/// The wait before a node that did not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);

impl Members {
    /// Tells other nodes which epoch this node knows, and learns newer ones from them, until the
    /// future is dropped. Run it in a task of its own.
    pub async fn follow(&self, cluster: &Cluster) {
        let (mut news, mut epochs) = (self.changed(), cluster.epoch_changes());
        let mut renamed = cluster.epochs.history.renamed();
        loop {
            self.tell_layout_of(cluster);
            let behind = !self.catch_up(cluster).await;
            tokio::select! {
                biased;
                _ = epochs.changed() => {}
                _ = renamed.changed() => {}
                _ = news.changed() => {}
                () = tokio::time::sleep(PAUSE), if behind => {}
            }
        }
    }

    /// Learns the newest epoch that some reachable node tells. Returns true if this node knows it
    /// now. A node that comes back triggers another call.
    async fn catch_up(&self, cluster: &Cluster) -> bool {
        let known = cluster.epoch().map_or(0, |epoch| epoch.number());
        let here = self.list().into_iter().filter(|member| !member.suspected);
        let ahead = here.filter(|member| member.info.epoch > known);
        let Some(newest) = ahead.max_by_key(|member| member.info.epoch) else {
            return true;
        };
        let learnt = cluster.learn_from(&newest.id).await;
        if let Err(error) = &learnt {
            let from = newest.id.short();
            tracing::warn!(%error, from, "a newer layout cannot be learnt");
        }
        learnt.is_ok()
    }

    /// Takes over what the store knows of layouts. Call it before the node serves others, so that it
    /// never seems to be in no cluster.
    pub fn tell_layout_of(&self, cluster: &Cluster) {
        self.change(|info| {
            info.store = cluster.me().store;
            info.level = cluster.epochs.level();
        });
        let Some(epoch) = cluster.epoch() else { return };
        let roles = epoch.layouts.iter().flat_map(|layout| &layout.roles);
        let nodes: BTreeSet<_> = roles.map(|role| role.store.node).collect();
        self.set_cluster(epoch.cluster, epoch.number(), nodes);
    }
}
