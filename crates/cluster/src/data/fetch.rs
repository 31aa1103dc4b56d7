//! Fetching blocks and rows that the local replica lacks from other replicas.

use std::sync::Arc;

use archipel_base::{BlockHash, PartitionId, Stamp, boxed};
use archipel_net::Class;
use archipel_storage as storage;
use archipel_storage::{Payload, Pin, RowKey, Value};
use tokio::sync::Mutex;

use super::block_reader::BlockStream;
use super::{Data, QUEUES};
use crate::error::Error;
use crate::node::replica::{Applied, Offer};
use crate::node::wire::Address;
use crate::register::Version;

/// The traffic class of the blocks of a row that another node brings here and no client waits for,
/// as of one that a rebalance moves. They come after the content of clients, and before the
/// background, which is held back while anything else uses the link: a layout change waits for them.
pub(crate) const MOVED: Class = Class::Data {
    remaining: u64::MAX,
};

/// Blocks that were fetched. They stay while this is held.
pub(crate) struct Fetched {
    pub pin: Pin,
    pub upload: storage::BlockAppender,
    /// The number of blocks that were not here before, and their bytes.
    pub blocks: u64,
    pub bytes: u64,
}

impl Data {
    /// Returns the queue of a block's fetches. Anti-entropy and the rebalancer may bring the same
    /// row to this node at the same time; fetches of the same blocks queue here. Those that a
    /// client waits for have queues of their own: the others may take long.
    fn fetching_of(&self, hash: &BlockHash, background: bool) -> &Mutex<()> {
        let queue = u16::from_be_bytes([hash.0[0], hash.0[1]]);
        let queues = match background {
            true => &self.background_fetching,
            false => &self.fetching,
        };
        &queues[usize::from(queue) % QUEUES]
    }

    /// Brings a row of the local replica up to date. Returns true if the replica was lagging.
    /// `background` is true if no client waits for it.
    pub(crate) async fn bring(
        self: &Arc<Data>,
        address: Address,
        key: &RowKey,
        background: bool,
    ) -> Result<bool, Error> {
        let wanted = key.clone();
        let before = self
            .store()
            .look_up(move |rows| rows.metadata(&wanted))
            .await?;
        let version = self.read_whole(key, background).await?;
        if before.is_some_and(|metadata| metadata.stamp >= version.stamp) {
            return Ok(false);
        }
        self.take(address, key, version, background).await?;
        Ok(true)
    }

    /// Brings the row that points to a write up to date here. Returns true if it is over: a quorum
    /// tells that it is deleted, or that it was so long ago that nobody remembers it.
    ///
    /// # Errors
    /// [`storage::Error::Busy`] if the other replicas cannot be asked, and the errors of storage.
    pub(crate) async fn bring_pointing(
        self: &Arc<Data>,
        address: Address,
        key: &RowKey,
        background: bool,
    ) -> Result<bool, storage::Error> {
        let busy = |error: Error| {
            storage::Error::Busy(format!("the row of an upload cannot be read: {error}"))
        };
        let version = self.read_whole(key, background).await.map_err(busy)?;
        let is_over = version.value.is_none();
        if !is_over {
            self.take(address, key, version, background).await?;
        }
        Ok(is_over)
    }

    /// Applies a version that another replica holds. If the row that points to its write is lacking
    /// here, it brings that row first.
    ///
    /// # Errors
    /// [`storage::Error::NoBlock`] if the row refers to blocks that are not here yet;
    /// [`storage::Error::Busy`] if other replicas cannot be asked; the errors of storage.
    #[boxed]
    pub(crate) async fn apply(
        self: &Arc<Data>,
        address: Address,
        key: &RowKey,
        offer: Offer,
    ) -> Result<Applied, storage::Error> {
        let apply = |offer| self.replica.apply(address, key.clone(), offer);
        let applied = apply(offer.clone()).await?;
        if applied != Applied::LacksPointing {
            return Ok(applied);
        }
        let Some(pointing) = self.replica.pointing_of(key, &offer.version, None) else {
            return Ok(applied);
        };
        let is_over = self.bring_pointing(address, &pointing, true).await?;
        apply(Offer { is_over, ..offer }).await
    }

