//! Learning newer layouts from other nodes, and telling them the epoch that is known here.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use archipel_base::boxed;

use super::driver::Members;
use super::state::Member;
use crate::cluster::Cluster;

/// The wait before a node that did not answer is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// After this time a newer layout that only strangers tell does not come from others any more.
const LONG: Duration = Duration::from_secs(60);

impl Members {
    /// Tells other nodes which epoch this node knows, and learns newer ones from them, until the
    /// future is dropped. Run it in a task of its own.
    #[boxed]
    pub async fn follow(&self, cluster: &Cluster) {
        let (mut news, mut epochs) = (self.changed(), cluster.epoch_changes());
        let mut renamed = cluster.epochs.history.renamed();
        let (mut outrun_since, mut warned) = (None, false);
        loop {
            self.tell_layout_of(cluster);
            let mut behind = !self.catch_up(cluster).await;
            let mut stranger = self.stranger_ahead(cluster);
            if stranger.is_some() {
                // The rows that decide tell, too. So nobody needs to believe the stranger.
                cluster.layouts().look_for_successor().await;
                stranger = self.stranger_ahead(cluster);
            }
            match stranger {
                Some(stranger) if !warned => {
                    let since = *outrun_since.get_or_insert_with(Instant::now);
                    warned = since.elapsed() >= LONG;
                    behind |= !warned;
                    if warned {
                        warn_of(&stranger);
                    }
                }
                Some(_) => {}
                None => (outrun_since, warned) = (None, false),
            }
            tokio::select! {
                biased;
                _ = epochs.changed() => {}
                _ = renamed.changed() => {}
                _ = news.changed() => {}
                () = tokio::time::sleep(PAUSE), if behind => {}
            }
        }
    }

    /// Learns the newest epoch that some reachable and trusted node tells. Returns true if this
    /// node knows it now. A node that comes back triggers another call.
    async fn catch_up(&self, cluster: &Cluster) -> bool {
        let known = cluster.epoch().map_or(0, |epoch| epoch.number());
        let here = self.list().into_iter().filter(|member| !member.suspected);
        let ahead = here.filter(|member| member.info.epoch > known && cluster.trusts(&member.id));
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

    /// Returns a reachable node that tells a newer epoch and is not trusted. Usually that means
    /// that a newer layout has just taken it in. But if all nodes of the layout that this node
    /// knows were replaced, no other ones are left.
    fn stranger_ahead(&self, cluster: &Cluster) -> Option<Member> {
        let known = cluster.epoch().map_or(0, |epoch| epoch.number());
        let here = self.list().into_iter().filter(|member| !member.suspected);
        let ahead = here.filter(|member| member.info.epoch > known && !cluster.trusts(&member.id));
        ahead.max_by_key(|member| member.info.epoch)
    }

    /// Takes over what the store knows of layouts. Call it before the node serves others, so that
    /// it never seems to be in no cluster.
    pub fn tell_layout_of(&self, cluster: &Cluster) {
        self.change(|info| {
            info.store = cluster.me().store;
            info.level = cluster.epochs.level();
        });
        let Some(epoch) = cluster.epoch() else { return };
        let roles = epoch.layouts.iter().flat_map(|layout| &layout.roles);
        let nodes: BTreeSet<_> = roles.map(|role| role.store.node).collect();
        self.set_cluster(epoch.cluster, epoch.number(), nodes, epoch.admitted.clone());
    }
}

fn warn_of(stranger: &Member) {
    let (node, epoch) = (stranger.id, stranger.info.epoch);
    tracing::warn!(
        %node,
        epoch,
        "a newer layout is told only by nodes that this one has no reason to believe, as anybody can who \
         has the cluster's secret; fix, if one of your own nodes has this id: archipel node join with its \
         address"
    );
}
