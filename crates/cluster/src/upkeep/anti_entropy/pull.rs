//! Pulling rows that are newer on another replica, with the blocks that they refer to.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archipel_base::{PartitionId, Stamp, boxed};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::{Payload, RowKey, Value};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;

use super::pass::{Candidate, Pass};
use super::wire::{RowsCall, RowsReply};
use crate::data::Fetched;
use crate::error::Error;
use crate::node::replica::{Applied, Offer};
use crate::node::wire::method;
use crate::register::Version;

/// The number of units of rows that a pass applies at once.
const UNITS: usize = 4;
/// The traffic class of blocks.
const CLASS: Option<Class> = Some(Class::Background);

impl Pass {
    /// Pulls these rows as the other node holds them. Returns true if all of them are here now.
    #[boxed]
    pub async fn pull(&self, rows: Vec<Candidate>) -> Result<bool, Error> {
        let mut left: VecDeque<RowKey> = rows.into_iter().map(|(key, _)| key).collect();
        let mut whole = true;
        while !left.is_empty() {
            let asked = left.iter().take(self.upkeep.options.sizes.pulled_rows);
            let call = RowsCall {
                scope: self.scope,
                keys: asked.map(|key| (key.partition, key.key.clone())).collect(),
            };
            let RowsReply(versions) = self.call(method::PULL, &call).await?;
            if versions.is_empty() || versions.len() > call.keys.len() {
                return Err(Error::Unavailable(
                    "other rows came than were asked for".into(),
                ));
            }
            let keys: Vec<RowKey> = left.drain(..versions.len()).collect();
            let mut rows = keys.into_iter().zip(versions).peekable();
            let units = std::iter::from_fn(|| {
                rows.peek()?;
                Some(
                    rows.by_ref()
                        .take(self.upkeep.options.sizes.unit_rows)
                        .collect::<Vec<_>>(),
                )
            });
            let mut units = stream::iter(units)
                .map(|unit| self.apply_together(unit))
                .buffer_unordered(UNITS);
            while let Some(all_taken) = units.next().await {
                whole &= all_taken;
            }
        }
        Ok(whole)
    }

