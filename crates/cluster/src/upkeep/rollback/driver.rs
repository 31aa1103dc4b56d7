//! Asking other stores what they remember of this one, and telling them its mark.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archipel_base::{Id, NodeId, boxed};
use archipel_net::Class;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::enough_of;
use super::wire::{PastCall, PastReply};
use crate::error::Error;
use crate::layout::{Epoch, StoreName};
use crate::node::epochs::Listening;
use crate::node::history::Run;
use crate::node::history_record as record;
use crate::node::own_history::Rollback;
use crate::node::wire::method;
use crate::upkeep::Upkeep;
use crate::upkeep::anti_entropy::AntiEntropyOptions;

/// The time between two looks for work; the second one while the other stores have not answered.
const TICK: Duration = Duration::from_secs(1);
const TICK_UNPROVEN: Duration = Duration::from_millis(250);
/// After this time fewer than half of the other stores are enough, if the rest is suspected.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answers of other nodes so far.
#[derive(Default)]
struct Heard {
    /// The nodes that have told what they remember.
    answered: BTreeSet<NodeId>,
    /// The run and mark that each of the others remembers.
    told: BTreeMap<NodeId, Run>,
    /// When the last mark was made, and how many transactions there had been.
    marked: Option<(Instant, u64)>,
}

impl Upkeep {
    /// Returns the rollback of this node's metadata that was detected since its start, if any.
    pub fn rollback(&self) -> Option<Rollback> {
        self.epochs.history.rollback()
    }

    /// Returns this store's run and its last mark in it.
    pub fn progress_mark(&self) -> (u64, u64) {
        let current = self.epochs.history.history().current();
        current.map_or((0, 0), |run| (run.number, run.mark))
    }

    /// Returns what this store remembers of another one: its run and its last mark in it.
    #[boxed]
    pub async fn remembers(&self, store: Id) -> Result<Option<(u64, u64)>, Error> {
        let seen = record::seen(self.store(), store).await?;
        Ok(seen.map(|run| (run.number, run.mark)))
    }

