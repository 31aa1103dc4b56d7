//! Pulling rows that another replica has newer, with the blocks that they refer to.

use std::collections::VecDeque;
use std::time::Duration;

use archipel_base::{PartitionId, Stamp};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::{Body, RowKey, Value};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;

use super::pass::{Candidate, Pass};
use super::wire::{MAX_ROWS, RowsCall, RowsReply, method};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::inner::Fetched;
use crate::register::Version;
use crate::replica::{Offer, Taken};
use crate::throttle::UNIT_ROWS;

/// How many units of rows a pass takes at once.
const UNITS: usize = 4;

impl Pass {
    /// Brings these rows as the other holds them; tells whether all are here then.
    pub async fn pull(&self, rows: Vec<Candidate>) -> Result<bool, Error> {
        let mut left: VecDeque<RowKey> = rows.into_iter().map(|(key, _)| key).collect();
        let mut whole = true;
        while !left.is_empty() {
            let asked = left.iter().take(MAX_ROWS);
            let call = RowsCall {
                scope: self.scope,
                keys: asked.map(|key| (key.partition, key.key.clone())).collect(),
            };
            let RowsReply(versions) = self.call(method::ROWS, &call).await?;
            if versions.is_empty() || versions.len() > call.keys.len() {
                return Err(Error::Unavailable(
                    "rows were asked for, and others came".into(),
                ));
            }
            let keys: Vec<RowKey> = left.drain(..versions.len()).collect();
            let mut rows = keys.into_iter().zip(versions).peekable();
            let units = std::iter::from_fn(|| {
                rows.peek()?;
                Some(rows.by_ref().take(UNIT_ROWS).collect::<Vec<_>>())
            });
            let mut units = stream::iter(units)
                .map(|unit| self.inner.throttle.run(self.take_together(unit)))
                .buffer_unordered(UNITS);
            while let Some(all_taken) = units.next().await {
                whole &= all_taken;
            }
        }
        Ok(whole)
    }

    /// Takes some rows; tells whether all are here then.
    async fn take_together(&self, rows: Vec<(RowKey, Version<Value>)>) -> bool {
        let take = |(key, version)| async move {
            let taken = self.take(&key, version).await;
            if let Err(error) = &taken {
                tracing::debug!(%error, key = %key.key.escape_ascii(), "a row does not come");
            }
            taken.is_ok()
        };
        let taken = join_all(rows.into_iter().map(take)).await;
        taken.into_iter().all(|taken| taken)
    }

    /// Takes one row. That it is not newer any more is well.
    async fn take(&self, key: &RowKey, version: Version<Value>) -> Result<(), Error> {
        if version.stamp == Stamp::ZERO {
            return Ok(());
        }
        self.dawdle().await;
        let stamp = version.stamp;
        let body = version.value.as_ref().map(|value| value.body.clone());
        let address = self.own_address(key.partition);
        let offer = Offer {
            version,
            settled: false,
            rules: self.options.rules,
        };
        let take = |offer| self.inner.replica.take(address, key.clone(), offer);
        let taken = match (take(offer.clone()).await, body) {
            (Err(storage::Error::NoBlock(_)), Some(body)) => {
                let _held = self.bring_blocks(key.partition, &body).await?;
                take(offer).await?
            }
            (taken, _) => taken?,
        };
        match taken {
            Taken::Yes => self.inner.heal.count(|total| total.rows += 1),
            Taken::Not => {}
            // A quorum must say what it is.
            Taken::Promised => {
                self.inner.bring(address, key, true).await?;
                if self.is_behind(key, stamp).await? {
                    // The quorum that was read does not hold it, and nobody may take it: what the row is
                    // gets a stamp above it, so that all come to hold the same.
                    Cluster(self.inner.clone()).settle(key).await?;
                }
            }
        }
        Ok(())
    }

    /// Rests before some rows, if a checker wants it: what came is old then.
    async fn dawdle(&self) {
        let most = self.options.dawdle.as_millis() as u64;
        if most == 0 {
            return;
        }
        let chance = self.inner.options.random.next_u64();
        if chance.is_multiple_of(3) {
            tokio::time::sleep(Duration::from_millis((chance >> 8) % most)).await;
        }
    }

    /// Whether the row is older here than the other has it.
    async fn is_behind(&self, key: &RowKey, stamp: Stamp) -> Result<bool, Error> {
        let key = key.clone();
        let held = self
            .inner
            .store()
            .look_up(move |rows| rows.head(&key))
            .await?;
        Ok(held.is_none_or(|held| held.stamp < stamp))
    }

    /// Brings the blocks of a body that are not here; they are durable then, and stay while what is given is held.
    async fn bring_blocks(&self, partition: PartitionId, body: &Body) -> Result<Fetched, Error> {
        let heal = &self.inner.heal;
        let turn = heal.block_fetches.acquire().await;
        let _turn = turn.map_err(|error| Error::Unavailable(error.to_string()))?;
        let waiting = Waiting::new(heal, body);
        let class = Some(Class::Background);
        let fetched = self.inner.fetch_with(partition, body, class).await?;
        drop(waiting);
        heal.count(|total| {
            total.blocks += fetched.blocks;
            total.block_bytes += fetched.bytes;
        });
        Ok(fetched)
    }
}

/// Bytes that are waited for, while it lives.
struct Waiting<'a> {
    heal: &'a super::Heal,
    bytes: u64,
}

impl Waiting<'_> {
    fn new<'a>(heal: &'a super::Heal, body: &Body) -> Waiting<'a> {
        let bytes = body.blocks().iter().map(|block| u64::from(block.len)).sum();
        heal.count(|total| total.waiting_bytes += bytes);
        Waiting { heal, bytes }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.heal.count(|total| total.waiting_bytes -= self.bytes);
    }
}