    /// Applies some rows. Returns true if all of them are here now.
    ///
    /// They are a unit of background work until other nodes are needed: blocks may come slowly, and
    /// other work of this kind must not wait for them.
    async fn apply_together(&self, rows: Vec<(RowKey, Version<Value>)>) -> bool {
        let try_first = |(key, version): (RowKey, Version<Value>)| async move {
            let offer = Offer {
                version,
                settled: false,
                is_over: false,
                rules: self.options.faults.rules,
            };
            self.delay_on_purpose().await;
            let tried = self.try_here(&key, &offer).await;
            (key, offer, tried)
        };
        let tried = join_all(rows.into_iter().map(try_first));
        let tried = self.upkeep.throttle.run(tried).await;
        let complete = |(key, offer, tried): (RowKey, Offer, _)| async move {
            let applied = self.complete(&key, offer, tried).await;
            match &applied {
                Ok(came) => {
                    self.moves_on.fetch_or(*came, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::debug!(%error, key = %key.key.escape_ascii(), "a row does not arrive");
                }
            }
            applied.is_ok()
        };
        let applied = join_all(tried.into_iter().map(complete)).await;
        applied.into_iter().all(|applied| applied)
    }

    /// Applies one row if nothing is needed for it that is not here.
    async fn try_here(&self, key: &RowKey, offer: &Offer) -> Result<Applied, storage::Error> {
        if offer.version.stamp == Stamp::ZERO {
            return Ok(Applied::Not);
        }
        let address = self.own_address(key.partition);
        let replica = &self.upkeep.replica;
        replica.apply(address, key.clone(), offer.clone()).await
    }

    /// Goes on after a try. If the row that points to the write is lacking here, it brings that row.
    async fn with_pointing(
        &self,
        key: &RowKey,
        offer: &Offer,
        tried: Result<Applied, storage::Error>,
    ) -> Result<Applied, storage::Error> {
        if !matches!(tried, Ok(Applied::LacksPointing)) {
            return tried;
        }
        let address = self.own_address(key.partition);
        // Tries here once more: the row that points to it may have come in the same unit.
        self.upkeep.apply(address, key, offer.clone(), CLASS).await
    }

    /// Applies one row after a first try. Returns true if the row came. A row that is no longer newer
    /// is no error.
    async fn complete(
        &self,
        key: &RowKey,
        offer: Offer,
        tried: Result<Applied, storage::Error>,
    ) -> Result<bool, Error> {
        let stamp = offer.version.stamp;
        if stamp == Stamp::ZERO {
            // It listed the row a moment ago. A kept row goes without a tombstone once its version
            // is current (again). If another one went with a floor since, the next pass is whole.
            if (self.upkeep.replica.hooks().kept_in)(key).is_some() {
                return Ok(false);
            }
            let why = "the other node cannot read the row that it listed";
            return Err(Error::Unavailable(why.into()));
        }
        let tried = self.with_pointing(key, &offer, tried).await;
        let value = offer.version.value.as_ref();
        let applied = match (tried, value) {
            (Err(storage::Error::NoBlock(_)), Some(value)) => {
                match self.bring_blocks(key.partition, &value.payload).await {
                    Ok(_held) => {
                        let again = self.upkeep.throttle.run(self.try_here(key, &offer)).await;
                        self.with_pointing(key, &offer, again).await?
                    }
                    Err(error) => return self.give_up(key, stamp, error).await.map(|()| true),
                }
            }
            (applied, _) => applied?,
        };
        match applied {
            Applied::Yes => self.upkeep.anti_entropy.count(|total| total.rows += 1),
            Applied::Not => return Ok(false),
            // A promise or a frozen floor keeps it out. A quorum must say what the row is.
            Applied::Promised | Applied::LacksPointing => {
                let address = self.own_address(key.partition);
                self.upkeep.bring(address, key, CLASS).await?;
                if self.is_behind(key, stamp).await? {
                    // The quorum does not hold this version, and no replica may apply it. Settling
                    // gives the row a stamp above it, so that all replicas converge.
                    self.upkeep.settle(key).await?;
                }
            }
        }
        Ok(true)
    }

    /// Handles a version whose blocks cannot be brought here, for the reason `error`. Usually the row
    /// waits. But if a quorum goes on without the version, its write was never acknowledged; and if the
    /// node that holds it has lost its blocks, no other replica can ever store it. Settling overwrites
    /// it then, or the replicas would differ for ever.
    async fn give_up(&self, key: &RowKey, stamp: Stamp, error: Error) -> Result<(), Error> {
        if !self.may_settle(key, stamp)? {
            return Err(error);
        }
        let of_quorum = self.upkeep.read_whole(key, true).await?;
        if !self.is_behind(key, stamp).await? {
            return Ok(());
        }
        if of_quorum.stamp >= stamp || !self.is_lost_there(key, stamp).await? {
            return Err(error);
        }
        self.upkeep.settle(key).await?;
        let key = key.key.escape_ascii();
        tracing::info!(%key, "a write that was never acknowledged and whose blocks are lost was overwritten");
        Ok(())
    }

    /// Returns true if it makes sense to settle a row because of a version of this stamp. All replicas must
    /// be here. A version from the future would stay above what is written now. A kept row has no
    /// ballots: others lack it while the version is in their object's row.
    fn may_settle(&self, key: &RowKey, stamp: Stamp) -> Result<bool, Error> {
        let upkeep = &self.upkeep;
        let group = upkeep.group(key.partition)?;
        let mut nodes = group.members.iter().map(|member| &member.node.node);
        let is_kept = (upkeep.replica.hooks().kept_in)(key).is_some();
        Ok(!is_kept
            && stamp.millis() <= upkeep.now_ms()
            && nodes.all(|node| !group.is_away(upkeep.peers.as_ref(), node)))
    }

    /// Returns true if the other node says that it holds this version and has no good copy of one of its blocks.
    /// One request covers all of them.
    pub(super) async fn is_lost_there(&self, key: &RowKey, stamp: Stamp) -> Result<bool, Error> {
        let upkeep = &self.upkeep;
        upkeep.ask_for_losses(self.node(), key, stamp).await
    }

    /// Waits before some rows if a checker asks for it, so that the row is old when it is applied.
    async fn delay_on_purpose(&self) {
        let most = self.options.faults.apply_delay.as_millis() as u64;
        if most == 0 {
            return;
        }
        let chance = self.upkeep.options.random.next_u64();
        if chance.is_multiple_of(3) {
            tokio::time::sleep(Duration::from_millis((chance >> 8) % most)).await;
        }
    }

    /// Returns true if the row is older here than on the other node.
    async fn is_behind(&self, key: &RowKey, stamp: Stamp) -> Result<bool, Error> {
        let key = key.clone();
        let held = self
            .upkeep
            .store()
            .look_up(move |rows| rows.metadata(&key))
            .await?;
        Ok(held.is_none_or(|held| held.stamp < stamp))
    }

    /// Fetches the missing blocks of a payload. They are durable on return, and stay while the
    /// result is held.
    async fn bring_blocks(
        &self,
        partition: PartitionId,
        payload: &Payload,
    ) -> Result<Fetched, Error> {
        let state = &self.upkeep.anti_entropy;
        let turn = state.block_fetches.acquire().await;
        let _turn = turn.map_err(|error| Error::Unavailable(error.to_string()))?;
        let waiting = Waiting::new(state, payload);
        let fetched = self.upkeep.fetch_with(partition, payload, CLASS).await?;
        drop(waiting);
        state.count(|total| {
            total.blocks += fetched.blocks;
            total.block_bytes += fetched.bytes;
        });
        Ok(fetched)
    }
}

/// Bytes that a row waits for. They are counted while this lives.
struct Waiting<'a> {
    state: &'a super::AntiEntropy,
    bytes: u64,
}

impl Waiting<'_> {
    fn new<'a>(state: &'a super::AntiEntropy, payload: &Payload) -> Waiting<'a> {
        let bytes = payload
            .blocks()
            .iter()
            .map(|block| u64::from(block.len))
            .sum();
        state.count(|total| total.waiting_bytes += bytes);
        Waiting { state, bytes }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.state.count(|total| total.waiting_bytes -= self.bytes);
    }
}
