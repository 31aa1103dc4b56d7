//! Learns newer layouts from those who know them, and tells which one is known here.

use std::collections::BTreeSet;
use std::time::Duration;

use super::driver::Members;
use crate::cluster::Cluster;

/// How long to wait before whoever could not be asked is asked again.
const PAUSE: Duration = Duration::from_secs(1);

impl Members {
    /// Tells others which layout this node knows, and learns newer ones from them, until it is
    /// dropped. Run it in a task of its own.
    pub async fn follow(&self, cluster: &Cluster) {
        let (mut news, mut epochs) = (self.changed(), cluster.epoch_changes());
        let mut renamed = cluster.0.epochs.past.renamed();
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

    /// Learns the newest layout of those that are told of by somebody who is there; gives whether this node knows it
    /// now. That somebody comes back is news.
    async fn catch_up(&self, cluster: &Cluster) -> bool {
        let known = cluster.epoch().map_or(0, |epoch| epoch.number());
        let here = self.list().into_iter().filter(|member| !member.suspected);
        let ahead = here.filter(|member| member.facts.epoch > known);
        let Some(newest) = ahead.max_by_key(|member| member.facts.epoch) else {
            return true;
        };
        let learnt = cluster.learn_from(&newest.id).await;
        if let Err(error) = &learnt {
            let from = newest.id.short();
            tracing::warn!(%error, from, "a newer layout cannot be learnt");
        }
        learnt.is_ok()
    }

    fn tell_layout_of(&self, cluster: &Cluster) {
        self.change(|facts| facts.store = cluster.me().store);
        let Some(epoch) = cluster.epoch() else { return };
        let roles = epoch.layouts.iter().flat_map(|layout| &layout.roles);
        let nodes: BTreeSet<_> = roles.map(|role| role.store.node).collect();
        self.set_cluster(epoch.cluster, nodes);
        self.change(|facts| facts.epoch = epoch.number());
    }
}