    /// Has other stores confirm that this store was not rolled back, and tells them its mark, until
    /// the future is dropped.
    pub(crate) async fn prove_forever(self: &Arc<Upkeep>, options: AntiEntropyOptions) {
        if self.is_alone() {
            return std::future::pending().await;
        }
        let past = &self.epochs.history;
        if options.faults.trust_old_store {
            past.prove_for_ever();
        }
        let (begun, mut heard) = (Instant::now(), Heard::default());
        let mut epochs = self.epoch_changes();
        loop {
            let epoch = self.epoch();
            let number = epoch.as_ref().map_or(0, |epoch| epoch.number());
            if let Some(epoch) = epoch {
                self.look_back(&epoch, &mut heard, begun, options, &mut epochs)
                    .await;
            }
            if self.epochs.in_force() != number {
                continue;
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

    /// Asks the other stores that have something to tell or to hear, and awaits their answers. Ends as soon as
    /// a newer epoch is known: the store answers nothing in it before it is proven again, and an answer may
    /// take as long as a call.
    async fn look_back(
        self: &Arc<Upkeep>,
        epoch: &Epoch,
        heard: &mut Heard,
        begun: Instant,
        options: AntiEntropyOptions,
        epochs: &mut Listening,
    ) {
        let upkeep = self;
        upkeep.prove_if_borne_out(epoch, heard, begun);
        if let Err(error) = self.mark_if_due(epoch, heard, options).await {
            tracing::warn!(%error, "the mark of this store cannot be stored");
        }
        let due = upkeep.whom_to_ask(epoch, heard).into_iter();
        let mut asked: FuturesUnordered<_> = due
            .map(|node| async move { (node, upkeep.ask_past(&node, epoch).await) })
            .collect();
        loop {
            let next = tokio::select! {
                biased;
                newest = epochs.changed() => match newest > epoch.number() {
                    true => return,
                    false => continue,
                },
                next = asked.next() => next,
            };
            let Some((node, answer)) = next else { return };
            match answer {
                Ok((reply, run)) => self.hear_past(node, reply, run, heard).await,
                Err(error) => {
                    tracing::debug!(%error, node = node.short(), "another node does not tell what it remembers");
                }
            }
            upkeep.prove_if_borne_out(epoch, heard, begun);
        }
    }

    async fn mark_if_due(
        &self,
        epoch: &Epoch,
        heard: &mut Heard,
        options: AntiEntropyOptions,
    ) -> Result<(), Error> {
        let past = &self.epochs.history;
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

    /// Handles what another store remembers of this one.
    async fn hear_past(
        &self,
        node: NodeId,
        reply: PastReply,
        told: Option<Run>,
        heard: &mut Heard,
    ) {
        let past = &self.epochs.history;
        let history = past.history();
        let Some(contradiction) = reply.seen.and_then(|seen| history.contradicts(&seen)) else {
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
                    here = ?history.current(),
                    "the metadata of this node were rolled back to an older state: it continues as a new, \
                     empty store; fix: archipel layout assign {me}, and apply that; the other nodes \
                     then send it its data"
                );
            }
            Err(error) => {
                tracing::error!(
                    %error,
                    "the metadata of this node were rolled back to an older state, and its new name \
                     cannot be stored; its replicas answer nothing"
                );
            }
        }
        *heard = Heard::default();
    }
}

impl Upkeep {
    /// Returns the nodes of the cluster that have not told yet what they remember, and those that share
    /// partitions with this store and do not know its mark.
    fn whom_to_ask(&self, epoch: &Epoch, heard: &Heard) -> Vec<NodeId> {
        let Some(peers) = &self.peers else {
            return Vec::new();
        };
        let past = &self.epochs.history;
        let (current, proven) = (past.history().current(), past.is_proven(epoch.number()));
        let sharing = self.others_with_a_share(epoch);
        let untold = sharing.iter().filter(|_| proven);
        let untold = untold.filter(|node| heard.told.get(*node) != current.as_ref());
        let all = peers.directory.others();
        let unheard = all.iter().filter(|node| !heard.answered.contains(*node));
        let both: BTreeSet<NodeId> = untold.chain(unheard).copied().collect();
        // One answer that contradicts shuts this store out. So a stranger is not asked.
        let admitted = both.into_iter().filter(|node| epoch.admits(node));
        admitted
            .filter(|node| !peers.directory.is_suspected(node))
            .collect()
    }

    /// Asks a node what it remembers, and has it remember this store's mark once the store is
    /// confirmed.
    async fn ask_past(
        &self,
        node: &NodeId,
        epoch: &Epoch,
    ) -> Result<(PastReply, Option<Run>), Error> {
        let peers = self.peers()?;
        let past = &self.epochs.history;
        let (history, remember) = (past.history(), past.is_proven(epoch.number()));
        let current = history.current();
        let call = PastCall {
            store: past.me().store,
            history,
            remember,
        };
        let reply = peers
            .call(node, method::PAST, Class::Control, &call)
            .await?;
        Ok((reply, current))
    }

    /// Lets the store answer for its replicas if enough others have confirmed that it was not
    /// rolled back.
    fn prove_if_borne_out(&self, epoch: &Epoch, heard: &Heard, begun: Instant) {
        let past = &self.epochs.history;
        let others = self.others_with_a_share(epoch);
        if past.is_proven(epoch.number()) {
            return;
        }
        if others.is_empty() {
            // With one copy of everything, no other store remembers this one. A store that the layout
            // does not name stays shut out.
            if epoch.incarnation_of(&past.me()).is_some() {
                past.prove(epoch.number());
            }
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

    /// Answers with what is remembered of the caller's store.
    pub(crate) async fn serve_past(
        self: &Arc<Upkeep>,
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
        let seen = if remembered {
            record::remember(self.store(), call.store, call.history).await
        } else {
            record::seen(self.store(), call.store).await
        };
        let seen = seen.map_err(|error| error.to_string())?;
        Ok(PastReply { seen, remembered })
    }
}
