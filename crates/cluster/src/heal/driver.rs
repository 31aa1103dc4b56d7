//! Runs passes when they are due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId};
use tokio::task::JoinSet;

use super::pass::Pass;
use super::schedule::Ended;
use super::{Heal, HealOptions, Sharing};
use crate::cluster::Cluster;
use crate::inner::Inner;
use crate::layout::{Epoch, StoreName, all_partitions};
use crate::register::epoch::Member;

/// How many passes run at once, each with another node.
const PASSES: usize = 2;
/// How often the driver looks around.
const TICK: Duration = Duration::from_secs(1);

/// Who shares which partitions with a store.
pub(super) type Shared = BTreeMap<Member<StoreName>, BTreeSet<PartitionId>>;

fn shared_with(me: StoreName, epoch: &Epoch) -> Shared {
    let mut shared = Shared::new();
    for partition in all_partitions() {
        let replicas: Vec<_> = epoch.replicas(partition).into_iter().flatten().collect();
        if !replicas.iter().any(|member| member.node == me) {
            continue;
        }
        for member in replicas.into_iter().filter(|member| member.node != me) {
            shared.entry(member).or_default().insert(partition);
        }
    }
    shared
}

impl Heal {
    /// The time that the schedule counts in.
    pub(super) fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

impl Cluster {
    /// Keeps this node up to date with the others until it is dropped. Run it in a task of its own.
    pub async fn heal_forever(&self, options: HealOptions) {
        let passes = self.pass_forever(options);
        let (floors, proof) = (self.floors_forever(options), self.prove_forever(options));
        futures_util::future::join3(proof, passes, floors).await;
    }

    async fn pass_forever(&self, options: HealOptions) {
        if self.is_alone() {
            return std::future::pending().await;
        }
        let inner = &self.0;
        let mut running: JoinSet<(NodeId, Ended)> = JoinSet::new();
        let mut epoch_before = 0;
        loop {
            if let Some(epoch) = self.epoch() {
                if epoch.number() != epoch_before {
                    epoch_before = epoch.number();
                    inner.heal.schedule().hurry_all();
                }
                inner.start_passes(&epoch, &mut running, options);
            }
            tokio::select! {
                biased;
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    inner.note_ended(ended, options);
                }
                () = inner.heal.wake.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Goes once through all that this node shares with another one, at once. Tells whether all that the other has
    /// newer is here now.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) if they share nothing, or the other does not answer.
    pub async fn heal_from(
        &self,
        node: &NodeId,
        options: HealOptions,
    ) -> Result<bool, crate::Error> {
        let none = || crate::Error::Unavailable("nothing is shared with that node".into());
        let epoch = self.epoch().ok_or_else(none)?;
        let shared = self.0.shared(&epoch);
        let with = shared.iter().find(|(m, _)| m.node.node == *node);
        let (peer, partitions) = with.ok_or_else(none)?;
        let pass = Pass::new(self.0.clone(), *peer, &epoch, options);
        Ok(pass.run(partitions.clone()).await? == Ended::Whole)
    }
}

impl Inner {
    /// The other replicas of this node's partitions, each with the partitions that it shares. It is worked out once in an epoch.
    pub(super) fn shared(&self, epoch: &Epoch) -> Arc<Shared> {
        let (number, me) = (epoch.number(), self.epochs.me());
        let mut known = self.heal.sharing();
        if let Some(known) = &*known
            && (known.epoch, known.me) == (number, me)
        {
            return known.shared.clone();
        }
        let shared = Arc::new(shared_with(me, epoch));
        *known = Some(Sharing {
            epoch: number,
            me,
            shared: shared.clone(),
        });
        shared
    }

    fn start_passes(
        self: &Arc<Inner>,
        epoch: &Epoch,
        running: &mut JoinSet<(NodeId, Ended)>,
        options: HealOptions,
    ) {
        let Some(peers) = &self.peers else { return };
        let now = self.heal.now_ms();
        let others = self.others_with_a_share(epoch);
        let others = others.into_iter();
        let others = others.map(|node| (node, peers.directory.is_suspected(&node)));
        let mut chance = || self.options.random.next_u64();
        self.heal
            .schedule()
            .follow(now, &others.collect(), &mut chance);
        while running.len() < PASSES {
            let Some(node) = self.heal.schedule().start(now) else {
                return;
            };
            let shared = self.shared(epoch);
            let found = shared.iter().find(|(m, _)| m.node.node == node);
            let Some((peer, partitions)) = found else {
                // Nothing is shared with it any more: this store was given another name a moment ago.
                self.note_ended(Ok((node, Ended::Failed)), options);
                return;
            };
            let (pass, partitions) = (
                Pass::new(self.clone(), *peer, epoch, options),
                partitions.clone(),
            );
            running.spawn(async move {
                let ended = pass.run(partitions).await;
                (node, pass.note_end(ended))
            });
        }
    }

    /// The nodes with which this one shares partitions.
    pub(crate) fn others_with_a_share(&self, epoch: &Epoch) -> Vec<NodeId> {
        let shared = self.shared(epoch);
        let others: BTreeSet<NodeId> = shared.keys().map(|member| member.node.node).collect();
        others.into_iter().collect()
    }

    fn note_ended(
        &self,
        ended: Result<(NodeId, Ended), tokio::task::JoinError>,
        options: HealOptions,
    ) {
        match ended {
            Ok((node, ended)) => {
                let (now, interval) = (self.heal.now_ms(), options.interval.as_millis() as u64);
                let mut chance = || self.options.random.next_u64();
                let mut schedule = self.heal.schedule();
                schedule.ended(&node, now, ended, interval, &mut chance);
            }
            Err(error) => tracing::error!(%error, "a pass broke off"),
        }
    }
}
