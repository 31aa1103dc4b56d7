//! Asking the others what they remember of this store, and telling them how far it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archipel_base::{Id, NodeId};
use archipel_net::Class;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::wire::{METHOD, PastCall, PastReply};
use super::{Run, enough_of, record};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::heal::HealOptions;
use crate::inner::Inner;
use crate::layout::{Epoch, StoreName};

/// How often the driver looks around, and how often while the others have not been heard.
const TICK: Duration = Duration::from_secs(1);
const TICK_UNPROVEN: Duration = Duration::from_millis(250);
/// After so long fewer than half of the others are enough, if the rest seems to be away.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of asking and telling.
#[derive(Default)]
struct Heard {
    /// Who has told what it remembers.
    answered: BTreeSet<NodeId>,
    /// Which run and mark each of the others remembers.
    told: BTreeMap<NodeId, Run>,
    /// When the last mark was made, and how many transactions there had been.
    marked: Option<(Instant, u64)>,
}

impl Cluster {
    /// That this node's metadata were put back to an older state, which was noticed since it started.
    pub fn put_back(&self) -> Option<super::PutBack> {
        self.0.epochs.past.put_back()
    }

    /// How far this store is: its run, and in that its last mark.
    pub fn progress_mark(&self) -> (u64, u64) {
        let current = self.0.epochs.past.lineage().current();
        current.map_or((0, 0), |run| (run.number, run.mark))
    }

    /// What is remembered here of another store: its run, and in that its last mark.
    pub async fn remembers(&self, store: Id) -> Result<Option<(u64, u64)>, Error> {
        let seen = record::seen(self.store(), store).await?;
        Ok(seen.map(|run| (run.number, run.mark)))
    }

