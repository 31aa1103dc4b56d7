//! The driver of passes: it runs them when they are due.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use archipel_base::{NodeId, PartitionId, boxed};
use futures_util::FutureExt;
use tokio::task::JoinSet;

use super::pass::Pass;
use super::schedule::Ended;
use super::{AntiEntropy, AntiEntropyOptions, Sharing};
use crate::layout::{Epoch, StoreName, all_partitions};
use crate::register::epoch::Member;
use crate::upkeep::Upkeep;

/// The number of passes that run at once, each with another node.
const PASSES: usize = 2;
/// The time between two looks for work.
const TICK: Duration = Duration::from_secs(1);

/// The partitions that each other store shares with this one.
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

impl AntiEntropy {
    /// Returns the time in which the schedule counts.
    pub(super) fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

impl Upkeep {
    /// Keeps this node up to date with the others until the future is dropped. Run it in a task of
    /// its own.
    #[boxed]
    pub async fn run_anti_entropy(self: &Arc<Upkeep>, options: AntiEntropyOptions) {
        let passes = self.pass_forever(options);
        let (floors, proof) = (self.floors_forever(options), self.prove_forever(options));
        futures_util::future::join3(proof, passes, floors).await;
    }

    pub(super) async fn pass_forever(self: &Arc<Upkeep>, options: AntiEntropyOptions) {
        if self.is_alone() {
            return std::future::pending().await;
        }
        let upkeep = self;
        let mut running: JoinSet<(NodeId, Ended)> = JoinSet::new();
        upkeep.anti_entropy.schedule().forget_running();
        let mut epoch_before = 0;
        loop {
            if let Some(epoch) = self.epoch() {
                if epoch.number() != epoch_before {
                    epoch_before = epoch.number();
                    upkeep.anti_entropy.schedule().hurry_all();
                }
                upkeep.start_passes(&epoch, &mut running, options);
            }
            tokio::select! {
                biased;
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    upkeep.note_ended(ended, options);
                }
                () = upkeep.anti_entropy.wake.notified() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Runs one pass over all partitions that this node shares with another one, at once. Returns
    /// true if this node now holds every newer row of the other.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) if they share nothing, or if the other
    /// node does not answer.
    #[boxed]
    pub async fn pull_from(
        self: &Arc<Upkeep>,
        node: &NodeId,
        options: AntiEntropyOptions,
    ) -> Result<bool, crate::Error> {
        let none =
            || crate::Error::Unavailable("this node shares no partition with that node".into());
        let epoch = self.epoch().ok_or_else(none)?;
        let shared = self.shared(&epoch);
        let with = shared.iter().find(|(m, _)| m.node.node == *node);
        let (peer, partitions) = with.ok_or_else(none)?;
        let pass = Pass::new(self.clone(), *peer, &epoch, options);
        Ok(pass.run(partitions.clone()).await? == Ended::Whole)
    }
}

impl Upkeep {
    /// Returns the other replicas of this node's partitions, each with the partitions that it
    /// shares. The result is computed once in an epoch.
    pub(super) fn shared(&self, epoch: &Epoch) -> Arc<Shared> {
        let (number, me) = (epoch.number(), self.epochs.me());
        let mut known = self.anti_entropy.sharing();
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
        self: &Arc<Upkeep>,
        epoch: &Epoch,
        running: &mut JoinSet<(NodeId, Ended)>,
        options: AntiEntropyOptions,
    ) {
        let Some(peers) = &self.peers else { return };
        let now = self.anti_entropy.now_ms();
        let others = self.others_with_a_share(epoch);
        let others = others.into_iter();
        let others = others.map(|node| (node, peers.directory.is_suspected(&node)));
        let mut chance = || self.options.random.next_u64();
        self.anti_entropy
            .schedule()
            .follow(now, &others.collect(), &mut chance);
        if !self.epochs.may_answer(epoch) {
            // This store applies nothing yet, so that a pass would end as if nothing was missing.
            return;
        }
        while running.len() < PASSES {
            let Some(node) = self.anti_entropy.schedule().start(now) else {
                return;
            };
            let shared = self.shared(epoch);
            let found = shared.iter().find(|(m, _)| m.node.node == node);
            let Some((peer, partitions)) = found else {
                // No partition is shared with that node any more: this store was renamed a moment
                // ago.
                self.note_ended(Ok((node, Ended::Failed)), options);
                return;
            };
            let (pass, partitions) = (
                Pass::new(self.clone(), *peer, epoch, options),
                partitions.clone(),
            );
            running.spawn(async move {
                // The next one is due although this one panics; the panic is in the log.
                match AssertUnwindSafe(pass.run(partitions)).catch_unwind().await {
                    Ok(ended) => (node, pass.note_end(ended)),
                    Err(_) => (node, Ended::Failed),
                }
            });
        }
    }

    /// Returns the nodes with which this one shares partitions.
    pub(crate) fn others_with_a_share(&self, epoch: &Epoch) -> Vec<NodeId> {
        let shared = self.shared(epoch);
        let others: BTreeSet<NodeId> = shared.keys().map(|member| member.node.node).collect();
        others.into_iter().collect()
    }

    fn note_ended(
        &self,
        ended: Result<(NodeId, Ended), tokio::task::JoinError>,
        options: AntiEntropyOptions,
    ) {
        match ended {
            Ok((node, ended)) => {
                let (now, interval) = (
                    self.anti_entropy.now_ms(),
                    options.interval.as_millis() as u64,
                );
                let mut chance = || self.options.random.next_u64();
                let mut schedule = self.anti_entropy.schedule();
                schedule.ended(&node, now, ended, interval, &mut chance);
            }
            Err(error) => tracing::error!(%error, "a pass broke off"),
        }
    }
}