    /// Applies a version that a read returned, with the blocks that it refers to.
    async fn take(
        self: &Arc<Data>,
        address: Address,
        key: &RowKey,
        version: Version<Value>,
        background: bool,
    ) -> Result<(), storage::Error> {
        // The read may have brought it already.
        let payload = version.value.as_ref().map(|value| value.payload.clone());
        let take = |version| {
            let offer = Offer::settled(version);
            self.apply(address, key, offer)
        };
        match (take(version.clone()).await, payload) {
            (Err(storage::Error::NoBlock(_)), Some(payload)) => {
                let class = background.then_some(Class::Background);
                let fetched = self.fetch_missing(key.partition, &payload, class);
                let _held = fetched.await?;
                take(version).await.map(drop)
            }
            (taken, _) => taken.map(drop),
        }
    }

    /// Fetches the missing blocks of a payload, once few others are fetched. `class` is the traffic
    /// class, if no client waits. Fetches for clients do not wait for others, which give way on
    /// their links.
    pub(crate) async fn fetch_missing(
        self: &Arc<Data>,
        partition: PartitionId,
        payload: &Payload,
        class: Option<Class>,
    ) -> Result<(Pin, storage::BlockAppender), storage::Error> {
        let busy = |why: String| storage::Error::Busy(why);
        let turns = match class {
            Some(_) => &self.background_fetches,
            None => &self.fetches,
        };
        let turn = turns.acquire().await;
        let _turn = turn.map_err(|e| busy(e.to_string()))?;
        let held = self.fetch_with(partition, payload, class).await?;
        Ok((held.pin, held.upload))
    }

    /// Fetches the missing blocks of a payload. They are durable on return. `class` is the traffic
    /// class, if no client waits.
    pub(crate) async fn fetch_with(
        self: &Arc<Data>,
        partition: PartitionId,
        payload: &Payload,
        class: Option<Class>,
    ) -> Result<Fetched, storage::Error> {
        #[cfg(test)]
        self.fetched_in.lock().push(class);
        let pin = self.store().pin(payload.blocks());
        let mut missing = self
            .store()
            .missing_blocks(payload.blocks().to_vec())
            .await?;
        let _turn = match missing.first() {
            None => None,
            Some(first) => {
                let turn = self.fetching_of(&first.hash, class.is_some()).lock().await;
                // The fetch before this one in the queue may have brought them.
                missing = self.store().missing_blocks(missing).await?;
                Some(turn)
            }
        };
        let mut fetched = Fetched {
            pin,
            upload: self.store().appender(),
            blocks: 0,
            bytes: 0,
        };
        let blocks = BlockStream::new(self.clone(), partition, missing, false);
        let mut blocks = blocks.in_class(class);
        while let Some(content) = blocks.next().await {
            let content = content.map_err(|error| storage::Error::Busy(error.to_string()))?;
            fetched.blocks += 1;
            fetched.bytes += content.len() as u64;
            fetched.upload.append(content).await?;
        }
        fetched.upload.sync().await?;
        Ok(fetched)
    }

    /// Returns true if the row still has this stamp. It asks the local replica if there is one,
    /// because a pin depends on the local references.
    pub(crate) async fn still_holds(
        self: &Arc<Data>,
        key: &RowKey,
        stamp: Stamp,
    ) -> Result<bool, Error> {
        if self.group(key.partition)?.local().is_none() {
            return Ok(true);
        }
        let key = key.clone();
        let metadata = self
            .store()
            .look_up(move |rows| rows.metadata(&key))
            .await?;
        Ok(metadata.is_none_or(|metadata| metadata.stamp <= stamp))
    }
}

#[cfg(test)]
mod tests;