    /// Has others bear out that this store is what it was, and tells them how far it is, until it is dropped.
    pub(crate) async fn prove_forever(&self, options: HealOptions) {
        if self.is_alone() {
            return std::future::pending().await;
        }
        let past = &self.0.epochs.past;
        if options.trust_old {
            past.prove_for_ever();
        }
        let (begun, mut heard) = (Instant::now(), Heard::default());
        let mut epochs = self.epoch_changes();
        loop {
            let epoch = self.epoch();
            let number = epoch.as_ref().map_or(0, |epoch| epoch.number());
            if let Some(epoch) = epoch {
                self.look_back(&epoch, &mut heard, begun, options).await;
            }
            let rest = if past.is_proven(number) {
                TICK
            } else {
                TICK_UNPROVEN
            };
            tokio::select! {
                biased;
                _ = epochs.changed() => {}
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    async fn look_back(
        &self,
        epoch: &Epoch,
        heard: &mut Heard,
        begun: Instant,
        options: HealOptions,
    ) {
        let inner = &self.0;
        inner.prove_if_borne_out(epoch, heard, begun);
        if let Err(error) = self.mark_if_due(epoch, heard, options).await {
            tracing::warn!(%error, "how far this store is cannot be noted");
        }
        let due = inner.whom_to_ask(epoch, heard).into_iter();
        let mut asked: FuturesUnordered<_> = due
            .map(|node| async move { (node, inner.ask_past(&node, epoch).await) })
            .collect();
        while let Some((node, answer)) = asked.next().await {
            match answer {
                Ok((reply, run)) => self.hear_past(node, reply, run, heard).await,
                Err(error) => {
                    tracing::debug!(%error, node = node.short(), "it is not known what it remembers");
                }
            }
            inner.prove_if_borne_out(epoch, heard, begun);
            if self
                .epoch()
                .is_none_or(|now| now.number() != epoch.number())
            {
                return;
            }
        }
    }

    async fn mark_if_due(
        &self,
        epoch: &Epoch,
        heard: &mut Heard,
        options: HealOptions,
    ) -> Result<(), Error> {
        let past = &self.0.epochs.past;
        let counter = &self.store().counters().transactions;
        let counted = || counter.load(Ordering::Relaxed);
        let (since, before) = *heard.marked.get_or_insert((Instant::now(), 0));
        let due = since.elapsed() >= options.mark_interval && counted() != before;
        if due && past.is_proven(epoch.number()) {
            past.mark(self.store()).await?;
            heard.marked = Some((Instant::now(), counted()));
        }
        Ok(())
    }

    /// Another store tells what it remembers of this one.
    async fn hear_past(
        &self,
        node: NodeId,
        reply: PastReply,
        told: Option<Run>,
        heard: &mut Heard,
    ) {
        let past = &self.0.epochs.past;
        let lineage = past.lineage();
        let Some(contradiction) = reply.seen.and_then(|seen| lineage.contradicts(&seen)) else {
            heard.answered.insert(node);
            if let Some(run) = told.filter(|_| reply.remembered) {
                heard.told.insert(node, run);
            }
            return;
        };
        let names: (Id, Id) = (self.random_id(), self.random_id());
        let renamed = past.rename(self.store(), names, (node, contradiction));
        match renamed.await {
            Ok(()) => {
                let me = self.me().node.short();
                tracing::error!(
                    told_by = node.short(),
                    remembered = ?reply.seen,
                    here = ?lineage.current(),
                    "the metadata of this node were put back to an older state: it goes on as a new store that holds nothing; \
                     fix: archipel layout assign {me}, and apply that; the other nodes give it what it lacks"
                );
            }
            Err(error) => {
                tracing::error!(%error, "the metadata of this node were put back to an older state, and it cannot say so; it answers nothing");
            }
        }
        *heard = Heard::default();
    }
}

impl Inner {
    /// Who has not told yet what it remembers, and who shares partitions with this store and does not know how far it is.
    fn whom_to_ask(&self, epoch: &Epoch, heard: &Heard) -> Vec<NodeId> {
        let Some(peers) = &self.peers else {
            return Vec::new();
        };
        let past = &self.epochs.past;
        let (current, proven) = (past.lineage().current(), past.is_proven(epoch.number()));
        let sharing = self.others_with_a_share(epoch);
        let untold = sharing.iter().filter(|_| proven);
        let untold = untold.filter(|node| heard.told.get(*node) != current.as_ref());
        let all = peers.directory.others();
        let unheard = all.iter().filter(|node| !heard.answered.contains(*node));
        let both: BTreeSet<NodeId> = untold.chain(unheard).copied().collect();
        let here = both.into_iter();
        here.filter(|node| !peers.directory.is_suspected(node))
            .collect()
    }

    /// Asks a node what it remembers, and has it remember how far this store is, once that is borne out.
    async fn ask_past(
        &self,
        node: &NodeId,
        epoch: &Epoch,
    ) -> Result<(PastReply, Option<Run>), Error> {
        let alone = || Error::Unavailable("this node is alone".into());
        let peers = self.peers.as_ref().ok_or_else(alone)?;
        let past = &self.epochs.past;
        let (lineage, remember) = (past.lineage(), past.is_proven(epoch.number()));
        let current = lineage.current();
        let call = PastCall {
            store: past.me().store,
            lineage,
            remember,
        };
        let reply = peers.call(node, METHOD, Class::Control, &call).await?;
        Ok((reply, current))
    }

    /// The store is what it was, as far as anybody can tell: it answers for its replicas from now on.
    fn prove_if_borne_out(&self, epoch: &Epoch, heard: &Heard, begun: Instant) {
        let past = &self.epochs.past;
        let others = self.others_with_a_share(epoch);
        if past.is_proven(epoch.number()) || others.is_empty() {
            return;
        }
        let has_answered = |node: &&NodeId| heard.answered.contains(*node);
        let answered = others.iter().filter(has_answered).count();
        let is_away = |node: &NodeId| {
            let peers = self.peers.as_ref();
            peers.is_some_and(|peers| peers.directory.is_suspected(node))
        };
        let mut silent = others.iter().filter(|node| !heard.answered.contains(*node));
        let patient = begun.elapsed() < PATIENCE || answered == 0;
        if answered >= enough_of(others.len()) || (!patient && silent.all(is_away)) {
            past.prove(epoch.number());
        }
    }

    /// What is remembered of the store of whoever asks.
    pub(crate) async fn serve_past(
        self: &Arc<Inner>,
        from: NodeId,
        call: PastCall,
    ) -> Result<PastReply, String> {
        let store = StoreName {
            node: from,
            store: call.store,
        };
        let epoch = self.epochs.current();
        let is_member = epoch.is_some_and(|epoch| epoch.incarnation_of(&store).is_some());
        let remembered = call.remember && is_member;
        let seen = match remembered {
            true => record::remember(self.store(), call.store, call.lineage).await,
            false => record::seen(self.store(), call.store).await,
        };
        let seen = seen.map_err(|error| error.to_string())?;
        Ok(PastReply { seen, remembered })
    }
}
